"""The quartic (x^2 - mu)^2 / 4 above its threshold: the orbit of period two, its stability, and the cascade beyond.

"Simple structures in neural networks", Theorem 3.3 and Appendix B.3-B.6. With K = eta mu the map is, in units of
sqrt(mu), x -> x (1 + K - K x^2). Its orbit in closed form (not in the document; equal to (3.4) up to K = 1.5, and valid
for every K > 1):

    d_1, d_2 = (sqrt(mu + 3/eta) -+ sqrt(mu - 1/eta)) / 2,    d_1 d_2 = 1/eta,    d_1^2 + d_2^2 = mu + 1/eta.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from dynascope.tasks.scalar_losses import Reals, Values, real
from dynascope.theory.domains import Domain, Positive, Whole, check_arguments

SUPERSTABLE = math.sqrt(4.5) - 1
"""The K at which the multiplier is 0, up to which Theorem 3.3 proves convergence: 1.12132."""
STABILITY_LIMIT = math.sqrt(5) - 1
"""The K at which the multiplier is -1 (B.12) and period four takes over: 1.23607."""
POSITIVITY_LIMIT = 1.5 * math.sqrt(3) - 1
"""The largest K for which iterates started in (0, sqrt(mu + 1/eta)) stay positive: 1.59808."""
ONSET_OF_CHAOS = 1.30228
"""The limit of the thresholds of `cascade`."""


class Orbit(NamedTuple):
    """The two points."""

    low: Values
    """The point below the minimum. Any shape."""
    high: Values
    """The point above it. Any shape."""


@check_arguments
def orbit(mu: Positive, rate: Positive) -> Orbit:
    """{d_1, d_2}, the points of period two; nan below the threshold rate 1/mu.

    Args:
        mu: The minimum is sqrt(mu). Positive, any shape.
        rate: Learning rate eta. Positive, any shape.
    """
    wide, narrow = jnp.sqrt(real(mu) + 3 / real(rate)), jnp.sqrt(real(mu) - 1 / real(rate))
    return Orbit((wide - narrow) / 2, (wide + narrow) / 2)


@check_arguments
def normalized_orbit(K: Positive) -> Orbit:
    """The orbit for mu = 1, eta = K: rho_1, rho_2. Those of products, neurons and factorizations reduce to it.

    Args:
        K: K = eta mu. Positive, any shape.
    """
    return orbit(1.0, K)


@check_arguments
def implicit_rate(mu: Positive, x: Positive) -> Values:
    """The rate whose orbit passes through d (3.4): eta = 1 / (d^2 (sqrt(mu/d^2 - 3/4) + 1/2)).

    Args:
        mu: The minimum is sqrt(mu). Positive, any shape.
        x: The point d with d^2 <= 4 mu/3; of the upper points, only those with K <= 1.5. Positive, any shape.
    """
    square = real(x) ** 2
    return 1 / (square * (jnp.sqrt(real(mu) / square - 3 / 4) + 1 / 2))


@check_arguments
def multiplier(K: Positive) -> Values:
    """9 - 2 (1 + K)^2, of two steps on the orbit: 1 at K = 1, 0 at sqrt(4.5) - 1, -1 at sqrt(5) - 1.

    Args:
        K: K = eta mu. Positive, any shape.
    """
    return 9 - 2 * (1 + real(K)) ** 2


@check_arguments
def steps_needed(
    K: Positive, tolerance: Annotated[Reals, Domain("between 0 and 1", lambda x: (x > 0) & (x < 1))]
) -> Values:
    """The approximate number of steps to reach the orbit: 2 ln(1/tol) / -ln|9 - 2 (1 + K)^2|.

    Args:
        K: K = eta mu. Positive, any shape.
        tolerance: Distance from the orbit, between 0 and 1. Any shape.
    """
    return 2 * jnp.log(real(tolerance)) / jnp.log(jnp.abs(multiplier(K)))


@check_arguments
def critical_point(mu: Positive, rate: Positive) -> Values:
    """x_s = sqrt((mu + 1/eta)/3), where F' = 0; [x_s, sqrt(mu)) is the invariant interval of the proof.

    Args:
        mu: The minimum is sqrt(mu). Positive, any shape.
        rate: Learning rate eta. Positive, any shape.
    """
    return jnp.sqrt((real(mu) + 1 / real(rate)) / 3)


@check_arguments
def lower_bound(mu: Positive) -> Values:
    """d_1^2 >= (3 + sqrt 2) mu / 7 for K up to sqrt(4.5) - 1 (B.18), as a bound on d_1.

    Args:
        mu: The minimum is sqrt(mu). Positive, any shape.
    """
    return jnp.sqrt((3 + math.sqrt(2)) / 7 * real(mu))


@check_arguments
def invariance(K: Positive) -> Values:
    """(2/3)(1 + K)(1 + K - (4/27)(1 + K)^3), larger than 1 for K in (1, sqrt(4.5) - 1) (B.20).

    It is 1 at (1 + K)^2 = 2.25 and 4.5.

    Args:
        K: K = eta mu. Positive, any shape.
    """
    grown = 1 + real(K)
    return 2 / 3 * grown * (grown - 4 / 27 * grown**3)


@check_arguments
def outer_orbit(mu: Positive, rate: Positive) -> Values:
    """sqrt(mu + 2/eta): with its negative an unstable orbit; starts beyond it diverge.

    Args:
        mu: The minimum is sqrt(mu). Positive, any shape.
        rate: Learning rate eta. Positive, any shape.
    """
    return jnp.sqrt(real(mu) + 2 / real(rate))


@check_arguments
def step(x: Values, K: Positive) -> Values:
    """x (1 + K - K x^2), gradient descent in units of sqrt(mu).

    Args:
        x: The parameter, in units of sqrt(mu). Any shape.
        K: K = eta mu. Positive, any shape.
    """
    return x * (1 + K - K * x**2)


@check_arguments
def cascade(doublings: Annotated[int, Whole(1, 12)] = 4) -> Float[Array, " doubling"]:
    """The K at which periods 1, 2, 4, ... lose their stability: 1, sqrt(5) - 1, 1.28803, 1.29923, ..., with limit
    1.3023.

    Newton's method on F^p(x) = x, (F^p)'(x) = -1, from a guess by the ratio of successive gaps (Feigenbaum's 4.669).

    Args:
        doublings: Number of thresholds, from 1 to 12. Default: 4.
    """
    found, gap = [jnp.asarray(1.0), jnp.asarray(STABILITY_LIMIT)], 4.5
    for doubling in range(2, doublings):
        guess = found[-1] + (found[-1] - found[-2]) / gap
        found.append(_flip(2**doubling, guess))
        gap = 4.669
    return jnp.stack(found[:doublings])


@partial(jax.jit, static_argnames="period")
def _flip(period: int, guess: Float[Array, ""]) -> Float[Array, ""]:
    """The K near the guess at which an orbit of this period has multiplier -1."""

    def conditions(unknown: Float[Array, " 2"]) -> Float[Array, " 2"]:
        x, K = unknown
        there, slope = jax.jvp(lambda x: _advance(x, K, period), (x,), (jnp.ones_like(x),))
        return jnp.stack([there - x, slope + 1])

    def newton(_: Array, unknown: Float[Array, " 2"]) -> Float[Array, " 2"]:
        return unknown - jnp.linalg.solve(jax.jacfwd(conditions)(unknown), conditions(unknown))

    settled = _advance(jnp.full_like(guess, 0.5), guess, 4096)
    return lax.fori_loop(0, 30, newton, jnp.stack([settled, guess]))[1]


def _advance(x: Float[Array, ""], K: Float[Array, ""], steps: int) -> Float[Array, ""]:
    return lax.fori_loop(0, steps, lambda _, x: step(x, K), x)
