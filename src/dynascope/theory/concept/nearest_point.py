"""The distance of the training points of two Gaussian clusters from the test point."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import xarray as xr
from jaxtyping import Float
from scipy.stats import norm

from dynascope.theory.domains import POSITIVE, PositiveNumber, check_arguments

Pair = tuple[float, float]


@check_arguments
def nearest_point(
    mu: Annotated[Pair, POSITIVE], sigma: Annotated[Pair, POSITIVE], radius: PositiveNumber, samples: int
) -> xr.Dataset:
    """The expected number of points of two Gaussian clusters, cluster p around `mu_p` on axis p, `inside` a radius
    around the test point `mu`, and the range `nearest(limit)` of the smallest distance in 99 % of data sets.

    Args:
        mu: Signals of the two concepts, positive.
        sigma: Spreads along the two axes, positive.
        radius: Distance from the test point. Positive.
        samples: Number of points in each cluster.
    """
    radii = np.append(np.linspace(1e-3, min(mu), 2000), radius)
    offsets = ((0.0, -mu[1]), (-mu[0], 0.0))  # of the clusters' centers from the test point
    chances = np.array([_disc_chance(radii, offset, sigma) for offset in offsets])
    none_nearer = samples * np.log1p(-chances[:, :-1]).sum(axis=0)
    limits = np.interp(np.log([1 / 0.995, 1 / 0.005]), -none_nearer, radii[:-1])
    return xr.Dataset({"inside": samples * chances[:, -1].sum(), "nearest": ("limit", limits)})


def _disc_chance(radii: Float[np.ndarray, " r"], offset: Pair, sigma: Pair) -> Float[np.ndarray, " r"]:
    """The chance that a Gaussian centered at `offset` from the middle of a disc falls into it, for each radius."""
    node, weight = np.polynomial.legendre.leggauss(200)
    u, half = radii[:, None] * np.sin(node * np.pi / 2), radii[:, None] * np.cos(node * np.pi / 2)
    across = norm.cdf(half, offset[1], sigma[1]) - norm.cdf(-half, offset[1], sigma[1])
    return np.sum(weight * np.pi / 2 * half * norm.pdf(u, offset[0], sigma[0]) * across, axis=1)
