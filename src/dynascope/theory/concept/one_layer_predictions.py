"""Theorem 4.1 for recorded runs of the one-layer model, from each run's own start and under the names measured."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from dynascope.theory.concept import one_layer


def predicted_outputs(trace: xr.Dataset, step_size: float, origin: bool) -> xr.Dataset:
    """`output(signal, seed, step, concept)` and `test_loss(signal, seed, step)` at the test point, in discrete form.

    The trace gives `mu`, `sigma`, `step` and the `start` matrix. `step_size` is that of a step on the loss of eq.
    (2.1): the learning rate, times 2/d for a loss averaged over coordinates.
    """
    start = jnp.asarray(trace.start.isel(start_step=0).transpose("signal", "seed", "row", "column").values, float)
    steps = jnp.asarray(trace.step.values)
    dim = start.shape[-1]

    def paths(mu: Array, sigma: Array, starts: Array) -> Array:
        a = one_layer.second_moment(mu, sigma, dim, origin)
        z = jnp.pad(mu, (0, dim - mu.shape[0]))
        return jax.vmap(lambda W0: one_layer.discrete_output_terms(steps, step_size, z, W0, a).output)(starts)

    mu = jnp.asarray(trace.mu.values, float)
    output = jax.vmap(paths)(mu, jnp.asarray(trace.sigma.values, float), start)
    target = jnp.pad(mu, ((0, 0), (0, dim - mu.shape[1])))[:, None, None, :]
    loss = jnp.sum((output - target) ** 2, axis=-1) / 2
    dims = ("signal", "seed", "step")
    return xr.Dataset(
        {"output": ((*dims, "concept"), np.asarray(output[..., : mu.shape[1]])), "test_loss": (dims, np.asarray(loss))},
        {"step": trace.step, "seed": trace.seed, "concept": trace.concept},
    )


def closed_forms(measured: xr.Dataset) -> xr.Dataset:
    """Outputs at the test point and at `z`, of axes (signal, seed, point, time, coordinate): exact for steps of every
    `learning_rate` (`output`), of the flow (`flow_output`), its `growth` without the noise, and as misprinted
    (`printed_sum`, `printed_rate`)."""
    mu, sigma, z, times = (jnp.asarray(measured[name].values) for name in ("mu", "sigma", "z", "time"))
    W0 = jnp.asarray(measured.start.transpose("signal", "seed", "row", "column").values)
    tests = jnp.pad(mu, ((0, 0), (0, z.shape[0] - mu.shape[1])))
    points = jnp.stack([tests, jnp.broadcast_to(z, tests.shape)], axis=1)
    rates = [float(rate) for rate in measured.learning_rate]

    def forms(mu: Array, sigma: Array, W0: Array, z: Array) -> dict[str, Array]:
        dim = z.shape[0]
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
        {"time": measured.time, "learning_rate": rates},
    )
