"""Figure B.2: one ReLU neuron fits another, on a finite sample, above its threshold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.experiments.edge.edge_experiment import DOCUMENT, EdgeExperiment
from dynascope.experiments.edge.rate_scans import run_at_rates
from dynascope.experiments.seeds import member_seeds
from dynascope.figures import FAINT, PALETTE, THEORY, panels
from dynascope.lab.claims import Claim, claim, share_of
from dynascope.lab.experiment import Source
from dynascope.probes.probe import Probe, probe
from dynascope.tasks.single_neuron import reduced_step, unit_teacher
from dynascope.theory.edge import single_neuron as theory

HEIGHT, GAP = 0.03, 0.02
"""The largest wy and |v - wx| allowed at the end, on a sample of this size."""
LOW, HIGH = (0.75, 0.92), (1.05, 1.16)
"""Where the two points of the orbit are expected."""


class SampledNeuron(eqx.Module):
    """An ensemble member: full-batch gradient descent on its own sample."""

    samples: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def __call__(self, seed: Array, v: Array, w: Array, rate: Array) -> ds.Descent:
        task = unit_teacher(self.dim)
        data = task.sample(jax.random.key(seed), self.samples)

        def coordinate(name: str) -> Probe:
            return probe(lambda snapshot: task.coordinates(snapshot.model)[name])

        probes = {name: coordinate(name) for name in ("v", "wx", "wy")}
        return ds.Descent({"v": v, "w": w}, task, optax.sgd(rate), data=data, probes=probes)


class SingleNeuronOrbit(EdgeExperiment):
    """Does a ReLU neuron first align with its teacher, and then oscillate with equal layers?"""

    id = "edge.single-neuron"
    source = Source(DOCUMENT, "Figure B.2; Proposition 4")
    cost = {"quick": 4, "full": 10}
    presets = {"quick": {"seeds": 5}}
    control = {"learning_rate": 1.8}
    notes = """1000 points on the circle, teacher (1, 0), η = 2.2 = 1.1 d, w = (0, 0.1), v = 0.1. The text does not give
    the number of steps; 200 is our choice. On a finite sample w does not align with the teacher exactly and the second
    moment of the sample shifts the effective K, so small residues of wy and v - wx remain, and the orbit varies with
    the seed; on the population they vanish. The control is below the threshold d, where gradient descent converges to
    a minimum."""

    dim: int = Field(2, ge=2)
    samples: PositiveInt = 1000
    learning_rate: float = 2.2
    size: float = 0.1
    """|w| and v at the start; w is orthogonal to the teacher."""
    steps: PositiveInt = 200
    seeds: PositiveInt = 20

    def measure(self, seed: int) -> xr.Dataset:
        w = np.zeros(self.dim)
        w[1] = self.size
        fixed = {"v": np.float64(self.size), "w": w}
        sampled = ds.ensemble(
            SampledNeuron(self.samples, self.dim), {"seed": member_seeds(seed, self.seeds, block=1000)},
            fixed={**fixed, "rate": np.float64(self.learning_rate)}, steps=self.steps, record=1,
        ).trace  # fmt: skip
        population = []
        for dim in (self.dim, self.dim + 3):
            task, rate = unit_teacher(dim), self.learning_rate * dim / self.dim
            start = {**fixed, "w": np.concatenate([w, np.zeros(dim - self.dim)])}
            run = run_at_rates(task.step, start, [rate], self.steps, record=1).isel(rate=0)
            population.append(jax.vmap(task.coordinates)({name: jnp.asarray(run[name].values) for name in start}))
        task = unit_teacher(self.dim)
        points = jax.vmap(lambda key: task.sample(key, self.samples))(jax.vmap(jax.random.key)(sampled.seed.values))
        own = 2 * self.learning_rate * np.mean(np.maximum(np.asarray(points)[..., 0], 0) ** 2, axis=1)
        return sampled.drop_vars("diverged_at").assign(
            {f"population_{name}": (("population_dim", "step"), np.stack([run[name] for run in population]))
             for name in ("v", "wx", "wy")}
        ).assign(own_K=("seed", own))  # fmt: skip

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """The reduced map from the same start, and Proposition 4's limit (nan below the threshold)."""
        K = self.learning_rate / self.dim
        start = {"v": jnp.asarray(self.size), "wx": jnp.asarray(0.0), "wy": jnp.asarray(self.size)}
        run = ds.iterate(lambda state: reduced_step(state, K), start, steps=self.steps, record=1).trace
        limit = np.asarray(theory.limit(K)["v"])
        with np.errstate(invalid="ignore"):
            own = np.asarray(theory.limit(measured.own_K.values)["v"])
        return run.drop_vars("diverged_at").assign(limit=("point", limit), own_orbit=(("seed", "point"), own))

    def judge(self, measured: xr.Dataset, predicted: xr.Dataset) -> Iterable[Claim]:
        v, wx, wy = (measured[name].values for name in ("v", "wx", "wy"))
        last = np.sort(np.stack([v[:, -2:], wx[:, -2:]]), axis=-1)
        low, high = last[..., 0].min(axis=0), last[..., 1].max(axis=0)
        height, gap, K = wy[:, -1], np.abs(v - wx)[:, -1], measured.own_K.values
        off = np.abs(last - predicted.own_orbit.values).max(axis=(0, 2))
        good = (height < HEIGHT) & (gap < GAP) & (off < HEIGHT)
        yield claim(
            "orbit", f"After {self.steps} steps on {self.samples} samples v and wx oscillate together, in every seed, "
            "on the orbit of the sample's own K = 2 η mean(relu(x · teacher)²), with small residues of wy and v - wx",
            source="Figure B.2", seeds=self.seeds, holds=bool(good.all()),
            measured={"own K": _range(K), "off the orbit by": _range(off), "wy": _range(height),
                      "|v - wx|": _range(gap), **share_of(good)},
            expected=f"wy < {HEIGHT:g}, |v - wx| < {GAP:g}, off the orbit by less than {HEIGHT:g}",
        )  # fmt: skip
        inside = (low > LOW[0]) & (low < LOW[1]) & (high > HIGH[0]) & (high < HIGH[1])
        spread = theory.spread_of_sampled_K(self.learning_rate, self.dim, self.samples)
        usual = np.abs(K - self.learning_rate / self.dim) < spread
        yield claim(
            "interval", "Samples whose own K is within a standard deviation of η/d have their orbit in the expected "
            "interval (others need not: the share of all is given)", source="Figure B.2", seeds=int(usual.sum()),
            measured={"low": _range(low[usual]), "high": _range(high[usual]), "of these": share_of(inside[usual]),
                      "of all": share_of(inside)},
            expected=f"low in {LOW[0]:g} to {LOW[1]:g}, high in {HIGH[0]:g} to {HIGH[1]:g}",
            holds=bool(usual.any() and inside[usual].all()),
        )  # fmt: skip
        fallen = {"wy": _stays_below(wy, HEIGHT), "|v - wx|": _stays_below(np.abs(v - wx), GAP)}
        first = fallen["wy"] < fallen["|v - wx|"]
        yield claim(
            "alignment-first", f"wy falls permanently below {HEIGHT:g} before |v - wx| falls permanently below "
            f"{GAP:g}, in every seed",
            source="Figure B.2", expected="share = 1", holds=bool(first.all()), seeds=self.seeds,
            measured={name: _range(steps) for name, steps in fallen.items()} | share_of(first),
        )  # fmt: skip
        whole = {name: measured[f"population_{name}"].values for name in ("v", "wx", "wy")}
        off = max(np.abs(np.sort(whole[name][:, -2:]) - predicted.limit.values).max() for name in ("v", "wx"))
        yield claim(
            "population", "On the population v = wx = d_i and wy = 0, in 2 and in 5 dimensions", source="Proposition 4",
            measured={"off by": off, "wy": whole["wy"][:, -1].max(), "points": np.sort(whole["v"][0, -2:])},
            expected={"off by": "< 1e-8", "points": [0.8146, 1.1161]},
            holds=bool(off < 1e-8 and whole["wy"][:, -1].max() < 1e-8),
        )  # fmt: skip
        gaps = {name: np.abs(whole[name] - predicted[name].values).max() for name in whole}
        yield claim(
            "reduction", "On the population, in 2 and in 5 dimensions, the map of three variables holds at all steps",
            source="(B.58)-(B.61)", measured=gaps, expected="< 1e-8", holds=max(gaps.values()) < 1e-8,
        )  # fmt: skip

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset) -> Mapping[str, Figure]:
        figure, (layers, residues, samples) = panels(3, size=(4.8, 3.8))
        self._draw_layers(layers, measured.isel(seed=0), predicted)
        self._draw_residues(residues, measured, predicted)
        for name, label, mark, color in (("v", "v", "o", PALETTE[0]), ("wx", "w along", "s", PALETTE[1])):
            for phase in (-2, -1):
                samples.plot(measured.own_K, measured[name].values[:, phase], mark, color=color, markersize=5,
                             fillstyle="none", label=label if phase == -1 else None)  # fmt: skip
        line = np.linspace(1.0, max(1.16, measured.own_K.max().item() + 0.02), 200)
        for level in np.asarray(theory.limit(line)["v"]).T:
            samples.plot(line, level, **THEORY, label="d₁, d₂ at this K" if level[-1] > 1 else None)
        samples.axvline(self.learning_rate / self.dim, color=FAINT, linewidth=0.8)
        samples.set(xlabel="the sample's own K", ylabel="weights at the last two steps", title="The orbit over samples")
        samples.legend(loc="center right")
        return {"single-neuron": figure}

    def _draw_layers(self, axes: Axes, run: xr.Dataset, predicted: xr.Dataset) -> None:
        names = {"v": "v", "wx": "w along the teacher", "wy": "w across it"}
        for (name, label), mark, color in zip(names.items(), "os^", PALETTE, strict=False):
            path = run[name].sel(step=slice(0, 60))
            axes.plot(path.step, path, mark + "-", color=color, markersize=3, linewidth=0.7, label=label)
        for level in predicted.limit.values:
            axes.axhline(level, **THEORY)
        axes.plot([], [], **THEORY, label="limit, population")
        axes.set(xlabel="step", ylabel="weight", title=f"A sample of {self.samples}, η = {self.learning_rate:g}",
                 ylim=(-0.05, 1.8))  # fmt: skip
        axes.legend(loc="upper right", ncols=2, fontsize=8)

    def _draw_residues(self, axes: Axes, measured: xr.Dataset, predicted: xr.Dataset) -> None:
        for which, label in enumerate(("w across", "|v - w along|")):
            for k, run in enumerate([measured.isel(seed=k) for k in range(min(self.seeds, 5))] + [predicted]):
                path = run.wy if which == 0 else np.abs(run.v - run.wx)
                sampled = {"color": PALETTE[2 + which], "linewidth": 0.8, "label": label if k == 0 else None}
                style = sampled if run is not predicted else THEORY | {"label": None if which else "population"}
                axes.plot(path.step, path.where(path > 1e-17), **style)  # pyright: ignore[reportArgumentType]
        axes.set(yscale="log", ylim=(1e-9, 3), xlabel="step", ylabel="residue", title="Alignment first, balance later")
        axes.legend(loc="upper right")


def _range(values: np.ndarray) -> list[float]:
    if values.size == 0:
        return []
    return [float(values.min()), float(values.max())]


def _stays_below(curves: np.ndarray, level: float) -> np.ndarray:
    """The first step from which a curve stays below the level; the number of steps if it does not."""
    above = curves >= level
    return np.where(above.any(axis=1), curves.shape[1] - np.argmax(above[:, ::-1], axis=1), 0)
