"""Does learning follow the hierarchy of concepts? The partial order of the test points `xhat^(v)`, `v in
{0,1}^s`.

"Dynamics of Concept Learning and Compositional Generalization", Appendix B: `u <= v` componentwise should
give `loss(xhat^(u)) <= loss(xhat^(v))` at every time (B.2). Losses have the nodes on their last axis, in the
order of the rows of `nodes`; leading axes (steps, seeds, ...) are batched over. Arrays or labeled arrays,
NumPy out.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

Nodes = Int[np.ndarray, "node s"]
Pairs = Int[np.ndarray, "pair 2"]
Values = Float[np.ndarray, "..."]


def hierarchy(concepts: int) -> Nodes:
    """All of `{0,1}^s`, one row per node, counting in binary with the first concept as the leading digit."""
    return (np.arange(2**concepts)[:, None] >> np.arange(concepts)[::-1]) & 1


def comparable_pairs(nodes: Nodes) -> Pairs:
    """Indices `(u, v)` of nodes with `u <= v` componentwise and `u != v` (65 of them for s = 4)."""
    below = np.all(nodes[:, None, :] <= nodes[None, :, :], axis=-1)
    return np.argwhere(below & ~np.eye(len(nodes), dtype=bool))


def cover_pairs(nodes: Nodes) -> Pairs:
    """The comparable pairs that differ in one concept: the edges of the hierarchy (32 for s = 4)."""
    pairs = comparable_pairs(nodes)
    return pairs[(nodes[pairs[:, 1]] - nodes[pairs[:, 0]]).sum(axis=-1) == 1]


def violation_share(losses: ArrayLike, pairs: Pairs, tolerance: float | int = 0) -> Values:
    """The share of pairs `u <= v` with `loss_u > loss_v + tolerance`: 0 where (B.2) holds."""
    values = np.asarray(losses)
    return np.asarray(np.mean(values[..., pairs[:, 0]] > values[..., pairs[:, 1]] + tolerance, axis=-1))


def level_means(losses: ArrayLike, nodes: Nodes) -> Values:
    """The mean loss over the nodes with `|v| = k` concepts, `k = 0 .. s`."""
    values, level = np.asarray(losses), nodes.sum(axis=-1)
    return np.stack([values[..., level == k].mean(axis=-1) for k in range(nodes.shape[1] + 1)], axis=-1)


def share_in_order(learning_times: ArrayLike, pairs: Pairs) -> Values:
    """The share of pairs `u <= v` in which `v` is not learned before `u`.

    A node never learned has time nan. Pairs with neither node learned say nothing and are left out; nan if all
    are.
    """
    times = np.asarray(learning_times, dtype=float)
    times = np.where(np.isnan(times), np.inf, times)
    lower, upper = times[..., pairs[:, 0]], times[..., pairs[:, 1]]
    known = np.isfinite(lower) | np.isfinite(upper)
    count = known.sum(axis=-1)
    ordered = (known & (lower <= upper)).sum(axis=-1)
    return np.where(count > 0, ordered / np.maximum(count, 1), np.nan)
