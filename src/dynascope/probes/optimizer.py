"""Probes of a descent's optimizer: the learning rate in force, and which rows the next step takes."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import optax
from jaxtyping import Array

from dynascope.probes.probe import Every, Probe, Snapshot, probe


def learning_rate(every: Every = None) -> Probe:
    """The rate of the step last taken (at the start: of the first one), where the optimizer remembers it: those of
    `dynamics.rates` do, and any that is made with `optax.inject_hyperparams`.

    Of `rates.catapults` the entries `phase` (0 warm, 1 raised, 2 settled, 3 gave up) and `catapults` (how many are
    complete) come along.
    """

    def measure(snapshot: Snapshot) -> dict[str, Any]:
        rate = _remembered(snapshot.optimizer, "learning_rate")
        if rate is None:
            raise ValueError(
                "this optimizer does not remember its learning rate: use one of dynascope.dynamics.rates, or make it "
                "with optax.inject_hyperparams"
            )
        beside = {name: _remembered(snapshot.optimizer, name) for name in ("phase", "catapults")}
        return {"value": rate} | {name: entry for name, entry in beside.items() if entry is not None}

    return probe(measure, every=every)


def batch_rows(every: Every = None) -> Probe:
    """Which rows of the data the step to come will use."""

    def measure(snapshot: Snapshot) -> Any:
        rows = snapshot.batch().rows
        if rows is None:
            raise ValueError("only a descent with data and a batch draws rows")
        return rows

    return probe(measure, dims=("place",), every=every)


def _remembered(memory: Any, name: str) -> Array | None:
    """The first array of that name in the optimizer's memory."""
    found = optax.tree_utils.tree_get_all_with_path(memory, name)
    return next((value for _, value in found if eqx.is_array(value)), None)
