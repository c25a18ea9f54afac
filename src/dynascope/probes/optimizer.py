"""Probes of a descent's optimizer: the learning rate in force, and which rows the next step uses."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import optax
from jaxtyping import Array

from dynascope.probes.probe import Every, Probe, Snapshot, probe


def learning_rate(*, every: Every = None) -> Probe:
    """The rate of the last step (at the start: of the first one); a scalar. The optimizer's state must hold it: those
    of `dynamics.rates` do, and any that is made with `optax.inject_hyperparams`.

    With `rates.catapults` there are further entries: `phase` (0 warm, 1 raised, 2 settled, 3 gave up) and `catapults`
    (how many are complete).
    """

    def measure(snapshot: Snapshot) -> dict[str, Any]:
        rate = _in_state(snapshot.optimizer, "learning_rate")
        if rate is None:
            raise ValueError(
                "the state of this optimizer does not hold its learning rate: use one of dynascope.dynamics.rates, or "
                "make it with optax.inject_hyperparams"
            )
        beside = {name: _in_state(snapshot.optimizer, name) for name in ("phase", "catapults")}
        return {"value": rate} | {name: entry for name, entry in beside.items() if entry is not None}

    return probe(measure, every=every)


def batch_rows(*, every: Every = None) -> Probe:
    """Which rows (place,) of the data the next step will use."""

    def measure(snapshot: Snapshot) -> Any:
        rows = snapshot.batch().rows
        if rows is None:
            raise ValueError("probes.batch_rows needs a descent with `data` and a `batch` smaller than the data")
        return rows

    return probe(measure, dims=("place",), every=every)


def _in_state(state: Any, name: str) -> Array | None:
    """The first array of that name in the optimizer's state."""
    found = optax.tree_utils.tree_get_all_with_path(state, name)
    return next((value for _, value in found if eqx.is_array(value)), None)
