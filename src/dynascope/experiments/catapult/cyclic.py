"""Figure C.12: a rate that cycles across the critical one brings a catapult in every cycle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.curves import largest_rise
from dynascope.experiments.catapult.deep_experiment import Architecture
from dynascope.experiments.catapult.sgd_experiment import StochasticExperiment, StochasticLearner
from dynascope.experiments.catapult.spikes_drawing import draw_sgd
from dynascope.experiments.seeds import member_seeds
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Source

RISE = 1.5
"""A cycle has a spike if the loss exceeds this multiple of its lowest value earlier in the cycle."""


class Cyclic(StochasticExperiment):
    """Does a cyclic learning rate cause a spike each time it rises, and a smaller kernel after it?"""

    id = "catapult.cyclic"
    source = Source("Toward Understanding the Dynamics of Over-parameterized Neural Networks", "Figure C.12")
    cost = {"quick": 5, "full": 900}
    presets = {
        "quick": {"data": "digits", "samples": 64, "batch": 16, "pool": 4, "architecture": "fcn", "depth": 5,
                  "width": 256, "cycles": 3, "seeds": 3},
    }  # fmt: skip
    control = {"low": 0.02, "high": 0.08}
    notes = """The document states neither bounds nor period; here the rate is a triangle between half and twice the
    critical rate of the whole set at the start, with a period of 40 steps, batches of a quarter of the data. A cycle
    counts as one with a spike when the loss on all the data goes above 1.5 times its lowest earlier in that cycle (the
    number of the catapult controller). The claim is about most cycles, not all: one cycle in nine had none in three of
    four settings, since after a catapult the critical rate is higher, and the highest rate hardly above it. In the
    control the whole triangle is far below the critical rate. The full setting, WRN-10-10 on images of 32 x 32 pixels,
    is for a GPU."""

    architecture: Architecture = "residual"
    depth: PositiveInt = Field(10, ge=2)
    width: PositiveInt = 10
    low: float = Field(0.5, gt=0)
    high: float = Field(2.0, gt=0)
    """The rate at the bottom and the top of the triangle, over the critical one at the start."""
    period: PositiveInt = Field(40, ge=4)
    cycles: PositiveInt = 5

    def measure(self, seed: int) -> xr.Dataset:
        data, number = self.examples(seed), np.dtype(self.precision)
        ratio = number.type(self.low), number.type(self.high)
        trace = ds.ensemble(
            StochasticLearner(self.network(), self.batch, (1, 5), self.period),
            {"seed": member_seeds(seed, self.seeds)}, steps=self.cycles * self.period, record=1,
            fixed={"x": data.x, "y": data.y, "ratio": ratio}, width=self.side_by_side,
        ).trace  # fmt: skip
        return trace.assign_attrs(data=data.name)

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        rises, part, norms = cycles_of(measured, self.period, 1)
        spiked = rises > RISE
        falls = np.asarray(norms[:, -1] < norms[:, 0])
        good = spiked[:, 0] & falls
        yield claim(
            "spike-and-smaller-kernel", f"In the first cycle the loss goes above {RISE:g} times its lowest earlier in "
            f"it, and the norm of the kernel ends lower than it starts ({measured.attrs['data']})",
            source="Figure C.12", expected="share = 1", holds=good.all(), seeds=self.seeds,
            measured=share_of(good) | {"peak / lowest": rises[:, 0], "norm at each cycle's end": norms},
            diagnosis="" if good.all() else "Without a rate above the critical one there is no spike, and the kernel "
            "grows.",
        )  # fmt: skip
        middle_of_cycle = slice(self.period // 2, None, self.period)
        highest = (measured.rate / measured.kernel_critical_rate).values[:, middle_of_cycle]
        share = share_of(spiked.ravel())
        most = share["interval"][0] > 0.5
        yield claim(
            "spikes-in-most-cycles", f"In most cycles the loss goes above {RISE:g} times its lowest earlier in it",
            source="Remark 4.3.3", expected="the 95 % interval is above 1/2", holds=most, seeds=self.seeds,
            measured=share | {"peak / lowest": rises, "highest rate / critical then": highest},
            diagnosis="" if most else "After a catapult the critical rate is higher, and the same highest rate is "
            "hardly above it: then a cycle can pass without a spike.",
        )  # fmt: skip
        middle = float(np.median(part[spiked])) if spiked.any() else float("nan")
        yield claim(
            "along-the-top", "In the median over cycles nine tenths of the rise lie along the top eigenvector",
            source="Figure C.12", expected="≥ 0.9", holds=middle >= 0.9, measured={"median": middle, "each": part},
            seeds=self.seeds, diagnosis="" if middle >= 0.9 else "A larger part lies in other directions: at twice "
            "the critical rate several are unstable.",
        )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        return {"cyclic": draw_sgd(measured, 1)}


def cycles_of(measured: xr.Dataset, period: int, top: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each seed and cycle: the largest ratio of the loss to its lowest value earlier in the cycle, and the part of
    that rise in the top eigenvectors; and the norm of the kernel at the start and at the end of each cycle."""
    loss, inside = measured.loss.values, measured.kernel_top.sel(split=top).values
    heights, shares = [], []
    for first in range(0, loss.shape[1] - period, period):
        here, along = loss[:, first : first + period + 1], inside[:, first : first + period + 1]
        rise = largest_rise(here)
        heights.append(rise.height(here))
        shares.append(rise.share(along, here))
    return np.stack(heights, axis=1), np.stack(shares, axis=1), measured.kernel.values[:, ::period]
