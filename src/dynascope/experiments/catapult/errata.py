"""What the document prints on linearity, quadratic models and catapults, and numbers refute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import PositiveInt

from dynascope.figures import FAINT, PALETTE, THEORY, panels
from dynascope.lab.claims import Claim, erratum
from dynascope.lab.experiment import Experiment, Source
from dynascope.theory.catapult import errata as catapult_errata, quadratic_model
from dynascope.theory.catapult.gated_network import one_example
from dynascope.theory.erratum import Erratum
from dynascope.theory.linearity import errata as linearity_errata

RATES = np.geomspace(1e-3, 1, 13)
RIGHT, WRONG = PALETTE[1], PALETTE[0]


class Errata(Experiment):
    """Which statements on linearity, quadratic models and catapults do not hold as printed?"""

    id = "catapult.errata"
    source = Source(
        "Toward Understanding the Dynamics of Over-parameterized Neural Networks",
        "(3.16), Propositions 2.4.4, B.5.2, B.11.1, B.13.1, Theorem 3.3.4, Lemma A.11.8, Appendices B, C",
    )
    cost = {"quick": 5, "full": 6}
    presets = {"quick": {"width": 1000}}
    control = {"curvature": 0.0}
    notes = """Each erratum says what is printed, what holds, and the numbers that tell them apart. The main results
    stand: three regimes of the quadratic model, its thresholds, its stable equilibria, the bounds on the Hessian. What
    falls is constants, signs and one recursion. Slips without consequence for a number (indices, cross references,
    captions that name panels which do not exist, Figure C.7's final rates 60 and 40 against Figure 4.4's 15 and 20) are
    not listed, nor what was measured and did not reproduce: see the other experiments. The control takes the curvature
    out of the random model, whose kernel is then constant: (3.16) holds there."""

    precision: Literal["float32", "float64"] = "float64"
    curvature: float = 1.0
    """Of the random quadratic model on which (3.16) is tried."""
    width: PositiveInt = 2000
    """Of the run just above the critical rate that is drawn."""

    def measure(self, seed: int) -> xr.Dataset:
        found = {entry.id: entry.evidence() for entry in _all() if entry.id != "kernel-recursion"}
        found["kernel-recursion"] = catapult_errata.kernel_recursion(curvature=self.curvature)
        numbers = {f"{name}: {key}": value for name, one in found.items() for key, value in one.numbers.items()}
        errors = [
            catapult_errata.kernel_recursion(rate=float(rate), curvature=self.curvature).numbers for rate in RATES
        ]
        losses, kernels, _ = one_example(self.width, 2.05, 250)
        return xr.Dataset(
            {
                "number": ("what", np.array(list(numbers.values()), float)),
                "refutes": ("erratum", np.array([one.refutes for one in found.values()])),
                "printed_error": ("rate", [row["printed, error"] for row in errors]),
                "corrected_error": ("rate", [row["corrected"] for row in errors]),
                "above_loss": ("step", losses),
                "above_kernel": ("step", kernels),
            },
            {"what": list(numbers), "erratum": list(found), "rate": RATES},
        )

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Iterable[Claim]:
        entries = sorted(_all(), key=lambda entry: entry.id != "kernel-recursion")
        for entry in entries:
            numbers = {
                str(name).split(": ", 1)[1]: value
                for name, value in zip(measured.what.values, measured.number.values, strict=True)
                if str(name).startswith(f"{entry.id}: ")
            }
            refuted = measured.refutes.sel(erratum=entry.id).item()
            yield erratum(
                entry.id, f"Printed: {entry.printed}. Right: {entry.holds}", source=entry.where, measured=numbers,
                expected="the printed form misses what the corrected one has", refuted=refuted,
                diagnosis="" if refuted else "The counter-example does not come out in this setting.",
            )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset | None) -> Mapping[str, Figure]:
        figure, grid = panels(2, 2, size=(5.2, 3.5))
        _recursion(grid[0, 0], measured)
        _falling(grid[0, 1])
        _slightly_above(grid[1, 0], measured)
        _directions(grid[1, 1], measured)
        return {"errata": figure}


def _all() -> tuple[Erratum, ...]:
    return catapult_errata.ERRATA + linearity_errata.ERRATA


def _recursion(axes: Axes, measured: xr.Dataset) -> None:
    axes.loglog(measured.rate, np.maximum(measured.printed_error, 1e-18), "o-", color=WRONG, label="printed")
    axes.loglog(measured.rate, np.maximum(measured.corrected_error, 1e-18), "o-", color=RIGHT, label="corrected")
    axes.set(xlabel="learning rate", ylabel="error of K after a step", title="(3.16): the kernel's recursion")
    axes.legend(loc="center right")


def _falling(axes: Axes, size: float = 1.3, v: float = 3.2, width: float = 1e5) -> None:
    u = np.linspace(1e-6, 8e-4, 200)
    state = quadratic_model.Normalized(jnp.asarray(u), -size * jnp.sqrt(jnp.asarray(u) / width), jnp.full(200, v))
    axes.plot(u, np.asarray(quadratic_model.normalized_step(state).v) - v, color=PALETTE[2], label="v' - v")
    axes.axhline(0, color=FAINT, linewidth=0.8)
    axes.axvline(4 * size / (width * (4 - v) ** 2), color=WRONG, label="printed threshold")
    axes.axvline(16 * size**2 / (width * (4 - v) ** 2), color=RIGHT, label="corrected")
    axes.set(xlabel="u", ylabel="change of v = ηλ in a step", title="Prop. B.5.2: when the kernel falls")
    axes.ticklabel_format(scilimits=(-2, 3))
    axes.legend(loc="upper right")


def _slightly_above(axes: Axes, measured: xr.Dataset) -> None:
    axes.plot(measured.step, measured.above_loss / measured.above_loss[0], color=WRONG, label="loss")
    axes.plot(measured.step, measured.above_kernel / measured.above_kernel[0], color=RIGHT, label="kernel")
    axes.axhline(1, **THEORY)
    axes.set(xlabel="step", ylabel="over the first value", title="Sec. 3.3, ηλ₀ = 2.05: the loss does rise first",
             xlim=(0, 120))  # fmt: skip
    axes.legend(loc="upper right")


def _directions(axes: Axes, measured: xr.Dataset) -> None:
    names = ("in weights", "corrected", "printed, |p| = 1", "printed, p = x 1{x >= 0}")
    values = [measured.number.sel(what=f"direction-expansion: {name}").item() for name in names]
    axes.barh(range(4), values, color=[FAINT, RIGHT, WRONG, WRONG])
    axes.set_yticks(range(4), ["in weights", "corrected", "printed, |p| = 1", "printed, p = x₊"])
    axes.invert_yaxis()
    axes.locator_params(axis="x", nbins=5)
    axes.set(xlabel="change of λ₁ in the first step", title="App. B.12: one direction of many examples")
