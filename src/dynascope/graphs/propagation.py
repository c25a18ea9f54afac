"""Node features after one, two, ... applications of an operator, and operators as JAX arrays for training."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Float, Int, Shaped

from dynascope import checks


class SparseOperator(eqx.Module):
    """A sparse matrix as JAX arrays, for use inside a compiled function: `operator @ x`."""

    rows: Int[Array, " entries"]
    """The row of each entry, in ascending order."""
    columns: Int[Array, " entries"]
    """The column of each entry."""
    values: Float[Array, " entries"]
    """The entries."""
    nodes: int = eqx.field(static=True)
    """Number of rows."""

    def __matmul__(self, x: Float[Array, "nodes ..."]) -> Float[Array, "nodes ..."]:
        weights = self.values.reshape(-1, *(1,) * (x.ndim - 1)).astype(x.dtype)
        return jax.ops.segment_sum(weights * x[self.columns], self.rows, self.nodes, indices_are_sorted=True)


def on_device(matrix: Any) -> SparseOperator:
    """A sparse matrix of scipy as JAX arrays, in the default floating-point type.

    Args:
        matrix: The matrix, (nodes, nodes).
    """
    if not sp.issparse(_a_matrix(matrix)):
        raise TypeError(f"matrix must be a sparse matrix of scipy; got {checks.shown(matrix)}")
    found: Any = sp.csr_array(matrix)
    found.sort_indices()
    nodes = found.shape[0]
    rows = np.repeat(np.arange(nodes, dtype=np.int32), np.diff(found.indptr))
    return SparseOperator(
        jnp.asarray(rows), jnp.asarray(found.indices, jnp.int32), jnp.asarray(found.data, float), nodes
    )


def powers(matrix: Any, x: Any, order: int) -> Shaped[np.ndarray, "orders nodes channels"]:
    """x, ωx, ω²x, ...

    Integers stay exact: if 64 bits could overflow they become Python's own. Floats are multiplied in their type.

    Args:
        matrix: ω, (nodes, nodes): anything that multiplies features.
        x: Features, (nodes, channels) or (nodes,).
        order: The highest power.
    """
    checks.whole("order", order, at_least=0, at_most=100_000)
    start = _features(matrix, x)
    exact = start.dtype.kind in "biu" and getattr(matrix, "dtype", np.dtype(float)).kind in "biu"
    kept = [start.astype(np.int64) if exact else start if start.dtype.kind == "f" else start.astype(float)]
    for _ in range(order):
        kept.append(_exact_product(matrix, kept[-1]) if exact else _product(matrix, kept[-1]))
    return np.stack([each.astype(object) for each in kept] if kept[-1].dtype == object else kept)


def rounding_of_powers(matrix: Any, values: np.ndarray) -> Float[np.ndarray, "orders nodes channels"] | None:
    """How far each of `powers` may be from its exact value; None if all are exact, or nothing is known.

    A sum of d products is within (d + 6) units of rounding of the sum of their sizes, if each entry of ω is within 4
    units of the number that is meant; what was wrong before is multiplied with the sizes of the entries (Higham 2002,
    Accuracy and stability of numerical algorithms, section 3.1).

    Args:
        matrix: ω, (nodes, nodes).
        values: The result of `powers`, (orders, nodes, channels).
    """
    if values.dtype.kind != "f" or not sp.issparse(matrix):
        return None
    sizes = abs(sp.csr_array(matrix)).astype(float)
    units = (np.diff(sizes.indptr) + 6.0)[:, None] * np.finfo(values.dtype).eps
    found = [np.zeros(values.shape[1:])]
    for before in values[:-1]:
        found.append(1.01 * (sizes @ found[-1] + units * (sizes @ np.abs(before).astype(float))))
    return np.stack(found)


def normalized_powers(
    matrix: Any, x: Any, order: int, *, graphs: int = 1, epsilon: float = 1e-5
) -> Float[np.ndarray, "orders nodes"]:
    """x_0 = x and x_k = N(ω x_(k-1)), where N subtracts the mean over a graph's nodes and divides by the standard
    deviation.

    So orders of 100 and more neither overflow nor lose all but one direction.

    Args:
        matrix: ω, (nodes, nodes): anything that multiplies features.
        x: The start, (nodes,).
        order: The highest k.
        graphs: The nodes are those of this many graphs of equal size, side by side.
        epsilon: Added to the variance.
    """
    checks.whole("order", order, at_least=0, at_most=100_000)
    checks.whole("graphs", graphs, at_least=1)
    checks.real("epsilon", epsilon, at_least=0)
    start = _features(matrix, x)
    if start.shape[1] != 1 or len(start) % graphs:
        raise ValueError(f"x must have shape (nodes,), nodes a multiple of graphs = {graphs}; got {checks.shown(x)}")
    kept = [start[:, 0].astype(np.result_type(start.dtype, np.float32))]
    for _ in range(order):
        value = (matrix @ kept[-1]).reshape(graphs, -1)
        value = value - value.mean(axis=1, keepdims=True)
        value /= np.sqrt(np.mean(value * value, axis=1, keepdims=True) + epsilon)
        kept.append(value.ravel().astype(kept[0].dtype, copy=False))
    return np.stack(kept)


def _product(matrix: Any, x: np.ndarray) -> np.ndarray:
    kind = x.dtype
    if sp.issparse(matrix) and matrix.dtype != kind:
        matrix = matrix.astype(kind)
    return np.asarray(matrix @ x).astype(kind, copy=False)


def _exact_product(matrix: Any, x: np.ndarray) -> np.ndarray:
    if x.dtype != object:
        reach = int(abs(matrix).sum(axis=1).max()) if matrix.nnz else 0
        if reach * max(int(abs(x).max()) if x.size else 0, 1) < 2**63:
            return matrix @ x
    result = np.zeros(x.shape, object)
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    np.add.at(result, rows, matrix.data.astype(object)[:, None] * x.astype(object)[matrix.indices])
    return result


def _features(matrix: Any, x: Any) -> np.ndarray:
    nodes = _a_matrix(matrix).shape[0]
    found = np.asarray(checks.array("x", x, min_ndim=1, empty=True))
    if found.ndim > 2 or len(found) != nodes:
        raise ValueError(f"x must have shape (nodes,) or (nodes, channels) with nodes = {nodes}; got {checks.shown(x)}")
    if found.dtype.kind == "f" and not np.all(np.isfinite(found)):
        raise ValueError(f"x must be finite; got {checks.shown(x)} with nan or infinity")
    return found[:, None] if found.ndim == 1 else found


def _a_matrix(matrix: Any) -> Any:
    is_product = hasattr(matrix, "matmat") and hasattr(matrix, "shape")
    if not (sp.issparse(matrix) or is_product) or len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise TypeError(f"matrix must be a square sparse matrix of scipy or its like; got {checks.shown(matrix)}")
    return matrix
