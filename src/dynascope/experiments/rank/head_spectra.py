"""Spectra of all heads during training: which probes record them, when, and what is read off them."""

from __future__ import annotations

import numpy as np
import xarray as xr
from jaxtyping import Array, Bool, PRNGKeyArray
from scipy.stats import rankdata

import dynascope as ds
from dynascope import curves
from dynascope.probes.probe import Probe
from dynascope.probes.spectra import HEADS, perturbation_spectrum, product_spectrum


def head_probes(key: PRNGKeyArray, steps: int, random: Bool[Array, ""]) -> dict[str, Probe]:
    """What the products W_K W_Qᵀ and W_V W_Oᵀ have gained (or noise of that size, if `random`), what they were, and at
    the end the null: noise of the size of what they have gained."""

    def pairs(model: ds.models.ViT | ds.models.GPT) -> ds.models.Products:
        return model.products()

    initial = (*HEADS[:-1], "initial_singular")
    return {
        "spectrum": perturbation_spectrum(pairs, null=key, noisy=random),
        "initial": product_spectrum(pairs, every=(0,), dims=initial),
        "null": perturbation_spectrum(pairs, every=(steps,), null=key),
    }


def looks(steps: int, per_epoch: int, most: int) -> np.ndarray:
    """Steps at which to look: evenly in the logarithm within the first epoch (a fifth of them), then evenly."""
    first = np.geomspace(1, max(per_epoch, 2), max(most // 5, 2))
    rest = np.linspace(per_epoch, steps, most - len(first))
    return np.union1d([0], np.rint(np.concatenate([first, rest]))).clip(0, steps).astype(np.int32)


def of_heads(trace: xr.Dataset, per_epoch: int) -> xr.Dataset:
    """The trace with the single looks squeezed, layers counted from 1, and epochs beside steps."""
    trace = trace.squeeze(["initial_step", "null_step"], drop=True)
    layers = np.arange(trace.sizes["layer"]) + 1
    return trace.assign_coords(layer=layers, epoch=("step", trace.step.values / per_epoch))


def ranks(trace: xr.Dataset) -> xr.Dataset:
    """Stable ranks, mean over the heads of a layer: `gained` along the run, `initial` and `null`."""
    of = {"gained": ("spectrum", "singular"), "initial": ("initial", "initial_singular"), "null": ("null", "singular")}
    return xr.Dataset(
        {
            name: curves.spectra.read(curves.stable_rank, trace[source], dim).mean("head")
            for name, (source, dim) in of.items()
        }
    )


def rises(values: xr.DataArray, skip: float = 0.05) -> xr.DataArray:
    """Spearman's correlation with the step, over all but the first share `skip` of the steps."""
    late = values.where(values.step >= skip * values.step.max(), drop=True)
    ranked = [xr.apply_ufunc(lambda x: rankdata(x, axis=-1), x, input_core_dims=[["step"]], output_core_dims=[["step"]])
              for x in (late, late.step)]  # fmt: skip
    return xr.corr(ranked[0], ranked[1], "step")
