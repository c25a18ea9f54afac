"""The lemmas of Appendix D as statements that a recorded path of `W` obeys or breaks.

"Dynamics of Concept Learning and Compositional Generalization", Appendix D. The path holds every step
`t = 0, 1, ..., T` of the recursion (D.1) (or of gradient descent on `U`), in float64; `eta` is its step in the paper
clock. Starts may be as small as 1e-66 and bounds as large as e^1000, so sizes are compared by their logarithms: a
margin is `log(bound) - log(value)` if a statement bounds a size, and `bound - value` if it bounds a value of
order one (D.5, D.6, Cor. D.2, exit).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from dynascope.theory.concept.assumptions import Constants
from dynascope.theory.concept.jacobian_recursion import noise
from dynascope.theory.domains import NotNegativeNumber, check_arguments

Path = Float[np.ndarray, "time d d"]


class Verdict(NamedTuple):
    """Whether one path obeys one lemma."""

    lemma: str
    """The lemma or corollary."""
    statement: str
    """Its inequality."""
    holds: bool
    """Whether the path obeys it."""
    first_violation: int | None
    """The first step at which it is broken, if any."""
    worst_margin: float
    """The smallest distance to the bound: negative if broken, infinite if the lemma does not apply."""


GROWTH_LEVELS = (0.01, 0.1, 0.5, 0.85, 0.94)
"""The levels `lambda` at which Lemma D.4 is checked."""


@check_arguments
def check_lemmas(
    W: Path, a: Float[np.ndarray, " d"], constants: Constants, rounding: NotNegativeNumber = 0
) -> list[Verdict]:
    """A verdict on every lemma and corollary of Appendix D. A path that diverges breaks the lemmas and is no error.

    Args:
        W: Path of the Jacobian, every step. Shape (time, d, d).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
        constants: The constants of Appendix D, with the step `eta` of the path.
        rounding: Relative error that D.7 allows, such as the rounding of `U U^T`, 2e-14. Not negative. Default: 0.
    """
    path = np.asarray(W, dtype=np.float64)
    strengths = np.asarray(a, dtype=np.float64)
    with np.errstate(all="ignore"):
        return [_verdict(*each) for each in _margins(path, strengths, constants, float(rounding))]


def _first_growth_time(c: Constants) -> float:
    """`T_1 = log P / (2 eta gamma alpha kappa)` in steps (Lemma D.2)."""
    return c.log_P / (2 * c.eta * c.gamma * c.alpha * c.kappa)


@check_arguments
def diagonal_growth_times(
    W0: Float[np.ndarray, "d d"], a: Float[np.ndarray, " d"], c: Constants
) -> Float[np.ndarray, " d"]:
    """`T_1^(i) = log(P beta omega / w_ii(0)) / (2 eta a_i kappa)` in steps (Lemma D.3).

    Args:
        W0: Initial Jacobian `W(0)`. Shape (d, d).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
        c: The constants of Appendix D, with the step `eta` of the path.
    """
    return (c.log_phase - np.log(np.diagonal(W0))) / (2 * c.eta * np.asarray(a) * c.kappa)


@check_arguments
def exit_steps(W: Path, c: Constants) -> Float[np.ndarray, " d"]:
    """The first step at which each major has left the initial phase, `w_ii > P beta omega`; nan if it never does.

    Args:
        W: Path of the Jacobian, every step. Shape (time, d, d).
        c: The constants of Appendix D, with the step `eta` of the path.
    """
    return _first(np.diagonal(W, axis1=1, axis2=2) > math.exp(c.log_phase))


def _margins(
    W: Path, a: np.ndarray, c: Constants, rounding: float
) -> Iterator[tuple[str, str, Float[np.ndarray, " time"]]]:
    log_W = np.log(np.abs(W))
    time = np.arange(len(W), dtype=np.float64)
    majors, log_majors = np.diagonal(W, axis1=1, axis2=2), np.diagonal(log_W, axis1=1, axis2=2)
    pair, off = a[:, None] + a, ~np.eye(len(a), dtype=bool)
    upward = c.eta * time[:, None, None] * pair

    log_noise = _log_noise(W, a)
    cap = math.log(2 * c.gamma * c.alpha * len(a)) + 2 * math.log(c.beta) + 2 * c.log_omega
    yield "Cor. D.1", "|N_ij| <= 2 P gamma alpha d beta^2 omega^2", cap + c.log_P - _largest(log_noise)
    squared = cap + 2 * c.log_P - _largest(log_noise)
    yield "Cor. D.1 with P^2", "|N_ij| <= 2 P^2 gamma alpha d beta^2 omega^2", squared

    above = _smallest(log_W[0] + upward * c.kappa - log_W)
    yield "D.1", "|w_ij(t)| <= |w_ij(0)| exp(eta t (a_i+a_j) kappa)", above

    first = time <= _first_growth_time(c)
    lower = np.minimum(_smallest(log_W - log_W[0] - upward / c.kappa), c.log_phase - _largest(log_W))
    lower = np.where((np.sign(W) == np.sign(W[0])).all(axis=(1, 2)), lower, -np.inf)
    yield (
        "D.2",
        "t <= T_1: in initial phase, |w_ij(t)| >= |w_ij(0)| exp(eta t (a_i+a_j)/kappa), signs kept",
        np.where(first, lower, np.inf),
    )

    growing = time[:, None] <= diagonal_growth_times(W[0], a, c)
    margin = np.minimum(log_majors - log_majors[0] - 2 * c.eta * time[:, None] * a / c.kappa, c.log_phase - log_majors)
    margin = np.where(majors > 0, margin, -np.inf)
    yield (
        "D.3",
        "t <= T_1^(i): in initial phase, w_ii(t) >= w_ii(0) exp(2 eta t a_i/kappa)",
        _smallest(np.where(growing, margin, np.inf)),
    )

    out = majors[:-1] >= math.exp(c.log_phase)
    gain = np.diff(log_majors, axis=0)
    for level in GROWTH_LEVELS:
        # over every pair of steps of a stretch below the level exactly if over every single step of it
        below = out & (majors[:-1] < level) & (majors[1:] < level)
        single = np.where(majors[1:] > 0, gain, -np.inf) - 2 * c.eta * a * (1 - level) / c.kappa
        single = np.where(below, single, np.inf)
        yield (
            f"D.4 at {level:g}",
            "out of phase, below lambda: w_ii grows by exp(2 eta a_i (1-lambda)/kappa) a step",
            np.append(np.inf, _smallest(single)),
        )

    yield "D.5", "0 <= w_ii(t) <= 1 + 2/K", _smallest(np.minimum(majors, 1 + 2 / c.K - majors))
    change = np.abs(np.diff(majors, axis=0))
    yield "Cor. D.2", "|w_ii(t+1) - w_ii(t)| <= 1/K", np.append(np.inf, 1 / c.K - _largest(change))
    arrived = np.logical_or.accumulate(majors >= 1 - 2 / c.K, axis=0)
    yield "D.6", "w_ii(t0) >= 1 - 2/K stays so", _smallest(np.where(arrived, majors - (1 - 2 / c.K), np.inf))

    eligible = (majors[:, :, None] > 0.8) & (a[:, None] > a)
    extra = rounding * np.sqrt(np.abs(majors[:, :, None] * majors[:, None, :]))
    allowed = np.minimum.accumulate(np.where(eligible, np.maximum(np.abs(W), math.exp(c.log_omega)), np.inf), axis=0)
    margin = np.where(np.isinf(allowed), np.inf, np.log(allowed + extra) - log_W)
    yield "D.7", "a_i > a_j, w_ii(t0) > 0.8: |w_ij(t)| <= max(|w_ij(t0)|, omega) from t0 on", _smallest(margin)

    inside = _smallest(np.where(off, c.log_phase - log_W, np.inf))
    yield "D.8", "off-diagonal entries never leave the initial phase", inside

    latest = c.kappa * (math.log(0.8) - c.log_phase) / (0.3 * c.eta * a) + diagonal_growth_times(W[0], a, c)
    reached = _first(majors >= 0.8)
    late = np.where(np.isnan(reached), np.where(latest < len(W) - 1, -np.inf, np.inf), latest - reached)
    late_by = np.full(len(W), np.inf)
    for step, value in zip(np.minimum(np.ceil(latest), len(W) - 1).astype(int), late, strict=True):
        late_by[step] = min(late_by[step], value)
    yield "D.8, time", "w_ii >= 0.8 no later than kappa log(0.8/(P beta omega))/(0.3 eta a_i) + T_1^(i)", late_by


def _verdict(name: str, statement: str, margin: Float[np.ndarray, " time"]) -> Verdict:
    broken = ~(margin >= 0)  # a path that has become nan obeys nothing
    first = int(np.argmax(broken)) if broken.any() else None
    worst = float(np.min(np.where(np.isnan(margin), -np.inf, margin)))
    return Verdict(name, statement, first is None, first, worst)


def _log_noise(W: Path, a: np.ndarray) -> Path:
    with jax.enable_x64(True):
        return np.log(np.abs(np.asarray(noise(jnp.asarray(W), jnp.asarray(a)))))


def _largest(values: np.ndarray) -> np.ndarray:
    return values.reshape(len(values), -1).max(axis=1)


def _smallest(values: np.ndarray) -> np.ndarray:
    return values.reshape(len(values), -1).min(axis=1)


def _first(reached: Bool[np.ndarray, "time d"]) -> Float[np.ndarray, " d"]:
    return np.where(reached.any(axis=0), reached.argmax(axis=0), np.nan)
