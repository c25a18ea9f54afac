"""Variational diffusion in continuous time: the loss of a denoiser with a learned schedule.

Data are mixed with noise, `z_t = alpha_t x + sigma_t e`, with `alpha_t^2 = sigmoid(-gamma_t)`, `sigma_t^2 =
sigmoid(gamma_t)` and the negative log signal-to-noise ratio `gamma_t = b + |w| t`, t from 0 to 1.

D. P. Kingma, T. Salimans, B. Poole and J. Ho, Variational Diffusion Models, 2021.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks
from dynascope.tasks.task import AugmentedTask

Number = float | Array


@runtime_checkable
class DiffusionModel(Protocol):
    """A model with a schedule `gamma(t) = offset + |slope| t` that sees noise, such as `ds.models.Diffusion`."""

    slope: Float[Array, ""]

    def gamma(self, time: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """The negative log signal-to-noise ratio at times between 0 and 1."""
        ...

    def noise(
        self,
        z: Float[Array, "n ..."],
        gamma: Float[Array, " n"],
        condition: Float[Array, "n c"],
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "n ..."]:
        """The noise in each of n examples; a key is for dropout."""
        ...


class Examples(NamedTuple):
    """Examples as given: the data and the conditions under which they were made."""

    x: Float[Array, "n ..."]
    condition: Float[Array, "n c"]


class Noised(NamedTuple):
    """Examples as a step uses them, each with a time and noise, and a key for dropout."""

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
    """The variational bound of a `ds.models.Diffusion`, on pairs `(x, condition)` such as `Pictures`.

    Every step draws noise, and times `(u + i) / n` with one uniform u for its n examples, which cover [0, 1] evenly.

    Args:
        data_noise: Standard deviation of the decoder p(x | z_0), default 0.001.
    """

    data_noise: Number

    def __init__(self, *, data_noise: Number = 1e-3) -> None:
        checks.positive(data_noise=data_noise)
        self.data_noise = checks.real("data_noise", data_noise)

    def augment(self, key: PRNGKeyArray, batch: Any) -> Noised:
        """The examples with fresh times and noise.

        Args:
            key: Key of the times, the noise and the dropout.
            batch: A pair of n examples and their conditions.
        """
        n = len(batch[0])
        time, noise, drop = jax.random.split(key, 3)
        times = (jax.random.uniform(time) + jnp.arange(n, dtype=batch[0].dtype)) / n
        return Noised(batch[0], batch[1], times, jax.random.normal(noise, batch[0].shape, batch[0].dtype), drop)

    def loss(self, model: DiffusionModel, batch: Any) -> Float[Array, ""]:
        """The mean over the examples of the three terms' sum, in bits per dimension.

        Args:
            model: The model to train.
            batch: Examples, with times and noise or without.
        """
        terms = self.terms(model, batch)
        return terms.diffusion + terms.latent + terms.reconstruction

    def terms(self, model: DiffusionModel, batch: Any) -> Terms:
        """The three parts of the loss, in bits per dimension.

        | part | one example, in nats |
        |---|---|
        | diffusion | `1/2 \\|w\\| \\|\\|e - e_hat\\|\\|^2` |
        | latent | `1/2 sum(v + (1 - v) x^2 - log v - 1)`, `v = sigma_1^2` |
        | reconstruction | `-E log N(x; z_0 / alpha_0, data_noise^2)`, the mean over the noise of z_0 |

        Args:
            model: The model to train.
            batch: Examples. Without times and noise they get the same ones at every call, and no dropout.
        """
        if not isinstance(model, DiffusionModel):
            given = checks.shown(model)
            raise TypeError(f"model must be a Diffusion, which has a denoiser and a schedule; got {given}")
        if not isinstance(batch, Noised):
            batch = self.augment(jax.random.key(0), batch)._replace(key=None)
        gamma = model.gamma(batch.time)
        z = add_noise(batch.x, batch.noise, gamma)
        error = jnp.sum((batch.noise - model.noise(z, gamma, batch.condition, batch.key)) ** 2)
        size, bits = batch.x.size, np.log(2)
        ends = model.gamma(jnp.asarray([0.0, 1.0], gamma.dtype))
        v = jax.nn.sigmoid(ends[1])
        latent = 0.5 * (v + (1 - v) * jnp.mean(batch.x**2) - jax.nn.log_sigmoid(ends[1]) - 1)
        spread = jnp.asarray(self.data_noise, gamma.dtype)
        reconstruction = 0.5 * (jnp.exp(ends[0]) / spread**2 + jnp.log(2 * jnp.pi * spread**2))
        return Terms(0.5 * jnp.abs(model.slope) * error / (size * bits), latent / bits, reconstruction / bits)


def add_noise(
    x: Float[Array, "n ..."], noise: Float[Array, "n ..."], gamma: Float[Array, " n"]
) -> Float[Array, "n ..."]:
    """`z = alpha x + sigma e`, at each example's own gamma."""
    column = jnp.expand_dims(gamma, tuple(range(1, x.ndim)))
    return jnp.sqrt(jax.nn.sigmoid(-column)) * x + jnp.sqrt(jax.nn.sigmoid(column)) * noise
