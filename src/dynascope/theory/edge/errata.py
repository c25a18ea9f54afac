"""Statements of Chapter 3 and Appendix B of "Simple structures in neural networks" that do not hold as printed.

Each erratum has the printed statement, what holds instead, and `evidence()`, which computes the numbers of a
counter-example and whether they refute the statement. Typographical errors without consequence are not listed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from dynascope import checks
from dynascope.dynamics.bifurcation import escape_times
from dynascope.geometry.orbits import leading_components, residual
from dynascope.tasks.factorization import Factorization, SymmetricFactorization, generic_start
from dynascope.tasks.products import two_factors
from dynascope.tasks.scalar_losses import BASE_MODELS, compose, power_series, quartic, squared_loss
from dynascope.theory.edge import constraint_manifolds, factorization, quartic_orbit
from dynascope.theory.edge.proof_errata import PROOF_ERRATA
from dynascope.theory.edge.squared_margins import composition_condition, margin
from dynascope.theory.erratum import Erratum, Evidence

SLOPE = 59 / 60
COUNTER_INNER = power_series((0, 1, -1 / 2, SLOPE))
"""p = x - x^2/2 + 59 x^3/60: margin 0.1 at 0."""
COUNTER_OUTER = power_series((0, 1, 1 / 2, SLOPE))
"""q = y + y^2/2 + 59 y^3/60: margin 0.1 at 0; the composite's is -8.8."""


def composition() -> Evidence:
    """log(exp x) = x has margin 0 although exp and log have positive ones, and gradient descent on (x - y)^2 diverges;
    for two cubics with positive margins the margin of the composite is negative."""
    exp, log = BASE_MODELS["exp"].function, BASE_MODELS["log"].function
    strict = composition_condition(COUNTER_INNER, COUNTER_OUTER, 0.0)
    loss = squared_loss(compose(log, exp), 0.5)
    far = jax.lax.fori_loop(0, 2000, lambda _, x: loss.step(x, 1.01 * loss.threshold), loss.minimum + 1e-3)
    numbers = {
        "margin of exp at 0.5": float(margin(exp, 0.5)),
        "margin of log at exp 0.5": float(margin(log, math.exp(0.5))),
        "margin of log(exp)": float(composition_condition(exp, log, 0.5).margin),
        "distance from 1e-3 after 2000 steps": float(jnp.abs(far - loss.minimum)),
        "margin of p": float(margin(COUNTER_INNER, 0.0)),
        "margin of q": float(margin(COUNTER_OUTER, 0.0)),
        "margin of q(p)": float(strict.margin),
    }
    parts = numbers["margin of p"] > 0 and numbers["margin of q"] > 0
    return Evidence(numbers, parts and not bool(strict.holds))


def literal_manifold(rate: float = 1.08) -> Evidence:
    """(1/2, 1/2): the gradient is orthogonal to the top eigenvector (1, -1), and lambda = 3/4 < 2/eta."""
    point, task = jnp.full(2, 0.5), two_factors()
    top = float(jnp.linalg.eigvalsh(task.hessian(point))[-1])
    inside = [
        bool(constraint_manifolds.in_manifold(point, rate, which, minimizers_only=False)) for which in ("M", "M_c")
    ]
    return Evidence({"sharpness": top, "2/eta": 2 / rate, "loss": float(task(point))}, all(inside))


class BoundedShares(NamedTuple):
    """The share of random starts that stay bounded."""

    symmetric: float
    asymmetric: float


def bounded_shares(
    first: float, second: float, starts: int = 40, steps: int = 1000, scale: float = 0.3
) -> BoundedShares:
    """Factorizations of diag(first, second) at eta = 1 from N(0, scale^2) starts: X X^T, and Y Z^T."""
    checks.sizes(starts=starts, steps=steps)
    target, keys = jnp.diag(jnp.asarray([first, second])), jax.random.split(jax.random.key(0), starts)
    factors, rates = jax.vmap(lambda key: generic_start(key, (2, 2, 2), scale))(keys), jnp.ones(starts)
    one = escape_times(SymmetricFactorization(target).step, rates, factors["Y"], steps=steps)
    two = escape_times(Factorization(target).step, rates, factors, steps=steps)
    return BoundedShares(float(jnp.mean(one < 0)), float(jnp.mean(two < 0)))


def symmetric_motivation() -> Evidence:
    """Symmetric factorization stays bounded with both eta sigma_i^2 above 1; only the asymmetric one does not."""
    shares = bounded_shares(1.2, 1.1)
    return Evidence({"symmetric": shares.symmetric, "asymmetric": shares.asymmetric}, shares.symmetric == 1)


def second_eigenvalue() -> Evidence:
    """eta sigma_2^2 = 0.95 < 1 blows up at eta sigma_1^2 = 1.2, where the sum is above 2."""
    beyond, within = bounded_shares(1.2, 0.95, starts=16).asymmetric, bounded_shares(1.2, 0.6, starts=16).asymmetric
    return Evidence({"bounded at sum 2.15": beyond, "bounded at sum 1.8": within}, beyond < 0.5 < within)


def observation_range() -> Evidence:
    """eta = 1/sigma_1^2 + beta: beta sigma_1^2 just below sqrt(4.5) - 1 is K = 2.1, where the orbit repels."""
    K = 2.1
    multiplier = float(quartic_orbit.multiplier(K))
    return Evidence({"K": K, "multiplier": multiplier}, abs(multiplier) > 1)


def missing_scale() -> Evidence:
    """Without the factor sigma_1 the limit of Observation 1 is not an orbit."""
    scale = 5.6955
    task, K = quartic(scale**2), 1.02
    rho = quartic_orbit.normalized_orbit(K).low
    off = float(residual(lambda x: task.step(x, K / scale**2), rho))
    on = float(residual(lambda x: task.step(x, K / scale**2), scale * rho))
    return Evidence({"residual of rho": off, "residual of sigma_1 rho": on}, on < 1e-9 < off)


def largest_singular_values(alpha: float = 0.8, second: float = 0.75, K: float = 1.02) -> Evidence:
    """On the low phase of the limit from X0 = diag(1, 0.75), sigma_max(Z) belongs to the bulk, 0.75/0.8."""
    root = jnp.diag(jnp.asarray([1.0, second]))
    low = factorization.quasi_symmetric_limit(root, alpha, K)[0]
    sizes = leading_components(low["Y"], low["Z"], root**2, jnp.asarray([1.0, 0.0]))
    numbers = {name: float(sizes[name]) for name in ("Y", "Z", "Y_norm", "Z_norm")}
    equal, differ = abs(numbers["Y"] - numbers["Z"]), abs(numbers["Y_norm"] - numbers["Z_norm"])
    return Evidence(numbers, equal < 1e-9 < differ)


def existence_limit(K: float = 1.55) -> Evidence:
    """Beyond K = 1.5 the orbit is still there; (3.4) has lost its upper point."""
    orbit = quartic_orbit.normalized_orbit(K)
    closes = float(residual(lambda x: quartic_orbit.step(x, K), orbit.high))
    rate = float(quartic_orbit.implicit_rate(1.0, orbit.high))
    return Evidence({"K": K, "residual of the orbit": closes, "rate by (3.4)": rate}, closes < 1e-9 < abs(rate - K))


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        "composition",
        "Proposition 2",
        "if p and q satisfy 6 g''^2 > g' g''', so does q(p(x))",
        "it does if q' q'' p'' >= 0; in general the margin has a third term 9 q' q'' p'^2 p''",
        composition,
    ),
    Erratum(
        "literal-manifold",
        "Propositions 5 and 6, Definition 4",
        "M is empty for eta > 1, and M_c = {xy = 1}",
        "this is so among minimizers; both sets hold x = y < 1/sqrt(2) too",
        literal_manifold,
    ),
    Erratum(
        "symmetric-motivation",
        "Section 3.6.2, (3.12)",
        "symmetric factorization allows no second eigenvalue above 2/eta",
        "it stays bounded with all of them above; the restriction belongs to the asymmetric problem",
        symmetric_motivation,
    ),
    Erratum(
        "second-eigenvalue",
        "Section 3.6.2",
        "factorization blows up once eta sigma_2 > 1",
        "it does once eta (sigma_1^2 + sigma_2^2) > 2",
        second_eigenvalue,
    ),
    Erratum(
        "observation-range",
        "Observation 5",
        "0 < beta sigma_1^2 < sqrt(4.5) - 1",
        "0 < beta sigma_1^2 < sqrt(4.5) - 2, since eta = 1/sigma_1^2 + beta",
        observation_range,
    ),
    Erratum(
        "missing-scale",
        "Observation 1, Remark 4",
        "the limit of the leading component is rho_i",
        "it is sigma_1 rho_i (as in Observation 2)",
        missing_scale,
    ),
    Erratum(
        "largest-singular-values",
        "Section 3.6, Figures 3.3 and B.3",
        "balance is sigma_max(Y) = sigma_max(Z)",
        "it is |u^T Y| = |u^T Z|; in the low phase sigma_max may belong to the bulk",
        largest_singular_values,
    ),
    Erratum(
        "existence-limit",
        "(B.17)",
        "the orbit of the quartic exists for K <= 1.5 only",
        "it exists for every K > 1; (3.4) drops a branch of the square root",
        existence_limit,
    ),
    *PROOF_ERRATA,
)
