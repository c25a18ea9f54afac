"""Does learning follow the hierarchy of concepts? The partial order of the test points `xhat^(v)`, `v in {0,1}^s`.

"Dynamics of Concept Learning and Compositional Generalization", Appendix B: `u <= v` componentwise should give
`loss(xhat^(u)) <= loss(xhat^(v))` at every time (B.2). Losses have the nodes on their last axis, in the order of the
rows of `nodes`; leading axes (steps, seeds, ...) are batched over. Arrays or labeled arrays in, NumPy out.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from dynascope import checks

Nodes = Int[np.ndarray, "node s"]
Pairs = Int[np.ndarray, "pair 2"]
Values = Float[np.ndarray, "..."]


def hierarchy(concepts: int) -> Nodes:
    """All of `{0,1}^s`, counting in binary with the first concept as the leading digit. One node per row.

    Args:
        concepts: The number s of concepts.
    """
    concepts = checks.whole("concepts", concepts, at_least=1, at_most=20)
    return (np.arange(2**concepts)[:, None] >> np.arange(concepts)[::-1]) & 1


def comparable_pairs(nodes: Nodes) -> Pairs:
    """The pairs `(u, v)` of indices of nodes with `u <= v` componentwise and `u != v` (65 of them for s = 4).

    Args:
        nodes: Vectors of zeros and ones, one per row.
    """
    nodes = _whole_numbers("nodes", nodes)
    below = np.all(nodes[:, None, :] <= nodes[None, :, :], axis=-1)
    return np.argwhere(below & ~np.eye(len(nodes), dtype=bool))


def cover_pairs(nodes: Nodes) -> Pairs:
    """The comparable pairs that differ in one concept: the edges of the hierarchy (32 for s = 4).

    Args:
        nodes: Vectors of zeros and ones, one per row.
    """
    pairs, nodes = comparable_pairs(nodes), np.asarray(nodes)
    return pairs[(nodes[pairs[:, 1]] - nodes[pairs[:, 0]]).sum(axis=-1) == 1]


def violation_share(losses: ArrayLike, pairs: Pairs, tolerance: float = 0) -> Values:
    """The share of pairs `u <= v` with `loss_u > loss_v + tolerance`: 0 if (B.2) holds.

    Args:
        losses: The loss of each node, `(..., node)`.
        pairs: Indices `(u, v)`, one pair per row.
        tolerance: How far `loss_u` may exceed `loss_v`.
    """
    values, pairs = _with_pairs("losses", losses, pairs)
    checks.real("tolerance", tolerance, at_least=0)
    return np.asarray(np.mean(values[..., pairs[:, 0]] > values[..., pairs[:, 1]] + tolerance, axis=-1))


def level_means(losses: ArrayLike, nodes: Nodes) -> Values:
    """The mean loss over the nodes with `|v| = k` concepts, `k = 0 .. s`.

    Args:
        losses: The loss of each node, `(..., node)`.
        nodes: Vectors of zeros and ones, one per row.
    """
    nodes = _whole_numbers("nodes", nodes)
    values, level = np.asarray(checks.array("losses", losses, min_ndim=1)), nodes.sum(axis=-1)
    if values.shape[-1] != len(nodes) or set(level) != set(range(nodes.shape[1] + 1)):
        raise ValueError(f"losses must have a value for each of {len(nodes)} nodes, of all levels; got {values.shape}")
    return np.stack([values[..., level == k].mean(axis=-1) for k in range(nodes.shape[1] + 1)], axis=-1)


def share_in_order(learning_times: ArrayLike, pairs: Pairs) -> Values:
    """The share of pairs `u <= v` in which `v` is not learned before `u`. Pairs with neither learned do not count; nan
    if there are no others.

    Args:
        learning_times: The time at which each node is learned, `(..., node)`; nan if never.
        pairs: Indices `(u, v)`, one pair per row.
    """
    values, pairs = _with_pairs("learning_times", learning_times, pairs)
    times = np.where(np.isnan(values), np.inf, values.astype(float))
    lower, upper = times[..., pairs[:, 0]], times[..., pairs[:, 1]]
    known = np.isfinite(lower) | np.isfinite(upper)
    count = known.sum(axis=-1)
    ordered = (known & (lower <= upper)).sum(axis=-1)
    return np.where(count > 0, ordered / np.maximum(count, 1), np.nan)


def _with_pairs(name: str, values: ArrayLike, pairs: Pairs) -> tuple[np.ndarray, Pairs]:
    """Values (..., node), and pairs of nodes among them."""
    found, pairs = np.asarray(checks.array(name, values, min_ndim=1)), _whole_numbers("pairs", pairs)
    if pairs.shape[1] != 2 or pairs.min() < 0 or pairs.max() >= found.shape[-1]:
        raise ValueError(f"pairs must be rows of two indices below {found.shape[-1]}; got {checks.shown(pairs)}")
    return found, pairs


def _whole_numbers(name: str, values: ArrayLike) -> np.ndarray:
    found = np.asarray(checks.array(name, values, ndim=2))
    if found.dtype.kind not in "iu":
        raise TypeError(f"{name} must be an array of integers; got {checks.shown(values)}")
    return found
