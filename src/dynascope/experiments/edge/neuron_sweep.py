"""The reduced map of the single neuron on grids of K, size and angle: extremes of the quantities in Theorem 3.5."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import lax
from jaxtyping import Array, Float

from dynascope.tasks.single_neuron import Reduced, reduced_start, reduced_step
from dynascope.theory.edge import single_neuron as theory

BASIN = ("basin_product", "basin_gap_below", "basin_gap_above")
HIGHEST = ("bound_ratio", "slope", "slope_rise", "height", "gap_high", "product", "defect", "change_over_K")
HIGHEST += tuple(f"{name}_high" for name in BASIN)
LOWEST = ("growth", "v_over_height", "gap_low", "change", *(f"{name}_low" for name in BASIN))
"""Variables whose largest value over a run is kept, and those whose smallest is."""


def sweep(rates: np.ndarray, sizes: np.ndarray, angles: np.ndarray, steps: int) -> xr.Dataset:
    """For every (K, size, angle): the maximum or minimum of each quantity over a run of `steps` steps. Stage 1 is
    measured from t = 1 to its end, the basin from t = T1 + 4 on."""
    K, size, angle = (jnp.asarray(axis) for axis in np.meshgrid(rates, sizes, angles, indexing="ij"))
    found = _run(K, size, angle, jnp.asarray(steps, jnp.int32))
    names = ("K", "size", "angle")
    return xr.Dataset(
        {name: (names, np.asarray(value)) for name, value in found.items()},
        {"K": rates, "size": sizes, "angle": angles},
    )


@jax.jit
def _run(K: Float[Array, "a b c"], size: Float[Array, "a b c"], angle: Float[Array, "a b c"], steps: Array) -> dict:
    since = theory.growth_steps(size) + 4
    begun = {name: jnp.full_like(K, -jnp.inf) for name in HIGHEST} | {
        name: jnp.full_like(K, jnp.inf) for name in LOWEST
    }

    def step(t: Array, carry: tuple[Reduced, dict[str, Array], Array, Array]) -> tuple:
        here, seen, rising, last_slope = carry
        there = reduced_step(here, K)
        now = t.astype(K.dtype)
        rising = rising & ((t < 1) | theory.in_stage_one(here))
        stage, basin = rising & (t >= 1), now >= since
        v, wx, wy = here["v"], here["wx"], here["wy"]
        product, gap, slope = v * wx, v - wx, wy / wx
        change = -K * (v**2 - v * wy / (jnp.pi * (wx**2 + wy**2)))
        low = product <= 1
        values = {
            "bound_ratio": (basin, wy / theory.height_bound(now, K, size)),
            "slope": (stage, slope),
            "slope_rise": (stage & (t >= 2), slope - last_slope),
            "height": (stage, wy),
            "gap_high": (stage, gap),
            "product": (stage, product),
            "defect": (now >= 0, jnp.abs(theory.update_defect(here, K))),
            "basin_product_high": (basin, product),
            "basin_gap_below_high": (basin & low, gap),
            "basin_gap_above_high": (basin & ~low, gap),
            "change_over_K": (basin, change / K),
            "growth": (stage, there["v"] * there["wx"] / product),
            "v_over_height": (stage, v - wy),
            "gap_low": (stage, gap),
            "basin_product_low": (basin, product),
            "basin_gap_below_low": (basin & low, gap),
            "basin_gap_above_low": (basin & ~low, gap),
            "change": (basin, change),
        }
        found = {}
        for name, (where, value) in values.items():
            better = value > seen[name] if name in HIGHEST else value < seen[name]
            found[name] = jnp.where(where & (better | jnp.isnan(value)), value, seen[name])
        return there, found, rising, slope

    start = reduced_start(size, angle)
    carry = (start, begun, jnp.ones(K.shape, bool), jnp.full_like(K, jnp.inf))
    return lax.fori_loop(jnp.zeros_like(steps), steps, step, carry)[1]
