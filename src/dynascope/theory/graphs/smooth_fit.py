"""The best smooth predictor of walk counts from propagated colors, without training a network."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from dynascope import checks
from dynascope.theory.domains import check_arguments


@check_arguments
def quadratic_fit(features: Any, values: Any, train: Any, groups: Any) -> tuple[float, float]:
    """Fit a polynomial of degree 2 in the features by least squares, separately for each group of nodes.

    Linearly dependent columns are allowed.

    Args:
        features: Features of the nodes. Shape (nodes, columns).
        values: Values to fit. Shape (nodes,).
        train: Numbers of the nodes to fit on.
        groups: The group of each node. Shape (nodes,).

    Returns:
        The errors on `train` and on all other nodes: mean squares over the variance of `values` on all nodes.
    """
    x = np.asarray(checks.array("features", features, ndim=2), float)
    y = np.asarray(checks.array("values", values, ndim=1), float)
    group = np.asarray(checks.array("groups", groups, ndim=1))
    chosen = np.asarray(checks.array("train", train, ndim=1))
    if len(x) != len(y) or len(group) != len(y):
        raise ValueError(f"features, values and groups must be equally long; got {len(x)}, {len(y)} and {len(group)}")
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
        raise ValueError("features and values must be finite; got nan or infinity")
    if chosen.dtype.kind not in "iu" or chosen.min() < 0 or chosen.max() >= len(y):
        raise ValueError(f"train must hold node numbers from 0 to {len(y) - 1}; got {checks.shown(train)}")
    if len(np.unique(chosen)) == len(y):
        raise ValueError("train must leave out at least one node; got all of them")
    if np.ptp(y) == 0:
        raise ValueError("values must not all be equal")
    inside = np.isin(np.arange(len(y)), chosen)
    scaled = (x - x.mean(0)) / np.maximum(x.std(0), 1e-12)
    columns = [np.ones(len(y)), *scaled.T]
    columns += [scaled[:, i] * scaled[:, j] for i, j in combinations_with_replacement(range(x.shape[1]), 2)]
    design, fitted = np.stack(columns, axis=1), np.zeros(len(y))
    for each in np.unique(group):
        here = group == each
        used = here & inside
        if not used.any():
            raise ValueError(f"train must hold a node of every group; got none of group {each}")
        weights, *_ = np.linalg.lstsq(design[used], y[used], rcond=1e-9)
        fitted[here] = design[here] @ weights
    squared = (fitted - y) ** 2 / y.var()
    return float(squared[inside].mean()), float(squared[~inside].mean())
