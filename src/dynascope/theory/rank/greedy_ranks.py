"""Greedy incremental learning: which coordinate of a diagonal network is learned when, as its start goes to zero.

"Transformers learn through gradual rank increase", Algorithm 1 and Theorem 4.1: in rescaled time tau = t / log(1/alpha)
the gradient flow from alpha (u0, v0) tends to a staircase. On plateau k, beta is constant and the log-scale weights
b = log_alpha(u + v) of the inactive coordinates move in straight lines, b' = -g(beta^k), until the first of them is at
0 (and is learned with a plus sign) or at 2 (with a minus sign). In `stage_transition` the others then give way.

Three things differ from the listing, which does not work as printed: b starts at 1 (it says 0, with which every
coordinate that is pushed up is learned at time 0); coordinates of the support are left out of the race (their force is
not exactly 0 in floating point, and their b is at a boundary); and so are forces below `SMALLEST`. To run it from the
printed start, give `start=0`.
"""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.theory.rank.diagonal_flow import Loss, force, log_inverse
from dynascope.theory.rank.stage_transition import SEED, transition

SMALLEST = 1e-9
"""|g| below which a coordinate is taken not to move on a plateau, over max |g(0)|."""
RESOLVED = 7.0
"""gap * log(1/alpha) from which on a stage can be told from its neighbor (7 to 10 in practice)."""

Vector = Float[np.ndarray, " p"]


class Stage(NamedTuple):
    """A plateau: how it was entered, and what holds on it."""

    time: float
    """T_k, rescaled; 0 for the first."""
    winner: int
    """The coordinate that was switched on at that time; -1 at the start."""
    sign: int
    log_weight: Vector
    """b^k at T_k."""
    beta: Vector
    force: Vector
    """g(beta^k)."""
    loss: float
    left: tuple[int, ...]
    """Coordinates that left the support in the transition into this plateau."""
    entered: tuple[int, ...]
    """The winner, unless it left again at once."""
    waits: Vector
    """Delta_k of (10): how long each coordinate needs from T_k; infinite for those that do not race."""
    gap: float
    """The second shortest wait less the shortest: 0 if two coordinates tie."""
    residual: float
    """The largest |g| on the support: 0 up to how well the transition was solved."""
    arrived: bool
    """Whether the transition into this plateau came to its end; if not, beta is where it stopped."""

    @property
    def next_time(self) -> float:
        """T_{k+1}; infinite on the last plateau."""
        return self.time + float(self.waits.min())

    @property
    def support(self) -> tuple[int, ...]:
        return tuple(np.flatnonzero(self.beta).tolist())

    def resolved(self, scale: float) -> bool:
        """Whether, at this initial scale, the race for the end of this plateau has a clear winner and the plateau is
        long enough to be seen."""
        pace = log_inverse(scale)
        return min(self.gap, self.next_time - self.time) * pace >= RESOLVED


def waiting_times(log_weight: Vector, push: Vector, racing: np.ndarray, smallest: float = SMALLEST) -> Vector:
    """Delta of (10): b/g for a force up, (2 - b)/|g| for one down, infinite for coordinates out of the race and for
    forces up to `smallest`."""
    runs = racing & (np.abs(push) > smallest)
    safe = np.where(runs, push, 1.0)
    return np.where(runs, (log_weight - 1 + np.sign(safe)) / safe, np.inf)


def greedy_stages(
    loss: Loss,
    size: int,
    *,
    until: float = math.inf,
    most: int = 200,
    seed: float = SEED,
    tolerance: float = 1e-5,
    start: float | int = 1.0,
) -> list[Stage]:
    """The plateaus of Algorithm 1, the first at beta = 0; it stops when nothing is left that moves, after the last
    plateau that begins before `until`, with `most` of them, or where a transition has not `arrived`. `seed` is the
    epsilon of (13), whose limit is meant; `start` is b at time 0."""
    if size < 1:
        raise ValueError(f"a network needs at least one product; got {size}")
    if not 0 <= start <= 2:
        raise ValueError(f"start, the log-scale weight at time 0, must lie between 0 and 2; got {start:g}")
    beta, log_weight = np.zeros(size), np.full(size, float(start))
    time, winner, sign = 0.0, -1, 0
    left: tuple[int, ...] = ()
    residual, arrived = 0.0, True
    stages: list[Stage] = []
    while len(stages) < most:
        value, push = (np.asarray(part) for part in _evaluate(loss, jnp.asarray(beta)))
        if not (np.isfinite(value) and np.isfinite(push).all()):
            raise ValueError(f"the loss or its gradient is no finite number at the plateau beta = {beta.tolist()}")
        unit = float(np.max(np.abs(stages[0].force if stages else push)))
        waits = waiting_times(log_weight, push, beta == 0, SMALLEST * unit)
        shortest = np.partition(waits, 1)[:2] if size > 1 else np.array([waits[0], np.inf])
        gap = float(shortest[1] - shortest[0]) if np.isfinite(shortest[0]) else math.inf
        entered = (winner,) if winner >= 0 and winner not in left else ()
        stages.append(
            Stage(
                time, winner, sign, log_weight, beta, push, float(value), left, entered, waits, gap, residual, arrived
            )
        )
        wait = float(waits.min())
        if not arrived or time + wait >= until or math.isinf(wait):
            break
        winner = int(waits.argmin())
        sign = int(np.sign(push[winner]))
        moved = np.where(beta == 0, log_weight - push * wait, log_weight)
        log_weight = np.where(np.arange(size) == winner, 1.0 - sign, moved)
        time += wait
        signs = np.sign(beta)
        signs[winner] = sign
        seeded = beta.copy()
        seeded[winner] = sign * seed**2
        end = transition(loss, jnp.asarray(seeded), jnp.asarray(signs), tolerance=tolerance)
        beta, residual, arrived = np.asarray(end.beta), float(end.residual), bool(end.arrived)
        left = tuple(np.flatnonzero(end.left).tolist())
    return stages


@eqx.filter_jit
def _evaluate(loss: Loss, beta: jax.Array) -> tuple[jax.Array, jax.Array]:
    return loss(beta), force(loss, beta)


def first_arrival(push: float, u: float, v: float, scale: float, size: float) -> float:
    """When |u| of a coordinate gets to `size` on the first plateau, in unrescaled time, at a finite initial scale:
    (log(1/alpha) + log(2 size / |u0 + sgn(g) v0|)) / |g|."""
    return (log_inverse(scale) + math.log(2 * size / abs(u + math.copysign(v, v * push)))) / abs(push)


def staircase(stages: list[Stage], times: Float[np.ndarray, " time"]) -> xr.Dataset:
    """The limit of the flow at rescaled `times`: loss, product and log_weight, each plateau's from T_k to T_{k+1}. It
    warns of times on a plateau whose transition has not arrived."""
    at = np.searchsorted([stage.time for stage in stages], times, side="right") - 1
    plateaus = [stages[k] for k in at]
    for k in np.unique(at):
        if not stages[k].arrived:
            warnings.warn(f"plateau {k}, from time {stages[k].time:.4g} on, was not reached: its transition stopped "
                          f"with |g| = {stages[k].residual:.2g} on the support", stacklevel=2)  # fmt: skip
    racing = np.array([stage.beta == 0 for stage in plateaus])
    since = times - np.array([stage.time for stage in plateaus])
    b = np.array([stage.log_weight for stage in plateaus])
    g = np.where(racing, np.array([stage.force for stage in plateaus]), 0.0)
    return xr.Dataset(
        {
            "loss": ("time", [stage.loss for stage in plateaus]),
            "product": (("time", "coordinate"), np.array([stage.beta for stage in plateaus])),
            "log_weight": (("time", "coordinate"), b - g * since[:, None]),
            "plateau_index": ("time", at),
        },
        {"time": times},
    )


def table(stages: list[Stage]) -> xr.Dataset:
    """The plateaus as labeled arrays, for a trace."""
    return xr.Dataset(
        {
            "stage_time": ("stage", [stage.time for stage in stages]),
            "winner": ("stage", [stage.winner for stage in stages]),
            "sign": ("stage", [stage.sign for stage in stages]),
            "plateau": (("stage", "coordinate"), np.array([stage.beta for stage in stages])),
            "plateau_log_weight": (("stage", "coordinate"), np.array([stage.log_weight for stage in stages])),
            "plateau_loss": ("stage", [stage.loss for stage in stages]),
            "gap": ("stage", [stage.gap for stage in stages]),
            "next_time": ("stage", [stage.next_time for stage in stages]),
            "left": ("stage", [len(stage.left) for stage in stages]),
            "arrived": ("stage", [int(stage.arrived) for stage in stages]),
        },
        {"stage": np.arange(len(stages))},
    )
