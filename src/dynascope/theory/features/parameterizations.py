"""How learning scales with the width n of a network, by its parameterization.

"Tensor Programs IV: Feature Learning in Infinite-Width Neural Networks", Sections 3 and 4. With weights n^(-a) w, w
normal with variance n^(-2b), and gradient descent at the learning rate η n^(-c), the function stays finite if c is at
least 1 - 2 a of the last layer, and in one step the last hidden layer moves by n^(-r) of its size, with

    r = min(a_L + b_L, 2 a_L + c) + c - 1 + min over the layers l < L of (2 a_l + 1[l = 1]).

Features are learned at every width if r = 0.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from dynascope import checks
from dynascope.theory.domains import check_arguments

Parameterization = Literal["standard", "ntk", "mup"]


class Exponents(NamedTuple):
    """Powers of the width."""

    rate: float
    """Of the largest learning rate at which the function stays finite, -c."""
    movement: float
    """Of the relative movement of the last hidden layer at that rate, -r."""


@check_arguments
def width_exponents(parameterization: Parameterization, depth: int) -> Exponents:
    """The powers of the width in an `MLP` of this parameterization, under gradient descent.

    Args:
        parameterization: "standard", "ntk" or "mup", as `models.MLP` has them.
        depth: Number of matrices, at least 2.

    Returns:
        The exponents of the learning rate and of the movement.
    """
    checks.whole("depth", depth, at_least=2)
    hidden = depth - 2
    multipliers, deviations = {
        "standard": ([0.0] * depth, [0.0, *[0.5] * (depth - 1)]),
        "ntk": ([0.0, *[0.5] * (depth - 1)], [0.0] * depth),
        "mup": ([-0.5, *[0.0] * hidden, 0.5], [0.5] * depth),
    }[parameterization]
    last = multipliers[-1]
    c = 1 - 2 * last
    first = min(2 * a + (1 if layer == 0 else 0) for layer, a in enumerate(multipliers[:-1]))
    r = min(last + deviations[-1], 2 * last + c) + c - 1 + first
    return Exponents(0 - c, 0 - r)  # without a negative zero
