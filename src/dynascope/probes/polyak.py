"""The Polyak-Lojasiewicz condition along a run: how fast the loss can fall, and the tangent kernel that bounds it."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from dynascope import checks
from dynascope.geometry.tangent_kernel import Apply, check_examples, tangent_kernel
from dynascope.probes.descriptions import describe_probe
from dynascope.probes.probe import Every, Probe, Snapshot


@checks.converts
def polyak(x: PyTree, *, every: Every = None, apply: Apply | None = None) -> Probe:
    """||grad L||^2 / (2 L), for a loss that is half the sum of squared errors.

    It is at least the smallest eigenvalue of the tangent kernel. The gradient does not go through the kernel, so that
    the inequality checks both.

    Args:
        x: The examples of the loss, `(n, ...)`.
        every: The cadence, in steps; see `Probe`.
        apply: `apply(model, x)`, for a model that is not callable.

    Returns:
        A probe with scalar values; further entries: `smallest` and `largest` eigenvalue of the kernel, and `change`,
        ||K - K_0|| / ||K_0|| in the spectral norm since the start of the run.
    """
    check_examples(x, apply)

    def kernel(snapshot: Snapshot) -> Float[Array, "nk nk"]:
        return tangent_kernel(snapshot.model, x, apply=apply)

    def measure(snapshot: Snapshot, start: Float[Array, "nk nk"]) -> tuple[dict[str, Array], Float[Array, "nk nk"]]:
        loss, gradient = eqx.filter_value_and_grad(snapshot.loss)(snapshot.model)
        square = jnp.stack([jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)]).sum()
        now = kernel(snapshot)
        values = jnp.linalg.eigvalsh(now)
        moved = jnp.max(jnp.abs(jnp.linalg.eigvalsh(now - start))) / jnp.max(jnp.linalg.eigvalsh(start))
        entries = {"smallest": values[0], "largest": values[-1], "change": moved}
        return entries | {"value": square / (2 * loss)}, start

    return describe_probe(Probe(measure, every=every, initial_state=kernel), "polyak")
