"""A linear associative memory with noise: every input has an output of its own, and all share the noise.

"Simple structures in neural networks", Section 4.4.3 and Appendix C.5. For embeddings e_i of n inputs and u_j of n + 1
outputs, a matrix W gives the logits <u_j, W e_i>. Output i comes with probability 1 - alpha, the last output, the
noise, with probability alpha.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks
from dynascope.tasks.task import PopulationTask

Weights = Float[Array, "d d"]
Share = float | Float[Array, ""]


class AssociativeMemory(PopulationTask):
    """The task of a matrix that recalls an output for every input, with noise.

    The model is the matrix W (d, d) itself; the loss is the mean over the inputs of the expected cross-entropy.
    """

    inputs: Float[Array, "n d"]
    """The embeddings e_i of the inputs."""
    outputs: Float[Array, "c d"]
    """The embeddings u_j of the n + 1 outputs, the noise last."""
    alpha: Share = 0.03
    """The probability of the noise."""

    def __check_init__(self) -> None:
        shapes = [checks.array(name, getattr(self, name), ndim=2).shape for name in ("inputs", "outputs")]
        if shapes[1] != (shapes[0][0] + 1, shapes[0][1]):
            raise ValueError(f"outputs must have shape (n + 1, d) for inputs (n, d); got {shapes[1]} and {shapes[0]}")
        checks.real("alpha", self.alpha, at_least=0, at_most=1)

    @classmethod
    def on_sphere(cls, key: PRNGKeyArray, n: int, dim: int, alpha: Share = 0.03) -> AssociativeMemory:
        """The task with embeddings uniform on the unit sphere.

        Args:
            key: Key of the embeddings.
            n: Number of inputs.
            dim: Number of coordinates d.
            alpha: The probability of the noise.
        """
        checks.sizes(n=n, dim=dim)
        drawn = jax.random.normal(checks.key("key", key), (2 * n + 1, dim))
        drawn = drawn / jnp.linalg.norm(drawn, axis=1, keepdims=True)
        return cls(drawn[:n], drawn[n:], alpha)

    @classmethod
    def orthonormal(cls, n: int, alpha: Share = 0.03) -> AssociativeMemory:
        """The task with unit vectors of n + 1 coordinates, as in the theory: input i is output i.

        Args:
            n: Number of inputs.
            alpha: The probability of the noise.
        """
        checks.sizes(n=n)
        return cls(jnp.eye(n, n + 1), jnp.eye(n + 1), alpha)

    def logits(self, weights: Weights) -> Float[Array, "n c"]:
        """<u_j, W e_i> of input i and output j.

        Args:
            weights: W, (d, d).
        """
        return self.inputs @ weights.T @ self.outputs.T

    def population_loss(self, weights: Weights) -> Float[Array, ""]:
        """The mean over the inputs of the expected cross-entropy."""
        log = jax.nn.log_softmax(self.logits(weights))
        own = jnp.diagonal(log)
        return -jnp.mean((1 - self.alpha) * own + self.alpha * log[:, -1])

    def pure_loss(self, weights: Weights) -> Float[Array, ""]:
        """The mean cross-entropy of labels without noise.

        Args:
            weights: W, (d, d).
        """
        return -jnp.mean(jnp.diagonal(jax.nn.log_softmax(self.logits(weights))))

    def start(self, key: PRNGKeyArray) -> Weights:
        """Weights to start from, normal with variance 1/d.

        Args:
            key: Key of the weights.
        """
        dim = np.shape(self.inputs)[1]
        return jax.random.normal(checks.key("key", key), (dim, dim)) / jnp.sqrt(dim)
