"""The task of the experiments on central flows, and what they measure along paths of its weights."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

import dynascope as ds
from dynascope.probes.probe import Snapshot, probe
from dynascope.tasks.supervised import mean_squared_error
from dynascope.tasks.task import DataTask


class CubicRegression(DataTask):
    """A tanh network fits the Chebyshev polynomial of degree 3 on evenly spaced points; half the mean squared error."""

    width: int = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    samples: int = eqx.field(static=True)

    def network(self, key: Array) -> Any:
        return ds.models.MLP(1, self.depth, key=key, width=self.width, out=1, activation="tanh", bias=True)

    def data(self) -> tuple[Array, Array]:
        x = jnp.linspace(-1.0, 1.0, self.samples)
        return x[:, None], 4 * x**3 - 3 * x

    def loss(self, model: Any, data: tuple[Array, Array]) -> Float[Array, ""]:
        x, y = data
        return mean_squared_error(jax.vmap(model)(x), y) / 2

    def with_weights(self, weights: Float[Array, " p"]) -> Any:
        """The network with these weights, in the order of its flattened parameters."""
        network = self.network(jax.random.key(0))
        _, unravel = ravel_pytree(eqx.filter(network, eqx.is_inexact_array))
        return eqx.combine(unravel(weights), network)

    def of_weights(self, weights: Float[Array, " p"], data: tuple[Array, Array]) -> Float[Array, ""]:
        """The loss as a function of the flattened parameters."""
        return self.loss(self.with_weights(weights), data)

    def sharpness_along(self, paths: np.ndarray, scales: np.ndarray | None = None) -> np.ndarray:
        """The top eigenvalue of P^(-1/2) H P^(-1/2) at every point of each path, to 1e-4, with warm starts along it.
        `scales` are the P, one number or one for each weight; 1 if there are none."""
        scales = np.ones((*paths.shape[:2], 1)) if scales is None else scales
        both = zip(jnp.asarray(paths), jnp.asarray(scales, paths.dtype), strict=True)
        return np.stack([np.asarray(_sharpness_along(self, path, scale)) for path, scale in both])


@eqx.filter_jit
def _sharpness_along(
    task: CubicRegression, path: Float[Array, "t p"], scale: Float[Array, "t q"]
) -> Float[Array, " t"]:
    data = task.data()

    def measure(subspace: Array, at: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        point, scale, seed = at

        def loss(z: Array) -> Array:
            return task.of_weights(point + z / jnp.sqrt(scale), data)

        still = jnp.zeros_like(point)
        pairs = ds.geometry.top_eigenpairs(loss, still, 1, tolerance=1e-4, start=subspace, seed=seed, dense=0)
        return pairs.subspace, pairs.values[0]

    start = jax.random.normal(jax.random.key(1), (2, path.shape[1]), path.dtype)
    return lax.scan(measure, start, (path, scale, jnp.arange(path.shape[0], dtype=jnp.int32)))[1]


def weights_probe() -> Any:
    """All parameters, as one vector."""

    def measure(snapshot: Snapshot) -> Array:
        return ravel_pytree(eqx.filter(snapshot.model, eqx.is_inexact_array))[0]

    return probe(measure, dims=("parameter",))


def averaging(steps: np.ndarray, count: int, window: int, reach: int) -> np.ndarray:
    """A row of weights over all `count` iterates for each of these steps: a Gaussian, cut symmetrically at `reach` and
    at the start of the run, so that the average at step 0 is the start."""
    offsets = np.arange(count)[None, :] - steps[:, None]
    inside = np.abs(offsets) <= np.minimum(reach, steps)[:, None]
    rows = np.where(inside, np.exp(-0.5 * (offsets / window) ** 2), 0.0)
    return rows / rows.sum(axis=1, keepdims=True)


def swings(path: Float[np.ndarray, "s t p"]) -> np.ndarray:
    """The squared size of the part of period 2, (w[t+1] - 2 w[t] + w[t-1])/4, which does not contain slow motion."""
    parts = np.zeros(path.shape[:2])
    parts[:, 1:-1] = np.sum(((path[:, 2:] - 2 * path[:, 1:-1] + path[:, :-2]) / 4) ** 2, axis=2)
    return parts
