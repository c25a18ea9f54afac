"""The base of the two experiments that perturb a run of the diagonal head and follow its continuation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Bool, Float
from matplotlib.axes import Axes
from pydantic import Field

import dynascope as ds
from dynascope.experiments.rank.diagonal_head import HeadExperiment, Scale, regression
from dynascope.figures import INK, PALETTE
from dynascope.models.diagonal import AttentionHead
from dynascope.tasks.diagonal import DiagonalRegression
from dynascope.theory.rank.diagonal_flow import Reduced, reduce_weights, reduced_process, weights

BALANCED = -300.0
"""log kappa of a coordinate with |u| = |v|, up to rounding in float64."""
KINDS = ("unperturbed", "perturbed", "balanced")


class State(NamedTuple):
    """A point of the reduced flow."""

    log_kappa: Float[np.ndarray, " p"]
    z: Float[np.ndarray, " p"]


class Continuation(ds.Member):
    """A member of the ensemble: the flow from one state, in unrescaled time."""

    dim: int

    def __call__(self, case: Mapping[str, Array], x: Array, y: Array) -> ds.Flow:
        task = DiagonalRegression(AttentionHead(self.dim), x, y)
        return reduced_process(task, Reduced(case["log_kappa"], case["z"]), 1.0, tolerance=1e-6)


class PerturbedHeadExperiment(HeadExperiment):
    """A run from one small scale, perturbed at some of its times."""

    scale: Scale = 1e-32
    negligible: float = Field(1e-5, gt=0)
    """Weights up to this size are negligible."""
    perturb_all: bool = False
    """Whether negligible weights are perturbed too, which neither assumption allows."""
    window: float = Field(50.0, gt=0)
    """The length of each continuation, in unrescaled time."""
    spread: float = Field(0.05, gt=0)
    """The standard deviation of the perturbation."""

    def states(self, run: xr.Dataset) -> State:
        """log kappa (p,), and z (time, p) at each recorded time, of the run of one seed."""
        head = self.head(int(run.seed))
        pace = -np.log(self.scale)
        log_kappa = np.asarray(reduce_weights(jnp.asarray(head.u), jnp.asarray(head.v), -pace).log_kappa)
        return State(log_kappa, -pace * run.log_weight.values - log_kappa / 2)

    def perturbed(self, state: State, spread: float, rng: np.random.Generator) -> dict[str, State]:
        """The state itself; with noise on all weights that are not negligible; and with noise on u, keeping v = s u."""
        u, v = (np.asarray(part) for part in weights(Reduced(jnp.asarray(state.log_kappa), jnp.asarray(state.z))))
        hit = np.full(len(u), True) if self.perturb_all else np.maximum(np.abs(u), np.abs(v)) > self.negligible
        first, second = spread * rng.normal(size=(2, len(u)))
        log_kappa, z = (np.asarray(part) for part in reduce_weights(jnp.asarray(u + first), jnp.asarray(v + second)))
        sign = np.where(state.z >= 0, 1.0, -1.0)
        log_size = 2 * np.log(np.maximum(np.abs(u + first), np.finfo(float).tiny))
        balanced = sign * (log_size + np.log(4) - BALANCED) / 2
        return {
            "unperturbed": state,
            "perturbed": State(np.where(hit, log_kappa, state.log_kappa), np.where(hit, z, state.z)),
            "balanced": State(np.where(hit, BALANCED, state.log_kappa), np.where(hit, balanced, state.z)),
        }

    def continued(self, number: int, cases: list[State]) -> xr.Dataset:
        """The flow from every state: loss (case, time), product (case, time, coordinate), in unrescaled time."""
        task = regression(self.head(number))
        over = {"log_kappa": np.stack([case.log_kappa for case in cases]), "z": np.stack([case.z for case in cases])}
        times, data = np.linspace(0, self.window, 101), {"x": task.x, "y": task.y}
        return ds.ensemble(Continuation(self.dim), {"case": over}, times=times, fixed=data, width=1).trace

    def noticed(self, states: State) -> Bool[np.ndarray, "time p"]:
        """Whether each coordinate has a weight that is not negligible, at each time."""
        log_size = states.log_kappa / 2 + np.abs(states.z) - np.log(2)  # of the larger weight
        return log_size > np.log(self.negligible)

    def follow(
        self, run: xr.Dataset, places: Sequence[int], kinds: Sequence[str], rng: np.random.Generator
    ) -> xr.Dataset:
        """The flow from the recorded times at these places, perturbed in these ways: product (event, kind, time,
        coordinate), kappa = |u² - v²|, which the flow conserves (event, kind, coordinate), `perturbed_at` and the
        `number` of the seed (event)."""
        states, number = self.states(run), int(run.seed)
        cases = [self.perturbed(states._replace(z=states.z[at]), self.spread, rng) for at in places]
        trace = self.continued(number, [case[kind] for case in cases for kind in kinds])
        paths = trace["product"].values.reshape(len(places), len(kinds), *trace["product"].shape[1:])
        kappa = np.exp([[case[kind].log_kappa for kind in kinds] for case in cases])
        return xr.Dataset(
            {
                "product": (("event", "kind", "time", "coordinate"), paths),
                "kappa": (("event", "kind", "coordinate"), kappa),
                "perturbed_at": ("event", run.time.values[list(places)]),
                "number": ("event", np.full(len(places), number)),
            },
            {"time": trace.time.values, "kind": list(kinds)},
        )


def draw_events(panel: Axes, paths: xr.Dataset, title: str) -> None:
    """The products of one event that are not small, perturbed (dashed) and not."""
    active = np.flatnonzero(np.abs(paths["product"].values).max(axis=(0, 1)) > 1e-2)
    for order, i in enumerate(active):
        quiet, noisy = (paths["product"].sel(kind=kind).values[:, i] for kind in ("unperturbed", "perturbed"))
        panel.plot(paths.time, quiet, color=PALETTE[order % len(PALETTE)], linewidth=1.4)
        panel.plot(paths.time, noisy, "--", color=INK, linewidth=0.8)
    panel.set(title=title, xlabel="time after it")
