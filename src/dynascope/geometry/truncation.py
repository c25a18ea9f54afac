"""Low-rank truncation of weights (LASER): a model with one of its matrices replaced by the best of lower rank.

"Simple structures in neural networks", Section 4.3.2, after Sharma et al. (2023). Removing all but a few singular
directions of a feed-forward matrix can remove an association, and preserve the knowledge of other parts of the model.

W_k = W V_k V_k^T keeps the k right singular vectors with the largest singular values (the left ones of a wide matrix).
On a CPU they come from a singular value decomposition; on an accelerator, where that is slow, from the eigenvectors of
the smaller Gram matrix, which in float32 tells directions apart down to about 3e-4 of the largest singular value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, ArrayLike, Float, Int, PyTree, Real

from dynascope import checks

Where = Callable[[Any], Any]
"""From a model to one of its matrices, or to a tuple of them, as in `equinox.tree_at`."""
Rank = int | Int[Array, ""]


@checks.converts
def truncate(model: PyTree, where: Where, *, rank: int | None = None, share: float | None = None) -> PyTree:
    """A copy of a model with some of its weights replaced by the best approximation of a lower rank.

    Args:
        model: Any pytree.
        where: From a model to one of its matrices `(..., m, n)`, or to a tuple of them, as in `equinox.tree_at`.
        rank: The rank, from 0 (a matrix of zeros) to the smaller side (the same bits). Give this or `share`.
        share: The rank as a share of the smaller side, from 0 to 1 (rounded down).

    Returns:
        The truncated model.
    """
    checks.function("where", where, "where(model)")
    weights = pick_weights(model, where)
    cut = tuple(low_rank(weight, rank=rank, share=share) for weight in weights)
    return replace_weights(model, where, cut)


@checks.converts
def low_rank(
    matrix: Real[ArrayLike, "*batch m n"], *, rank: int | None = None, share: float | None = None
) -> Float[Array, "*batch m n"]:
    """The best approximation of a matrix of a lower rank.

    Args:
        matrix: A matrix, or a stack of them, `(..., m, n)`.
        rank: The rank, from 0 to the smaller side. Give this or `share`.
        share: The rank as a share of the smaller side, from 0 to 1 (rounded down).

    Returns:
        The approximation, in the shape of `matrix`; the same bits at full rank. Integers become real numbers.
    """
    found = checks.array("matrix", matrix, min_ndim=2)
    smaller = min(found.shape[-2:])
    kept = rank_of(smaller, rank, share)
    matrix = jnp.asarray(found) if jnp.issubdtype(found.dtype, jnp.floating) else jnp.asarray(found, float)
    return matrix if kept >= smaller else cut_to(matrix, directions(matrix), kept)


def rank_of(smaller: int, rank: int | None, share: float | None) -> int:
    """How many directions are kept, of a matrix with this smaller side."""
    if (rank is None) == (share is None):
        raise TypeError(f"give exactly one of rank and share; got {checks.shown(rank)} and {checks.shown(share)}")
    if rank is not None:
        return checks.whole("rank", rank, at_least=0, at_most=smaller)
    kept = checks.real("share", share, at_least=0, at_most=1) * smaller
    return math.floor(float(kept) + 1e-9)  # 0.07 * 100 is 7


def directions(matrix: Float[Array, "*batch m n"]) -> Float[Array, "*batch s s"]:
    """The singular vectors on the smaller side s, in columns, those with the largest singular values first."""
    wide = matrix.astype(jnp.float64 if matrix.dtype == jnp.float64 else jnp.float32)
    tall = wide if matrix.shape[-2] >= matrix.shape[-1] else jnp.swapaxes(wide, -1, -2)
    return lax.platform_dependent(tall, cpu=_by_decomposition, default=_by_eigenvectors)


def cut_to(
    matrix: Float[Array, "*batch m n"], vectors: Float[Array, "*batch s s"], rank: Rank
) -> Float[Array, "*batch m n"]:
    """The matrix on the first `rank` of its `directions`. The rank need not be known when the program is compiled."""
    kept = vectors * (jnp.arange(vectors.shape[-1]) < rank).astype(vectors.dtype)
    projector = jnp.einsum("...ik,...jk->...ij", kept, vectors, precision="highest")
    wide = matrix.astype(vectors.dtype)
    if matrix.shape[-2] >= matrix.shape[-1]:
        found = jnp.einsum("...ij,...jk->...ik", wide, projector, precision="highest")
    else:
        found = jnp.einsum("...ij,...jk->...ik", projector, wide, precision="highest")
    return jnp.where(jnp.asarray(rank) >= vectors.shape[-1], matrix, found.astype(matrix.dtype))


def pick_weights(model: PyTree, where: Where) -> tuple[Any, ...]:
    """The weights that `where` picks, each of them a matrix or a stack of matrices of real numbers."""
    found = where(model)
    weights = tuple(found) if isinstance(found, tuple | list) else (found,)
    if not weights:
        raise ValueError("where must pick one matrix of the model or more; got none")
    for weight in weights:
        kind = getattr(weight, "dtype", None)
        if kind is None or not jnp.issubdtype(kind, jnp.floating) or np.ndim(weight) < 2:
            raise TypeError(f"where must pick matrices of the model, (..., m, n); got {checks.shown(weight)}")
    return tuple(jnp.asarray(weight) for weight in weights)


def replace_weights(model: PyTree, where: Where, weights: tuple[Any, ...]) -> PyTree:
    """The model with these weights instead of those that `where` picks."""
    many = isinstance(where(model), tuple | list)
    return eqx.tree_at(where, model, weights if many else weights[0])


def _by_decomposition(tall: Float[Array, "*batch m s"]) -> Float[Array, "*batch s s"]:
    return jnp.swapaxes(jnp.linalg.svd(tall, full_matrices=False)[2], -1, -2)


def _by_eigenvectors(tall: Float[Array, "*batch m s"]) -> Float[Array, "*batch s s"]:
    gram = jnp.einsum("...ki,...kj->...ij", tall, tall, precision="highest")
    return jnp.linalg.eigh(gram)[1][..., ::-1]
