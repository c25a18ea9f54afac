"""The one-layer model on the population, by steps and as a flow, and Theorem 4.1 for it in all its forms."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array

import dynascope as ds
from dynascope.dynamics.process import Process
from dynascope.probes.probe import probe
from dynascope.theory.concept import one_layer

TIMES = np.linspace(0.0, 3.0, 31)
"""Times of gradient flow at which outputs are compared; multiples of every step size."""


class LinearLearner(eqx.Module):
    """An ensemble member: a linear network on the population loss (2.1), by steps or as a flow, watched at the test
    point and at `z`, any other input."""

    dim: int = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    moves: Literal["steps", "flow"] = eqx.field(static=True)

    def __call__(self, seed: Array, signal: tuple[Array, Array], z: Array, learning_rate: Array) -> Process:
        task = ds.tasks.StructuredIdentity(*signal, self.dim, norm="sum")
        model = ds.models.MLP(self.dim, self.depth, key=jax.random.key(seed))
        points = jnp.stack([task.test_point, z])
        probes: dict[str, Any] = {
            "output": probe(lambda moment: jax.vmap(moment.model)(points), dims=("point", "coordinate")),
            "matrix": probe(lambda moment: moment.model.matrix(), dims=("row", "column")),
        }
        if self.moves == "flow":
            return ds.Flow(model, task, probes=probes)
        return ds.Descent(model, task, optax.sgd(learning_rate), probes=probes)


def run_population(
    dim: int, depth: int, mu: np.ndarray, sigma: np.ndarray, z: np.ndarray, rates: tuple[float, ...], seeds: np.ndarray
) -> xr.Dataset:
    """Outputs at `TIMES` by gradient descent with every step size and by gradient flow, all from the same starts."""
    over = {"signal": (mu, sigma), "seed": seeds}
    runs = []
    for rate in rates:
        at = np.rint(TIMES / rate).astype(int)
        fixed = {"z": z, "learning_rate": rate}
        run = ds.ensemble(LinearLearner(dim, depth, "steps"), over, steps=int(at[-1]), record=at, fixed=fixed)
        runs.append(run.output.rename(step="time").assign_coords(time=TIMES))
    fixed = {"z": z, "learning_rate": 0.0}
    flow = ds.ensemble(LinearLearner(dim, depth, "flow"), over, times=TIMES, fixed=fixed)
    return xr.Dataset(
        {
            "output": xr.concat(runs, xr.Variable("learning_rate", list(rates))),
            "flow_output": flow.output,
            "start": flow.matrix.isel(time=0, drop=True),
            "mu": (("signal", "concept"), mu),
            "sigma": (("signal", "concept"), sigma),
            "z": ("coordinate", z),
        }
    )


def closed_forms(measured: xr.Dataset) -> xr.Dataset:
    """Outputs in closed form at the test point and at `z`: exact for steps (`output`), of the flow (`flow_output`), its
    `growth` without the noise, and as misprinted (`printed_sum`, `printed_rate`)."""
    mu, sigma, z = (jnp.asarray(measured[name].values) for name in ("mu", "sigma", "z"))
    W0 = jnp.asarray(measured.start.transpose("signal", "seed", "row", "column").values)
    tests = jnp.pad(mu, ((0, 0), (0, z.shape[0] - mu.shape[1])))
    points = jnp.stack([tests, jnp.broadcast_to(z, tests.shape)], axis=1)
    rates = [float(rate) for rate in measured.learning_rate]

    def forms(mu: Array, sigma: Array, W0: Array, z: Array) -> dict[str, Array]:
        times, dim = jnp.asarray(TIMES), z.shape[0]
        a, printed = one_layer.second_moment(mu, sigma, dim), one_layer.printed_second_moment(mu, sigma, dim)
        steps = [
            one_layer.discrete_output_terms(jnp.rint(times / rate).astype(int), rate, z, W0, a).output for rate in rates
        ]
        flow = one_layer.output_terms(times, z, W0, a)
        return {
            "output": jnp.stack(steps),
            "flow_output": flow.output,
            "growth": flow.growth,
            "printed_sum": one_layer.output_terms(times, z, W0, a, noise_inputs=mu.shape[0]).output,
            "printed_rate": one_layer.output_terms(times, z, W0, printed).output,
        }

    over_points = jax.vmap(forms, (None, None, None, 0))
    over_seeds = jax.vmap(over_points, (None, None, 0, None))
    curves = jax.vmap(over_seeds)(mu, sigma, W0, points)
    members, curve = ("signal", "seed", "point"), ("time", "coordinate")
    dims = {"output": (*members, "learning_rate", *curve)}
    return xr.Dataset(
        {name: (dims.get(name, (*members, *curve)), np.asarray(values)) for name, values in curves.items()},
        {"time": TIMES, "learning_rate": rates},
    )
