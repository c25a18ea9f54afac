"""Ranks of attention heads during training: recording, readings and claims.

The measured quantity is the change of the products W_K W_Qᵀ and W_V W_Oᵀ of each head since initialization, the gain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

import numpy as np
import xarray as xr
from jaxtyping import Array, Bool, Int, PRNGKeyArray
from scipy.stats import rankdata

import dynascope as ds
from dynascope import curves
from dynascope.lab.claims import Claim
from dynascope.lab.criteria import About, above, below, every
from dynascope.lab.experiment import Claims
from dynascope.probes.probe import Probe
from dynascope.probes.spectra import HEADS, perturbation_spectrum, product_spectrum

SINGLE = "The mean over layers: in quick a single layer of a single seed may not grow."
NAMES = {"key-query": "W_K W_Qᵀ", "value-output": "W_V W_Oᵀ"}


def head_probes(key: PRNGKeyArray, steps: int, random: bool | Bool[Array, ""]) -> dict[str, Probe]:
    """The singular values of each product's gain (or of noise of that size, if `random`) as `spectrum`, of the product
    itself at initialization as `initial`, and of noise of the size of the final gain as `null`."""

    def pairs(model: ds.models.ViT | ds.models.GPT) -> ds.models.Products:
        return model.products()

    initial = (*HEADS[:-1], "initial_singular")
    return {
        "spectrum": perturbation_spectrum(pairs, null=key, noisy=random),
        "initial": product_spectrum(pairs, every=(0,), dims=initial),
        "null": perturbation_spectrum(pairs, every=(steps,), null=key),
    }


def record_steps(steps: int, per_epoch: int, count: int) -> Int[np.ndarray, " recorded"]:
    """About `count` steps to record: a fifth of them evenly in the logarithm within the first epoch, then evenly."""
    first = np.geomspace(1, max(per_epoch, 2), max(count // 5, 2))
    rest = np.linspace(per_epoch, steps, count - len(first))
    return np.union1d([0], np.rint(np.concatenate([first, rest]))).clip(0, steps).astype(np.int32)


def with_epochs(trace: xr.Dataset, per_epoch: int) -> xr.Dataset:
    """The trace with epochs beside steps, layers numbered from 1, and no axes of single steps."""
    trace = trace.squeeze(["initial_step", "null_step"], drop=True)
    layers = np.arange(trace.sizes["layer"]) + 1
    return trace.assign_coords(layer=layers, epoch=("step", trace.step.values / per_epoch))


def read_ranks(trace: xr.Dataset, since: str = "epoch 1") -> xr.Dataset:
    """Readings of the spectra, mean over the heads of a layer: stable ranks of the gain along the run (`gained`),
    in the first record of epoch 1 (`early`) and at the end (`late`), of the product at initialization (`initial`) and
    of noise (`null`); numbers of singular values above a tenth of the largest (`count_early`, `count_late`,
    `count_initial`); and Spearman's correlation of the gain, mean over layers, with the step (`rise`)."""
    first = int(np.argmin(np.abs(trace.epoch.values - 1.0)))

    def read(statistic: Callable[[Any], Any], name: str, dim: str = "singular") -> xr.DataArray:
        return curves.spectra.read(statistic, trace[name], dim).mean("head")

    found: dict[str, xr.DataArray] = {}
    gained, count = (read(statistic, "spectrum") for statistic in (curves.stable_rank, curves.count_above))
    for name, values in (("", gained), ("count_", count)):
        found |= {f"{name}early": values.isel(step=first, drop=True), f"{name}late": values.isel(step=-1, drop=True)}
    found["count_initial"] = read(curves.count_above, "initial", "initial_singular")
    found |= {
        "initial": read(curves.stable_rank, "initial", "initial_singular"),
        "null": read(curves.stable_rank, "null"),
    }
    return xr.Dataset(found | {"gained": gained, "rise": rises(gained.mean("layer"))}).assign_attrs(
        trace.attrs, since=since
    )


def rises(values: xr.DataArray, skip: float = 0.05) -> xr.DataArray:
    """Spearman's correlation with the step, over all but the first share `skip` of the steps."""
    late = values.where(values.step >= skip * values.step.max(), drop=True)

    def ranked(x: xr.DataArray) -> xr.DataArray:
        step = [["step"]]
        return xr.apply_ufunc(lambda x: rankdata(x, axis=-1), x, input_core_dims=step, output_core_dims=step)

    return xr.corr(ranked(late), ranked(late.step), "step")


def low_rank(reduced: xr.Dataset, product: str, limit: float, **about: Unpack[About]) -> Claim:
    """At the end every layer's gain has a stable rank (mean over heads) below this share of the product's own."""
    one = reduced.sel(product=product)
    statement = f"The gain of {NAMES[product]} ends with a low stable rank, as a share of the product's own at the "
    statement += f"start (every layer, mean over heads; {reduced.attrs['data']})"
    return below(f"low-rank-{product}", statement, one.late / one.initial, limit, **about)


def grows(reduced: xr.Dataset, product: str, factor: float = 1.0, from_layer: int = 1, **about: Unpack[About]) -> Claim:
    """From the first record of epoch 1 on the stable rank of the gain, mean over layers, grows by this factor."""
    one = reduced.sel(product=product, layer=slice(from_layer, None))
    layers = "layers" if from_layer == 1 else f"layers from {from_layer} on"
    statement = (
        f"The gain of {NAMES[product]} grows in stable rank from {reduced.attrs['since']} on (factor, mean over "
    )
    statement += f"{layers} and heads)"
    about["shown"] = {"each layer, mean over seeds": (one.late / one.early).mean("seed")}
    about.setdefault("post_hoc", SINGLE)
    return above(f"grows-{product}", statement, one.late.mean("layer") / one.early.mean("layer"), factor, **about)


def gradual(reduced: xr.Dataset, product: str, limit: float = 0.8, **about: Unpack[About]) -> Claim:
    """The mean over layers rises with the step."""
    statement = f"The stable rank of the gain of {NAMES[product]}, mean over layers, rises with the step (Spearman)"
    return above(f"gradual-{product}", statement, reduced.rise.sel(product=product), limit, **about)


def unlike_noise(reduced: xr.Dataset, **about: Unpack[About]) -> Claim:
    """Noise of the same size in the same factors has a much larger stable rank."""
    one = reduced.sel(product="key-query")
    statement = "Noise as large as the change of each matrix gives the gain of W_K W_Qᵀ a higher stable rank (factor)"
    return above("unlike-noise", statement, one.null / one.late, 2.0, **about)


def directions(reduced: xr.Dataset, product: str, **about: Unpack[About]) -> Claims:
    """The number of singular values above a tenth of the largest grows, and stays below that at initialization."""
    one = reduced.sel(product=product)
    early, late = one.count_early.mean("layer"), one.count_late.mean("layer")
    what = f"The number of singular values of the gain of {NAMES[product]} above a tenth of the largest"
    shown = {"epoch 1": one.count_early.mean("seed"), "end": one.count_late.mean("seed")}
    about["shown"] = shown
    statement = f"{what} grows from epoch 1 to the end (mean over layers and heads)"
    yield every(f"directions-{product}", statement, late > early, **about)
    statement = f"{what} ends below that of the product at initialization, in every layer (ratio)"
    yield below(f"fewer-directions-{product}", statement, one.count_late / one.count_initial, 1.0, **about)
