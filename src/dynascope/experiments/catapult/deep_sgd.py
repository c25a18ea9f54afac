"""Figures 4.7, C.8 to C.11: spikes of SGD lie along the kernel's top eigenvector, and its norm falls over the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.experiments.catapult.sgd_experiment import SPIKE, StochasticExperiment, StochasticLearner, spikes_of
from dynascope.experiments.catapult.spikes_drawing import draw_sgd
from dynascope.experiments.seeds import member_seeds
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Source

FEW = 5
"""The claims need at least this many spikes in all runs together."""
SHARE = 0.9
"""The part of the rise that should lie along the top eigenvector, in the median over spikes."""


class DeepSgd(StochasticExperiment):
    """Do the spikes of SGD lie along the kernel's top eigenvector, and does its norm fall with them?"""

    id = "catapult.deep-sgd"
    source = Source("Toward Understanding the Dynamics of Over-parameterized Neural Networks", "Figures 4.7, C.8-C.11")
    cost = {"quick": 5, "full": 400}
    presets = {
        "quick": {"data": "digits", "samples": 64, "batch": 16, "pool": 4, "width": 256, "steps": 100, "seeds": 5},
        "cnn": {"architecture": "cnn", "width": 512, "ratio": 1.78},
        "residual": {"architecture": "residual", "depth": 10, "width": 10, "ratio": 2.0},
        "vit": {"architecture": "vit", "depth": 4, "width": 256},
        "framework": {"parameterization": "standard", "ratio": 1.5},
        "svhn": {"data": "svhn", "classes": (0, 2)},
        "many": {"samples": 5000, "ratio": 1.5},
        "myrtle": {"classes": (0, 1, 2, 3, 4, 5, 6, 7, 8, 9), "architecture": "myrtle", "width": 256, "ratio": 1.5},
    }
    control = {"ratio": 0.05}
    notes = """Learning rates are multiples of the critical one of the whole set at the start. A spike is a loss (on all
    the data) that is the highest within 5 steps before and after, and more than twice the lowest in the 5 steps before;
    what comes after the loss has been below 0.001, where the document's runs end, is not counted. "Along the top
    eigenvector" is the part of the rise from that lowest loss to the peak that lies in its span, for the kernel of each
    step. The document says that the norm of the kernel falls with every spike; that is the claim drops-at-each. The
    control's rate is a twentieth of the critical one: low enough for no batch to be above its own critical rate, also
    after the kernel has grown. The claim needs five spikes in all runs together, chosen after seeing that the quick
    runs, which are trained within some dozens of steps, have one to three each."""

    ratio: float = Field(1.67, gt=0)
    steps: PositiveInt = 300
    splits: tuple[int, ...] = (1, 5)

    def measure(self, seed: int) -> xr.Dataset:
        data, number = self.examples(seed), np.dtype(self.precision)
        member = StochasticLearner(self.network(), self.batch, tuple(sorted({1, *self.splits})))
        trace = ds.ensemble(
            member, {"seed": member_seeds(seed, self.seeds)},
            steps=self.steps, record=1, fixed={"x": data.x, "y": data.y, "ratio": number.type(self.ratio)},
            width=self.side_by_side,
        ).trace  # fmt: skip
        return trace.assign_attrs(data=data.name)

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        each = [spikes_of(measured.isel(seed=seed), 1) for seed in range(self.seeds)]
        shares, ratios = (np.concatenate(parts) for parts in zip(*((s.share, s.norm_ratio) for s in each), strict=True))
        middle = float(np.median(shares)) if shares.size else float("nan")
        enough = shares.size >= FEW
        quiet = "" if enough else "There are hardly any spikes."
        yield claim(
            "spikes-along-the-top", f"There are {FEW} spikes of more than {SPIKE:g} times at least, and in the median "
            f"{SHARE:.0%} of their rise lies along the top eigenvector ({measured.attrs['data']})",
            source="Figure 4.7", expected=f"median ≥ {SHARE:g}", holds=enough and middle >= SHARE, seeds=self.seeds,
            measured={"median": middle, "quartiles": np.quantile(shares, (0.25, 0.75)) if shares.size else [],
                      "spikes": [spikes.share.size for spikes in each]},
            diagnosis=quiet or ("" if middle >= SHARE else "A larger part than that lies in other directions."),
        )  # fmt: skip
        change = measured.kernel.values[:, -1] / measured.kernel.values[:, 0]
        falls = change < 1
        yield claim(
            "falls-over-the-run", "The norm of the kernel ends lower than it starts", source="Figure 4.7",
            expected="share = 1", holds=falls.all(), seeds=self.seeds,
            measured=share_of(falls) | {"end / start": change},
            diagnosis="" if falls.all() else quiet or "Between spikes the kernel grows, and in some run by more.",
        )  # fmt: skip
        drops = ratios < 1
        always = bool(drops.size and drops.mean() >= 0.9)
        tallest = [spikes.norm_ratio[np.argmax(spikes.height)] for spikes in each if spikes.height.size]
        yield claim(
            "drops-at-each", "At nine spikes in ten the norm of the kernel is lower after it than before",
            source="Section 4.4", expected="share ≥ 0.9", holds=always, seeds=self.seeds,
            measured=share_of(drops) | {"median after / before": np.median(ratios) if ratios.size else np.nan,
                                        "after / before of each run's highest": tallest},
            diagnosis="" if always else quiet or "What a spike takes from the kernel grows with the loss it carries: "
            "small ones, and those between which the kernel grows, leave it as it is or larger.",
        )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        return {"deep-sgd": draw_sgd(measured, 1)}
