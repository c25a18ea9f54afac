"""Claims about stable ranks that the vision and language experiments share."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import xarray as xr

from dynascope import curves
from dynascope.experiments.rank.head_spectra import ranks, rises
from dynascope.lab.claims import Claim, claim, share_of

NAMES = {"key-query": "W_K W_Qᵀ", "value-output": "W_V W_Oᵀ"}


def _of_seeds(holds: xr.DataArray) -> list[bool]:
    """For each seed, whether it holds in all that is left (layers, products)."""
    return holds.all([dim for dim in holds.dims if dim != "seed"]).values.tolist()


def low_rank(trace: xr.Dataset, source: str, product: str, limit: float) -> Claim:
    """At the end every layer's gain has a stable rank (mean over heads) below this share of the product's own."""
    found = ranks(trace).sel(product=product, drop=True)
    share = found.gained.isel(step=-1) / found.initial
    holds = _of_seeds(share < limit)
    noise = "Noise of the same size in place of what was learned is not of low rank."
    return claim(
        f"low-rank-{product}", f"At the end the stable rank of what {NAMES[product]} has gained is below {limit:.2g} "
        f"of its own at the start, in every layer (mean over heads; {trace.attrs['data']})",
        source=source, measured=share_of(holds) | {"share of the start": share.mean("seed")},
        expected="in every seed", holds=all(holds), seeds=trace.sizes["seed"],
        diagnosis="" if all(holds) else noise if trace.attrs["perturbation"] == "random" else
        f"It holds in {float((share < limit).mean()):.0%} of layers and seeds.",
    )  # fmt: skip


def grows(
    trace: xr.Dataset, source: str, factor: float, since_epoch: float = 1.0, layers: slice | None = None
) -> Iterable[Claim]:
    """From `since_epoch` on each layer's stable rank grows, by at least this factor, and it does so gradually."""
    found = ranks(trace).gained.sel(layer=layers or slice(None))
    begin = int(np.argmin(np.abs(trace.epoch.values - since_epoch)))
    growth = found.isel(step=-1) / found.isel(step=begin)
    of_layers, together = rises(found).mean("seed"), rises(found.mean("layer"))
    for product, name in NAMES.items():
        one = growth.sel(product=product, drop=True)
        enough = one > 1 if factor == 1 else one >= factor
        holds, said = _of_seeds(enough), "" if factor == 1 else f", at least {factor:g} times"
        yield claim(
            f"grows-{product}", f"The stable rank of what {name} has gained grows from epoch "
            f"{trace.epoch.values[begin]:.2g} to the end{said}, in every layer (mean over heads)",
            source=source, measured=share_of(holds) | {"factor": one.mean("seed")}, expected="in every seed",
            holds=all(holds), seeds=trace.sizes["seed"],
            diagnosis="" if all(holds) else f"It holds in {float(enough.mean()):.0%} of layers and seeds.",
        )  # fmt: skip
        rising = together.sel(product=product)
        holds = (rising > 0.8).values.tolist()
        yield claim(
            f"gradual-{product}", f"The stable rank of {name}'s gain, mean over layers and heads, rises with the step: "
            "Spearman's correlation, after 5 % of the steps, is above 0.8",
            source=source, expected="in every seed", seeds=trace.sizes["seed"], holds=all(holds),
            measured=share_of(holds) | {"seeds": rising, "each layer, mean over seeds": of_layers.sel(product=product)},
            diagnosis="" if all(holds) else "It rises fast and then stays, or falls a little, as the rate decays.",
        )  # fmt: skip


def net_growth(trace: xr.Dataset, source: str, product: str, from_layer: int) -> Claim:
    """From epoch 1 (in a text: from the step `since`) to the end, in every layer from `from_layer` on."""
    found = ranks(trace).gained.sel(product=product, layer=slice(from_layer, None))
    begin = int(np.argmin(np.abs(trace.epoch.values - 1.0)))
    growth = found.isel(step=-1) / found.isel(step=begin)
    holds = _of_seeds(growth > 1)
    return claim(
        f"grows-{product}", f"The stable rank of what {NAMES[product]} has gained grows from step "
        f"{int(trace.step[begin])} to the end, in every layer from {from_layer} on (mean over heads)",
        source=source, measured=share_of(holds) | {"factor": growth.mean("seed")}, expected="in every seed",
        holds=all(holds), seeds=trace.sizes["seed"],
        diagnosis="" if all(holds) else f"It holds in {float((growth > 1).mean()):.0%} of layers and seeds.",
    )  # fmt: skip


def unlike_noise(trace: xr.Dataset, source: str, factor: float = 2.0) -> Claim:
    """Noise of the same size in the same factors has a much larger stable rank."""
    found = ranks(trace)
    ratio = (found.null / found.gained.isel(step=-1)).sel(product="key-query", drop=True)
    holds = _of_seeds(ratio > factor)
    return claim(
        "unlike-noise", f"Noise of the size of the change, matrix by matrix, gives W_K W_Qᵀ a gain of more than "
        f"{factor:g} times the stable rank, in every layer",
        source=source, measured=share_of(holds) | {"ratio": ratio.mean("seed")}, expected="in every seed",
        holds=all(holds), seeds=trace.sizes["seed"],
        diagnosis="" if all(holds) else "The change is not of much lower rank than noise.",
    )  # fmt: skip


def directions(trace: xr.Dataset, source: str) -> Iterable[Claim]:
    """The number of singular values above a tenth of the largest grows, and stays below that of the start."""
    count = curves.spectra.read(curves.count_above, trace.spectrum).mean("head")
    initial = curves.spectra.read(curves.count_above, trace.initial, "initial_singular").mean("head")
    early, late = count.isel(step=int(np.argmin(np.abs(trace.epoch.values - 1.0)))), count.isel(step=-1)
    for product, name in NAMES.items():
        first, last, start = (part.sel(product=product, drop=True) for part in (early, late, initial))
        holds = _of_seeds((last.mean("layer") > first.mean("layer")) & (last < start).all("layer"))
        yield claim(
            f"directions-{product}", f"The number of singular values of {name}'s gain above a tenth of the largest "
            "grows from epoch 1 to the end (mean over layers and heads) and ends below the start's in every layer",
            source=source, expected="in every seed", holds=all(holds), seeds=trace.sizes["seed"],
            measured=share_of(holds) | {"epoch 1": first.mean("seed"), "end": last.mean("seed"),
                                        "start": start.mean("seed")},
            diagnosis="" if all(holds) else "Of noise as many directions count as of the start, from the first step on."
            if trace.attrs["perturbation"] == "random" else "See the numbers of each layer.",
        )  # fmt: skip
