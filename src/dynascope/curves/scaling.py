"""Power laws: how one measured quantity scales with another."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike


def scaling_exponent(x: ArrayLike, y: ArrayLike) -> Float[np.ndarray, " ..."]:
    """The exponent a of y ~ x^a: the slope of log y against log x, by least squares.

    `x` is `(points,)`; `y` is `(points,)`, or `(points, k)` for k exponents at once. Both are positive.
    """
    return np.asarray(np.polyfit(np.log(np.asarray(x)), np.log(np.asarray(y)), 1)[0])
