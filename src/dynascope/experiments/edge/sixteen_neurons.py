"""Figure 3.5: sixteen neurons start near a sharp minimum; a rate beyond the edge takes them to the flattest one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array, Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.experiments.edge.edge_experiment import DOCUMENT, EdgeExperiment
from dynascope.experiments.seeds import member_seeds
from dynascope.figures import FAINT, PALETTE, THEORY, panels, settings_colors
from dynascope.geometry import norm_ratio
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Source
from dynascope.probes.probe import Snapshot, probe
from dynascope.tasks.axis_teacher import AxisTeacher
from dynascope.theory.edge.axis_teacher import common_sharpness, expected_common_sharpness, flattest_square

COLORS = PALETTE[:2]
"""Of the small and of the large rate."""
WINDOW = 20
"""Steps before the drop over which the oscillation is measured."""


class Student(eqx.Module):
    """An ensemble member: a student near a sharp minimum, on its own sample, with a rate that drops at the end."""

    dim: int = eqx.field(static=True)
    samples: int = eqx.field(static=True)
    diagonalize_at: tuple[int, ...] = eqx.field(static=True)
    """Steps at which the dense Hessian is diagonalized; its top eigenvalue is also searched for at every step."""

    def points(self, seed: Int[Array, ""] | np.int32) -> Float[Array, "n d"]:
        return AxisTeacher(self.dim).sample(jax.random.key(seed), self.samples)

    def __call__(self, seed: Array, rate: Array, last_rate: Array, drop_at: Array) -> ds.Descent:
        task, x = AxisTeacher(self.dim), self.points(seed)

        def ratio(snapshot: Snapshot) -> Array:
            return norm_ratio(snapshot.model["w"], snapshot.model["v"])

        def diagonalized(snapshot: Snapshot) -> Array:
            return jnp.linalg.eigvalsh(task.hessian(snapshot.model, x))[-1]

        return ds.Descent(
            task.start(jax.random.fold_in(jax.random.key(seed), 1)),
            task,
            optax.sgd(lambda step: jnp.where(step < drop_at, rate, jnp.minimum(rate, last_rate))),
            data=x,
            probes={
                "loss": ds.probes.loss(),
                "ratio": probe(ratio, dims=("neuron",)),
                "sharpness": ds.probes.sharpness(tolerance=1e-5),
                "diagonalized": probe(diagonalized, every=self.diagonalize_at),
            },
        )


class SixteenNeurons(EdgeExperiment):
    """Does a learning rate beyond the edge take sixteen neurons from a sharp minimum to the flattest one?"""

    id = "edge.sixteen-neurons"
    source = Source(DOCUMENT, "Figure 3.5")
    cost = {"quick": 9, "full": 112}
    presets = {"quick": {"seeds": 3}}
    control = {"large_rate": 1.0}
    notes = """At a minimum w_i = k_i e_i, v_i = 1/k_i, so |w_i|/v_i = k_i². The start has k_i from 1 to 1.94. Both
    rates start from the same point; at the end the large rate is dropped to the small one. The sharpness is measured
    at every step and checked three times against the dense Hessian (272 by 272). The dashed curve is the sharpness of
    a minimum with one k common to all neurons, over the whole sphere instead of a sample, from moments of half-normal
    products (not in the document): the flattest has k² = 1.202, and its edge is at a rate of 2.496. Each sample has
    its own edge, at 2.45 to 2.57; where it is close to 2.6, the ratios have not converged at the drop. The control's
    large rate, 1.0, is below the edge even of the sharp start."""

    dim: PositiveInt = Field(16, ge=2)
    samples: PositiveInt = 10000
    small_rate: float = Field(0.5, gt=0)
    large_rate: float = Field(2.6, gt=0)
    steps: PositiveInt = Field(100, ge=WINDOW)
    """Steps before the large rate is dropped to the small one."""
    steps_after: PositiveInt = 20
    squares: tuple[float, float] = (0.6, 4.0)
    """Range of k² over which minima with a common k are compared."""
    seeds: PositiveInt = 5

    def measure(self, seed: int) -> xr.Dataset:
        end, number = self.steps + self.steps_after, np.dtype(self.precision).type
        seeds = member_seeds(seed, self.seeds)
        member = Student(self.dim, self.samples, (0, self.steps, end))
        trace = ds.ensemble(
            member, {"rate": np.asarray([self.small_rate, self.large_rate], self.precision), "seed": seeds},
            steps=end, record=1, fixed={"last_rate": number(self.small_rate), "drop_at": np.int32(self.steps)},
        ).trace  # fmt: skip
        squares = np.union1d(np.geomspace(*self.squares, 30), np.linspace(1.0, 1.4, 21))
        common = np.stack([common_sharpness(member.points(one), squares) for one in seeds])
        start = (1 + 0.0625 * np.arange(self.dim)) ** 2
        return trace.assign_coords(square=squares, neuron=np.arange(1, self.dim + 1)).assign(
            common_sharpness=(("seed", "square"), common), start_ratio=(("neuron",), start)
        )

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        expected = [expected_common_sharpness(square, self.dim) for square in measured.square.values]
        flattest = flattest_square(self.dim)
        return xr.Dataset(
            {"common_sharpness": (("square",), expected), "flattest_square": flattest,
             "edge": 2 / expected_common_sharpness(flattest, self.dim)}, coords={"square": measured.square},
        )  # fmt: skip

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset) -> Iterable[Claim]:
        low, high = measured.isel(rate=0), measured.isel(rate=1)
        ratios = high.ratio.isel(step=-1).values
        sharp, flat = (run.sharpness.isel(step=-1).values for run in (low, high))
        good = (ratios.min(axis=1) >= 1.1) & (ratios.max(axis=1) <= 1.3) & (flat <= 0.82) & (sharp >= 1.0)
        yield claim(
            "to-the-flattest", f"The rate {self.large_rate:g}, dropped at the end, leads to ratios |w|/v all in "
            "[1.1, 1.3] and a sharpness of at most 0.82; the rate "
            f"{self.small_rate:g} to at least 1.0: in two of three seeds",
            source="Figure 3.5",
            measured=share_of(good) | {"ratios": [ratios.min(), ratios.max()], "mean ratio": ratios.mean(),
                                       "sharpness": flat, "sharpness, small rate": sharp},
            expected="share ≥ 2/3", holds=good.mean() >= 2 / 3, seeds=self.seeds,
        )  # fmt: skip
        flattest = measured.square.values[measured.common_sharpness.argmin("square").values]
        edges = 2 / measured.common_sharpness.min("square").values
        yield claim(
            "threshold", "The edge of the flattest minimum with a common k lies at a rate of about 2.5",
            source="Section 3.7.1",
            measured={"samples": edges, "whole sphere": predicted.edge.item()}, expected="2.4 to 2.6",
            holds=bool(np.all((edges > 2.4) & (edges < 2.6))), seeds=self.seeds,
        )  # fmt: skip
        yield claim(
            "flattest-ratio", "Of the minima with a common k the flattest has k² = 1.21", source="Figure 3.5 e, f",
            measured={"samples": flattest, "whole sphere": predicted.flattest_square.item()}, expected="1.21 ± 0.05",
            holds=bool(np.all(np.abs(flattest - 1.21) <= 0.05)), seeds=self.seeds,
        )  # fmt: skip
        kept = np.abs(low.ratio.isel(step=-1) / measured.start_ratio - 1).max("neuron").values
        yield claim(
            "small-rate-stays", f"The rate {self.small_rate:g} leaves every ratio at its k² (largest relative "
            "change), and the sharpness where it was", source="Figure 3.5 b, c",
            measured={"ratio": kept, "sharpness, end over start": sharp / low.sharpness.isel(step=0).values},
            expected="≤ 0.05; ≥ 0.95", seeds=self.seeds,
            holds=bool(np.all(kept <= 0.05) and np.all(sharp >= 0.95 * low.sharpness.isel(step=0).values)),
        )  # fmt: skip
        before = slice(self.steps - WINDOW, self.steps)
        drawn = high.ratio.sel(step=self.steps).values
        near = (drawn.min(axis=1) >= 1.11) & (drawn.max(axis=1) <= 1.31)
        yield claim(
            "large-rate-balances", f"{self.steps} steps at the rate {self.large_rate:g} drive all ratios to about 1.21 "
            "(1.11 to 1.31), in two of three seeds", source="Figure 3.5 c, d",
            measured=share_of(near) | {"from": drawn.min(axis=1), "to": drawn.max(axis=1)}, expected="share ≥ 2/3",
            holds=near.mean() >= 2 / 3, seeds=self.seeds,
        )  # fmt: skip
        swings = np.diff(high.ratio.sel(step=before).mean("neuron").values, axis=-1)
        turning = (swings[:, 1:] * swings[:, :-1] < 0).mean(axis=1)
        final = high.loss.isel(step=-1).values
        oscillating = np.median(high.loss.sel(step=before).values, axis=1)
        yield claim(
            "oscillates", f"In the {WINDOW} steps before the drop the mean ratio changes direction at every step; the "
            "drop ends this, at a loss below 1e-4", source="Figure 3.5 a, d",
            expected="≥ 0.9; ≤ 1e-4, at most a tenth of before", seeds=self.seeds,
            measured={"turning": turning, "loss before": oscillating, "loss after": final},
            holds=bool(np.all(turning >= 0.9) and np.all(final <= 1e-4) and np.all(final <= oscillating / 10)),
        )  # fmt: skip
        off = np.abs(measured.common_sharpness / predicted.common_sharpness - 1).max().item()
        yield claim(
            "whole-sphere", "The closed form over the whole sphere gives the sharpness of common-k minima on a "
            "sample (largest relative difference)", source="equations (3.13)-(3.17)", measured=off, expected="≤ 0.05",
            holds=off <= 0.05, seeds=self.seeds,
        )  # fmt: skip
        found = measured.sharpness.sel(step=measured.diagonalized_step.values).values
        off = np.abs(found / measured.diagonalized.values - 1).max()
        yield claim(
            "well-measured", "The sharpness from Hessian-vector products is that of the dense Hessian, diagonalized "
            "at the start, at the drop and at the end (largest relative difference)", source="Figure 3.5 b",
            measured=off, expected="≤ 1e-4", holds=off <= 1e-4, seeds=self.seeds,
        )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset) -> Mapping[str, Figure]:
        figure, axes = panels(3, 2, size=(4.3, 3.3))
        spread = np.ptp(measured.ratio.isel(rate=1, step=-1).values, axis=1)
        shown = int(np.argsort(spread)[self.seeds // 2])
        for run, (color, rate) in enumerate(zip(COLORS, (self.small_rate, self.large_rate), strict=True)):
            for seed in range(self.seeds):
                one = measured.isel(rate=run, seed=seed)
                style = {"linewidth": 1.2, "zorder": 3} if seed == shown else {"linewidth": 0.7, "alpha": 0.3}
                axes[0, 0].semilogy(one.step, one.loss, color=color, **style)
                axes[0, 1].plot(one.step, one.sharpness, color=color, **style)
            axes[0, 0].plot([], [], color=color, label=f"rate {rate:g}")
        axes[0, 0].legend(loc="center")
        axes[0, 0].set(xlabel="step", ylabel="loss", title=f"a  Loss; the middle seed, {shown}, in bold")
        axes[0, 1].axhline(2 / self.large_rate, **THEORY, zorder=4)
        axes[0, 1].text(1.01, 2 / self.large_rate, f"2 / {self.large_rate:g}", va="center", fontsize=8,
                        transform=axes[0, 1].get_yaxis_transform())  # fmt: skip
        axes[0, 1].set(xlabel="step", ylabel="sharpness", title="b  Sharpness")
        self._draw_ratios(axes[0, 2], measured.isel(seed=shown), (0, 1), None)
        axes[0, 2].set_title(f"c  Balance of the neurons, seed {shown}")
        self._draw_ratios(axes[1, 0], measured.isel(seed=shown), (1,), (self.steps - 2 * WINDOW, 1.05, 1.35))
        axes[1, 0].axhline(predicted.flattest_square.item(), **THEORY)
        axes[1, 0].set_title(f"d  The rate {self.large_rate:g}, closer")
        for panel, stop, name in ((axes[1, 1], self.squares[1], "e"), (axes[1, 2], 1.65, "f")):
            near = measured.sel(square=slice(None, stop))
            panel.plot(near.square, near.common_sharpness.values.T, color=COLORS[1], linewidth=1.0)
            panel.plot(
                near.square, predicted.common_sharpness.sel(square=slice(None, stop)), **THEORY, label="whole sphere"
            )
            panel.axvline(predicted.flattest_square.item(), color=FAINT, linewidth=0.9)
            panel.set(xlabel="k², common to all neurons", ylabel="sharpness at the minimum")
            panel.set_title(f"{name}  Minima with a common k{'' if name == 'e' else ', closer'}")
        axes[1, 1].plot([], [], color=COLORS[1], label="samples")
        axes[1, 1].legend(loc="lower right")
        axes[1, 2].set(xlim=(0.85, 1.65), ylim=(0.75, 0.9))
        for panel in (axes[0, 0], axes[0, 1], axes[0, 2], axes[1, 0]):
            panel.axvline(self.steps, color=FAINT, linewidth=0.9)
        return {"sixteen-neurons": figure}

    def _draw_ratios(
        self, axes: Axes, one: xr.Dataset, runs: tuple[int, ...], window: tuple[int, float, float] | None
    ) -> None:
        """|w|/v of every neuron; dashed for the small rate."""
        for run in runs:
            for neuron, color in enumerate(settings_colors(self.dim)):
                values = one.ratio.isel(rate=run, neuron=neuron)
                axes.plot(one.step, values, "-" if run else "--", color=color, linewidth=1.1 if run else 0.8)
        if window is not None:
            axes.set(xlim=(window[0], None), ylim=window[1:])
        elif len(runs) > 1:
            for style, rate in (("--", self.small_rate), ("-", self.large_rate)):
                axes.plot([], [], style, color=FAINT, linewidth=1, label=f"rate {rate:g}")
            axes.legend(loc="upper right", ncols=2)
            axes.set_ylim(0.9, 4.4)
        axes.set(xlabel="step", ylabel="|w| / v")
