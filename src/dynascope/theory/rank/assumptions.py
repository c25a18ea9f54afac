"""Checks of the assumptions of Theorem 4.1 and its lemmas: the computed number, and whether the assumption holds.

"Transformers learn through gradual rank increase", Assumptions 4.3 to 4.5, Lemmas C.5 and D.1 to D.4. Assumption 4.4
is read with the L(theta^k) that is missing in print. Assumptions 2.1 and 3.1 (smoothness, bounded data) are properties
of the model and are not checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dynascope.theory.domains import Count, NotNegativeNumber, PositiveNumber, check_arguments
from dynascope.theory.rank.diagonal_flow import Loss, Scale, check_start
from dynascope.theory.rank.greedy_ranks import RESOLVED, SMALLEST, Stage, Vector
from dynascope.theory.rank.stage_transition import least_curvature, transition


class Finding(NamedTuple):
    """The result of one check."""

    name: str
    """The assumption or lemma."""
    number: float
    """The computed number: it must be positive, or (for 4.5 and C.5) at most `bound`."""
    holds: bool
    """Whether it holds."""
    bound: float = 0.0
    """Largest number allowed, for 4.5 and C.5."""


@check_arguments
def non_degeneracy(stages: list[Stage], u: Vector, v: Vector, scale: Scale | None = None) -> list[Finding]:
    """The conditions of Assumption 4.3, and those that Lemma D.4 adds.

    Args:
        stages: The plateaus, as from `greedy_stages`.
        u: Initial direction u0. Shape (p,).
        v: Initial direction v0. Shape (p,).
        scale: Initial scale alpha at which each race must have a clear winner. Default: not checked.
    """
    first, second = check_start(u, v)
    apart = float(np.min(np.abs(np.abs(first) - np.abs(second))))
    found = [Finding("4.3 |u| is not |v| at the start", apart, apart > 0)]
    unit = float(np.max(np.abs(stages[0].force)))
    for k, stage in enumerate(stages):
        if math.isfinite(stage.next_time):
            wait = stage.next_time - stage.time
            found.append(Finding(f"4.3 plateau {k}: a single winner (gap)", stage.gap, stage.gap * unit > 1e-12))
            found.append(Finding(f"D.4 plateau {k}: it lasts", wait, wait > 0))
            if scale is not None:
                clear = stage.gap * stage.pace(scale)
                name = f"plateau {k}: gap * rate * log(1/alpha) >= {RESOLVED:g}"
                found.append(Finding(name, clear, clear >= RESOLVED))
        for i in stage.left:
            away = -stage.force[i] if stage.log_weight[i] < 1 else stage.force[i]
            found.append(
                Finding(
                    f"4.3, D.4 plateau {k}: coordinate {i}, which left, is pushed away",
                    float(away),
                    bool(away > SMALLEST * unit),
                )
            )
    return found


@check_arguments
def strict_minimum(loss: Loss, stage: Stage) -> Finding:
    """The least eigenvalue of the Hessian of u -> L(u, s * u) on the support (Assumption 4.4): 4 D H D with D = diag(s
    * u) and H the Hessian in beta. The assumption holds with any c_k below half of it, and always at beta = 0.

    Args:
        loss: Loss L as a function of beta.
        stage: The plateau.
    """
    eigenvalue = float(least_curvature(loss, jnp.asarray(stage.beta))) if stage.support else math.inf
    return Finding("4.4 strict minimum on the support (least eigenvalue)", eigenvalue, eigenvalue > 0)


@check_arguments
def grows_quadratically(
    loss: Callable[[Array], float], beta: Vector, c: PositiveNumber, *, distance: PositiveNumber = 0.05
) -> dict[str, bool]:
    """Whether Assumption 4.4 holds with c at 20 points near u = sqrt|beta| on the support: L >= c |u - u^k|^2 as
    printed, and L >= L(theta^k) + c |u - u^k|^2 as meant.

    Args:
        loss: Loss L as a function of u, on the support.
        beta: The plateau's beta. Shape (p,).
        c: Constant c_k. Positive.
        distance: Distance of the points from u^k. Positive. Default: 0.05.
    """
    u, sign = np.sqrt(np.abs(beta)), np.sign(beta)
    draws = np.random.default_rng(0).uniform(-distance, distance, (20, len(u))) * np.abs(sign)
    values = np.array([loss(jnp.asarray(sign * (u + step) ** 2)) for step in draws])
    grown = c * (draws**2).sum(axis=1)
    here = loss(jnp.asarray(beta))
    return {"printed": bool(np.all(values >= grown)), "meant": bool(np.all(values >= here + grown))}


@check_arguments
def noise_robust(
    loss: Loss, before: Stage, after: Stage, *, distance: PositiveNumber = 1e-2, draws: int = 20, seed: Count = 0
) -> Finding:
    """The largest distance from beta^{k+1} at which balanced starts near u^k, positive at the winner, end (Assumption
    4.5): it must be at most 1e-3, and is infinite if a start has no end.

    Args:
        loss: Loss L as a function of beta.
        before: Plateau k.
        after: Plateau k + 1.
        distance: Largest distance of a start from u^k. Positive. Default: 0.01.
        draws: Number of starts. Default: 20.
        seed: Seed of the starts. Not negative. Default: 0.
    """
    rng = np.random.default_rng(seed)
    active = (before.beta != 0) | (np.arange(len(before.beta)) == after.winner)
    signs = np.where(before.beta != 0, np.sign(before.beta), np.where(active, after.sign, 0.0))
    u = np.sqrt(np.abs(before.beta)) + distance * rng.uniform(-1, 1, (draws, len(active))) / math.sqrt(active.sum())
    starts = signs * np.maximum(np.abs(u), 1e-12) ** 2
    errors = [_error_at_end(loss, start, signs, after.beta) for start in starts]
    worst = max(errors)
    return Finding("4.5 noisy starts end at the next plateau (largest error)", worst, worst <= 1e-3, 1e-3)


def _error_at_end(loss: Loss, start: Vector, signs: Vector, expected: Vector) -> float:
    end = transition(loss, jnp.asarray(start), jnp.asarray(signs))
    return float(np.max(np.abs(np.asarray(end.beta) - expected))) if end.arrived else math.inf


@check_arguments
def plateau_bound(inactive: NotNegativeNumber, lipschitz: NotNegativeNumber, curvature: PositiveNumber) -> float:
    """max(24 rho, 18 sqrt(rho K / c_k)), which bounds |theta - theta^k| on a plateau (Lemma C.5).

    Args:
        inactive: rho, a bound on the inactive weights. Not negative.
        lipschitz: K, a Lipschitz constant of the loss there. Not negative.
        curvature: c_k, the constant of Assumption 4.4. Positive.
    """
    return max(24 * inactive, 18 * math.sqrt(inactive * lipschitz / curvature))


@check_arguments
def log_scale_lemmas(
    u: Float[np.ndarray, " n"],
    v: Float[np.ndarray, " n"],
    b: Float[np.ndarray, " n"],
    scale: Scale,
    margin: PositiveNumber,
) -> list[Finding]:
    """Lemmas D.1 to D.3 for weights with u > |v|.

    D.1: b in (c, 2 - c) implies |u|, |v| <= alpha^(c/2). D.2: b outside (-c, 2 + c) implies u > 1. D.3: b > 1 + c
    implies v < 0, b < 1 - c implies v > 0.

    Args:
        u: First weights. Shape (n,).
        v: Second weights. Shape (n,).
        b: log_alpha(u + v), an argument since rounding destroys u + v if v is nearly -u. Shape (n,).
        scale: alpha, between 0 and 1.
        margin: c. Positive.
    """
    inside = (b > margin) & (b < 2 - margin)
    violated = {
        "D.1": inside & (np.maximum(np.abs(u), np.abs(v)) > scale ** (margin / 2)),
        "D.2": ((b < -margin) | (b > 2 + margin)) & (np.abs(u) <= 1),
        "D.3": ((b > 1 + margin) & (v >= 0)) | ((b < 1 - margin) & (v <= 0)),
    }
    return [Finding(name, float(np.sum(bad)), not np.any(bad)) for name, bad in violated.items()]
