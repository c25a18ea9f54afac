"""A map run at several learning rates, each rate a traced number: one compiled program for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
import xarray as xr
from jaxtyping import Array

import dynascope as ds

EARLY, LATE = 400, 64
"""The numbers of first and of last steps of a run that are recorded."""


class RateMap(eqx.Module):
    """An ensemble member: `state <- rule(state, rate)` from `start`."""

    rule: Callable[[Any, Any], Any]

    def __call__(self, start: Any, rate: Array) -> ds.Map:
        return ds.Map(lambda state: self.rule(state, rate), start)


def ends_of(steps: int, early: int = EARLY, late: int = LATE) -> np.ndarray:
    """The first and the last steps of a run, for `record`."""
    return np.union1d(np.arange(min(early, steps) + 1), np.arange(max(0, steps - late), steps + 1))


def run_at_rates(rule: Callable[[Any, Any], Any], start: Any, rates: Any, steps: int, record: Any = None) -> xr.Dataset:
    """`state <- rule(state, rate)` from one start (an array is one state) at every rate."""
    recorded = ends_of(steps) if record is None else record
    over = {"rate": np.asarray(rates, float)}
    return ds.ensemble(RateMap(rule), over, fixed={"start": start}, steps=steps, record=recorded).trace
