"""Figure 4.9, Table 4.1, C.18 to C.22: stochastic gradient descent with smaller and smaller batches."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Array, Float
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator
from scipy.special import stdtrit

import dynascope as ds
from dynascope.curves import spikes
from dynascope.dynamics import rates
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.catapult.deep_experiment import Network
from dynascope.experiments.documents import OVER_PARAMETERIZED
from dynascope.experiments.features.batch_experiment import BatchExperiment
from dynascope.experiments.features.feature_drawing import draw_outcomes, draw_progress
from dynascope.experiments.features.feature_experiment import DATA, PILOT
from dynascope.experiments.features.outcomes import correlated, larger, outcomes, results, with_results
from dynascope.experiments.idle_fields import refuse_idle
from dynascope.lab.criteria import above, below, falling, rising
from dynascope.lab.experiment import Claims, Figures, Source

NONE = 0.005
"""The share of super-critical steps below which they are taken to be irrelevant."""
PRINTED = {2000: (0.81, 0.74), 50: (0.84, 0.71), 10: (0.89, 0.59), 5: (0.95, 0.42)}
"""Table 4.1: alignment and test loss by batch size."""
PRINTED_DIM, PRINTED_RUNS = 100, 3
"""Its dimension, and the runs that it is the mean of."""
SPIKE = 1.3
"""A step that raises the loss on all the data by more than this factor is a spike."""
STANDARD = {"parameterization": "standard", "bias": True}
IMAGES = {"every_step": False, "spike_steps": 0}


class SpikeLearner(ds.Member):
    """An ensemble member: small batches at a constant rate, with the loss split by the top eigenvector of the kernel of
    all the data at every step."""

    network: Network
    batch: int

    def __call__(self, seed: tuple[Array, Array, Array, Array]) -> ds.Descent:
        number, rate, x, y = seed
        probes = {"loss": ds.probes.loss(), "kernel": ds.probes.kernel_norm(x, y, splits=(1,))}
        key, task, optimizer = jax.random.key(number), ds.tasks.Supervised("mse"), rates.scheduled(lambda _: rate)
        model, order = self.network(key, x.shape[1:]), jax.random.fold_in(key, 1)
        return ds.Descent(model, task, optimizer, data=(x, y), batch=self.batch, key=order, probes=probes)


def top_shares(loss: Float[np.ndarray, "seed step"], top: Float[np.ndarray, "seed step"]) -> np.ndarray:
    """For every spike of every seed, the share of the rise of the loss that lies along the top eigenvector."""
    loss = np.where(np.isfinite(loss), loss, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (np.diff(top, axis=-1) / np.diff(loss, axis=-1))[spikes(loss, SPIKE)[..., 1:]]


class SmallBatchesTeachFeatures(BatchExperiment):
    """Do smaller batches, whose critical rates are exceeded more often, learn better features at the same rate?"""

    id = "features.batch-size"
    source = Source(OVER_PARAMETERIZED, "Figure 4.9, Table 4.1, Figures C.18 to C.22")
    cost = {"quick": 12, "full": 2400}
    presets = {
        "quick": {"dim": 20, "samples": 240, "held_out": 500, "width": 128}
        | {"batches": (4, 20, 240), "steps": (2000, 1000, 800), "spike_steps": 60, "spike_seeds": 2},
        "table-4.1": {"batches": (5, 10, 50, 2000), "steps": (6000, 6000, 4000, 4000), "seeds": 3},
        "rank-3": DATA["rank-3"],
        "rank-4": DATA["rank-4"],
        "svhn": DATA["all-svhn"] | IMAGES,
        "celeba": DATA["all-celeba"] | {"spike_steps": 0},
        "standard": STANDARD | {"rate": 0.01},
        "standard-rank-3": DATA["rank-3"] | STANDARD | {"rate": 0.01},
        "standard-svhn": DATA["all-svhn"] | IMAGES | STANDARD | {"rate": 0.05},
        "standard-celeba": DATA["all-celeba"] | STANDARD | {"rate": 1.0, "spike_steps": 0},
        "usps": DATA["usps"] | {"flips": 0.1, "samples": 1900, "batches": (5, 10, 50, 100, 1900)},
        "fashion-mnist": DATA["fashion-mnist"] | {"flips": 0.1},
    }
    control = {"data": "full-rank", "architecture": "fcn", "flips": 0.0}
    known_failures = {
        "full/super-critical": "With batches of 50, of 100 and with all the data no step is super-critical at half the "
        "critical rate: there is nothing to increase between them.",
        "full/only-by-catapults": "Batches of 50 align better than all the data in every seed, by 0.01 of 0.13 in all, "
        "without a super-critical step: the noise of small batches helps beside catapults.",
    }
    notes = """The rate is half the critical rate of the whole training set at the start; a step is super-critical if
    the rate exceeds the critical rate of its batch (for gradient descent this is measured at the recorded steps only).
    Test loss and alignment are those of the recorded iterate with the best validation loss, up to a training loss of
    1e-3. Smaller batches also take noisier steps, which this comparison does not separate from catapults: if a batch
    size without super-critical steps is better than gradient descent, `only-by-catapults` says so. The presets
    `standard` (Figures C.18 and C.20) have absolute rates, as the document does there. `svhn` (Myrtle-5 of 256
    channels) and `celeba` take all training examples, with the critical rate of 5000 of them, as in the document, and
    are for a GPU; their numbers of steps are those of the synthetic data. USPS has 1925 training examples of its two
    classes, so its preset takes 1900 instead of the document's 2000. A spike is a step that raises the loss on all the
    data by a factor of 1.3. In the control no direction of the input matters more than others."""

    ratio: float = Field(0.5, gt=0)
    """Learning rate over the critical rate of all the data at the start."""
    rate: float | None = Field(None, gt=0)
    """An absolute learning rate instead."""
    every_step: bool = True
    """Measure the critical rate of the batch at every step; or only at the recorded ones, which costs less."""
    spike_steps: NonNegativeInt = 300
    """Number of first steps with the smallest batch at which the kernel of all the data is measured."""
    spike_seeds: PositiveInt = 1
    """In how many seeds."""

    @model_validator(mode="after")
    def _one_of_two_rates(self) -> Any:
        if self.rate is not None:
            refuse_idle(self, ["ratio"], "where rate is given")
        return self

    def measure(self, seed: int) -> xr.DataTree:
        """`training`: all batch sizes; `spikes`: the first steps with the smallest one."""
        given = self.problem(seed, self.flips)
        critical = self.critical_at_start(given, seed)
        rate = self.ratio * critical if self.rate is None else np.full(self.seeds, self.rate, np.float32)
        trace = self.train(given, [rate], seed, stretch=(1,), every_step=self.every_step).isel(ratio=0, drop=True)
        trace = trace.assign(critical=("seed", critical))
        found = {"training": given.label(trace)}
        if self.spike_steps:
            few = slice(0, self.spike_seeds)
            members = (member_seeds(seed, self.seeds)[few], rate[few].astype(np.float32), given.x[few], given.y[few])
            learner = SpikeLearner(self.network(), self.batches[0])
            found["spikes"] = ds.ensemble(learner, {"seed": members}, steps=self.spike_steps, record=1).trace
        return xr.DataTree.from_dict(found)

    def reduce(self, measured: xr.DataTree, predicted: None) -> xr.Dataset:
        reduced = super().reduce(measured["training"].to_dataset(), None)
        if self.spike_steps:
            runs = measured["spikes"].to_dataset()
            shares = top_shares(runs.loss.values, runs.kernel_top.isel(split=0).values)
            reduced["spike_share"] = ("spike", shares)
        return reduced

    def judge(self, reduced: xr.Dataset) -> Claims:
        found = with_results(reduced)
        small, large = found.isel(batch=0), found.isel(batch=-1)
        sizes = f"Batches of {self.batches[0]} rather than {self.batches[-1]}"
        printed = {"Table 4.1, alignment": [PRINTED.get(batch, (np.nan,))[0] for batch in self.batches]}
        printed["Table 4.1, test loss"] = [PRINTED.get(batch, (np.nan,))[-1] for batch in self.batches]
        shown = outcomes(found) | (printed if self.data == "rank-2" else {})
        statement = f"{sizes} end better aligned with the target ({reduced.attrs['data']})"
        yield larger("alignment", statement, small.alignment, large.alignment, shown=shown, post_hoc=PILOT)
        yield larger("test-loss", f"{sizes} end with a lower test loss", large.test, small.test, post_hoc=PILOT)
        means = found[["alignment", "test", "supercritical_share"]].mean("seed")
        statement = "The smaller the batch, the better the alignment, mean over the seeds"
        yield falling("order-alignment", statement, means.alignment, along="batch", post_hoc=PILOT)
        statement = "The smaller the batch, the lower the test loss, mean over the seeds"
        yield rising("order-test-loss", statement, means.test, along="batch", post_hoc=PILOT)
        statement = "The smaller the batch, the larger the share of super-critical steps up to the best iterate"
        printed = "as the batch size decreases, (1) the number of catapults increases"
        yield falling("super-critical", statement, means.supercritical_share, along="batch", printed=printed)
        least = means.supercritical_share.diff("batch").max()
        statement = "It never grows with the batch: the largest growth of that share from one size to the next"
        yield below("super-critical-no-more", statement, least, 1e-9)
        if printed_here := [batch for batch in self.batches if batch in PRINTED and self.dim == PRINTED_DIM]:
            yield from self._judge_table(found.sel(batch=printed_here))
        yield correlated(found)
        if "spike_share" in reduced:
            statement = (
                f"With batches of {self.batches[0]}, spikes of the loss rise along the kernel's top eigenvector (share)"
            )
            shown, seeds = {"spikes": reduced.sizes["spike"]}, min(self.spike_seeds, self.seeds)
            about = {"source": "Figure C.22", "shown": shown, "seeds": seeds}
            yield above("spikes", statement, reduced.spike_share, median=0.8, **about)
        quiet = (found.supercritical_share.isel(batch=slice(None, -1)) < NONE).all("seed")
        if quiet.any():
            one = found.isel(batch=int(quiet.argmax("batch")))
            statement = (
                f"Batches of {int(one.batch)}, hardly ever super-critical, align no better than {self.batches[-1]}"
            )
            chosen = f"The share below which super-critical steps play no part, {NONE:g}, was set after seeing results."
            said = "a smaller batch size leads to more catapults which in turn improves the test performance through "
            said += "alignment with the AGOP"
            yield larger("only-by-catapults", statement, large.alignment, one.alignment, post_hoc=chosen, printed=said)
        yield results(reduced)
        yield from self.on_the_reference(reduced)

    def _judge_table(self, found: xr.Dataset) -> Claims:
        """Whether the printed means of three runs are compatible with those of three further runs."""
        spread = float(stdtrit(found.sizes["seed"] - 1, 0.975)) * np.sqrt(1 / found.sizes["seed"] + 1 / PRINTED_RUNS)
        for place, (id, name) in enumerate((("table-alignment", "alignment"), ("table-test-loss", "test"))):
            means = np.array([PRINTED[batch][place] for batch in found.batch.values.tolist()])
            one = found[name].transpose("batch", "seed")
            apart = np.abs(one.mean("seed") - means) / (spread * one.std("seed", ddof=1))
            statement = f"The printed {('alignments', 'test losses')[place]} are what three further runs would give: "
            statement += "their distance from the mean over half the 95 % prediction interval, by batch size"
            about: dict[str, Any] = {"source": "Table 4.1", "shown": {"mean": one.mean("seed"), "printed": means}}
            yield below(id, statement, apart, 1, printed="AGOP alignment, test loss", **about)

    def draw(self, measured: xr.DataTree, predicted: None, reduced: xr.Dataset) -> Figures:
        return {
            "batch-size": draw_outcomes(reduced, "batch", "batch size"),
            "curves": draw_progress(measured["training"].to_dataset(), "batch", "batch"),
        }
