"""The slowdown at the end of learning: one exponential remains, that of the weakest concept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.theory.domains import Domain, PositiveNumber, check_arguments


@check_arguments
def terminal_slopes(a: Float[np.ndarray, "signal s"], rates: Mapping[str, float]) -> xr.Dataset:
    """The slope per step of the log speed of the output at the end of learning, (model, signal): `-rate * min a` for
    `flow`, and `log(1 - rate * min a)` with finite steps, `descent`.

    Args:
        a: Strengths `a_k` of the concepts, positive. Shape (signal, s).
        rates: Relaxation per step of each model, over `a`: the step `eta` on (2.1) for one layer, `4 eta` for two.
    """
    per_step = np.array([*rates.values()])[:, None] * np.min(a, axis=-1)
    dims = ("model", "signal")
    return xr.Dataset({"flow": (dims, -per_step), "descent": (dims, np.log1p(-per_step))}, {"model": [*rates]})


@check_arguments
def settled_step(
    a: Float[np.ndarray, " 2"],
    mu: Float[np.ndarray, " 2"],
    step_size: PositiveNumber,
    share: Annotated[float, Domain("above 0 and at most 1", lambda x: (x > 0) & (x <= 1))] = 0.05,
) -> float:
    """The step from which Theorem 4.1 leaves the faster of two concepts less than a share of the slower one's speed.

    It solves `a_f mu_f e^{-a_f t} = share * a_s mu_s e^{-a_s t}`, with `t = step_size * steps` and no initial weights.

    Args:
        a: Strengths `a_k` of the concepts, positive. Shape (2,).
        mu: Signals of the two concepts. Shape (2,).
        step_size: Size of a step on eq. (2.1). Positive.
        share: Share of the slower concept's speed, above 0 and at most 1. Default: 0.05.
    """
    slow, fast = np.argmin(a), np.argmax(a)
    return float(np.log(a[fast] * mu[fast] / (share * a[slow] * mu[slow])) / (a[fast] - a[slow]) / step_size)
