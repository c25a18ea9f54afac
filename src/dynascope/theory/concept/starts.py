"""Random starts `U(0)` of the symmetric model, drawn by NumPy so that a seed means the same start everywhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from jaxtyping import Float, Int

Seeds = int | np.integer | range | Sequence[int] | np.ndarray


def gaussian_factor(
    seed: Seeds, scale: float, dim: int, width: int | None = None
) -> Float[np.ndarray, "*seed d width"]:
    """`U = scale * N(0, 1)^{dim x width}`, one per seed; a sequence of seeds gives a leading axis."""
    if isinstance(seed, int | np.integer):
        return scale * np.random.default_rng(seed).standard_normal((dim, dim if width is None else width))
    return np.stack([gaussian_factor(int(one), scale, dim, width) for one in seed])


def aligned_factor(
    seed: Seeds, scale: float, epsilon: float, dim: int, width: int | None = None
) -> Float[np.ndarray, "*seed d width"]:
    """`U = scale * (epsilon G + [1 0 ... 0])` with `G` Gaussian: nearly rank one, every `w_ij(0)` positive.

    The reliable way to multiple descents: the rows of `U` all point along the first column, so each weaker direction
    is first learned as a shadow of the stronger ones.
    """
    factor = gaussian_factor(seed, scale * epsilon, dim, width)
    factor[..., :, 0] += scale
    return factor


def random_factor(
    seed: Seeds, scale: float, spread: float, dim: int, width: int | None = None
) -> Float[np.ndarray, "*seed d width"]:
    """An aligned factor with `epsilon = spread`, or for `spread = 0` a Gaussian one."""
    if spread:
        return aligned_factor(seed, scale, spread, dim, width)
    return gaussian_factor(seed, scale, dim, width)


def start_moments(size: float, widths: Int[np.ndarray, " width"]) -> xr.Dataset:
    """The moments of `W(0) = U U^T` for Gaussian `U` of `width` columns with `E w_ii = width * scale^2 = size`:
    `moments(width, moment)` are `E w_ii`, `E w_ij = 0`, `Var w_ij = size^2 / width` and `Var w_ii = 2 size^2 / width`.
    """
    zero = np.zeros(len(widths))
    moments = np.stack([zero + size, zero, size**2 / widths, 2 * size**2 / widths], axis=1)
    return xr.Dataset({"moments": (("width", "moment"), moments)}, {"width": widths})
