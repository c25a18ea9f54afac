"""Ranks of attention heads during training: what is recorded, what is read off it, and the claims about it.

The measured quantity is what the products W_K W_Qᵀ and W_V W_Oᵀ of each head have gained since initialization.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import xarray as xr
from jaxtyping import Array, Bool, Int, PRNGKeyArray
from scipy.stats import rankdata

import dynascope as ds
from dynascope import curves
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.probes.probe import Probe
from dynascope.probes.spectra import HEADS, perturbation_spectrum, product_spectrum

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


def _at_epoch(trace: xr.Dataset, epoch: float) -> int:
    """The position of the record nearest to this epoch."""
    return int(np.argmin(np.abs(trace.epoch.values - epoch)))


def per_seed(
    id: str, statement: str, source: str, holds: xr.DataArray, measured: dict, diagnosis: str | None = None
) -> Claim:
    """A claim that must hold in every seed, in all layers and products that `holds` has."""
    found = holds.all([dim for dim in holds.dims if dim != "seed"]).values.tolist()
    usual = f"It holds in {float(holds.mean()):.0%} of layers and seeds."
    return claim(
        id, statement, source=source, measured=share_of(found) | measured, expected="in every seed", holds=all(found),
        seeds=holds.sizes["seed"], diagnosis="" if all(found) else diagnosis or usual,
    )  # fmt: skip


def low_rank(trace: xr.Dataset, source: str, product: str, limit: float) -> Claim:
    """At the end every layer's gain has a stable rank (mean over heads) below this share of the product's own."""
    found = ranks(trace).sel(product=product, drop=True)
    share = found.gained.isel(step=-1) / found.initial
    noise = "Noise of the same size, in place of the gain, does not have low rank."
    return per_seed(
        f"low-rank-{product}", f"At the end the stable rank of the gain of {NAMES[product]} is below {limit:.2g} of "
        f"the product's own at initialization, in every layer (mean over heads; {trace.attrs['data']})",
        source, share < limit, {"share of the initial rank": share.mean("seed")},
        noise if trace.attrs["perturbation"] == "random" else None,
    )  # fmt: skip


def grows(trace: xr.Dataset, source: str, factor: float) -> Iterable[Claim]:
    """From epoch 1 on the stable rank of each layer's gain grows, by at least this factor, and does so gradually."""
    found = ranks(trace).gained
    begin = _at_epoch(trace, 1.0)
    growth = found.isel(step=-1) / found.isel(step=begin)
    of_layers, together = rises(found).mean("seed"), rises(found.mean("layer"))
    for product, name in NAMES.items():
        one = growth.sel(product=product, drop=True)
        by = "" if factor == 1 else f", by a factor of at least {factor:g}"
        yield per_seed(
            f"grows-{product}", f"The stable rank of the gain of {name} grows from epoch "
            f"{trace.epoch.values[begin]:.2g} to the end{by}, in every layer (mean over heads)",
            source, one > 1 if factor == 1 else one >= factor, {"factor": one.mean("seed")},
        )  # fmt: skip
        rising = together.sel(product=product)
        yield per_seed(
            f"gradual-{product}", f"The stable rank of the gain of {name}, mean over layers and heads, rises with the "
            "step: Spearman's correlation, after the first 5 % of the steps, is above 0.8",
            source, rising > 0.8,
            {"seeds": rising, "each layer, mean over seeds": of_layers.sel(product=product)},
            "It rises fast and then stays constant, or falls slightly, as the learning rate decays.",
        )  # fmt: skip


def net_growth(trace: xr.Dataset, source: str, product: str, from_layer: int) -> Claim:
    """From epoch 1 (in a text: from the step `since`) to the end, in every layer from `from_layer` on."""
    found = ranks(trace).gained.sel(product=product, layer=slice(from_layer, None), drop=True)
    begin = _at_epoch(trace, 1.0)
    growth = found.isel(step=-1) / found.isel(step=begin)
    return per_seed(
        f"grows-{product}", f"The stable rank of the gain of {NAMES[product]} grows from step "
        f"{int(trace.step[begin])} to the end, in every layer from {from_layer} on (mean over heads)",
        source, growth > 1, {"factor": growth.mean("seed")},
    )  # fmt: skip


def unlike_noise(trace: xr.Dataset, source: str, factor: float = 2.0) -> Claim:
    """Noise of the same size in the same factors has a much larger stable rank."""
    found = ranks(trace)
    ratio = (found.null / found.gained.isel(step=-1)).sel(product="key-query", drop=True)
    return per_seed(
        "unlike-noise", "If the change of each matrix is replaced by noise of the same size, the gain of W_K W_Qᵀ has "
        f"more than {factor:g} times the stable rank, in every layer",
        source, ratio > factor, {"ratio": ratio.mean("seed")},
        "The rank of the change is not much lower than that of noise.",
    )  # fmt: skip


def directions(trace: xr.Dataset, source: str) -> Iterable[Claim]:
    """The number of singular values above a tenth of the largest grows, and stays below that at initialization."""
    count = curves.spectra.read(curves.count_above, trace.spectrum).mean("head")
    initial = curves.spectra.read(curves.count_above, trace.initial, "initial_singular").mean("head")
    early, late = count.isel(step=_at_epoch(trace, 1.0)), count.isel(step=-1)
    noise = "Noise has as many directions as the initialization, from the first step on."
    for product, name in NAMES.items():
        first, last, start = (part.sel(product=product, drop=True) for part in (early, late, initial))
        yield per_seed(
            f"directions-{product}", f"The number of singular values of the gain of {name} above a tenth of the "
            "largest grows from epoch 1 to the end (mean over layers and heads) and ends below that of the product at "
            "initialization in every layer",
            source, (last.mean("layer") > first.mean("layer")) & (last < start).all("layer"),
            {"epoch 1": first.mean("seed"), "end": last.mean("seed"), "initialization": start.mean("seed")},
            noise if trace.attrs["perturbation"] == "random" else "See the numbers of each layer.",
        )  # fmt: skip
