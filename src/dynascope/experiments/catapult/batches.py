"""Figure 4.6, Table 4.2, Figure C.1: a batch whose critical rate is below the rate in use, and what its step does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.experiments.catapult.batches_drawing import draw_batches
from dynascope.experiments.catapult.deep_experiment import Network, mean_squares
from dynascope.experiments.catapult.sgd_experiment import (
    TRAINED,
    StochasticExperiment,
    batch_loss,
    batch_rates,
    constant,
    spikes_of,
    stochastic,
)
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Source
from dynascope.probes.probe import Probe, Snapshot, probe

PRINTED = {("fcn", 2): 0.9732, ("fcn", 5): 0.9617, ("cnn", 5): 0.9467}
"""Match rates of Table 4.2, by architecture and depth."""
MATCH = 0.9
"""What a match rate must reach to count as the printed one."""
RISES = 10
"""Rises, over all seeds, that are needed to speak of a match rate."""
LOOKS = 10
"""Steps between looks at the Hessian of a batch."""


def batch_sharpness_rate() -> Probe:
    """2 / lambda_max of the Hessian of the coming batch's loss: its critical rate without the tangent kernel."""

    def measure(snapshot: Snapshot) -> Any:
        data = snapshot.batch().data
        pairs = ds.geometry.top_eigenpairs(
            lambda model: mean_squares(model, data), snapshot.model, tolerance=1e-3, max_products=60, dense=0
        )
        return 2 / pairs.values[0]

    return probe(measure, every=LOOKS)


class BatchLearner(eqx.Module):
    """An ensemble member: SGD at `ratio` times the mean critical rate of batches at the start."""

    network: Network
    batch: int = eqx.field(static=True)

    def __call__(self, seed: Array, ratio: Array, x: Array, y: Array) -> ds.Descent:
        for_net, for_order = jax.random.split(jax.random.key(seed))
        model = self.network(for_net, x, y)
        rate = ratio * jnp.mean(batch_rates(model, x, self.batch))
        probes = {
            "loss": ds.probes.loss(),
            "batch_loss": batch_loss(),
            "batch_rate": ds.probes.batch_critical_rate(),
            "hessian_rate": batch_sharpness_rate(),
            "kernel": ds.probes.kernel_norm(x, y, (1, 5)),
            "rate": ds.probes.learning_rate(every=(0,)),
        }
        return stochastic(model, constant(rate), x, y, self.batch, for_order, probes)


class Batches(StochasticExperiment):
    """Does the loss rise in a step of SGD only where the rate is above the critical rate of the batch?"""

    id = "catapult.batches"
    source = Source("Toward Understanding the Dynamics of Over-parameterized Neural Networks",
                    "Figure 4.6, Table 4.2, Figure C.1")  # fmt: skip
    cost = {"quick": 11, "full": 300}
    presets = {
        "quick": {"samples": 64, "batch": 16, "pool": 4, "width": 256, "steps": 250, "seeds": 6},
        "fcn5": {"depth": 5, "high": 1.67},
        "cnn5": {"depth": 5, "architecture": "cnn", "width": 512, "high": 1.78},
    }
    control = {"high": 0.1}
    notes = """Table 4.2 counts the steps at which "the loss" rises and says in how many of them the rate is above the
    critical rate of the batch, b / ‖K(batch)‖. Three numbers are reported: the match where the loss is that of the
    batch itself, before and after its own step; the match where it is the loss on all the data, as the text says; and
    the share of all steps at which the rate is above (what a match by chance would be). The first is nearly a
    tautology: for a linear model the loss of a batch cannot rise below its critical rate. Rates are multiples of the
    mean critical rate of batches at the start; 0.3 and 0.8 stand for the document's 0.1 and 0.8. In the control the
    higher rate is a tenth of it, below every batch's. Steps after the loss has been below 0.001 are not counted. The
    caption of Figure 4.6 splits the loss by the top 5 eigenvectors, the text by the first: both are asked."""

    depth: PositiveInt = Field(2, ge=2)
    low: float = Field(0.3, gt=0)
    high: float = Field(0.8, gt=0)
    """The two rates, over the mean critical rate of batches at the start."""
    steps: PositiveInt = 250

    def measure(self, seed: int) -> xr.Dataset:
        data, number = self.examples(seed), np.dtype(self.precision)
        trace = ds.ensemble(
            BatchLearner(self.network(), self.batch),
            {"ratio": np.asarray([self.high, self.low], number), "seed": self.seed_values(seed)},
            steps=self.steps, record=1, fixed={"x": data.x, "y": data.y}, width=self.side_by_side,
        )  # fmt: skip
        return trace.assign_attrs(data=data.name)

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        high, low, data = measured.isel(ratio=0), measured.isel(ratio=1), measured.attrs["data"]
        own, total, above, counted = rises_of(high)
        enough = own.sum() >= RISES
        match, printed = share_of(above[own]), PRINTED.get((self.architecture, self.depth))
        expected = {"share": MATCH} | ({} if printed is None else {"printed": printed})
        base_rate = above.sum() / counted.sum()
        base = {"rises": int(own.sum()), "base rate": base_rate}
        quiet = "" if enough else "There are hardly any rises: the rate is below the critical rates."
        yield claim(
            "batch-loss-match", f"At {self.high:g} times the mean critical rate the loss of a batch rises in its own "
            f"step at least {RISES} times, in {MATCH:.0%} of them with the rate above its critical rate ({data})",
            source="Table 4.2", measured=match | base, expected=expected,
            holds=enough and match["share"] >= MATCH, seeds=self.seeds,
            diagnosis=quiet or ("" if match["share"] >= MATCH else "Some rises come from the change of the kernel."),
        )  # fmt: skip
        whole = share_of(above[total])
        as_printed = total.any() and whole["share"] >= MATCH
        yield claim(
            "total-loss-match", "Of the steps that raise the loss on all the data, nine in ten have the rate above the "
            "critical rate of the batch", source="Table 4.2", expected=expected,
            measured=whole | {"rises": int(total.sum()), "base rate": base_rate}, holds=as_printed, seeds=self.seeds,
            diagnosis="" if as_printed else "A step for one batch often raises the loss of the others, at any rate: "
            "the printed numbers do not come out for the loss on all the data.",
        )  # fmt: skip
        quiet_below = np.asarray(~rises_of(low)[2].any(axis=1))
        yield claim(
            "below-all", f"At {self.low:g} times the mean critical rate no batch is ever above its own",
            source="Figure 4.6a", expected="share = 1", holds=quiet_below.all(), seeds=self.seeds,
            measured=share_of(quiet_below) | {"least critical rate / rate": lowest(low), "at the higher": lowest(high)},
            diagnosis="" if quiet_below.all() else "While it learns the kernel grows, until some batch's critical rate "
            "falls to the rate in use.",
        )  # fmt: skip
        for top, where in ((5, "in the top 5 eigenvectors"), (1, "along the top eigenvector")):
            spikes = [spike for seed in range(self.seeds) for spike in spikes_of(high.isel(seed=seed), top, 1.3)]
            middle = float(np.median([spike.share for spike in spikes])) if spikes else float("nan")
            yield claim(
                f"spikes-in-the-top-{top}", "Of the spikes of the loss on all the data (more than 1.3 times) nine "
                f"tenths lie {where}, in the median", source="Figure 4.6b", expected="≥ 0.9", holds=middle >= 0.9,
                measured={"median": middle, "spikes": len(spikes)}, seeds=self.seeds,
                diagnosis="" if middle >= 0.9 else "A larger part lies elsewhere." if spikes else "There is none.",
            )  # fmt: skip
        steps = high.hessian_rate_step.values.astype(int)
        ratio = high.hessian_rate.values / high.batch_rate.values[:, steps]
        middle = float(np.median(np.abs(ratio - 1)))
        yield claim(
            "critical-rate-of-the-hessian", "2 / λ_max of the Hessian of a batch is its critical rate b / ‖K‖, to a "
            "tenth in the median", source="Figure C.1", expected="≤ 0.1", holds=middle <= 0.1, seeds=self.seeds,
            measured={"median deviation": middle, "quartiles of the ratio": np.quantile(ratio, (0.25, 0.5, 0.75))},
            diagnosis="" if middle <= 0.1 else "The part of the Hessian that the kernel does not know, residual times "
            "second derivative, is not small at this width.",
        )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        return {"batches": draw_batches(measured, self.high, self.low)}


def rises_of(run: xr.Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """For each seed and step: whether the loss of its batch rose, whether the whole loss did, whether the rate was
    above the batch's critical one; and whether the step counts, because the run is not trained yet."""
    own = run.batch_loss_after.values[:, 1:] > run.batch_loss.values[:, :-1]
    total = np.diff(run.loss.values, axis=1) > 0
    above = (run.rate.values[:, :1] > run.batch_rate.values)[:, :-1]
    untrained = np.logical_and.accumulate(run.loss.values > TRAINED, axis=1)[:, :-1]
    return own & untrained, total & untrained, above & untrained, untrained


def lowest(run: xr.Dataset) -> np.ndarray:
    """The least critical rate of a batch over the rate in use, for each seed."""
    return run.batch_rate.values.min(axis=1) / run.rate.values[:, 0]
