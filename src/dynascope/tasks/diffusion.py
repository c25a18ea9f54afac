"""Variational diffusion in continuous time: the loss of a denoiser with a learned schedule, and an ancestral sampler.

Data are mixed with noise, `z_t = alpha_t x + sigma_t e`, with `alpha_t^2 = sigmoid(-gamma_t)`, `sigma_t^2 =
sigmoid(gamma_t)` and the negative log signal-to-noise ratio `gamma_t = b + |w| t`, t from 0 to 1. A denoiser is any
function `(z, gamma, condition) -> noise` of one example.

D. P. Kingma, T. Salimans, B. Poole and J. Ho, Variational Diffusion Models, 2021.
"""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks
from dynascope.tasks.task import AugmentedTask

Number = float | int | Array


class Diffusion(eqx.Module):
    """What learns: a denoiser and the two numbers of the schedule, `gamma(t) = offset + |slope| t`."""

    denoiser: Any
    offset: Float[Array, ""]
    slope: Float[Array, ""]

    def __init__(self, denoiser: Any, *, gamma_min: Number = -5.0, gamma_max: Number = 10.0) -> None:
        self.denoiser = checks.function("denoiser", denoiser, "denoiser(z, gamma, condition)")
        low, high = checks.real("gamma_min", gamma_min), checks.real("gamma_max", gamma_max)
        if not isinstance(low, jax.Array) and not isinstance(high, jax.Array) and low >= high:
            raise ValueError(f"gamma_max must be above gamma_min; got {high} and {low}")
        number = jnp.result_type(float)
        self.offset, self.slope = jnp.asarray(low, number), jnp.asarray(high - low, number)

    def gamma(self, time: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """The negative log signal-to-noise ratio at times between 0 and 1."""
        return self.offset + jnp.abs(self.slope) * time

    def noise(
        self,
        z: Float[Array, "n ..."],
        gamma: Float[Array, " n"],
        condition: Float[Array, "n c"],
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "n ..."]:
        """The noise that the denoiser sees in each of n examples. A key is for dropout, where the denoiser has any."""
        if key is None or "key" not in inspect.signature(self.denoiser).parameters:
            return jax.vmap(self.denoiser)(z, gamma, condition)
        keys = jax.random.split(key, len(z))
        return jax.vmap(lambda *example: self.denoiser(*example[:-1], key=example[-1]))(z, gamma, condition, keys)


class Examples(NamedTuple):
    """Examples as they are given: the data and the conditions they are made under."""

    x: Float[Array, "n ..."]
    condition: Float[Array, "n c"]


class Noised(NamedTuple):
    """Examples as a step sees them: with a time and noise each, and a key for dropout."""

    x: Float[Array, "n ..."]
    condition: Float[Array, "n c"]
    time: Float[Array, " n"]
    noise: Float[Array, "n ..."]
    key: PRNGKeyArray | None


class Terms(NamedTuple):
    """The three parts of the loss, in bits per dimension; their sum bounds the negative log-likelihood."""

    diffusion: Float[Array, ""]
    latent: Float[Array, ""]
    reconstruction: Float[Array, ""]


class VariationalDiffusion(AugmentedTask):
    """The task: data are pairs `(x, condition)`, such as `Pictures`; what is trained is a `Diffusion`.

    Every step draws noise, and times `(u + i) / n` with one uniform u for its n examples, which cover [0, 1] evenly.
    `data_noise` is the standard deviation of the decoder p(x | z_0).
    """

    data_noise: Number

    def __init__(self, *, data_noise: Number = 1e-3) -> None:
        checks.positive(data_noise=data_noise)
        self.data_noise = checks.real("data_noise", data_noise)

    def augment(self, key: PRNGKeyArray, batch: Any) -> Noised:
        """The examples with fresh times and noise."""
        n = len(batch[0])
        time, noise, drop = jax.random.split(key, 3)
        times = (jax.random.uniform(time) + jnp.arange(n, dtype=batch[0].dtype)) / n
        return Noised(batch[0], batch[1], times, jax.random.normal(noise, batch[0].shape, batch[0].dtype), drop)

    def loss(self, model: Diffusion, batch: Any) -> Float[Array, ""]:
        """The mean over the examples of the three terms' sum, in bits per dimension."""
        terms = self.terms(model, batch)
        return terms.diffusion + terms.latent + terms.reconstruction

    def terms(self, model: Diffusion, batch: Any) -> Terms:
        """The three parts. Examples without times and noise get the same ones at every call, and no dropout.

        | part | one example, in nats |
        |---|---|
        | diffusion | `1/2 \\|w\\| \\|\\|e - e_hat\\|\\|^2` |
        | latent | `1/2 sum(v + (1 - v) x^2 - log v - 1)`, `v = sigma_1^2` |
        | reconstruction | `-E log N(x; z_0 / alpha_0, data_noise^2)`, the mean over the noise of z_0 |
        """
        if not isinstance(model, Diffusion):
            raise TypeError(
                f"model must be a Diffusion, which has a denoiser and a schedule; got {checks.shown(model)}"
            )
        if not isinstance(batch, Noised):
            batch = self.augment(jax.random.key(0), batch)._replace(key=None)
        gamma = model.gamma(batch.time)
        z = mixed(batch.x, batch.noise, gamma)
        error = jnp.sum((batch.noise - model.noise(z, gamma, batch.condition, batch.key)) ** 2)
        size, bits = batch.x.size, np.log(2)
        ends = model.gamma(jnp.asarray([0.0, 1.0], gamma.dtype))
        v = jax.nn.sigmoid(ends[1])
        latent = 0.5 * (v + (1 - v) * jnp.mean(batch.x**2) - jax.nn.log_sigmoid(ends[1]) - 1)
        spread = jnp.asarray(self.data_noise, gamma.dtype)
        reconstruction = 0.5 * (jnp.exp(ends[0]) / spread**2 + jnp.log(2 * jnp.pi * spread**2))
        return Terms(0.5 * jnp.abs(model.slope) * error / (size * bits), latent / bits, reconstruction / bits)


def mixed(x: Float[Array, "n ..."], noise: Float[Array, "n ..."], gamma: Float[Array, " n"]) -> Float[Array, "n ..."]:
    """`z = alpha x + sigma e`, at each example's own gamma."""
    column = jnp.expand_dims(gamma, tuple(range(1, x.ndim)))
    return jnp.sqrt(jax.nn.sigmoid(-column)) * x + jnp.sqrt(jax.nn.sigmoid(column)) * noise


def generate(
    model: Diffusion,
    conditions: Float[Array, "n c"],
    shape: tuple[int, ...],
    *,
    key: PRNGKeyArray,
    steps: int = 100,
) -> Float[Array, "n ..."]:
    """One sample of this shape under each condition, by `steps` ancestral steps on an even grid of times.

    From t to s < t, with `c = 1 - exp(gamma_s - gamma_t)`: `z_s = (alpha_s / alpha_t)(z_t - c sigma_t e_hat) + sigma_s
    sqrt(c) N(0, I)`. It ends at `z_0`. One compiled program, also inside another.
    """
    if not isinstance(model, Diffusion):
        raise TypeError(f"model must be a Diffusion, which has a denoiser and a schedule; got {checks.shown(model)}")
    conditions = jnp.asarray(checks.array("conditions", conditions, ndim=2))
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


def clipped_network(
    rule: optax.GradientTransformation, norm: Number, *, schedule: optax.GradientTransformation
) -> optax.GradientTransformation:
    """An optimizer of a `Diffusion`: the denoiser's gradient is clipped to `norm` and moved by `rule`, the schedule's
    two numbers are moved by `schedule`, unclipped.

    At the start the reconstruction term makes the gradient of the offset thousands of times as large as all others.
    Where one norm clips both, the denoiser's gradient is scaled down with it, nearly to nothing.
    """
    checks.positive(norm=norm)
    for name, given in (("rule", rule), ("schedule", schedule)):
        if not isinstance(given, optax.GradientTransformation):
            raise TypeError(f"{name} must be an optax transformation, such as optax.adamw(1e-3); got {given!r}")
    network = optax.chain(optax.clip_by_global_norm(norm), rule)
    return optax.partition({"network": network, "schedule": schedule}, diffusion_parts)


def diffusion_parts(model: Diffusion) -> Diffusion:
    """The labels "network" and "schedule" in the place of a `Diffusion`'s arrays, for `optax.partition`."""
    labels = jax.tree.map(lambda _: "network", model)
    return eqx.tree_at(lambda part: (part.offset, part.slope), labels, ("schedule", "schedule"))
