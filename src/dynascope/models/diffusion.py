"""A diffusion model: a denoiser with a learned schedule of the noise.

The schedule is the negative log signal-to-noise ratio `gamma_t = b + |w| t`, t from 0 to 1. Data and noise are mixed
as `z_t = alpha_t x + sigma_t e`, with `alpha_t^2 = sigmoid(-gamma_t)` and `sigma_t^2 = sigmoid(gamma_t)`. A denoiser is
any function `(z, gamma, condition) -> noise` of one example.

D. P. Kingma, T. Salimans, B. Poole and J. Ho, Variational Diffusion Models, 2021.
"""

from __future__ import annotations

import inspect
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks

Number = float | Array


class Diffusion(eqx.Module):
    """A denoiser and the two numbers of the schedule, `gamma(t) = offset + |slope| t`: all of it is trained.

    Args:
        denoiser: `denoiser(z, gamma, condition)` is the noise in one example z. It may take `key=` for dropout.
        gamma_min: Initial value of gamma(0), default -5: hardly any noise.
        gamma_max: Initial value of gamma(1), default 10: hardly anything else.
    """

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
        """The negative log signal-to-noise ratio.

        Args:
            time: Times between 0 and 1.
        """
        return self.offset + jnp.abs(self.slope) * time

    def noise(
        self,
        z: Float[Array, "n ..."],
        gamma: Float[Array, " n"],
        condition: Float[Array, "n c"],
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "n ..."]:
        """The noise that the denoiser sees in each of n examples.

        Args:
            z: The examples, mixed with noise.
            gamma: The negative log signal-to-noise ratio of each example.
            condition: The condition of each example.
            key: For dropout, if the denoiser has any; without it there is none.
        """
        if key is None or "key" not in inspect.signature(self.denoiser).parameters:
            return jax.vmap(self.denoiser)(z, gamma, condition)
        keys = jax.random.split(key, len(z))
        return jax.vmap(lambda *example: self.denoiser(*example[:-1], key=example[-1]))(z, gamma, condition, keys)
