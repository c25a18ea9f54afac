"""Random starts `U(0)` of the symmetric model, drawn by NumPy so that a seed gives the same start on every platform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from dynascope.theory.domains import NOT_NEGATIVE, POSITIVE, NotNegativeNumber, PositiveNumber, check_arguments

Seeds = Annotated[int | np.integer | range | Sequence[int] | np.ndarray, NOT_NEGATIVE]
Size = NotNegativeNumber


@check_arguments
def gaussian_factor(seed: Seeds, scale: Size, dim: int, width: int | None = None) -> Float[np.ndarray, "*seed d width"]:
    """A Gaussian factor `U = scale * N(0, 1)^{dim x width}`.

    Args:
        seed: Seed, or seeds, which give a leading axis.
        scale: Standard deviation of the entries. Not negative.
        dim: Number of rows d.
        width: Number of columns. Default: `dim`.
    """
    if isinstance(seed, int | np.integer):
        return scale * np.random.default_rng(seed).standard_normal((dim, dim if width is None else width))
    return np.stack([gaussian_factor(int(one), scale, dim, width) for one in seed])


@check_arguments
def aligned_factor(
    seed: Seeds, scale: Size, epsilon: Size, dim: int, width: int | None = None
) -> Float[np.ndarray, "*seed d width"]:
    """`U = scale * (epsilon G + [1 0 ... 0])` with `G` Gaussian: nearly rank one, every `w_ij(0)` positive.

    The reliable way to multiple descents: the rows of `U` all point along the first column, so each weaker direction
    is first learned as a shadow of the stronger ones.

    Args:
        seed: Seed, or seeds, which give a leading axis.
        scale: Size of the common first column. Not negative.
        epsilon: Size of the Gaussian part, relative to `scale`. Not negative.
        dim: Number of rows d.
        width: Number of columns. Default: `dim`.
    """
    factor = gaussian_factor(seed, scale * epsilon, dim, width)
    factor[..., :, 0] += scale
    return factor


@check_arguments
def random_factor(
    seed: Seeds, scale: Size, spread: Size, dim: int, width: int | None = None
) -> Float[np.ndarray, "*seed d width"]:
    """An aligned factor, or a Gaussian one if `spread` is 0.

    Args:
        seed: Seed, or seeds, which give a leading axis.
        scale: Size of the factor. Not negative.
        spread: The `epsilon` of `aligned_factor`; 0 for a Gaussian factor.
        dim: Number of rows d.
        width: Number of columns. Default: `dim`.
    """
    if spread:
        return aligned_factor(seed, scale, spread, dim, width)
    return gaussian_factor(seed, scale, dim, width)


@check_arguments
def start_moments(size: PositiveNumber, widths: Annotated[Int[np.ndarray, " width"], POSITIVE]) -> xr.Dataset:
    """The moments of `W(0) = U U^T` for Gaussian `U`: `E w_ii`, `E w_ij = 0`, `Var w_ij = size^2 / width` and
    `Var w_ii = 2 size^2 / width`.

    Args:
        size: `E w_ii = width * scale^2`. Positive.
        widths: Numbers of columns of `U`, positive. Shape (width,).

    Returns:
        `moments(width, moment)`, and `spread(width, moment)`: the standard error of each from n starts is `spread /
        sqrt(n)` (for large n).
    """
    zero, off, on = np.zeros(len(widths)), size**2 / widths, 2 * size**2 / widths
    moments = [zero + size, zero, off, on]
    spread = [on**0.5, off**0.5, off * (2 + 6 / widths) ** 0.5, on * (2 + 12 / widths) ** 0.5]
    dims = ("width", "moment")
    table = {"moments": (dims, np.stack(moments, axis=1)), "spread": (dims, np.stack(spread, axis=1))}
    return xr.Dataset(table, {"width": widths, "moment": ["mean major", "mean minor", "var minor", "var major"]})
