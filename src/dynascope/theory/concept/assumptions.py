"""Assumptions D.1 to D.5 of Appendix D, item by item, and the constants that satisfy them.

"Dynamics of Concept Learning and Compositional Generalization", Appendix D.1, written without an order of the concepts:
`i` is the dominant and `j` the weaker of a pair, `a_i > a_j`. Constants are kept as logarithms, since the assumptions
force starts like 1e-66: the left side of D.5 exceeds 1/2, so D.5 needs
`log P > 10 kappa^2 log(1 / (P beta omega)) + log beta`. Clock: `eta` is the step of the recursion (D.1), paper clock.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from jaxtyping import Float

from dynascope.theory.domains import Domain, PositiveNumber, check_arguments

Kappa = Annotated[float, Domain("above 1", lambda x: (x > 1) & (x < np.inf))]


class Constants(NamedTuple):
    """The constants of Appendix D. `alpha` is the smallest `a_k`; `eta` is in the paper clock."""

    alpha: float
    """The smallest `a_k`."""
    gamma: float
    """The largest `a_k` over the smallest."""
    beta: float
    """The largest `|w_ij(0)|` is at most beta omega."""
    kappa: float
    """Slack in the rates of growth, above 1.1."""
    K: float
    """Bounds the step (D.2); at least 20."""
    C: float
    """Separates the strengths (D.5); above 1."""
    log_P: float
    """Log of the growth P of entries in the initial phase."""
    log_omega: float
    """Log of the smallest `|w_ij(0)|`, omega."""
    eta: float
    """Step in the paper clock."""

    @property
    def log_phase(self) -> float:
        """`log(P beta omega)`, the edge of the initial phase (Definition D.1)."""
        return self.log_P + math.log(self.beta) + self.log_omega


class Condition(NamedTuple):
    """One inequality `lhs <= rhs` of the assumptions, in logarithms if the name says so."""

    name: str
    """The assumption and its inequality."""
    lhs: float
    """Left side."""
    rhs: float
    """Right side."""

    @property
    def holds(self) -> bool:
        return bool(self.lhs <= self.rhs * (1 + 1e-12 * math.copysign(1, self.rhs)))


@check_arguments
def feasible_constants(
    a: Float[np.ndarray, " d"],
    beta: PositiveNumber = 1.5,
    kappa: Kappa = 1.11,
    K: PositiveNumber = 20.0,
    C: PositiveNumber = 2.0,
) -> Constants:
    """The largest start and the smallest `P` that D.4 and the first half of D.5 allow, and `eta` at its cap (D.2).

    D.4 with equality makes `Q = log(1 / (P beta omega))` a constant, `log(K gamma d beta / m)` with
    `m = min(kappa - 1, 1 - kappa^{-1/2})`; D.5 then reads `rho (10 kappa^2 Q + log P + log beta) <= log P`, where
    `rho` is the largest `(a_i + a_j) / (2 a_i)`. `check_assumptions` judges the other items.

    Args:
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
        beta: Ratio of the largest to the smallest initial entry. Positive. Default: 1.5.
        kappa: The constant kappa of D.4, above 1. Default: 1.11.
        K: Bounds the step (D.2). Positive. Default: 20.0.
        C: Separates the strengths (D.5). Positive. Default: 2.0.
    """
    strengths = np.sort(np.asarray(a, dtype=float))
    if len(strengths) < 2 or strengths[0] <= 0:
        raise ValueError(f"a needs at least two strengths, all positive (Assumption D.1); got {strengths}")
    alpha, gamma, dim = float(strengths[0]), float(strengths[-1] / strengths[0]), len(strengths)
    slack = min(kappa - 1, 1 - kappa**-0.5)
    rho = float(np.max((strengths[1:] + strengths[:-1]) / (2 * strengths[1:])))
    if rho >= 1:
        raise ValueError(f"a needs distinct strengths (Assumption D.5); got {strengths}")
    distance = math.log(K * gamma * dim * beta / slack)
    log_P = rho * (10 * kappa**2 * distance + math.log(beta)) / (1 - rho)
    log_omega = -distance - math.log(beta) - log_P
    return Constants(alpha, gamma, beta, kappa, K, C, log_P, log_omega, eta=1 / (9 * K * gamma * alpha))


@check_arguments
def check_assumptions(
    a: Float[np.ndarray, " d"], W0: Float[np.ndarray, "d d"], constants: Constants
) -> list[Condition]:
    """Both sides of every inequality of Assumptions D.1 to D.5 (float64).

    Args:
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
        W0: Initial Jacobian `W(0)`. Shape (d, d).
        constants: The constants of Appendix D, such as `feasible_constants` returns.
    """
    strengths, c = np.asarray(a, dtype=float), constants
    dim = len(strengths)
    with np.errstate(divide="ignore"):
        log_start = np.log(np.abs(np.asarray(W0, dtype=float)))
    log_beta, slack = math.log(c.beta), min(c.kappa - 1, 1 - c.kappa**-0.5)
    log_start_cap = min(
        math.log(slack) - c.log_P - math.log(c.K * c.gamma * dim) - 2 * log_beta, -0.5 * math.log(2 * c.beta)
    )
    conditions = [
        Condition("D.1 alpha <= a_k", c.alpha, float(strengths.min())),
        Condition("D.1 a_k <= gamma alpha", float(strengths.max()), c.gamma * c.alpha),
        Condition("D.1 log omega <= log |w_ij(0)|", c.log_omega, float(log_start.min())),
        Condition("D.1 log |w_ij(0)| <= log beta omega", float(log_start.max()), log_beta + c.log_omega),
        Condition("D.1 0 < alpha", np.nextafter(0.0, 1.0).item(), c.alpha),
        Condition("D.1 1 < beta", np.nextafter(1.0, 2.0).item(), c.beta),
        Condition("D.1 1 < gamma", np.nextafter(1.0, 2.0).item(), c.gamma),
        Condition("D.2 20 <= K", 20.0, c.K),
        Condition("D.2 eta <= 1 / (9 K gamma alpha)", c.eta, 1 / (9 * c.K * c.gamma * c.alpha)),
        Condition("D.3 log P beta omega <= log 0.4", c.log_phase, math.log(0.4)),
        Condition("D.4 log omega <= its cap", c.log_omega, log_start_cap),
        Condition("D.4 1.1 < kappa", np.nextafter(1.1, 2.0).item(), c.kappa),
        Condition("D.4 kappa <= 1 + K / (2 C)", c.kappa, 1 + c.K / (2 * c.C)),
        Condition("D.4 log 2 <= log P", math.log(2), c.log_P),
        Condition("D.5 1 < C", np.nextafter(1.0, 2.0).item(), c.C),
    ]
    share = c.log_P / (10 * c.kappa**2 * -c.log_phase + c.log_P + log_beta)
    for i, j in np.argwhere(strengths[:, None] > strengths):
        a_i, a_j = float(strengths[i]), float(strengths[j])
        conditions += [
            Condition(f"D.5 (a_i + a_j) / (2 a_i) <= share, i={i}, j={j}", (a_i + a_j) / (2 * a_i), share),
            Condition(f"D.5 alpha / C <= a_i - 3 a_j, i={i}, j={j}", c.alpha / c.C, a_i - 3 * a_j),
        ]
    return conditions


@check_arguments
def signal_difference(a: Float[np.ndarray, " d"], W0: Float[np.ndarray, "d d"], kappa: Kappa = 1.1) -> Condition:
    """The first half of D.5 for the closest pair of strengths, its right side as large as any `P` can make it.

    The right side grows with `P`; D.3 allows `P beta omega = 0.4` at most, and the start gives `omega` and `beta`.

    Args:
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
        W0: Initial Jacobian `W(0)`. Shape (d, d).
        kappa: The constant kappa of D.4, above 1. Default: 1.1.
    """
    strengths, size = np.sort(np.asarray(a, dtype=float)), np.abs(np.asarray(W0, dtype=float))
    left = float(np.max((strengths[1:] + strengths[:-1]) / (2 * strengths[1:])))
    log_P = math.log(0.4 / size.max())
    right = log_P / (10 * kappa**2 * math.log(1 / 0.4) + log_P + math.log(size.max() / size.min()))
    return Condition("D.5 (a_i + a_j) / (2 a_i) <= share", left, right)


@check_arguments
def share_after_repair(kappa: Kappa = 1.1) -> float:
    """A bound on the right side of D.5 if D.4 has the factor `P^2` that Corollary D.1 needs: `1 / (10 kappa^2 + 1)`.

    With it `log(1 / (P beta omega)) >= log P`. The left side of D.5 exceeds 1/2.

    Args:
        kappa: The constant kappa of D.4, above 1. Default: 1.1.
    """
    return 1 / (10 * kappa**2 + 1)
