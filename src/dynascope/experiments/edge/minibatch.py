"""SGD at its own edge of stability: the curvature along the gradients of batches."""

from __future__ import annotations

from typing import Annotated

import jax
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.documents import STOCHASTIC_EDGE
from dynascope.experiments.edge.optimizer_drawing import COLORS, draw_seeds
from dynascope.experiments.edge.ten_digits import CHOSEN, TenDigits, network
from dynascope.figures import THEORY, panels
from dynascope.lab.criteria import agrees, below, rising
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.theory.edge import optimizer_edges

ORDER = 1_000_000
"""Added to a member's seed, for the key that draws its batches."""


class BatchDescent(ds.Member):
    """An ensemble member: SGD with batches of one size."""

    batch: int
    draws: int
    width: int
    depth: int

    def __call__(self, seed: Array, rate: Array, x: Array, y: Array) -> ds.Descent:
        probes = {
            "loss": ds.probes.loss(),
            "sharpness": ds.probes.sharpness(),
            "batch_sharpness": ds.probes.batch_sharpness(self.batch, draws=self.draws),
        }
        model, optimizer = network(seed, self.width, self.depth, x.shape[1]), optax.sgd(rate)
        key, task = jax.random.key(seed + ORDER), ds.tasks.Supervised("mse")
        return ds.Descent(model, task, optimizer, data=(x, y), batch=self.batch, key=key, probes=probes)


class Minibatch(TenDigits):
    """Does SGD hold the batch sharpness at 2/η, and the sharpness of the full loss below it?"""

    id = "edge.minibatch"
    source = Source(STOCHASTIC_EDGE, "Section 1")
    cost = {"quick": 30, "full": 90}
    presets = {"quick": {"seeds": 2}}
    control = {"learning_rate": 0.02}
    notes = """A tanh network learns ten digits from small images, mean squared error, in batches whose order is drawn
    anew every epoch. The batch sharpness is E[g·Hg] / E[|g|²], with the gradient g and the Hessian H of the same batch;
    with all images as one batch it is the curvature along the gradient. Numbers are medians over the second half of the
    run. In the control the rate is so small that the edge is far above."""

    batches: Annotated[tuple[PositiveInt, ...], Field(min_length=2)] = (8, 32)
    """Sizes of the batches; all images in one batch are run beside them."""
    learning_rate: float = Field(2.0, gt=0)
    draws: int = Field(64, ge=2)
    """Batches in an estimate of the batch sharpness."""

    def measure(self, seed: int) -> xr.Dataset:
        number = np.dtype(self.precision).type
        over, fixed = {"seed": member_seeds(seed, self.seeds)}, {**self.examples(), "rate": number(self.learning_rate)}
        sizes, parts = (*self.batches, self.samples), []
        for batch in sizes:
            member = BatchDescent(batch, self.draws, self.width, self.depth)
            parts.append(ds.ensemble(member, over, steps=self.steps, record=self.record, fixed=fixed).trace)
        return xr.concat(parts, "batch").assign_coords(batch=list(sizes))

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        return xr.Dataset({"edge": optimizer_edges.gradient_descent(self.learning_rate)})

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        ratio, full = measured.batch_sharpness / predicted.edge, measured.sharpness / predicted.edge
        reached = (ratio >= 1).cumsum("step") > 0
        return xr.Dataset(
            {
                "hover": self.late(ratio),
                "sharpness": self.late(full),
                "early": ratio.where(ratio.step <= self.steps / 10).min("step"),
                "fall": measured.loss.isel(step=-1) / measured.loss.where(reached).max("step"),
            }
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        batches = reduced.isel(batch=slice(None, -1))
        statement = "SGD ends with the batch sharpness at 2/η, with every batch size: ratio"
        yield agrees("batch-sharpness-at-the-edge", statement, batches.hover, 1.0, relative=0.2, post_hoc=CHOSEN)
        statement = "The sharpness of the full loss stays below 2/η: ratio"
        yield below("sharpness-below", statement, batches.sharpness, 0.9)
        statement = (
            "Smaller batches end flatter: mean ratio of the sharpness to 2/η, with more and more images in a batch"
        )
        yield rising("smaller-is-flatter", statement, reduced.sharpness.mean("seed"), along="batch")
        statement = "With all images in a batch the sharpness itself is at 2/η: ratio"
        yield agrees("full-batch", statement, reduced.sharpness.isel(batch=-1), 1.0, relative=0.1)
        statement = (
            "The batch sharpness comes from below: its least value in the first tenth of the run is under half of 2/η"
        )
        yield below("sharpens", statement, batches.early, 0.5)
        statement = (
            "At the edge training goes on: the loss at the end, over its largest value since the edge was reached"
        )
        yield below("loss-falls", statement, batches.fall, 0.5)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        sizes = measured.batch.values
        figure, axes = panels(len(sizes), size=(4.4, 3.6), sharey=True)
        for panel, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
            one = measured.sel(batch=size)
            draw_seeds(axis, one.batch_sharpness / predicted.edge, COLORS[0], "batch sharpness")
            draw_seeds(axis, one.sharpness / predicted.edge, COLORS[1], "sharpness of the full loss")
            axis.axhline(1, **THEORY)
            title = f"{size} images in a batch" if size < self.samples else "All images: gradient descent"
            axis.set(xlabel="step", title=title, ylim=(0, 2))
            if panel == 0:
                axis.set_ylabel("curvature, over 2/η")
                axis.legend(loc="upper right")
        return {"minibatch": figure}
