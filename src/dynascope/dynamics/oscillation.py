"""The oscillation that a central flow predicts: its covariance, the probe that records it, and the force it exerts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dynascope.geometry.hessian import Vector
from dynascope.probes.descriptions import describe_probe
from dynascope.probes.probe import Probe, Snapshot


class Oscillation(NamedTuple):
    """The oscillation of an optimizer about its flow: Sigma = V X V^T."""

    vectors: Float[Array, "k n"]
    """The rows are the directions V^T = U^T P^(-1/2), with U the top eigenvectors of P^(-1/2) H P^(-1/2)."""
    covariance: Float[Array, "k k"]
    """X, in that basis. Directions that are not at the edge have rows of zeros."""
    values: Float[Array, " k"]
    """The eigenvalues of these eigenvectors, largest first."""
    residual: Float[Array, ""]
    """The residual of X in its complementarity problem, relative to its data."""

    @property
    def variance(self) -> Array:
        """E |d|^2 = tr Sigma."""
        return jnp.einsum("kn,kl,ln->", self.vectors, self.covariance, self.vectors)

    @property
    def extra_loss(self) -> Array:
        """E L(w + d) - L(w) = 1/2 <H, Sigma>, to second order in d."""
        return jnp.sum(self.values * jnp.diag(self.covariance)) / 2


@dataclass(frozen=True, eq=False)
class CentralSnapshot(Snapshot):
    """The snapshot that probes get of a central flow, with the oscillation about it."""

    oscillation: Oscillation = field(kw_only=True)


def oscillation(every: int | None = None) -> Probe:
    """The predicted oscillation of the optimizer about its central flow.

    In the trace, for a probe called `oscillation`: `oscillation`, its variance tr Sigma; `oscillation_loss`, the
    time-averaged loss L + 1/2 <H, Sigma>; `oscillation_directions`, the rank of Sigma; `oscillation_residual`.

    Args:
        every: The cadence, in steps. Default: the run's.

    Returns:
        A probe for `central_flow`; its values are scalars.
    """

    def measure(snapshot: Snapshot, memory: None) -> tuple[dict[str, Array], None]:
        if not isinstance(snapshot, CentralSnapshot):
            raise TypeError("the probe `oscillation` needs a CentralFlow; other processes predict no oscillation")
        swing = snapshot.oscillation
        spread = jnp.linalg.eigvalsh(swing.covariance) if swing.covariance.size else jnp.zeros(1)
        return {
            "value": swing.variance,
            "loss": snapshot.loss() + swing.extra_loss,
            "directions": jnp.sum(spread > 1e-3 * spread[-1], dtype=jnp.int32),
            "residual": swing.residual,
        }, memory

    return describe_probe(Probe(measure, every=every), "oscillation")


def third_derivatives(objective: Callable, point: Vector, vectors: Float[Array, "k n"]) -> Float[Array, "k k n"]:
    """T_ij = D^3 L[u_i, u_j, .]: the gradient of u_i^T H u_j with the vectors held, for all pairs."""
    k = vectors.shape[0]
    rows, columns = jnp.triu_indices(k)

    def one(u: Vector, v: Vector) -> Vector:
        def along(point: Vector) -> Array:
            return jax.jvp(objective, (point,), (u,))[1]

        return jax.grad(lambda point: jax.jvp(along, (point,), (v,))[1])(point)

    found = jax.vmap(one)(vectors[rows], vectors[columns])
    return jnp.zeros((k, *vectors.shape), point.dtype).at[rows, columns].set(found).at[columns, rows].set(found)
