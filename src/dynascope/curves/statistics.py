"""Differences and correlations over few seeds, with their 95 % intervals; and power laws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from dynascope import checks


def paired_difference(after: ArrayLike, before: ArrayLike) -> dict[str, Any]:
    """The mean over seeds of after - before, with its 95 % interval (Student).

    Args:
        after: One value per seed, `(seeds,)`.
        before: One value per seed, `(seeds,)`; seeds with a NaN in either are left out.

    Returns:
        `mean`, `interval` (two numbers) and `of`, the number of seeds that remain.
    """
    ends, starts = _pair(after=after, before=before)
    change = ends - starts
    change = change[np.isfinite(change)]
    if not change.size:
        return {"mean": np.nan, "interval": [-np.inf, np.inf], "of": 0}
    half = np.inf
    if change.size > 1:
        half = float(stdtrit(change.size - 1, 0.975) * change.std(ddof=1) / np.sqrt(change.size))
    return {"mean": change.mean(), "interval": [change.mean() - half, change.mean() + half], "of": change.size}


def correlation(one: ArrayLike, other: ArrayLike) -> dict[str, Any]:
    """Pearson's correlation with the 95 % interval of Fisher's transformation, and Spearman's.

    The interval assumes independent points. With fewer than four points, or if one array is constant, nothing is known:
    the correlations are NaN and the interval is all of [-1, 1].

    Args:
        one: Values `(n,)`.
        other: Values `(n,)`; points with a NaN in either are left out.

    Returns:
        `pearson`, its `interval` (two numbers), `spearman`, and the number of `points` that remain.
    """
    from scipy.stats import rankdata  # takes a second to import

    a, b = _pair(one=one, other=other)
    kept = np.isfinite(a) & np.isfinite(b)
    a, b = a[kept], b[kept]
    if a.size < 4 or a.std() == 0 or b.std() == 0:
        return {"pearson": np.nan, "interval": [-1.0, 1.0], "spearman": np.nan, "points": a.size}
    pearson = float(np.clip(np.corrcoef(a, b)[0, 1], -1, 1))
    with np.errstate(divide="ignore"):  # on a line the center is infinite, and the interval one point
        center, half = np.arctanh(pearson), 1.96 / np.sqrt(a.size - 3)
    spearman = float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])
    interval = [float(np.tanh(center - half)), float(np.tanh(center + half))]
    return {"pearson": pearson, "interval": interval, "spearman": spearman, "points": a.size}


def scaling_exponent(x: ArrayLike | Sequence[float], y: ArrayLike) -> Float[np.ndarray, " ..."]:
    """The exponent a of y ~ x^a: the slope of log y against log x, by least squares.

    Args:
        x: Positive numbers, `(points,)`.
        y: Positive numbers, `(points,)`, or `(points, k)` for k exponents at once.
    """
    of, values = np.asarray(checks.array("x", x, ndim=1)), np.asarray(checks.array("y", y, min_ndim=1))
    if len(of) < 2 or len(values) != len(of) or values.ndim > 2 or not (np.all(of > 0) and np.all(values > 0)):
        raise ValueError(f"x and y must be two or more positive numbers each; got {checks.shown(x)}, {checks.shown(y)}")
    return np.asarray(np.polyfit(np.log(of), np.log(values), 1)[0])


def _pair(**given: ArrayLike) -> list[np.ndarray]:
    """Two arrays of one shape, flat."""
    arrays = [np.asarray(checks.array(name, values), float) for name, values in given.items()]
    if arrays[0].shape != arrays[1].shape:
        raise ValueError(f"{' and '.join(given)} must have one shape; got {arrays[0].shape} and {arrays[1].shape}")
    return [values.ravel() for values in arrays]
