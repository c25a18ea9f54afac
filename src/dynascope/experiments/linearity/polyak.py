"""Section 2.4: the Polyak-Lojasiewicz condition along descent, from the smallest eigenvalue of the tangent kernel."""

from __future__ import annotations

from typing import Annotated, Any, cast

import numpy as np
import xarray as xr
from pydantic import Field, NonNegativeInt, PositiveInt

from dynascope.curves import scaling_exponent
from dynascope.dynamics.ensemble import member_seeds
from dynascope.dynamics.schedule import log_steps
from dynascope.experiments.documents import OVER_PARAMETERIZED
from dynascope.experiments.linearity.kernel_training import Data, Trained, points, train
from dynascope.figures import FAINT, INK, PALETTE, THEORY, panels
from dynascope.lab.criteria import above, below, every
from dynascope.lab.experiment import Claims, Experiment, Figures, Source
from dynascope.theory.linearity.bounds import polyak_loss_bound

OUTPUTS = {"linear": "linear output", "shifted tanh": "output tanh(f + 1)"}
FITTED = 1e-3
"""The part of the first loss below which a run counts as having converged."""


class Polyak(Experiment):
    """Does gradient descent on a wide network keep the Polyak-Lojasiewicz condition, even with a nonlinear output?"""

    id = "linearity.polyak"
    source = Source(OVER_PARAMETERIZED, "Section 2.4, (2.16), Section 2.3")
    cost = {"quick": 11, "full": 300, "H200": 77}
    presets = {"quick": {"data": "digits", "widths": (16, 128), "steps": 300, "seeds": 6}}
    control = {"repeated": 1}
    notes = """A fully connected tanh network of three layers of weights, ten points with labels ±0.5, full-batch
    descent on half the sum of squares at rate 1/λ_max(K₀). The condition PL*: |∇L|² ≥ 2 μ L, with μ the smallest
    eigenvalue of the tangent kernel K over the run; then the loss stays below (1 - ημ)^t L₀. A run keeps it if μ is
    above rounding (1e-5 λ_max), the loss stays below that bound and ends below a thousandth of the first; with the
    linear output, which the theorem makes nearly linear in the weights, λ_min must also never fall below half of its
    first value. The nonlinear output is tanh(f + 1), which reaches the labels; its rate is that of f, since its own
    kernel is small if it starts saturated and grows by orders. In the control one point appears twice, with both
    labels: K is singular, and no descent can fit it."""

    defaults = {"precision": "float64"}

    data: Data = "cifar10"
    samples: PositiveInt = Field(10, ge=2)
    repeated: NonNegativeInt = 0
    """Number of last points that are replaced by copies of the first ones, with the other label."""
    label: float = Field(0.5, gt=0)
    widths: Annotated[tuple[PositiveInt, ...], Field(min_length=2)] = (32, 128, 512)
    steps: PositiveInt = 2000
    seeds: PositiveInt = 8

    def measure(self, seed: int) -> xr.Dataset:
        here, own = points(self.data, self.samples, seed), self.samples - self.repeated
        x = np.concatenate([here.x[:own], here.x[: self.repeated]])
        y = self.label * np.concatenate([here.y[:own], -here.y[: self.repeated]])
        how: dict[str, Any] = {"steps": self.steps, "record": log_steps(self.steps, 60), "precision": self.precision}
        members = [Trained("fcn", 2, "tanh", output, curvature=True) for output in OUTPUTS]
        traces = [train(member, self.widths, member_seeds(seed, self.seeds), x, y, **how) for member in members]
        keys = xr.DataArray(list(OUTPUTS), dims="output", name="output")
        return cast(xr.Dataset, xr.concat(traces, keys)).assign_attrs(data=here.name)

    def data_sets(self) -> tuple[str, ...]:
        return () if self.data == "gaussians" else (self.data,)

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """The bound on the loss, with the smallest eigenvalue that the run has seen."""
        tiny = np.finfo(float).tiny  # if a kernel is singular up to rounding, the bound is the first loss
        mu, start = np.maximum(measured.polyak_smallest.min("step"), tiny), measured.loss.isel(step=0, drop=True)
        rate = (1 / measured.polyak_largest.isel(step=0, drop=True)).sel(output=["linear"] * len(OUTPUTS))
        bound = np.empty((*start.shape, measured.sizes["step"]))
        for place in np.ndindex(*start.shape):
            first, least, step = (float(values.values[place]) for values in (start, mu, rate))
            bound[place] = polyak_loss_bound(first, least, step, measured.step.values)
        return xr.Dataset({"loss": ((*start.dims, "step"), bound)}, {**start.coords, "step": measured.step})

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        """For each run λ_min at the start, its least value and its largest change over it; the least of λ_min/λ_max and
        of (|∇L|²/(2L) - λ_min)/λ_max; the loss at the end over the first, and at most over the bound; the Hessian."""
        smallest, loss = measured.polyak_smallest, measured.loss
        first, largest = smallest.isel(step=0), measured.polyak_largest
        floor = 1e-9 * loss.isel(step=0)
        return xr.Dataset(
            {
                "first": first,
                "least": smallest.min("step") / first,
                "moved": np.abs(smallest / first - 1).max("step"),
                "conditioning": smallest.min("step") / largest.isel(step=0),
                "slack": ((measured.polyak - smallest) / largest).min("step"),
                "end": loss.isel(step=-1) / loss.isel(step=0),
                "over_bound": (loss / (predicted.loss + floor)).max("step"),
                "hessian": measured.hessian.isel({measured.hessian.dims[-1]: 0}, drop=True),
            }
        ).drop_vars("step", errors="ignore")

    def judge(self, reduced: xr.Dataset) -> Claims:
        widest = reduced.sel(width=self.widths[-1])
        post_hoc = "What is asked of λ_min; the rate of the nonlinear output (at 1/λ_max of its own kernel descent "
        post_hoc += "diverged)."
        for output, id in zip(OUTPUTS, ("keeps-the-condition", "nonlinear-output-keeps-it"), strict=True):
            one = widest.sel(output=output)
            statement = f"A network of width {self.widths[-1]}, {OUTPUTS[output]}, keeps PL* along descent, and so "
            statement += "converges"
            about: dict[str, Any] = {"source": "Section 2.4" if output == "linear" else "Section 2.3"}
            about["shown"] = {"λ_min, least / first": one.least, "last loss / first": one.end}
            yield every(id, statement, keeps(one, steady=output == "linear"), post_hoc=post_hoc, **about)
        statement = "|∇L|²/(2L) is at least λ_min(K) at every step of every run: their least difference, over λ_max"
        yield above("ratio-above-eigenvalue", statement, reduced.slack, -1e-6, source="(2.16)")
        norms = reduced.hessian.median("seed")
        linear, shifted = (scaling_exponent(norms.width.values, norms.sel(output=name).values) for name in OUTPUTS)
        about = {"source": "Section 2.3"}
        about["post_hoc"] = "Slopes, rather than a ratio of 2; the bound is halfway between -1/2 and 0, after 20 seeds."
        statement = "The Hessian norm of the linear output falls with the width: its slope"
        yield below("hessian-falls", statement, linear, -0.25, **about)
        statement = "That of the nonlinear output does not: its slope"
        yield above("hessian-stays", statement, shifted, -0.25, **about)
        moved = reduced.moved.sel(output="linear").median("seed")
        statement = "The relative change of λ_min in a run (median over seeds) falls with the width: its slope"
        value, about = scaling_exponent(moved.width.values, moved.values), {"source": "Section 2.4.1"}
        yield below("eigenvalue-stands-still", statement, value, -0.3, shown={"median": moved}, **about)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, axes = panels(3, size=(4.5, 3.8))
        widest, step, width = self.widths[-1], measured.step.values + 1, reduced.width.values
        middle = reduced.moved.median("seed")
        for (output, title), color in zip(OUTPUTS.items(), (INK, PALETTE[0]), strict=True):
            one = measured.sel(output=output, width=widest).transpose("step", "seed", ...)
            style: dict[str, Any] = {"color": color, "linewidth": 1.0, "alpha": 0.8}
            axes[0].loglog(step, one.loss / one.loss[0], **style)
            axes[1].loglog(step, one.polyak / one.polyak_smallest, **style)
            for panel in axes[:2]:
                panel.plot([], [], label=title, **style)
            bound = predicted.loss.sel(output=output, width=widest).isel(seed=0)
            label = "(1 - ημ)^t, first seed" if output == "linear" else None
            axes[0].loglog(step, bound / bound[0], label=label, **THEORY)
            axes[2].loglog(width, middle.sel(output=output), "o-", color=color, label=title)
        top = float(middle.sel(output="linear")[0])
        axes[2].loglog(width, top * np.sqrt(width[0] / width), label="slope -1/2", **THEORY)
        axes[1].axhline(1, **THEORY)
        axes[0].set(xlabel="step + 1", ylabel="loss / first", title=f"Loss, width {widest}", ylim=(1e-8, 2))
        axes[1].set(xlabel="step + 1", ylabel="|∇L|² / (2L λ_min)", title="PL* ratio: never below 1")
        axes[2].set(xlabel="width m", ylabel="largest relative change of λ_min", title="λ_min over a run, median")
        axes[2].set_xticks(width, [str(m) for m in width])
        axes[2].minorticks_off()
        for panel in axes:
            panel.legend(fontsize=8)
        axes[0].text(0, -0.2, measured.attrs["data"], transform=axes[0].transAxes, fontsize=7, color=FAINT)
        return {"polyak": figure}


def keeps(runs: xr.Dataset, *, steady: bool) -> xr.DataArray:
    """Whether each run keeps the condition: see the experiment's notes."""
    kept = (runs.conditioning > 1e-5) & (runs.over_bound <= 1.001) & (runs.end <= FITTED)
    return kept & (runs.least >= 0.5) if steady else kept
