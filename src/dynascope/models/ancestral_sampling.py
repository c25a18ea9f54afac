"""Samples of a diffusion model, by ancestral steps from noise to data."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks
from dynascope.models.diffusion import Diffusion


def generate(
    model: Diffusion,
    conditions: Float[Array, "n c"],
    shape: tuple[int, ...],
    *,
    key: PRNGKeyArray,
    steps: int = 100,
) -> Float[Array, "n ..."]:
    """Sample from a diffusion model under each condition, by ancestral steps on an even grid of times.

    From t to s < t, with `c = 1 - exp(gamma_s - gamma_t)`: `z_s = (alpha_s / alpha_t)(z_t - c sigma_t e_hat) + sigma_s
    sqrt(c) N(0, I)`. It ends at `z_0`. One compiled program, also inside another.

    Args:
        model: The trained model.
        conditions: A row for each sample.
        shape: The shape of one sample.
        key: Key of the noise.
        steps: Number of steps, default 100.

    Returns:
        An array of samples, one for each condition.
    """
    if not isinstance(model, Diffusion):
        raise TypeError(f"model must be a Diffusion, which has a denoiser and a schedule; got {checks.shown(model)}")
    conditions = checks.jax_array("conditions", conditions, ndim=2)
    if not isinstance(shape, tuple):
        raise TypeError(f"shape must be the shape of one sample, a tuple; got {checks.shown(shape)}")
    for size in shape:
        checks.whole("each of shape", size, at_least=1, at_most=2**31 - 1)
    return _generate(model, conditions, shape, checks.key("key", key), checks.whole("steps", steps, at_least=1))


@eqx.filter_jit
def _generate(model: Diffusion, conditions: Array, shape: tuple[int, ...], key: PRNGKeyArray, steps: int) -> Array:
    number = model.offset.dtype
    n, start, path = len(conditions), jax.random.fold_in(key, 0), jax.random.fold_in(key, 1)
    gammas = model.gamma(jnp.linspace(1, 0, steps + 1, dtype=number))

    def step(i: Array, z: Array) -> Array:
        now, then = gammas[i], gammas[i + 1]
        c = -jnp.expm1(then - now)
        noise = model.noise(z, jnp.full((n,), now), conditions)
        scale = jnp.sqrt(jax.nn.sigmoid(-then) / jax.nn.sigmoid(-now))
        fresh = jax.random.normal(jax.random.fold_in(path, i), z.shape, number)
        return scale * (z - c * jnp.sqrt(jax.nn.sigmoid(now)) * noise) + jnp.sqrt(jax.nn.sigmoid(then) * c) * fresh

    return lax.fori_loop(0, steps, step, jax.random.normal(start, (n, *shape), number))
