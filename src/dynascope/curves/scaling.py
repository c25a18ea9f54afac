"""Power laws: how one measured quantity scales with another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from dynascope import checks


def scaling_exponent(x: ArrayLike | Sequence[float | int], y: ArrayLike) -> Float[np.ndarray, " ..."]:
    """The exponent a of y ~ x^a: the slope of log y against log x, by least squares.

    `x` is `(points,)`; `y` is `(points,)`, or `(points, k)` for k exponents at once. Both are positive.
    """
    of, values = np.asarray(checks.array("x", x, ndim=1)), np.asarray(checks.array("y", y, min_ndim=1))
    if len(of) < 2 or len(values) != len(of) or values.ndim > 2 or not (np.all(of > 0) and np.all(values > 0)):
        raise ValueError(f"x and y must be two or more positive numbers each; got {checks.shown(x)}, {checks.shown(y)}")
    return np.asarray(np.polyfit(np.log(of), np.log(values), 1)[0])
