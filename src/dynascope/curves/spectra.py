"""Ranks of recorded spectra: singular values `(..., singular)` in any order, arrays of NumPy or of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.core import Tracer

from dynascope import checks


def relative_spectrum(values: Any) -> Any:
    """σ/σ₁: the spectrum relative to its largest value, in descending order.

    Args:
        values: Singular values `(..., singular)`, not negative.
    """
    values = checks.array("values", values, min_ndim=1)
    if not isinstance(values, Tracer) and np.any(np.asarray(values) < 0):
        raise ValueError(f"values must be singular values, which are not negative; got {checks.shown(values)}")
    values = values if jnp.issubdtype(values.dtype, np.floating) else values.astype(float)
    falling = -_numpy(values).sort(-values, axis=-1)
    return falling / falling[..., :1]


def stable_rank(values: Any) -> Any:
    """Σσ²/σ₁², between 1 and the rank. NaN if all σ are zero.

    Args:
        values: Singular values `(..., singular)`.
    """
    return (relative_spectrum(values) ** 2).sum(-1)


def effective_rank(values: Any) -> Any:
    """exp of the entropy of the shares σ²/Σσ²: the number of equal values that have the same entropy. NaN if all σ are
    zero.

    Args:
        values: Singular values `(..., singular)`.
    """
    xp = _numpy(values)
    shares = relative_spectrum(values) ** 2
    shares = shares / shares.sum(-1)[..., None]
    return xp.exp(-(shares * xp.log(xp.where(shares > 0, shares, 1))).sum(-1))


def count_above(values: Any, share: float = 0.1) -> Any:
    """How many σ are above a share of σ₁. NaN if all σ are zero.

    Args:
        values: Singular values `(..., singular)`.
        share: The share of σ₁.
    """
    checks.real("share", share, at_least=0, at_most=1)
    relative = relative_spectrum(values)
    count = (relative > share).sum(-1).astype(relative.dtype)
    return _numpy(relative).where(relative[..., 0] > 0, count, np.nan)


def energy_rank(values: Any, share: float = 0.9) -> Any:
    """The smallest number of directions that hold a share of Σσ². NaN if all σ are zero.

    Args:
        values: Singular values `(..., singular)`.
        share: The share of Σσ².
    """
    checks.real("share", share, at_least=0, at_most=1)
    xp = _numpy(values)
    energy = xp.cumsum(relative_spectrum(values) ** 2, axis=-1)
    count = (energy < share * energy[..., -1:]).sum(-1).astype(energy.dtype) + 1
    return xp.where(energy[..., -1] > 0, count, np.nan)


def _numpy(values: Any) -> Any:
    return jnp if isinstance(values, jax.Array) else np


def read(statistic: Callable[[Any], Any], values: xr.DataArray, dim: str = "singular") -> xr.DataArray:
    """Apply one of the ranks above along a dimension of a trace.

    Args:
        statistic: A function of singular values, such as `stable_rank`.
        values: Singular values with the dimension `dim`.
        dim: The dimension to reduce.

    Returns:
        The statistic, without the dimension `dim`.
    """
    return xr.apply_ufunc(statistic, values, input_core_dims=[[dim]])


def rise_steps(values: xr.DataArray, share: float = 0.2, *, dim: str = "singular") -> xr.DataArray:
    """The first step at which each σ is above a share of the largest one of the whole run. NaN if a value never rises
    above it.

    In descending order no component rises before the one above it.

    Args:
        values: Singular values with the dimensions `step` and `dim`.
        share: The share of the largest value.
        dim: The dimension of the singular values.
    """
    checks.real("share", share, above=0, at_most=1)
    known = isinstance(values, xr.DataArray) and isinstance(dim, str) and {"step", dim} <= set(values.dims)
    if not known:
        raise TypeError(
            f"values must be a DataArray over 'step' and dim={checks.shown(dim)}; got {checks.shown(values)}"
        )
    risen = values > share * values.max(["step", dim])
    first = values.step.where(risen, np.inf).min("step")
    return first.where(np.isfinite(first))


def summary(values: xr.DataArray, dim: str = "singular") -> xr.Dataset:
    """Stable rank, effective rank, σ above a tenth of the largest, and directions for 90 % and 99 % of the energy.

    Args:
        values: Singular values with the dimension `dim`.
        dim: The dimension to reduce.

    Returns:
        A dataset with `stable_rank`, `effective_rank`, `above_tenth`, `energy_90` and `energy_99`.
    """
    statistics = {
        "stable_rank": stable_rank,
        "effective_rank": effective_rank,
        "above_tenth": count_above,
        "energy_90": energy_rank,
        "energy_99": lambda values: energy_rank(values, 0.99),
    }
    return xr.Dataset({name: read(statistic, values, dim) for name, statistic in statistics.items()})
