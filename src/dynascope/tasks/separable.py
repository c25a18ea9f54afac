"""Sums of terms in single directions, and their extension by couplings between directions.

"Simple structures in neural networks", Section 3.6.2: the separable model of Ma et al. (3.10), f = sum_i f_i(p_i .
theta), and its extension (3.12) f = sum_i g_i + sum_{(i,j) in E} h_ij. In the document's example, g_i = (|x|^2 - a)^2
and h_ij = (<x, y> - b)^2, each "p_i . theta" must be a vector; here it is row i of a matrix. With the weights 1/4 and
1/2, all pairs and b = 0, the model is symmetric matrix factorization of diag(a).
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dynascope import checks
from dynascope.tasks.scalar_losses import Reals


class SeparableLoss(eqx.Module):
    """f(theta) = sum_i f_i(p_i . theta) (3.10)."""

    terms: tuple[Callable[[Array], Array], ...]
    """The f_i."""
    directions: Float[Array, "k n"]
    """The p_i, one per row."""

    def __check_init__(self) -> None:
        checks.array("directions", self.directions, ndim=2, lists=False)
        if not isinstance(self.terms, tuple | list) or not all(map(callable, self.terms)):
            raise TypeError(f"terms must be a tuple of functions of one number; got {checks.shown(self.terms)}")
        if len(self.terms) != len(self.directions):
            got = f"{len(self.terms)} terms and {len(self.directions)} directions"
            raise ValueError(f"terms and directions must be equally many; got {got}")

    def __call__(self, parameters: Float[Array, " n"]) -> Float[Array, ""]:
        along = jnp.matmul(self.directions, parameters, precision="highest")
        return jnp.sum(jnp.stack([term(along[i]) for i, term in enumerate(self.terms)]))

    def step(self, parameters: Float[Array, " n"], rate: Reals) -> Float[Array, " n"]:
        """One step of gradient descent.

        Args:
            parameters: theta, (n,).
            rate: The learning rate.
        """
        return parameters - rate * jax.grad(self)(parameters)


class ExtendedLoss(eqx.Module):
    """f(x_1, ..., x_k) = 1/4 sum_i (|x_i|^2 - a_i)^2 + 1/2 sum_{i<j} e_ij (<x_i, x_j> - b)^2 (3.12)."""

    strengths: Float[Array, " k"]
    """a."""
    couplings: Float[Array, "k k"]
    """e: symmetric; 1 for a pair in E, else 0. The diagonal is ignored."""
    offset: Float[Array, ""] | float = 0.0
    """b."""

    def __check_init__(self) -> None:
        k = len(checks.array("strengths", self.strengths, ndim=1, lists=False))
        if checks.array("couplings", self.couplings, lists=False).shape != (k, k):
            raise ValueError(f"couplings must be {k} by {k}, as there are {k} strengths; got {self.couplings.shape}")
        checks.real("offset", self.offset)

    def __call__(self, blocks: Float[Array, "k p"]) -> Float[Array, ""]:
        own, cross = self._excess(blocks)
        return jnp.sum(own**2) / 4 + jnp.sum(self._pairs() * cross**2) / 4

    def gradient(self, blocks: Float[Array, "k p"]) -> Float[Array, "k p"]:
        """(|x_i|^2 - a_i) x_i + sum_{j != i} e_ij (<x_i, x_j> - b) x_j.

        Args:
            blocks: The x_i, (k, p).
        """
        own, cross = self._excess(blocks)
        return own[:, None] * blocks + jnp.matmul(self._pairs() * cross, blocks, precision="highest")

    def step(self, blocks: Float[Array, "k p"], rate: Reals) -> Float[Array, "k p"]:
        """One step of gradient descent.

        Args:
            blocks: The x_i, (k, p).
            rate: The learning rate.
        """
        return blocks - rate * self.gradient(blocks)

    def _excess(self, blocks: Float[Array, "k p"]) -> tuple[Float[Array, " k"], Float[Array, "k k"]]:
        inner = jnp.matmul(blocks, blocks.T, precision="highest")
        return jnp.diagonal(inner) - self.strengths, inner - self.offset

    def _pairs(self) -> Float[Array, "k k"]:
        return self.couplings * (1 - jnp.eye(self.strengths.shape[0], dtype=self.couplings.dtype))
