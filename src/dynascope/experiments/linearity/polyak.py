"""Section 2.4: the Polyak-Lojasiewicz condition along descent, from the smallest eigenvalue of the tangent kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, cast

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field, NonNegativeInt, PositiveInt

from dynascope.curves import scaling_exponent
from dynascope.dynamics.plan import log_steps
from dynascope.experiments.linearity.hessian_scaling import FALLS, FLAT
from dynascope.experiments.linearity.kernel_training import Data, Trained, points, train
from dynascope.experiments.seeds import member_seeds
from dynascope.figures import FAINT, INK, PALETTE, THEORY, panels
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Experiment, Source
from dynascope.theory.linearity.bounds import polyak_loss_bound

OUTPUTS = ("linear", "shifted tanh")
FITTED = 1e-3
"""The part of the first loss below which a run counts as having converged."""


class Polyak(Experiment):
    """Does gradient descent on a wide network keep the Polyak-Lojasiewicz condition, even with a nonlinear output?"""

    id = "linearity.polyak"
    source = Source(
        "Toward Understanding the Dynamics of Over-parameterized Neural Networks", "Section 2.4, (2.16), Section 2.3"
    )
    cost = {"quick": 11, "full": 300}
    presets = {"quick": {"data": "digits", "widths": (16, 128), "steps": 300, "seeds": 6}}
    control = {"repeated": 1}
    notes = """A fully connected tanh network of three layers of weights, ten points with labels ±0.5, full-batch
    descent on half the sum of squares at rate 1/λ_max(K₀). The condition PL*: |∇L|² ≥ 2 μ L, with μ the smallest
    eigenvalue of the tangent kernel K over the run; then the loss stays below (1 - ημ)^t L₀. A run keeps it when μ is
    more than rounding (1e-5 λ_max), the loss stays below that bound and ends below a thousandth of the first; of the
    linear output, which the theorem makes nearly linear in the weights, it is also asked that λ_min never falls below
    half of what it was. The nonlinear output is tanh(f + 1), which reaches the labels; its rate is that of f, since its
    own kernel is small where it starts saturated and grows by orders. Slopes that the Hessian norms must have are those
    of linearity.hessian-scaling. In the control one point appears twice, with both labels: K is singular, and no
    descent can fit it. Chosen after seeing results: the rate of the nonlinear output (at 1/λ_max of its own first
    kernel descent diverged), what is asked of λ_min, and slopes rather than a ratio of 2 between the Hessian norms."""

    precision: Literal["float32", "float64"] = "float64"
    data: Data = "cifar10"
    samples: PositiveInt = Field(10, ge=2)
    repeated: NonNegativeInt = 0
    """How many of the last points give way to copies of the first, with the other label."""
    label: float = Field(0.5, gt=0)
    widths: Annotated[tuple[PositiveInt, ...], Field(min_length=2)] = (32, 128, 512)
    steps: PositiveInt = 2000
    seeds: PositiveInt = 8

    def measure(self, seed: int) -> xr.Dataset:
        seeds = member_seeds(seed, self.seeds)
        here = points(self.data, self.samples, seed)
        own = self.samples - self.repeated
        x = np.concatenate([here.x[:own], here.x[: self.repeated]])
        y = self.label * np.concatenate([here.y[:own], -here.y[: self.repeated]])
        traces = [
            train(
                Trained("fcn", 2, "tanh", output, curvature=True), self.widths, seeds, x, y,
                steps=self.steps, record=log_steps(self.steps, 60), precision=self.precision,
            )
            for output in OUTPUTS
        ]  # fmt: skip
        keys = xr.DataArray(list(OUTPUTS), dims="output", name="output")
        return cast(xr.Dataset, xr.concat(traces, keys)).assign_attrs(data=here.name)

    def predict(self, measured: xr.Dataset) -> xr.Dataset | None:
        """The bound on the loss, with the smallest eigenvalue that the run has seen."""
        mu, start = measured.polyak_smallest.min("step"), measured.loss.isel(step=0, drop=True)
        rate = (1 / measured.polyak_largest.isel(step=0, drop=True)).sel(output=["linear"] * len(OUTPUTS))
        bound = np.empty((*start.shape, measured.sizes["step"]))
        for place in np.ndindex(*start.shape):
            first, least, step = (float(values.values[place]) for values in (start, mu, rate))
            bound[place] = polyak_loss_bound(first, least, step, measured.step.values)
        return xr.Dataset({"loss": ((*start.dims, "step"), bound)}, {**start.coords, "step": measured.step})

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        assert predicted is not None
        kept = keeps(measured, predicted)
        widest = self.widths[-1]
        first = measured.polyak_smallest.isel(step=0)
        least = measured.polyak_smallest.min("step") / first
        for output, id in zip(OUTPUTS, ("keeps-the-condition", "nonlinear-output-keeps-it"), strict=True):
            outcome = kept.sel(output=output, width=widest).values
            chosen = {"output": output, "width": widest}
            end = (measured.loss.isel(step=-1) / measured.loss.isel(step=0)).sel(chosen).values
            what = "" if output == "linear" else " with the output tanh(f + 1)"
            yield claim(
                id, f"A network of width {widest}{what} keeps PL* along descent, and so converges "
                f"({measured.attrs['data']})", source="Section 2.4" if output == "linear" else "Section 2.3",
                measured=share_of(outcome) | {"λ_min at the start": first.sel(chosen), "least / first":
                least.sel(chosen), "last loss / first": end}, expected="share = 1", holds=outcome.all(),
                seeds=self.seeds, diagnosis="" if outcome.all() else "Where two points agree in their inputs K is "
                "singular; where the kernel is not, it moved too far, or the rate 1/λ_max leaves too little time.",
            )  # fmt: skip
        above = (measured.polyak - measured.polyak_smallest) / measured.polyak_largest
        slack = float(above.min())
        yield claim(
            "ratio-above-eigenvalue", "|∇L|²/(2L) is at least λ_min(K) at every step of every run",
            source="(2.16)", measured={"least of (|∇L|²/(2L) - λ_min) / λ_max": slack}, expected="≥ -1e-6",
            holds=slack >= -1e-6, seeds=self.seeds,
        )  # fmt: skip
        norms = measured.hessian.squeeze(drop=True).median("seed")
        steep = {name: scaling_exponent(measured.width.values, norms.sel(output=name).values) for name in OUTPUTS}
        apart = FALLS[0] <= steep["linear"] <= FALLS[1] and abs(steep["shifted tanh"]) < FLAT
        yield claim(
            "hessian-stays", "The Hessian norm of the nonlinear output does not fall with the width, that of the "
            "linear one does", source="Section 2.3", measured={"slopes": steep},
            expected=f"|slope| < {FLAT}; in {list(FALLS)}", holds=apart, seeds=self.seeds,
            diagnosis="" if apart else f"Medians of {self.seeds} seeds at one input: {norms.values.round(3).tolist()}.",
        )  # fmt: skip
        moved = np.abs(measured.polyak_smallest / first - 1).max("step").median("seed").sel(output="linear")
        fall = scaling_exponent(measured.width.values, moved.values)
        yield claim(
            "eigenvalue-stands-still",
            "The relative change of λ_min in a run falls with the width, as m^(-0.3) or faster",
            source="Section 2.4.1", measured={"slope": fall, "median": moved}, expected="slope ≤ -0.3",
            holds=fall <= -0.3, seeds=self.seeds, diagnosis="" if fall <= -0.3 else f"The slope is {fall:.2f}.",
        )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        assert predicted is not None
        figure, axes = panels(3, size=(4.5, 3.8))
        widest = self.widths[-1]
        step = measured.step.values + 1
        moved = np.abs(measured.polyak_smallest / measured.polyak_smallest.isel(step=0) - 1).max("step")
        for output, color in zip(OUTPUTS, (INK, PALETTE[0]), strict=True):
            title = "linear output" if output == "linear" else "output tanh(f + 1)"
            for k in range(self.seeds):
                one = measured.sel(output=output, width=widest).isel(seed=k)
                style = {"color": color, "linewidth": 1.0, "alpha": 0.8}
                axes[0].loglog(step, one.loss / one.loss[0], label=title if k == 0 else None, **style)
                axes[1].semilogx(step, one.polyak / one.polyak_smallest, label=title if k == 0 else None, **style)
            bound = predicted.loss.sel(output=output, width=widest).isel(seed=0)
            axes[0].loglog(
                step, bound / bound[0], label="(1 - ημ)^t, first seed" if output == "linear" else None, **THEORY
            )
            values = moved.sel(output=output).median("seed")
            axes[2].loglog(measured.width, values, "o-", color=color, label=title)
        width = measured.width.values
        top = float(moved.sel(output="linear").median("seed")[0])
        axes[2].loglog(width, top * np.sqrt(width[0] / width), label="slope -1/2", **THEORY)
        axes[1].axhline(1, **THEORY)
        axes[1].set_yscale("log")
        axes[0].set(xlabel="step + 1", ylabel="loss / first", title=f"Loss, width {widest}", ylim=(1e-8, 2))
        axes[1].set(xlabel="step + 1", ylabel="|∇L|² / (2L λ_min)", title="PL* ratio: never below 1")
        axes[2].set(xlabel="width m", ylabel="largest relative change of λ_min", title="λ_min over a run, median")
        axes[2].set_xticks(width, [str(m) for m in width])
        axes[2].minorticks_off()
        for panel in axes:
            panel.legend(fontsize=8)
        axes[0].text(0, -0.2, measured.attrs["data"], transform=axes[0].transAxes, fontsize=7, color=FAINT)
        return {"polyak": figure}


def keeps(measured: xr.Dataset, predicted: xr.Dataset) -> xr.DataArray:
    """Which runs keep the condition: see the experiment's notes."""
    smallest, loss = measured.polyak_smallest, measured.loss
    least, first = smallest.min("step"), smallest.isel(step=0)
    positive = least > 1e-5 * measured.polyak_largest.isel(step=0)
    steady = (least >= first / 2) | (measured.output != "linear")
    below = (loss <= predicted.loss * 1.001 + 1e-9 * loss.isel(step=0)).all("step")
    return positive & steady & below & (loss.isel(step=-1) <= FITTED * loss.isel(step=0))
