"""The structured identity mapping (SIM) task: learn f(x) = x on clusters along the axes, test at their sum.

Each of the first s axes is a concept: cluster p lies at distance mu_p on axis p (the strength of its signal), and the
data spread by sigma_p along axis p (its diversity). The test point, the sum of all means, combines every concept and
is far from all training data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jaxtyping import Array, Float, Int, PRNGKeyArray

from dynascope import checks
from dynascope.tasks.task import PopulationTask, SampledTask

Norm = Literal["mean", "sum"]
Numbers = float | Sequence[float] | np.ndarray | Array
REDRAWS = 1000
"""How often a point inside the truncation radius is redrawn; after that it becomes NaN."""


class Samples(NamedTuple):
    """Training points."""

    x: Float[Array, "n d"]
    """The points."""
    cluster: Int[Array, " n"]
    """The cluster of each; s for the origin."""
    rejected: Int[Array, ""]
    """Number of draws that truncation rejected."""


class StructuredIdentity(PopulationTask, SampledTask):
    """Learn f(x) = x on clusters along the axes, to be tested at their sum.

    Args:
        mu: The distances of the clusters, (s,): the signals.
        sigma: The spreads, one or (s,): the diversities.
        dim: Number d of coordinates, at least s.
        origin: Whether there is one more cluster, at 0.
        norm: "sum": half the squared error summed over coordinates; "mean": averaged over them, 2/d times that.
        rotation: A matrix (d, d) that acts on data and test points (see `random_rotation`); `concepts` undoes it.
        truncate_radius: Training points nearer than this to the test point are redrawn.
    """

    mu: Float[Array, " s"]
    sigma: Float[Array, " s"]
    dim: int = eqx.field(static=True)
    origin: bool = eqx.field(static=True)
    norm: Norm = eqx.field(static=True)
    rotation: Float[Array, "d d"] | None
    truncate_radius: Float[Array, ""] | None

    def __init__(
        self,
        mu: Numbers,
        sigma: Numbers,
        dim: int,
        *,
        origin: bool = False,
        norm: Norm = "mean",
        rotation: Float[Array, "d d"] | None = None,
        truncate_radius: Numbers | None = None,
    ) -> None:
        checks.sizes(dim=dim)
        number = jnp.result_type(float)
        self.mu = jnp.asarray(_finite("mu", mu), number)
        if self.mu.ndim != 1 or self.mu.size > dim:
            raise ValueError(f"mu must have between 1 and dim={dim} entries; got shape {self.mu.shape}")
        self.sigma = jnp.asarray(_finite("sigma", sigma, at_least=0), number)
        if self.sigma.shape not in ((), (1,), self.mu.shape):
            raise ValueError(f"sigma must be one number or {self.mu.size}, as many as mu; got shape {self.sigma.shape}")
        self.sigma = jnp.broadcast_to(self.sigma, self.mu.shape)
        checks.flags(origin=origin)
        if rotation is not None and checks.array("rotation", rotation, lists=False).shape != (dim, dim):
            raise ValueError(f"rotation must have shape ({dim}, {dim}); got {rotation.shape}")
        self.dim, self.origin, self.rotation = dim, origin, rotation
        self.norm = checks.one_of("norm", norm, get_args(Norm))
        self.truncate_radius = None
        if truncate_radius is not None:
            self.truncate_radius = jnp.asarray(checks.real("truncate_radius", truncate_radius, at_least=0), number)

    @property
    def concept_count(self) -> int:
        """s, the number of concepts."""
        return self.mu.shape[0]

    @property
    def cluster_count(self) -> int:
        """The number of clusters: s, and one more with `origin`."""
        return self.concept_count + int(self.origin)

    @property
    def second_moment(self) -> Float[Array, " d"]:
        """The diagonal a of E[x x^T] before rotation: sigma_p^2 + mu_p^2 / (number of clusters), and 0 beyond s."""
        return self._pad(self.sigma**2 + self.mu**2 / self.cluster_count)

    def population_loss(self, model: Any) -> Float[Array, ""]:
        """The expected loss of a linear model with `matrix()` W: 1/2 sum_ij a_j (w_ij - delta_ij)^2, eq. (4.1).
        The truncation is ignored."""
        if not hasattr(model, "matrix"):
            raise TypeError(f"population_loss takes a linear model with matrix(); got a {type(model).__name__}")
        excess = self.unrotate(model.matrix()) - jnp.eye(self.dim, dtype=self.mu.dtype)
        return self._scale() * jnp.sum(excess**2 * self.second_moment[None, :])

    def sample(self, key: PRNGKeyArray, count: int) -> Float[Array, "n d"]:
        """`count` fresh points, each from a random cluster."""
        checks.sizes(count=count)
        choose, draw = jax.random.split(checks.key("key", key))
        cluster = jax.random.randint(choose, (count,), 0, self.cluster_count)
        return self._draw(draw, cluster).x

    def dataset(self, key: PRNGKeyArray, per_cluster: int) -> Samples:
        """A finite training set.

        Args:
            key: Key of the points.
            per_cluster: Number of points of every cluster.
        """
        checks.sizes(per_cluster=per_cluster)
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
        _, x, rejected = lax.while_loop(lambda state: (state[0] <= REDRAWS) & jnp.any(near(state[1])), redraw, start)
        return jnp.where(near(x)[:, None], jnp.nan, x), rejected

    def loss(self, model: Any, x: Float[Array, "n d"]) -> Float[Array, ""]:
        """The mean loss of a batch."""
        error = jax.vmap(model)(x) - x
        return self._scale() * jnp.mean(jnp.sum(error**2, axis=1))

    @property
    def test_point(self) -> Float[Array, " d"]:
        """The sum of all cluster means, rotated."""
        return self.test_points(np.ones((1, self.concept_count)))[0]

    def test_points(self, subsets: Numbers) -> Float[Array, "m d"]:
        """The points that combine some of the concepts: sum_p v_p mu_p 1_p.

        Args:
            subsets: Rows v in {0,1}^s.
        """
        if np.ndim(subsets) != 2 or np.shape(subsets)[1] != self.concept_count:
            raise ValueError(f"subsets must have shape (m, {self.concept_count}); got {checks.shown(subsets)}")
        chosen = jnp.asarray(subsets, self.mu.dtype) * self.mu[None, :]
        points = jnp.pad(chosen, ((0, 0), (0, self.dim - self.concept_count)))
        return points if self.rotation is None else points @ self.rotation.T

    def concepts(self, outputs: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        """Outputs in the unrotated frame, whose first s coordinates are the concepts.

        Args:
            outputs: Outputs, (..., d).
        """
        return outputs if self.rotation is None else outputs @ self.rotation

    def unrotate(self, matrix: Float[Array, "d d"]) -> Float[Array, "d d"]:
        """A matrix acting on data, in the unrotated frame.

        Args:
            matrix: The matrix, (d, d).
        """
        return matrix if self.rotation is None else self.rotation.T @ matrix @ self.rotation

    def test_loss(self, model: Any) -> Float[Array, ""]:
        """1/2 ||f(x) - x||^2 at the test point.

        Args:
            model: f.
        """
        return jnp.sum((model(self.test_point) - self.test_point) ** 2) / 2

    def _scale(self) -> float:
        return 1 / self.dim if self.norm == "mean" else 1 / 2

    def _pad(self, values: Float[Array, " s"]) -> Float[Array, " d"]:
        return jnp.pad(values, (0, self.dim - self.concept_count))


def random_rotation(key: PRNGKeyArray, dim: int) -> Float[Array, "d d"]:
    """A Haar-distributed orthogonal matrix: QR of a Gaussian matrix, with the signs of R's diagonal removed.

    Args:
        key: Key of the matrix.
        dim: d.
    """
    checks.sizes(dim=dim)
    q, r = jnp.linalg.qr(jax.random.normal(checks.key("key", key), (dim, dim)))
    return q * jnp.sign(jnp.diagonal(r))[None, :]


def _finite(name: str, value: Numbers, at_least: float = -np.inf) -> Any:
    """`value`; an error unless it is an array of finite numbers within the bound; traced values are not known yet."""
    found = checks.array(name, value)
    if not isinstance(found, Tracer) and not np.all(np.isfinite(found) & (np.asarray(found) >= at_least)):
        bound = "" if at_least == -np.inf else f", at least {at_least:g}"
        raise ValueError(f"{name} must be finite{bound}; got {np.asarray(found).tolist()}")
    return found
