"""The ranks of weight matrices, and how alike representations stay, inside the loop."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from dynascope import checks
from dynascope.geometry.similarity import linear_cka
from dynascope.probes.descriptions import describe_probe
from dynascope.probes.probe import Coords, Dims, Every, Probe, Snapshot, Value


def weight_ranks(*, change: bool = False, every: Every = None) -> Probe:
    """The stable and the effective rank of every weight matrix.

    Matrices are the floating-point arrays of the model with two axes or more; axes after the first are laid end to end,
    as in the kernel of a convolution.

    Args:
        change: Whether to take the change of the weights since the start (NaN at the start).
        every: The cadence, in steps; see `Probe`.

    Returns:
        A probe with the dimension `weight`, shape (weights,), whose labels are the places in the model: the stable
        rank, Σσ²/σ₁²; further entries: `effective`, exp of the entropy of the shares σ²/Σσ², and `norm`, the largest
        singular value σ₁.
    """
    checks.one_of("change", change, (True, False))

    def start(snapshot: Snapshot) -> list[Array] | None:
        return [matrix for _, matrix in _matrices(snapshot.model)] if change else None

    def measure(snapshot: Snapshot, before: list[Array] | None) -> tuple[Value, list[Array] | None]:
        found = [matrix for _, matrix in _matrices(snapshot.model)]
        if before is not None:
            found = [now - then for now, then in zip(found, before, strict=True)]
        ranks = [_ranks(matrix) for matrix in found]
        stable, effective, norm = (jnp.stack(values) for values in zip(*ranks, strict=True))
        return {"value": stable, "effective": effective, "norm": norm}, before

    def labels(snapshot: Snapshot) -> Coords:
        return {"weight": [name for name, _ in _matrices(snapshot.model)]}

    along: Dims = ("weight",)
    return describe_probe(
        Probe(measure, {"value": along, "effective": along, "norm": along}, labels, every, start),
        "change of weight_ranks" if change else "weight_ranks",
    )


def _matrices(model: PyTree) -> list[tuple[str, Float[Array, "n m"]]]:
    """The weight matrices of a model, with their places."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(model, eqx.is_inexact_array))
    named = [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in leaves]
    found = [(name, leaf.reshape(leaf.shape[0], -1)) for name, leaf in named if leaf.ndim > 1]
    found = [(name, matrix) for name, matrix in found if min(matrix.shape) > 1]
    if not found:
        raise ValueError("probes.weight_ranks needs a model with a weight matrix, an array with two axes or more")
    return found


def _ranks(matrix: Float[Array, "n m"]) -> tuple[Array, Array, Array]:
    values = jnp.linalg.svd(matrix, compute_uv=False)
    relative = (values / jnp.where(values[0] > 0, values[0], jnp.nan)) ** 2
    shares = relative / jnp.sum(relative)
    entropy = -jnp.sum(shares * jnp.log(jnp.where(shares > 0, shares, 1)))
    return jnp.sum(relative), jnp.exp(entropy), values[0]


def cka(features: Callable[[PyTree], Array], *, to: str = "first", every: Every = None) -> Probe:
    """How alike a representation is to an earlier one of the same training: linear CKA.

    Args:
        features: From a model to its representation of some examples, `(n, ...)`, such as
            `lambda model: jax.vmap(model.hidden)(x)`.
        to: "first", the start of the run, or "previous", the last recording.
        every: The cadence, in steps; see `Probe`.

    Returns:
        A probe with a scalar value between 0 and 1.
    """
    checks.function("features", features, "features(model)")
    checks.one_of("to", to, ("first", "previous"))

    def start(snapshot: Snapshot) -> Array:
        return features(snapshot.model)

    def measure(snapshot: Snapshot, other: Array) -> tuple[Value, Array]:
        now = features(snapshot.model)
        return linear_cka(now, other), now if to == "previous" else other

    return describe_probe(Probe(measure, every=every, initial_state=start), "cka")
