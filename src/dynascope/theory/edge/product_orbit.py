"""Two factors, (xy - mu)^2 / 2, above the threshold: the oscillation of xy removes the imbalance |x - y|.

"Simple structures in neural networks", Theorem 3.4, Proposition 3, Lemma B.2. With e = eta (xy - mu), exactly,

    y+ - x+ = (y - x)(1 + e),    x+ y+ = xy (1 - e)^2 - e (x - y)^2,    x+^2 - y+^2 = (x^2 - y^2)(1 - e^2).

Balanced (x = y), the map is that of the quartic, and the orbit its orbit. K = eta mu.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from dynascope.tasks.products import ProductLoss
from dynascope.tasks.scalar_losses import Values, real
from dynascope.theory.domains import NotNegative, Positive, Whole, check_arguments
from dynascope.theory.edge.quartic_orbit import critical_point


class Successor(NamedTuple):
    """The next step, by the identities."""

    gap: Values
    """y+ - x+."""
    product: Values
    """x+ y+."""
    difference_of_squares: Values
    """x+^2 - y+^2."""


@check_arguments
def successor(x: Values, y: Values, mu: Positive, rate: Positive) -> Successor:
    """The three identities (B.4, B.33).

    Args:
        x: First factor. Any shape.
        y: Second factor. Any shape.
        mu: Target mu of the product. Positive, any shape.
        rate: Learning rate eta. Positive, any shape.
    """
    e = rate * (x * y - mu)
    return Successor((y - x) * (1 + e), x * y * (1 - e) ** 2 - e * (x - y) ** 2, (x**2 - y**2) * (1 - e**2))


class Contraction(NamedTuple):
    """Two steps from xy > mu, and their bounds in the proof of Theorem 3.4."""

    ratio: Values
    """r = (y - x)_{t+2} / (y - x)_t."""
    upper: Values
    """Upper bound on r. Any shape."""
    lower: Values
    """Lower bound on r. Any shape."""
    case: Int[Array, " ..."]
    """Case of the proof: 1, 2 or 3. Any shape."""


@check_arguments
def contraction(factors: Float[Array, "*batch 2"], mu: Positive, rate: Positive) -> Contraction:
    """The ratio from a point with xy > mu, its bounds for 1 < K < 1.5, and which case of the proof applies (x1, y1 the
    next point, x_s^2 = (mu + 1/eta)/3):

    1: eta (mu - x1 y1) >= 1/2: r < (1 + min(x/y, y/x))/2;
    2: otherwise, x1 y1 <= x_s^2: r < 2 - K;
    3: otherwise: r < 1 - 2 (K - 1)(xy/mu - 1). Always r > 2 - 2K.

    Args:
        factors: Points (x, y) with xy > mu. Shape (..., 2).
        mu: Target mu of the product. Positive, any shape.
        rate: Learning rate eta. Positive, any shape.
    """
    mu, rate = real(mu), real(rate)
    task, K = ProductLoss(mu), rate * mu
    product = jnp.prod(factors, axis=-1)
    after = jnp.prod(task.step(factors, rate), axis=-1)
    ratio = (1 + rate * (product - mu)) * (1 + rate * (after - mu))
    share = jnp.min(factors, axis=-1) / jnp.max(factors, axis=-1)
    far, below = rate * (mu - after) >= 1 / 2, after <= critical_point(mu, rate) ** 2
    near = jnp.where(below, 2 - K, 1 - 2 * (K - 1) * (product / mu - 1))
    lower = jnp.broadcast_to(real(2 - 2 * K), ratio.shape)
    return Contraction(ratio, jnp.where(far, (1 + share) / 2, near), lower, jnp.where(far, 1, jnp.where(below, 2, 3)))


@check_arguments
def orbit_contraction(K: Positive) -> Values:
    """3 - 2K: the factor of the imbalance per two steps, on the orbit, exactly; 0 at K = 1.5.

    Args:
        K: K = eta mu. Positive, any shape.
    """
    return 3 - 2 * real(K)


@check_arguments
def transverse_exponent(K: Positive) -> Values:
    """ln|3 - 2K| / 2: the exponent of the imbalance per step, on the orbit.

    Args:
        K: K = eta mu. Positive, any shape.
    """
    return jnp.log(jnp.abs(orbit_contraction(K))) / 2


@check_arguments
def swapping_point(K: Positive) -> Float[Array, "*batch 2"]:
    """A point (x, y), x > y, that two steps turn into (y, x), in units of sqrt(mu): an unbalanced orbit. NaN for K > 2.

    With g = eta (xy - mu), x + y is multiplied by 1 - g and x - y by 1 + g. The first must be restored by two steps and
    the second reversed: g is (sqrt(5) - 1)/2 and then -(sqrt(5) + 1)/2, which gives xy at both points.

    Args:
        K: K = eta mu. Positive, any shape.
    """
    K, g = real(K), (jnp.sqrt(5.0) - 1) / 2
    here, there = 1 + g / K, 1 - (1 + g) / K
    gap = 4 * ((1 - g) ** 2 * here - there) / ((1 + g) ** 2 - (1 - g) ** 2)
    total, difference = jnp.sqrt(gap + 4 * here), jnp.sqrt(gap)
    return jnp.stack([total + difference, total - difference], axis=-1) / 2


class Positivity(NamedTuple):
    """Lemma B.2: x and y stay positive if `left` < `right`."""

    left: Values
    """Left side of Lemma B.2. Any shape."""
    right: Values
    """Its right side, p. Any shape."""
    sure: Bool[Array, " ..."]
    """Whether left < right. Any shape."""


@check_arguments
def positivity(factors: Float[Array, "*batch 2"], mu: Positive, rate: Positive) -> Positivity:
    """Both sides of Lemma B.2: max{eta (x0 y0 - mu), polynomial} < p; see `positivity_terms`.

    Args:
        factors: Starts (x0, y0) with x0 y0 > mu. Shape (..., 2).
        mu: Target mu of the product. Positive, any shape.
        rate: Learning rate eta. Positive, any shape.
    """
    polynomial, p = positivity_terms(jnp.abs(factors[..., 1] - factors[..., 0]) / jnp.sqrt(real(mu)), rate * mu)
    product = jnp.prod(factors, axis=-1)
    left = jnp.maximum(rate * (product - mu), polynomial)
    return Positivity(left, p, (left < p) & (product > mu) & jnp.all(factors > 0, axis=-1))


@check_arguments
def positivity_terms(gap: NotNegative, K: Positive) -> tuple[Values, Values]:
    """The polynomial (4/27)(1 + K)^3 + (2K^2/3 - K/3 + q K^2 m^2/(2(K+1))) q m^2 - K and the bound p of Lemma B.2;
    p = 4/(m + sqrt(m^2 + 4))^2, q = (1 + p)^2.

    Args:
        gap: m = |y0 - x0|/sqrt(mu). Not negative, any shape.
        K: K = eta mu. Positive, any shape.
    """
    m, K = real(gap), real(K)
    p = 4 / (m + jnp.sqrt(m**2 + 4)) ** 2
    q = (1 + p) ** 2
    middle = 2 * K**2 / 3 - K / 3 + q * K**2 * m**2 / (2 * (K + 1))
    return 4 / 27 * (1 + K) ** 3 + middle * q * m**2 - K, p


@check_arguments
def largest_gap(K: Positive, resolution: Annotated[int, Whole(2)] = 2001) -> Values:
    """The largest m = |y0 - x0|/sqrt(mu) that Lemma B.2 admits (for x0 y0 just above mu).

    Args:
        K: K = eta mu. Positive, any shape.
        resolution: Number of points of a grid over [0, 1], at least 2. Default: 2001.
    """
    gaps = jnp.linspace(0, 1, resolution)
    polynomial, p = positivity_terms(gaps, real(K)[..., None])
    return jnp.max(jnp.where(polynomial < p, gaps, 0), axis=-1)


@check_arguments
def flow_limit(factors: Float[Array, "*batch 2"], mu: Positive) -> Float[Array, "*batch 2"]:
    """The limit of gradient flow: the minimum with the same x^2 - y^2, in the positive quadrant.

    Small rates end near it, at sharpness x^2 + y^2; lowering the rate after the oscillation ends at (sqrt(mu),
    sqrt(mu)), sharpness 2 mu (Remarks 2, 6).

    Args:
        factors: Starts (x, y). Shape (..., 2).
        mu: Target mu of the product. Positive, any shape.
    """
    half = (factors[..., 0] ** 2 - factors[..., 1] ** 2) / 2
    size = jnp.sqrt(half**2 + mu**2)
    return jnp.sqrt(jnp.stack([size + half, size - half], axis=-1))
