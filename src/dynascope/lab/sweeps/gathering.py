"""The runs of a sweep as one labeled dataset, filled in as they finish, in any order.

Only the numbers of a run are kept, so ten thousand runs need little memory, and the result does not depend on where or
when they were executed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from dynascope.lab.claims import wilson_interval
from dynascope.lab.json_text import canonical

VERDICTS = ("gap", "not judged", "holds", "fails", "erratum")
"""A `gap` is a run that did not finish; `not judged`, a claim that the experiment does not make in this setting."""
OWN = ("seed", "claim", "statement", "verdict", "holds", "measured", "share", "low", "high")
"""The names of the sweep itself; a variable of a run with such a name gets the suffix `_of_run`."""
MOST_NUMBERS = 10_000_000
"""The most numbers of one variable over the whole grid."""


Form = tuple[tuple[str, ...], tuple[int, ...], str]
"""Dimensions, shape and kind: real, complex or text."""


@dataclass
class _Claim:
    first: tuple[int, int]
    """The first run that makes it, and its place there, which determine the order of the claims."""
    statement: str
    verdict: np.ndarray
    measured: np.ndarray


@dataclass
class _Number:
    forms: set[Form] = field(default_factory=set)
    """Every form in which it came."""
    values: np.ndarray | None = None


class Gathering:
    """The results of a sweep over `grid` and the seeds 0 to seeds - 1, the runs numbered as in a `Plan`."""

    def __init__(self, grid: Mapping[str, Sequence[object]], seeds: int):
        self.grid, self.seeds = grid, seeds
        self.shape = (*(len(values) for values in grid.values()), seeds)
        self._done = np.zeros(self.shape, bool)
        self._claims: dict[str, _Claim] = {}
        self._numbers: dict[str, _Number] = {}
        self._coords: dict[str, set[tuple[str, tuple[int, ...], bytes]]] = {}

    def add(self, number: int, claims: Sequence[Mapping[str, Any]], reduced: xr.Dataset | None) -> None:
        """Put one run in its place: its claims as plain values, its reduced numbers."""
        place = tuple(map(int, np.unravel_index(number, self.shape)))
        self._done[place] = True
        for position, made in enumerate(claims):
            known = self._claims.get(made["id"])
            if known is None:
                empty = np.full(self.shape, np.nan)
                known = _Claim((number, position), made["statement"], np.zeros(self.shape, np.int8), empty)
                self._claims[made["id"]] = known
            if (number, position) < known.first:
                known.first, known.statement = (number, position), made["statement"]
            known.verdict[place] = VERDICTS.index(made["verdict"])
            known.measured[place] = single(made["measured"])
        if reduced is not None:
            for name, variable in reduced.data_vars.items():
                self._add_number(self._own(str(name)), place, variable)
            for dim in reduced.dims:
                kept = reduced[dim] if dim in reduced.coords else None
                form = (str(kept.dtype), kept.shape, _bytes(kept.values)) if kept is not None else ("", (), b"")
                self._coords.setdefault(self._own(str(dim)), set()).add(form)

    def _add_number(self, name: str, place: tuple[int, ...], variable: xr.DataArray) -> None:
        dims = tuple(self._own(str(dim)) for dim in variable.dims)
        kind = {"c": "complex", "b": "real", "i": "real", "u": "real", "f": "real"}.get(variable.dtype.kind, "text")
        known = self._numbers.setdefault(name, _Number())
        known.forms.add((dims, variable.shape, kind))
        if len(known.forms) > 1 or kind == "text" or self._size(variable.shape) > MOST_NUMBERS:
            known.values = None
            return
        if known.values is None:
            dtype = np.complex128 if kind == "complex" else np.float64
            known.values = np.full((*self.shape, *variable.shape), np.nan, dtype)
        known.values[place] = variable.values

    def left_out(self) -> dict[str, str]:
        """The variables of `reduced` that have no place in the dataset or in its figures, and why."""
        why = {}
        for name, known in sorted(self._numbers.items()):
            if len(known.forms) > 1:
                one, two = sorted(known.forms, key=str)[:2]
                why[name] = f"it changes over the grid: {_form(one)} here, {_form(two)} there"
            elif known.values is None:
                _, shape, kind = next(iter(known.forms))
                size = f"{self._size(shape):,} numbers are more than {MOST_NUMBERS:,}"
                why[name] = "it is not numbers" if kind == "text" else size
            elif not np.isfinite(known.values).any():
                why[name] = "it is not finite in any run"
        return why

    def dataset(self) -> xr.Dataset:
        """Over the grid's keys, `seed` and `claim`.

        `verdict` and `holds` (1 or 0, for an erratum 1) of each claim and the number that it `measured` if that
        is a single one, the `share` of seeds in which it holds with its Wilson interval `low` to `high`, and everything
        in `reduced` that has the same form at all points. NaN, and the verdict `gap`, if a run did not finish.
        """
        claims = dict(sorted(self._claims.items(), key=lambda item: item[1].first))
        codes = np.zeros((*self.shape, len(claims)), np.int8)
        measured = np.full((*self.shape, len(claims)), np.nan)
        for k, claim in enumerate(claims.values()):
            codes[..., k], measured[..., k] = claim.verdict, claim.measured
        codes[self._done[..., None] & (codes == 0)] = VERDICTS.index("not judged")
        holds = np.where(codes < 2, np.nan, (codes != VERDICTS.index("fails")).astype(float))
        share, low, high = shares(holds, axis=len(self.grid))
        runs, points = (*self.grid, "seed", "claim"), (*self.grid, "claim")
        arrays: dict[str, object] = {
            "verdict": (runs, np.array(VERDICTS)[codes]),
            "holds": (runs, holds),
            "measured": (runs, measured),
            "share": (points, share),
            "low": (points, low),
            "high": (points, high),
        }
        coords: dict[str, object] = {key: labels(values) for key, values in self.grid.items()}
        coords |= {"seed": np.arange(self.seeds), "claim": np.array(list(claims), dtype=str)}
        coords["statement"] = ("claim", np.array([claim.statement for claim in claims.values()], dtype=str))
        used: set[str] = set()
        for name, known in sorted(self._numbers.items()):
            if known.values is not None:
                dims = next(iter(known.forms))[0]
                arrays[name] = ((*self.grid, "seed", *dims), known.values)
                used |= set(dims)
        for dim, forms in sorted(self._coords.items()):
            dtype, shape, data = next(iter(forms))
            if dim in used and dtype and len(forms) == 1 and dim not in arrays:
                coords[dim] = _array(dtype, shape, data)
        return xr.Dataset(arrays, coords)

    def _own(self, name: str) -> str:
        return f"{name}_of_run" if name in (*self.grid, *OWN) else name

    def _size(self, shape: tuple[int, ...]) -> int:
        return int(np.prod((*self.shape, *shape), dtype=np.int64))


def shares(holds: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The share of ones among the numbers along an axis, and its Wilson interval; NaN if there are none."""
    of, yes = np.isfinite(holds).sum(axis), np.nansum(holds, axis)
    share = np.divide(yes, of, out=np.full(of.shape, np.nan), where=of > 0)
    known = {
        pair: wilson_interval(*pair) for pair in {(int(k), int(n)) for k, n in zip(yes.flat, of.flat, strict=True)}
    }
    bounds = [known[int(k), int(n)] if n else (np.nan, np.nan) for k, n in zip(yes.flat, of.flat, strict=True)]
    low, high = np.moveaxis(np.array(bounds).reshape(*of.shape, 2), -1, 0) if bounds else (share, share)
    return share, low, high


def labels(values: Sequence[object]) -> np.ndarray:
    """The values of a field as a coordinate: numbers as they are, anything else as text."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return np.array(values)
    return np.array([value if isinstance(value, str) else canonical(value) for value in values])


def single(measured: object) -> float:
    """The number a claim measured: the number itself, a share's, or one beside further numbers; else NaN."""
    if isinstance(measured, dict):
        measured = measured.get("share", measured.get("measured"))
    return float(measured) if isinstance(measured, int | float) else np.nan


def flat(reduced: xr.Dataset | xr.DataTree) -> xr.Dataset:
    """A tree as one dataset: each variable and dimension with the name of its node before its own."""
    if isinstance(reduced, xr.Dataset):
        return reduced
    whole = xr.Dataset()
    for node in reduced.subtree:
        here, name = node.to_dataset().drop_attrs(), node.path.strip("/").replace("/", "_")
        names = {old: f"{name}_{old}" for old in (*here.variables, *here.dims)} if name else {}
        whole = whole.merge(here.rename(names))
    return whole


def _bytes(values: np.ndarray) -> bytes:
    return "\0".join(map(str, values.tolist())).encode() if values.dtype.kind in "OU" else values.tobytes()


def _array(dtype: str, shape: tuple[int, ...], data: bytes) -> np.ndarray:
    if dtype.startswith(("<U", ">U", "object")):
        return np.array(data.decode().split("\0"))
    return np.frombuffer(data, dtype).reshape(shape)


def _form(form: Form) -> str:
    dims, shape, kind = form
    sizes = ", ".join(f"{dim} {size}" for dim, size in zip(dims, shape, strict=True))
    return f"({sizes})" + ("" if kind == "real" else f" of {kind}")
