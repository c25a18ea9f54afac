"""The structured identity mapping (SIM) task: learn f(x) = x on clusters along the axes, be tested at their sum.

Each of the first s axes is a concept: cluster p lies at distance mu_p on axis p (the strength of its signal), and the
data spread by sigma_p along axis p (its diversity). The test point, the sum of all means, combines every concept and
is far from all training data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, PRNGKeyArray

Norm = Literal["mean", "sum"]
Numbers = float | Sequence[float] | np.ndarray | Array


class Samples(NamedTuple):
    """Training points, the cluster each comes from (s: the origin's), and how many draws truncation rejected."""

    x: Float[Array, "n d"]
    cluster: Int[Array, " n"]
    rejected: Int[Array, ""]


class StructuredIdentity(eqx.Module):
    """The task. `norm` is the loss's: "sum" is half the squared error summed over coordinates; "mean", the squared
    error averaged over them, the usual framework default, is 2/d times that.

    A `rotation` (see `random_rotation`) turns data and test points; `concepts` turns outputs back. With `origin`
    there is one more cluster, at 0. With `truncate_radius`, training points nearer than that to the test point are
    redrawn.
    """

    mu: Float[Array, " s"]
    sigma: Float[Array, " s"]
    dim: int = eqx.field(static=True)
    origin: bool = eqx.field(static=True)
    norm: Norm | str = eqx.field(static=True)
    rotation: Float[Array, "d d"] | None
    truncate_radius: Float[Array, ""] | None

    def __init__(
        self,
        mu: Numbers,
        sigma: Numbers,
        dim: int,
        *,
        origin: bool = False,
        norm: Norm | str = "mean",
        rotation: Float[Array, "d d"] | None = None,
        truncate_radius: Numbers | None = None,
    ) -> None:
        self.mu = jnp.asarray(mu, jnp.result_type(float))
        self.sigma = jnp.broadcast_to(jnp.asarray(sigma, jnp.result_type(float)), self.mu.shape)
        if self.mu.ndim != 1 or not 1 <= self.mu.shape[0] <= dim:
            raise ValueError(f"mu needs between 1 and dim={dim} entries; got shape {self.mu.shape}")
        if norm not in ("mean", "sum"):
            raise ValueError(f"norm must be 'mean' or 'sum'; got {norm!r}")
        self.dim, self.origin, self.norm, self.rotation = dim, origin, norm, rotation
        self.truncate_radius = None if truncate_radius is None else jnp.asarray(truncate_radius, self.mu.dtype)

    @property
    def concept_count(self) -> int:
        """s, the number of concepts."""
        return self.mu.shape[0]

    @property
    def cluster_count(self) -> int:
        return self.concept_count + int(self.origin)

    # --- the population ---------------------------------------------------------------------------------------

    @property
    def second_moment(self) -> Float[Array, " d"]:
        """The diagonal a of E[x x^T] before rotation: sigma_p^2 + mu_p^2 / (number of clusters), and 0 beyond s."""
        return self._pad(self.sigma**2 + self.mu**2 / self.cluster_count)

    def population_loss(self, model: Any) -> Float[Array, ""]:
        """The expected loss of a linear model (one with `matrix()`): 1/2 sum_ij a_j (w_ij - delta_ij)^2, eq. (4.1).
        The truncation, which is negligible where it was used, is not accounted for."""
        excess = self.unrotated(model.matrix()) - jnp.eye(self.dim, dtype=self.mu.dtype)
        return self._scale() * jnp.sum(excess**2 * self.second_moment[None, :])

    # --- samples ----------------------------------------------------------------------------------------------

    def sample(self, key: PRNGKeyArray, count: int) -> Float[Array, "n d"]:
        """`count` fresh points, each from a cluster chosen at random."""
        choose, draw = jax.random.split(key)
        cluster = jax.random.randint(choose, (count,), 0, self.cluster_count)
        return self._draw(draw, cluster).x

    def dataset(self, key: PRNGKeyArray, per_cluster: int) -> Samples:
        """A finite training set: `per_cluster` points of every cluster."""
        return self._draw(key, jnp.repeat(jnp.arange(self.cluster_count), per_cluster))

    def _draw(self, key: PRNGKeyArray, cluster: Int[Array, " n"]) -> Samples:
        means = jnp.zeros((self.cluster_count, self.dim), self.mu.dtype)
        means = means.at[: self.concept_count].set(jnp.diag(self._pad(self.mu))[: self.concept_count])
        spread = self._pad(self.sigma)

        def draw(key: PRNGKeyArray) -> Array:
            return means[cluster] + spread[None, :] * jax.random.normal(
                key, (cluster.shape[0], self.dim), self.mu.dtype
            )

        x, rejected = draw(key), jnp.zeros((), jnp.int32)
        if self.truncate_radius is not None:
            x, rejected = self._redraw_near_the_test_point(key, x, draw)
        return Samples(x if self.rotation is None else x @ self.rotation.T, cluster, rejected)

    def _redraw_near_the_test_point(self, key: PRNGKeyArray, x: Array, draw: Any) -> tuple[Array, Array]:
        target = self._pad(self.mu)

        def near(x: Array) -> Array:
            return jnp.linalg.norm(x - target[None, :], axis=1) < self.truncate_radius

        def redraw(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            attempt, x, rejected = state
            inside = near(x)
            again = draw(jax.random.fold_in(key, attempt))
            return (
                attempt + 1,
                jnp.where(inside[:, None], again, x),
                rejected + jnp.sum(inside, dtype=jnp.int32),
            )

        start = (jnp.asarray(1, jnp.int32), x, jnp.zeros((), jnp.int32))
        _, x, rejected = lax.while_loop(lambda state: jnp.any(near(state[1])), redraw, start)
        return x, rejected

    def loss(self, model: Any, x: Float[Array, "n d"]) -> Float[Array, ""]:
        """The mean loss of a batch."""
        error = jax.vmap(model)(x) - x
        return self._scale() * jnp.mean(jnp.sum(error**2, axis=1))

    # --- where we look ----------------------------------------------------------------------------------------

    @property
    def test_point(self) -> Float[Array, " d"]:
        """The sum of all cluster means, rotated."""
        return self.test_points(np.ones((1, self.concept_count)))[0]

    def test_points(self, subsets: Numbers) -> Float[Array, "m d"]:
        """The points that combine some of the concepts: rows v of `subsets` in {0,1}^s give sum_p v_p mu_p 1_p."""
        chosen = jnp.asarray(subsets, self.mu.dtype) * self.mu[None, :]
        points = jnp.pad(chosen, ((0, 0), (0, self.dim - self.concept_count)))
        return points if self.rotation is None else points @ self.rotation.T

    def concepts(self, outputs: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        """Outputs in the unrotated frame: its first s coordinates are the concepts."""
        return outputs if self.rotation is None else outputs @ self.rotation

    def unrotated(self, matrix: Float[Array, "d d"]) -> Float[Array, "d d"]:
        """A matrix acting on data, in the unrotated frame."""
        return matrix if self.rotation is None else self.rotation.T @ matrix @ self.rotation

    def test_loss(self, model: Any) -> Float[Array, ""]:
        """1/2 ||f(x) - x||^2 at the test point."""
        return jnp.sum((model(self.test_point) - self.test_point) ** 2) / 2

    def _scale(self) -> float:
        return 1 / self.dim if self.norm == "mean" else 1 / 2

    def _pad(self, values: Float[Array, " s"]) -> Float[Array, " d"]:
        return jnp.pad(values, (0, self.dim - self.concept_count))


def random_rotation(key: PRNGKeyArray, dim: int) -> Float[Array, "d d"]:
    """An orthogonal matrix, Haar-distributed: QR of a Gaussian matrix with the signs of R's diagonal taken out."""
    q, r = jnp.linalg.qr(jax.random.normal(key, (dim, dim)))
    return q * jnp.sign(jnp.diagonal(r))[None, :]
