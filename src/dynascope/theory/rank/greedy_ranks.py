"""Greedy incremental learning: the order and the times at which a diagonal network learns its coordinates, as its start
goes to zero.

"Transformers learn through gradual rank increase", Algorithm 1 and Theorem 4.1: in rescaled time tau = t / log(1/alpha)
the gradient flow from alpha (u0, v0) tends to a staircase. On plateau k, beta is constant and the log-scale weights
b = log_alpha(u + v) of the inactive coordinates move in straight lines, b' = -g(beta^k), until the first of them
reaches 0 (and is learned with a plus sign) or 2 (with a minus sign). `stage_transition` then finds the next plateau.

Three things differ from the listing, which does not work as printed: b starts at 1 (it says 0, with which every
coordinate that is pushed up is learned at time 0); coordinates of the support do not race (their force is not exactly 0
in floating point, and their b is at a boundary); neither do coordinates with a force below `SMALLEST`. `start=0` gives
the printed algorithm.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Bool, Float

from dynascope.theory.domains import Domain, NotNegativeNumber, PositiveNumber, check_arguments
from dynascope.theory.rank.diagonal_flow import Loss, Scale, force, log_inverse
from dynascope.theory.rank.stage_transition import SEED, least_curvature, transition

SMALLEST = 1e-9
"""The force below which a coordinate counts as fixed on a plateau, relative to max |g(0)|."""
RESOLVED = 10.0
"""The least length of a plateau, and the least gap of a race, that are visible at a finite scale, in units of
1/(rate * log(1/alpha)): in the middle of such a plateau decaying terms have fallen to e^-5, and the next coordinate is
still below e^-10."""
LAG = 10.0
"""The largest lag of a transition behind its T_k, in the same units: it is of order one, and must be below the length
of a plateau."""

Vector = Float[np.ndarray, " p"]


class Stage(NamedTuple):
    """One plateau, and the transition into it."""

    time: float
    """T_k, rescaled; 0 for the first."""
    winner: int
    """The coordinate that was switched on at that time; -1 at the start."""
    sign: int
    """The sign with which it was switched on."""
    log_weight: Vector
    """b^k at T_k."""
    beta: Vector
    """The plateau's beta. Shape (p,)."""
    force: Vector
    """g(beta^k)."""
    loss: float
    """The loss on it."""
    left: tuple[int, ...]
    """Coordinates that left the support in the transition into this plateau."""
    entered: tuple[int, ...]
    """The winner, unless it left again at once."""
    waits: Vector
    """Delta_k of (10): the time each coordinate needs from T_k; infinite for those that do not race."""
    gap: float
    """The second shortest wait minus the shortest: 0 if two coordinates tie."""
    residual: float
    """The largest |g| on the support: 0 up to the error of the transition."""
    arrived: bool
    """Whether the transition into this plateau converged; if not, beta is its last point."""
    rate: float
    """The slowest of three rates, in unrescaled time: at which the winner of the last race grew, at which beta relaxes
    onto this plateau, and at which the winner of the next race grows."""

    @property
    def next_time(self) -> float:
        """T_{k+1}; infinite on the last plateau."""
        return self.time + float(self.waits.min())

    @property
    def support(self) -> tuple[int, ...]:
        """The coordinates with beta != 0."""
        return tuple(np.flatnonzero(self.beta).tolist())

    def pace(self, scale: float) -> float:
        """The number of units of `RESOLVED` and `LAG` in one unit of rescaled time.

        Args:
            scale: Initial scale alpha, above 0 and below 1.
        """
        return self.rate * log_inverse(scale)

    def is_resolved(self, scale: float, until: float = math.inf) -> bool:
        """Whether the race that ends this plateau has a clear winner, and the plateau is long enough to be visible.

        Args:
            scale: Initial scale alpha, above 0 and below 1.
            until: Rescaled time at which the record ends. Default: math.inf.
        """
        return min(self.gap, min(self.next_time, until) - self.time) * self.pace(scale) >= RESOLVED

    def middle(self, until: float) -> float:
        """The middle of the plateau.

        Args:
            until: Rescaled time at which the record ends.
        """
        return (self.time + min(self.next_time, until)) / 2


@check_arguments
def waiting_times(
    log_weight: Vector, push: Vector, racing: Bool[np.ndarray, " p"], smallest: NotNegativeNumber = SMALLEST
) -> Vector:
    """The Delta of (10): b/g for a positive force, (2 - b)/|g| for a negative one; infinite if a coordinate does not
    race.

    Args:
        log_weight: b. Shape (p,).
        push: The force g. Shape (p,).
        racing: The coordinates that race. Shape (p,).
        smallest: Force up to which a coordinate does not race. Not negative. Default: SMALLEST.
    """
    runs = racing & (np.abs(push) > smallest)
    safe = np.where(runs, push, 1.0)
    return np.where(runs, (log_weight - 1 + np.sign(safe)) / safe, np.inf)


@check_arguments
def greedy_stages(
    loss: Loss,
    size: int,
    *,
    until: Annotated[float, Domain("positive", lambda x: x > 0)] = math.inf,
    most: int = 200,
    seed: PositiveNumber = SEED,
    tolerance: PositiveNumber = 1e-5,
    start: Annotated[float, Domain("a finite number, at least 0 and at most 2", lambda b: (b >= 0) & (b <= 2))] = 1.0,
) -> list[Stage]:
    """The plateaus of Algorithm 1, the first at beta = 0.

    The last one is that on which nothing moves, the last that begins before `until`, number `most`, or one whose
    transition has not `arrived`.

    Args:
        loss: Loss L as a function of beta.
        size: Number of products p.
        until: Rescaled time to stop at, positive. Default: math.inf.
        most: Largest number of plateaus. Default: 200.
        seed: The epsilon of (13), which goes to 0 in the algorithm. Positive. Default: SEED.
        tolerance: Relative tolerance of the transitions. Positive. Default: 1e-05.
        start: b at time 0, from 0 to 2. Default: 1.0.
    """
    beta, log_weight = np.zeros(size), np.full(size, float(start))
    time, winner, sign = 0.0, -1, 0
    left: tuple[int, ...] = ()
    residual, arrived = 0.0, True
    stages: list[Stage] = []
    while len(stages) < most:
        value, push = (np.asarray(part) for part in _evaluate(loss, jnp.asarray(beta)))
        if not (np.isfinite(value) and np.isfinite(push).all()):
            raise ValueError(f"loss and its gradient must be finite; they are not at beta = {beta.tolist()}")
        unit = float(np.max(np.abs(stages[0].force if stages else push)))
        waits = waiting_times(log_weight, push, beta == 0, SMALLEST * unit)
        shortest = np.partition(waits, 1)[:2] if size > 1 else np.array([waits[0], np.inf])
        gap = float(shortest[1] - shortest[0]) if np.isfinite(shortest[0]) else math.inf
        entered = (winner,) if winner >= 0 and winner not in left else ()
        wait = float(waits.min())
        grew = abs(stages[-1].force[winner]) if stages else math.inf
        relaxes = float(least_curvature(loss, jnp.asarray(beta))) / 2 if beta.any() else math.inf
        grows = abs(push[int(waits.argmin())]) if math.isfinite(wait) else math.inf
        how = {"residual": residual, "arrived": arrived, "rate": float(min(grew, relaxes, grows))}
        stages.append(Stage(time, winner, sign, log_weight, beta, push, float(value), left, entered, waits, gap, **how))
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


@check_arguments
def resolved_plateaus(stages: Sequence[Stage], scale: Scale, until: float) -> list[int]:
    """The plateaus that are resolved at this scale: they are long enough, and neither the race that ends them nor the
    one before them is near a tie.

    Args:
        stages: The plateaus, as from `greedy_stages`.
        scale: Initial scale alpha, above 0 and below 1.
        until: Rescaled time before which they begin.
    """
    clear = [True, *(stage.gap * stage.pace(scale) >= RESOLVED for stage in stages)]
    return [k for k, stage in enumerate(stages) if stage.time < until and stage.is_resolved(scale, until) and clear[k]]


@check_arguments
def first_arrival(
    push: Annotated[float, Domain("a force other than 0", lambda g: g != 0)],
    u: float,
    v: float,
    scale: Scale,
    size: PositiveNumber,
) -> float:
    """The time, not rescaled, at which |u| of a coordinate reaches a size on the first plateau, at a finite initial
    scale: (log(1/alpha) + log(2 size / |u0 + sgn(g) v0|)) / |g|.

    Args:
        push: The force g, not 0.
        u: u0 of the coordinate.
        v: v0 of the coordinate.
        scale: Initial scale alpha, above 0 and below 1.
        size: Size of |u| to reach. Positive.
    """
    return (log_inverse(scale) + math.log(2 * size / abs(u + math.copysign(v, v * push)))) / abs(push)


@check_arguments
def staircase(stages: list[Stage], times: Float[np.ndarray, " time"]) -> xr.Dataset:
    """The limit of the flow. It warns of times on a plateau whose transition has not arrived.

    Args:
        stages: The plateaus, as from `greedy_stages`.
        times: Rescaled times. Shape (time,).

    Returns:
        loss (time), product and log_weight (time, coordinate).
    """
    at = np.searchsorted([stage.time for stage in stages], times, side="right") - 1
    plateaus = [stages[k] for k in at]
    for k in np.unique(at):
        if not stages[k].arrived:
            warnings.warn(
                f"plateau {k}, from time {stages[k].time:.4g} on, is not exact: its transition stopped "
                f"with |g| = {stages[k].residual:.2g} on the support",
                stacklevel=2,
            )
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


@check_arguments
def table(stages: list[Stage]) -> xr.Dataset:
    """The plateaus as labeled arrays over (stage) and (stage, coordinate).

    Args:
        stages: The plateaus, as from `greedy_stages`.
    """
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
