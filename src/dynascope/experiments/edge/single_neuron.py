"""Figure B.2: one ReLU neuron fits another, on a finite sample, above its threshold."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array
from matplotlib.axes import Axes
from pydantic import Field, PositiveInt

import dynascope as ds
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.edge.edge_experiment import EdgeExperiment
from dynascope.experiments.edge.rate_scans import run_at_rates
from dynascope.figures import FAINT, PALETTE, THEORY, panels
from dynascope.lab.criteria import below, share
from dynascope.lab.experiment import Claims, Figures, Source
from dynascope.probes.probe import Probe, probe
from dynascope.tasks.single_neuron import reduced_step, unit_teacher
from dynascope.theory.edge import single_neuron as theory

SETTLED = 0.02


class SampledNeuron(ds.Member):
    """An ensemble member: full-batch gradient descent on its own sample."""

    samples: int
    dim: int

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
    source = Source(SIMPLE_STRUCTURES, "Figure B.2; Proposition 4")
    cost = {"quick": 8, "full": 16}
    presets = {"quick": {"seeds": 100}}
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
    seeds: PositiveInt = 200

    def measure(self, seed: int) -> xr.Dataset:
        w = np.zeros(self.dim)
        w[1] = self.size
        fixed = {"v": np.float64(self.size), "w": w}
        over = {"seed": member_seeds(seed, self.seeds, block=1000)}
        numbers = {**fixed, "rate": np.float64(self.learning_rate)}
        member = SampledNeuron(self.samples, self.dim)
        sampled = ds.ensemble(member, over, fixed=numbers, steps=self.steps, record=1).trace
        population = []
        for dim in (self.dim, self.dim + 3):
            task, rate = unit_teacher(dim), self.learning_rate * dim / self.dim
            start = {**fixed, "w": np.concatenate([w, np.zeros(dim - self.dim)])}
            run = run_at_rates(task.step, start, [rate], self.steps, record=1).isel(rate=0)
            population.append(jax.vmap(task.coordinates)({name: jnp.asarray(run[name].values) for name in start}))
        task = unit_teacher(self.dim)
        points = jax.vmap(lambda key: task.sample(key, self.samples))(jax.vmap(jax.random.key)(sampled.seed.values))
        own = 2 * self.learning_rate * np.mean(np.maximum(np.asarray(points)[..., 0], 0) ** 2, axis=1)
        whole = {name: np.stack([run[name] for run in population]) for name in ("v", "wx", "wy")}
        whole = {f"population_{name}": (("population_dim", "step"), values) for name, values in whole.items()}
        return sampled.drop_vars("diverged_at").assign(whole).assign(own_K=("seed", own))

    def predict(self, measured: xr.Dataset) -> xr.Dataset:
        """The reduced map from the same start, and Proposition 4's limit (nan below the threshold)."""
        K = self.learning_rate / self.dim
        start = {"v": jnp.asarray(self.size), "wx": jnp.asarray(0.0), "wy": jnp.asarray(self.size)}
        run = ds.iterate(lambda state: reduced_step(state, K), start, steps=self.steps, record=1).trace
        limit = np.asarray(theory.limit(K)["v"])
        with np.errstate(invalid="ignore"):
            own = np.asarray(theory.limit(measured.own_K.values)["v"])
        return run.drop_vars("diverged_at").assign(limit=("point", limit), own_orbit=(("seed", "point"), own))

    def reduce(self, measured: xr.Dataset, predicted: xr.Dataset) -> xr.Dataset:
        variables, gap = ("v", "wx", "wy"), np.abs(measured.v - measured.wx)
        last = np.sort([measured[name].values[:, -2:] for name in ("v", "wx")], axis=-1)
        population = xr.concat([measured[f"population_{name}"] for name in variables], "variable")
        reduction = abs(population - xr.concat([predicted[name] for name in variables], "variable"))
        ends = np.sort(population.values[..., -2:], axis=-1)
        limit = np.stack([predicted.limit, predicted.limit, [0, 0]])
        return xr.Dataset(
            {
                "own_K": measured.own_K,
                "off_orbit": ("seed", np.abs(last - predicted.own_orbit.values).max((0, 2))),
                "height": measured.wy.isel(step=-1, drop=True),
                "gap": gap.isel(step=-1, drop=True),
                "aligned_at": ("seed", _settles(measured.wy.values)),
                "balanced_at": ("seed", _settles(gap.values)),
                "off_limit": ("variable", np.abs(ends - limit[:, None]).max((1, 2))),
                "reduction_error": reduction.max(("population_dim", "step")),
            },
            {"variable": list(variables)},
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        beyond, residue = reduced.isel(seed=(reduced.own_K > 1).values), self.samples**-0.5
        why = "The share: first asked of every sample with an own K above 1; 1/√n: set after 55 samples."
        statement = f"After {self.steps} steps on {self.samples} samples v and wx are on the orbit of the sample's own "
        statement += "K = 2 η mean(relu(x · teacher)²), to 1/√n; it has none for K < 1"
        shown = {"own K": [reduced.own_K.min(), reduced.own_K.max()]}
        about = {"post_hoc": why, "printed": "v and w_x converge to a period-2 orbit", "shown": shown}
        on_orbit = (reduced.own_K > 1) & (reduced.off_orbit < residue)
        yield share("orbit", statement, on_orbit, 0.9, **about)
        statement = f"wy comes to within {SETTLED:g} of its end, for good, before |v - wx| does"
        printed = "w_y decays to a small value before the inbalance |v - w_x| decays sharply"
        first = reduced.aligned_at < reduced.balanced_at
        yield share("alignment-first", statement, first, 0.9, post_hoc=why, printed=printed)
        statement = "With an own K above 1, wy and |v - wx| are small in the end, at most 2/√n"
        residues = xr.concat([beyond.height, beyond.gap], "residue")
        printed = "the small residuals of |v - w_x| and w_y"
        yield below("residues", statement, residues, 2 * residue, post_hoc=why, printed=printed)
        statement = "On the population v = wx = d_i and wy = 0 in the end, in 2 and in 5 dimensions: largest distance"
        yield below("population", statement, reduced.off_limit, 1e-8, source="Proposition 4", seeds=1)
        statement = "On the population the map of three variables holds at all steps: largest error"
        yield below("reduction", statement, reduced.reduction_error, 1e-8, source="(B.58)-(B.61)", seeds=1)

    def draw(self, measured: xr.Dataset, predicted: xr.Dataset, reduced: xr.Dataset) -> Figures:
        figure, (layers, residues, samples) = panels(3, size=(4.8, 3.8))
        self._draw_layers(layers, measured.isel(seed=0), predicted)
        self._draw_residues(residues, measured, predicted)
        for name, label, mark, color in (("v", "v", "o", PALETTE[0]), ("wx", "w along", "s", PALETTE[1])):
            for phase in (-2, -1):
                style = {"color": color, "markersize": 5, "fillstyle": "none", "label": label if phase == -1 else None}
                samples.plot(measured.own_K, measured[name].values[:, phase], mark, **style)
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
        axes.set(xlabel="step", ylabel="weight", ylim=(-0.05, 1.8))
        axes.set_title(f"A sample of {self.samples}, η = {self.learning_rate:g}")
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


def _settles(curves: np.ndarray) -> np.ndarray:
    """The step from which a curve stays within `SETTLED` of the mean of its last two steps."""
    away = np.abs(curves - curves[:, -2:].mean(1, keepdims=True)) >= SETTLED
    return np.where(away.any(axis=1), curves.shape[1] - np.argmax(away[:, ::-1], axis=1), 0)
