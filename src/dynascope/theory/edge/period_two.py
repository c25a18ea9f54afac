"""Conditions under which gradient descent on one parameter has an orbit of period two just above the rate 2/f''.

"Simple structures in neural networks", Theorem 3.1 and Lemma 3.2. With f'' and f^(k) taken at the minimum and

    D = 3 f3^2 - f'' f4,

D > 0 makes the flip at eta = 2/f'' supercritical: an attracting orbit of half-width sqrt(3 f''^2 nu / D), with
nu = eta f'' - 2, appears there. With D < 0 there is no small orbit above the threshold and gradient descent moves away;
a quadratic has D = 0. The expansions in nu follow from the proof of the theorem by short algebra.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool
from scipy.optimize import root_scalar

from dynascope.tasks.scalar_losses import Reals, ScalarLoss, Values, real
from dynascope.theory.domains import NotNegativeNumber, Positive, PositiveNumber, Whole, check_arguments

BISECTIONS = 64
Order = Annotated[int, Whole(3, 11)]
"""Order of a derivative at the minimum, above the second."""


class Window(NamedTuple):
    """An open interval of learning rates."""

    low: Values
    """Lower end. Any shape."""
    high: Values
    """Upper end. Any shape."""


class OrbitRate(NamedTuple):
    """The rate at which a point has period two, and whether the search had a sign change to start from."""

    rate: Values
    """The rate. Any shape."""
    found: Bool[Array, " ..."]
    """Whether the search began from a sign change. Any shape."""


@check_arguments
def flip_quantity(loss: ScalarLoss) -> Values:
    """D = 3 f3^2 - f'' f4 at the minimum.

    Args:
        loss: A loss of one parameter with a known minimum.
    """
    _, _, second, third, fourth = loss.derivatives(order=4)
    return 3 * third**2 - second * fourth


@check_arguments
def leading_order(
    loss: ScalarLoss, highest: Annotated[int, Whole(3, 12)] = 8, tolerance: NotNegativeNumber = 1e-9
) -> int:
    """The lowest order k above 2 whose derivative at the minimum is not zero.

    Args:
        loss: A loss of one parameter with a known minimum.
        highest: Largest order that is tried, from 3 to 12. Default: 8.
        tolerance: Size, relative to f'', up to which a derivative counts as zero. Not negative. Default: 1e-09.
    """
    for k in range(3, highest + 1):
        found = np.asarray(loss.derivatives(order=k))
        if np.all(np.abs(found[k]) > tolerance * np.abs(found[2])):
            return k
    raise ValueError(
        f"loss must have a nonzero derivative of order 3 to {highest} at its minimum; '{loss.name}' has none"
    )


@check_arguments
def condition_holds(loss: ScalarLoss, order: Order | None = None) -> bool:
    """Whether Theorem 3.1 (k = 3: D > 0) or Lemma 3.2 (even k: f^(k) < 0; odd k: f^(k+1) < 0) gives an orbit.

    Args:
        loss: A loss of one parameter with a known minimum.
        order: Order k of the derivative. Default: `leading_order(loss)`.
    """
    k = leading_order(loss) if order is None else order
    if k == 3:
        return bool(np.all(np.asarray(flip_quantity(loss)) > 0))
    return bool(np.all(np.asarray(loss.derivatives(order=k + 1)[k + k % 2]) < 0))


@check_arguments
def window(loss: ScalarLoss, reach: Reals, order: Order = 3) -> Window:
    """The rates that contain, for every x0 between the minimum and minimum - eps, one of period two.

    (2/f'', 2/(f'' - f^(k) eps^(k-2))) for odd k (k = 3: Theorem 3.1), with eps of the sign of f^(k);
    (2/f'', 2/(f'' + f^(k) eps^(k-2))) for even k (Lemma 3.2).

    Args:
        loss: A loss of one parameter with a known minimum.
        reach: eps, the distance below the minimum. Any shape.
        order: Order k of the derivative. Default: 3.
    """
    found = loss.derivatives(order=order)
    bend = found[order] * real(reach) ** (order - 2)
    sharper = found[2] - bend if order % 2 else found[2] + bend
    return Window(2 / found[2], 2 / sharper)


@check_arguments
def reach_of(loss: ScalarLoss, size: Positive, order: Order = 3) -> Values:
    """The eps of a given size with the sign that `window` needs.

    Args:
        loss: A loss of one parameter with a known minimum.
        size: Its absolute value. Positive, any shape.
        order: Order k of the derivative. Default: 3.
    """
    return jnp.sign(loss.derivatives(order=order)[order]) * size if order % 2 else real(size)


@check_arguments
def orbit_rate(loss: ScalarLoss, x: Reals, between: Window) -> OrbitRate:
    """The rate in the window at which F(F(x)) = x, by bisection on f'(x) + f'(x - eta f'(x)) = 0.

    Args:
        loss: A loss of one parameter with a known minimum.
        x: A point of the orbit. Any shape.
        between: The window to search.
    """
    start = real(x)

    def closing(rate: Values) -> Values:
        return loss.slope(start) + loss.slope(loss.step(start, rate))

    low, high = jnp.broadcast_arrays(between.low, between.high, start)[:2]
    sign = jnp.sign(closing(low))

    def halve(_: Array, ends: tuple[Values, Values]) -> tuple[Values, Values]:
        low, high = ends
        middle = (low + high) / 2
        same = jnp.sign(closing(middle)) == sign
        return jnp.where(same, middle, low), jnp.where(same, high, middle)

    found = (sign * jnp.sign(closing(high)) < 0) & (sign != 0)
    low, high = lax.fori_loop(0, BISECTIONS, halve, (low, high))
    return OrbitRate((low + high) / 2, found)


@check_arguments
def excess(loss: ScalarLoss, rate: Positive) -> Values:
    """nu = eta f'' - 2: the distance from the threshold.

    Args:
        loss: A loss of one parameter with a known minimum.
        rate: Learning rate eta. Positive, any shape.
    """
    return real(rate) * loss.derivatives(order=2)[2] - 2


@check_arguments
def half_width(loss: ScalarLoss, rate: Positive) -> Values:
    """The half-width of the orbit to leading order, sqrt(3 f''^2 nu / D); nan if there is no orbit.

    Args:
        loss: A loss of one parameter with a known minimum.
        rate: Learning rate eta. Positive, any shape.
    """
    return jnp.sqrt(3 * loss.derivatives(order=2)[2] ** 2 * excess(loss, rate) / flip_quantity(loss))


@check_arguments
def multiplier(loss: ScalarLoss, rate: Positive) -> Values:
    """1 - 4 nu, the multiplier of two steps on the orbit to leading order, for every loss.

    Args:
        loss: A loss of one parameter with a known minimum.
        rate: Learning rate eta. Positive, any shape.
    """
    return 1 - 4 * excess(loss, rate)


@check_arguments
def sine_half_width(rate: PositiveNumber) -> float:
    """a > 0 with sin(a)/a = 1/eta: the orbit of 2 sin x is its minimum -+ a, exactly; nan below the threshold, 1.

    Args:
        rate: Learning rate eta. Positive.
    """
    if rate <= 1:
        return float("nan")
    return float(root_scalar(lambda a: rate * np.sin(a) - a, bracket=(1e-3, 3.0), xtol=1e-15).root)


@check_arguments
def rate_through(loss: ScalarLoss, x: Reals) -> Values:
    """2/f'' + D (x - minimum)^2 / (3 f''^3), the rate whose orbit passes through x, to leading order.

    Args:
        loss: A loss of one parameter with a known minimum.
        x: A point of the orbit. Any shape.
    """
    second = loss.derivatives(order=2)[2]
    return 2 / second + flip_quantity(loss) * (real(x) - loss.minimum) ** 2 / (3 * second**3)


@check_arguments
def displacement_at_threshold(loss: ScalarLoss, reach: Reals) -> Values:
    """(x2 - x0)/eta = D eps^3 / (3 f'') to leading order, from x0 = minimum - eps at eta = 2/f'' (proof of Thm 3.1).

    Args:
        loss: A loss of one parameter with a known minimum.
        reach: eps, the distance below the minimum. Any shape.
    """
    return flip_quantity(loss) * real(reach) ** 3 / (3 * loss.derivatives(order=2)[2])


@check_arguments
def displacement_at_end(loss: ScalarLoss, reach: Reals) -> Values:
    """(x2 - x0)/eta = -2 f3 eps^2 to leading order, at the upper end of the window (proof of Theorem 3.1).

    Args:
        loss: A loss of one parameter with a known minimum.
        reach: eps, the distance below the minimum. Any shape.
    """
    return -2 * loss.derivatives(order=3)[3] * real(reach) ** 2
