"""Reduced data that say nothing: shuffled, constant or invented, to see whether claims about them can fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import xarray as xr

from dynascope.lab.experiment import Experiment
from dynascope.lab.machine import precision

Reduced = xr.Dataset | xr.DataTree
Change = Callable[[np.ndarray, np.random.Generator], np.ndarray]


ARITHMETIC = "It is arithmetic on what the document prints, with numbers that depend on no measurement."
WITHOUT_DATA = {
    ("graphs.errata", "zero-degree"): ARITHMETIC,
    ("concept.initialization-breakdown", "spread-in-assumption"): ARITHMETIC,
}
"""Claims that no data can refute, with the reason why they stand."""


def _constant(value: float) -> Change:
    return lambda values, _: np.full(values.shape, value).astype(values.dtype)


def _mean(values: np.ndarray, _: np.random.Generator) -> np.ndarray:
    mean = np.nanmean(values) if np.isfinite(values).any() else 0
    return np.full(values.shape, round(mean) if values.dtype.kind in "biu" else mean).astype(values.dtype)


def _noise(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if values.dtype.kind in "biu":
        return rng.integers(0, 2 if values.dtype.kind == "b" else 100, values.shape).astype(values.dtype)
    return (rng.standard_normal(values.shape) * 10.0 ** rng.uniform(-2, 3)).astype(values.dtype)


def _missing(values: np.ndarray, _: np.random.Generator) -> np.ndarray:
    return np.full_like(values, np.nan) if values.dtype.kind in "fc" else values


def _falling(values: np.ndarray, _: np.random.Generator) -> np.ndarray:
    if values.dtype.kind == "b":
        return values
    return np.geomspace(1e9, 1, max(values.size, 1))[: values.size].reshape(values.shape).astype(values.dtype)


CHANGES: dict[str, Change] = {
    "shuffled": lambda values, rng: rng.permutation(values.ravel()).reshape(values.shape),
    "their mean": _mean,
    "zero": _constant(0),
    "one": _constant(1),
    "noise": _noise,
    "other noise": _noise,
    "more noise": _noise,
    "reversed": lambda values, _: np.flip(values),
    "negated": lambda values, _: ~values if values.dtype.kind == "b" else -values,
    "falling": _falling,
    "rising": lambda values, rng: np.flip(_falling(values, rng)),
    "missing": _missing,
}
"""What is made of each variable."""


def corrupted(reduced: Reduced) -> Iterator[Reduced]:
    """The data with all variables changed alike; then, since some are names of what is looked up, one by one."""
    parts = _parts(reduced)
    for name, change in CHANGES.items():
        yield _joined(
            reduced, {path: _changed(part, name, change, list(part.data_vars)) for path, part in parts.items()}
        )
    for path, part in parts.items():
        for variable in part.data_vars:
            for name, change in CHANGES.items():
                yield _joined(reduced, parts | {path: _changed(part, name, change, [variable])})


def cannot_fail(experiment: Experiment, reduced: Reduced) -> set[str]:
    """The claims with a verdict that no corruption of the data changes, but for those `WITHOUT_DATA`. Claims that fail
    are none of them."""
    with precision(True, "highest"), np.errstate(all="ignore"):
        before = {claim.id: claim.verdict for claim in experiment.judge(reduced)}
        known = {claim for id, claim in WITHOUT_DATA if id == experiment.id}
        left = {id for id, verdict in before.items() if verdict != "fails"} - known
        for changed in corrupted(reduced):
            if not left:
                break
            with suppress(
                Exception
            ):  # what is looked up or fitted is no longer there, for this claim and the next ones
                for claim in experiment.judge(changed):
                    left -= {claim.id} if claim.verdict != before.get(claim.id, claim.verdict) else set()
    return left


def _parts(reduced: Reduced) -> dict[str, xr.Dataset]:
    if isinstance(reduced, xr.DataTree):
        return {node.path: node.to_dataset(inherit=False) for node in reduced.subtree}
    return {"/": reduced}


def _joined(like: Reduced, parts: dict[str, xr.Dataset]) -> Reduced:
    return xr.DataTree.from_dict(parts) if isinstance(like, xr.DataTree) else parts["/"]


def _changed(part: xr.Dataset, name: str, change: Change, variables: list) -> xr.Dataset:
    rng = np.random.default_rng([*name.encode()])
    kept = {key: part[key] for key in variables if part[key].dtype.kind in "biufc"}
    return part.assign({key: each.copy(data=change(each.values, rng)) for key, each in kept.items()})
