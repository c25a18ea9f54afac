"""Products of parameters fitted to a number: the loss c (x_1 x_2 ... x_n - mu)^2.

"Simple structures in neural networks": two factors with c = 1/2 are the model of Section 3.4, n factors with c = 1/n
and mu = 1 that of Proposition 7. Parameters are arrays whose last axis holds the factors.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from dynascope import checks
from dynascope.tasks.scalar_losses import Reals, Values, real


class ProductLoss(eqx.Module):
    """`task(factors)` is the loss c (x_1 x_2 ... x_n - mu)^2.

    Args:
        target: mu.
        scale: c.
    """

    target: Values
    scale: float = eqx.field(static=True)

    def __init__(self, target: Reals = 1.0, scale: float = 0.5) -> None:
        self.target, self.scale = real(checks.array("target", target)), checks.real("scale", scale, above=0)

    def __call__(self, factors: Float[Array, "*batch n"]) -> Float[Array, "*batch"]:
        return self.scale * self.excess(factors) ** 2

    def excess(self, factors: Float[Array, "*batch n"]) -> Float[Array, "*batch"]:
        """prod_i x_i - mu.

        Args:
            factors: The x_i, (..., n).
        """
        return jnp.prod(factors, axis=-1) - self.target

    def gradient(self, factors: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
        """2 c (prod x - mu) prod_{j != i} x_j.

        Args:
            factors: The x_i, (..., n).
        """
        return 2 * self.scale * self.excess(factors)[..., None] * products_of_others(factors)

    def step(self, factors: Float[Array, "*batch n"], rate: Reals) -> Float[Array, "*batch n"]:
        """One step of gradient descent; for two factors x+ = x - e y, y+ = y - e x with e = eta (xy - mu).

        Args:
            factors: The x_i, (..., n).
            rate: eta: one, or one for each point of the batch.
        """
        return factors - real(rate)[..., None] * self.gradient(factors)

    def hessian(self, factors: Float[Array, "*batch n"]) -> Float[Array, "*batch n n"]:
        """2 c (q_i q_j + (prod x - mu) q_ij), with q_i and q_ij the products of the other factors (q_ii = 0).

        Args:
            factors: The x_i, (..., n).
        """
        n = factors.shape[-1]
        first = products_of_others(factors)
        without_two = jnp.stack([products_of_others(_without(factors, i)) for i in range(n)], axis=-2)
        second = jnp.where(jnp.eye(n, dtype=bool), 0, without_two)
        curved = self.excess(factors)[..., None, None] * second
        return 2 * self.scale * (first[..., :, None] * first[..., None, :] + curved)

    def sharpness_at_minimum(self, factors: Float[Array, "*batch n"]) -> Float[Array, "*batch"]:
        """The one nonzero eigenvalue if prod x = mu: 2 c sum_i (mu/x_i)^2 (x^2 + y^2 for two factors).

        Args:
            factors: The x_i, (..., n).
        """
        return 2 * self.scale * jnp.sum(products_of_others(factors) ** 2, axis=-1)


def two_factors(mu: Reals = 1.0) -> ProductLoss:
    """The loss (xy - mu)^2 / 2.

    Args:
        mu: The target.
    """
    return ProductLoss(mu, 0.5)


def many_factors(n: int) -> ProductLoss:
    """The loss (prod_i x_i - 1)^2 / n (Proposition 7).

    Args:
        n: Number of factors.
    """
    return ProductLoss(1.0, 1 / checks.whole("n", n, at_least=2))


def products_of_others(factors: Float[Array, "*batch n"]) -> Float[Array, "*batch n"]:
    """prod_{j != i} x_j for every i, without a division (a factor may be zero).

    Args:
        factors: The x_i, (..., n).
    """
    one = jnp.ones_like(factors[..., :1])
    before = jnp.concatenate([one, jnp.cumprod(factors[..., :-1], axis=-1)], axis=-1)
    after = jnp.concatenate([one, jnp.cumprod(factors[..., :0:-1], axis=-1)], axis=-1)[..., ::-1]
    return before * after


def _without(factors: Float[Array, "*batch n"], i: int) -> Float[Array, "*batch n"]:
    """The factors with the i-th set to 1."""
    return factors.at[..., i].set(1)
