"""Figures 4.2, 4.3, C.2 to C.5: the spike of a catapult lies in the span of the kernel's top eigenvectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
import xarray as xr
from jaxtyping import Array
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.curves import first_spike
from dynascope.dynamics import rates
from dynascope.experiments.catapult.deep_experiment import DIVERGED, DeepExperiment, Network
from dynascope.experiments.catapult.spikes_drawing import FADED, NORM, REST, TOP, stamp
from dynascope.experiments.seeds import member_seeds
from dynascope.figures import FAINT, INK, panels
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Source

RISE, WINDOW = 1.5, 5
"""A spike begins where the loss is RISE times its lowest value so far, and peaks within WINDOW steps."""
SHARE = 0.9
"""The part of the rise that should lie in the top eigenvectors."""
LARGEST_STEP = 0.2
"""The rest is nearly monotone if no step raises it by more than this share of its initial value."""


class Descender(eqx.Module):
    """An ensemble member: gradient descent at `ratio` times the critical rate at initialization."""

    network: Network
    splits: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, seed: Array, ratio: Array, x: Array, y: Array) -> ds.Descent:
        model = self.network(jax.random.key(seed), x.shape[1:], y.shape[1])
        rate = ratio * ds.geometry.critical_rate(model, x)
        probes = {
            "loss": ds.probes.loss(),
            "kernel": ds.probes.kernel_norm(x, y, self.splits),
            "rate": ds.probes.learning_rate(every=(0,)),
        }
        task = ds.tasks.Supervised("mse")
        return ds.Descent(model, task, rates.scheduled(lambda _: rate), data=(x, y), probes=probes)


class GradientDescent(DeepExperiment):
    """Above the critical rate, is the spike of the loss confined to the kernel's top eigenvectors?"""

    id = "catapult.gradient-descent"
    source = Source("Toward Understanding the Dynamics of Over-parameterized Neural Networks",
                    "Figures 4.2, 4.3, C.2-C.5")  # fmt: skip
    cost = {"quick": 8, "full": 280}
    presets = {
        "quick": {"data": "digits", "pool": 4, "width": 512, "steps": 40, "seeds": 3},
        "cnn": {"architecture": "cnn", "width": 512, "ratio": 1.78},
        "svhn": {"data": "svhn", "classes": (0, 2), "ratio": 1.76},
        "svhn-cnn": {"data": "svhn", "classes": (0, 2), "architecture": "cnn", "width": 512, "ratio": 1.88},
        "rank-2": {"data": "rank-2", "ratio": 2.63},
        "residual": {"architecture": "residual", "depth": 10, "width": 10, "ratio": 2.0},
        "ten-classes": {"classes": (0, 1, 2, 3, 4, 5, 6, 7, 8, 9), "ratio": 2.94, "top": 50, "splits": (10, 30, 50)},
        "ten-classes-cnn": {"classes": (0, 1, 2, 3, 4, 5, 6, 7, 8, 9), "architecture": "cnn", "width": 512,
                            "ratio": 5.0, "top": 50, "splits": (10, 30, 50)},
    }  # fmt: skip
    control = {"ratio": 0.1}
    notes = """Learning rates are multiples of the critical one at the start, n / ‖K‖, since the document's own depend
    on a preprocessing it does not state; the multiples are those its rates have to the critical rates it quotes.
    Images are standardized by channel, labels are ±1, the loss is the mean squared error, weights are in the NTK
    parameterization without biases. The loss is split by the eigenvectors of the kernel of that very step. The main
    claim is on the first spike. Its height is taken over the lowest loss before it, at the controller's 1.5 times (a
    threshold of 1.2 times the start, tried first, misses spikes that come after the loss has fallen). The shares 0.9
    and 0.2 were set before any run. The critical rate is compared with the rate at the end of the first spike: by the
    end of the run convolutional networks at full size have a second one, their kernel having grown again. In the
    control the rate is a tenth of the critical one.

    quick has digits 7 and 9 of 7 x 7 pixels and width 512, chosen after 64 images of 8 x 8 pixels and width 256, where
    the kernel moves more: the rest rose by 0.37 of its start in one seed of three, and half the critical rate was not
    low enough to keep the loss monotone, since the kernel grew until the critical rate fell to the rate in use."""

    ratio: float = Field(1.67, gt=0)
    """The learning rate over the critical one at the start: 6 / 3.6 in Figure 4.3a."""
    below: float = Field(0.5, gt=0)
    """Another ratio to compare with, below 1."""
    splits: tuple[int, ...] = (1, 5)
    """Numbers of eigenvectors at which the loss is split."""
    top: PositiveInt = 5
    """The split that is judged."""
    steps: PositiveInt = 100

    def measure(self, seed: int) -> xr.Dataset:
        data, number = self.examples(seed), np.dtype(self.precision)
        splits = tuple(sorted({*self.splits, self.top}))
        trace = ds.ensemble(
            Descender(self.network(), splits),
            {"ratio": np.asarray([self.ratio, self.below], number), "seed": member_seeds(seed, self.seeds)},
            steps=self.steps, record=1, fixed={"x": data.x, "y": data.y}, width=self.side_by_side,
        ).trace  # fmt: skip
        return trace.assign_attrs(data=data.name)

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        high, low, data = measured.isel(ratio=0), measured.isel(ratio=1), measured.attrs["data"]
        loss, norm, rest = high.loss.values, high.kernel.values, high.kernel_rest.sel(split=self.top).values
        bounded = np.where(np.isfinite(loss) & (loss < DIVERGED * loss[:, :1]), loss, np.inf)
        spike = first_spike(bounded, RISE, within=WINDOW)
        peak, over, end = spike.height(bounded), spike.recovery(bounded), bounded[:, -1] / loss[:, 0]
        share, spiked = spike.share(high.kernel_top.sel(split=self.top).values, loss), peak > RISE
        good = spiked & (end < 1) & (share >= SHARE)
        quiet = "" if spiked.all() else "Some seed has no spike: its rate is too low."
        yield claim(
            "spike-in-the-top", f"At {self.ratio:g} times the critical rate the loss rises to more than {RISE:g} times "
            f"its lowest so far, {SHARE:.0%} of that in the top {self.top} eigenvectors, and ends below its "
            f"start ({data})",
            source="Figure 4.3", expected="share = 1", holds=good.all(), seeds=self.seeds, diagnosis=quiet,
            measured=share_of(good) | {"peak / before": peak, "part in the top": share, "end / start": end},
        )  # fmt: skip
        rest_rise = np.diff(rest, axis=1).max(axis=1) / rest[:, 0]
        calm = rest_rise <= LARGEST_STEP
        yield claim(
            "rest-nearly-monotone", f"The loss outside the top {self.top} never rises in one step by more than "
            f"{LARGEST_STEP:g} of its initial value", source="Claim 1, Figure 4.3", expected="share = 1",
            holds=calm.all(), seeds=self.seeds,
            measured=share_of(calm) | {"largest rise": rest_rise, "at step": np.diff(rest, axis=1).argmax(axis=1) + 1},
            diagnosis="" if calm.all() else "Some spike is not confined to the top. A later one comes after the kernel "
            "has grown again, and its eigenvectors turn during the spike.",
        )  # fmt: skip
        falls = norm[:, -1] < norm[:, 0]
        yield claim(
            "kernel-norm-falls", "The norm of the kernel ends lower than it starts", source="Figure C.2",
            expected="share = 1", holds=falls.all(), seeds=self.seeds, diagnosis="" if falls.all() else quiet,
            measured=share_of(falls) | {"end / start": norm[:, -1] / norm[:, 0]},
        )  # fmt: skip
        allowed = high.kernel_critical_rate.values / high.rate.values
        then = allowed[np.arange(self.seeds), over]
        free = (then > 1) & spiked
        yield claim(
            "critical-rate-passes", "When the loss is back where it was before the spike, the critical rate is above "
            "the rate in use", source="Section 4.3", expected="share = 1", holds=free.all(), seeds=self.seeds,
            measured=share_of(free) | {"critical / rate": then, "at step": over, "at the end": allowed[:, -1]},
            diagnosis="" if free.all() else quiet or "The kernel has not fallen far enough by then.",
        )  # fmt: skip
        rising = np.diff(measured.loss.values, axis=2) > 0.01 * measured.loss.values[:, :, :1]
        above = (measured.rate.values > measured.kernel_critical_rate.values)[:, :, :-1]
        yield claim(
            "rises-above-critical", "Of the steps that raise the loss by a hundredth of its start, at either rate, "
            "nine in ten are taken at a rate above the critical rate of that step", source="Section 4.2",
            seeds=self.seeds, measured=share_of(above[rising]) | {"of all steps": above.mean()}, expected="share ≥ 0.9",
            holds=rising.any() and above[rising].mean() >= 0.9,
            diagnosis="" if rising.any() else "No step raises the loss.",
        )  # fmt: skip
        steps_up = np.diff(low.loss.values, axis=1).max(axis=1) / low.loss.values[:, 0]
        calm = steps_up < 0.01
        yield claim(
            "monotone-below", f"At {self.below:g} times the critical rate no step raises the loss by a hundredth of "
            "its start", source="Section 4.2", expected="share = 1", holds=calm.all(), seeds=self.seeds,
            measured=share_of(calm) | {"largest rise": steps_up},
            diagnosis="" if calm.all() else "The kernel has grown until the critical rate fell to the rate in use.",
        )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        high, low, step, ratios = measured.isel(ratio=0), measured.isel(ratio=1), measured.step, measured.ratio.values
        figure, (loss, split, norm) = panels(3, size=(4.3, 3.5))
        for seed in range(measured.sizes["seed"]):
            style: dict[str, Any] = {"linewidth": 1.6} if seed == 0 else FADED
            loss.semilogy(step, low.loss.isel(seed=seed), color=FAINT, **style)
            loss.semilogy(step, high.loss.isel(seed=seed), color=INK, **style)
            split.semilogy(step, high.kernel_top.sel(split=self.top).isel(seed=seed), color=TOP, **style)
            split.semilogy(step, high.kernel_rest.sel(split=self.top).isel(seed=seed), color=REST, **style)
            norm.plot(step, high.kernel.isel(seed=seed), color=NORM, **style)
            norm.plot(step, low.kernel.isel(seed=seed), color=FAINT, **style)
        loss.plot([], [], color=INK, label=f"{ratios[0]:g} × critical")
        loss.plot([], [], color=FAINT, label=f"{ratios[1]:g} × critical")
        split.plot([], [], color=TOP, label=f"top {self.top}")
        split.plot([], [], color=REST, label="the rest")
        loss.set(xlabel="step", ylabel="loss", title="Loss, all seeds, one bold")
        split.set(xlabel="step", ylabel="loss", title=f"Loss by eigenspace, {ratios[0]:g} × critical")
        norm.set(xlabel="step", ylabel="‖K‖", title="Norm of the kernel", ylim=(0, None))
        for axes in (loss, split):
            axes.legend(loc="upper right")
        stamp(figure, measured)
        return {"gradient-descent": figure}
