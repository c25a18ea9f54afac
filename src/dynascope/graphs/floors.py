"""The error that no function of the classes can avoid."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynascope import checks
from dynascope.graphs.partitions import partition


def irreducible_error(classes: Any, values: Any) -> float:
    """The least mean squared error of a function of the classes, relative to the variance: 0 if each class has one
    value, 1 if the classes carry no information.

    Args:
        classes: The class of each node, (nodes,).
        values: The values to fit, (nodes,).
    """
    found, wanted = _both(classes, values)
    y = wanted.astype(float)
    total = float(np.sum((y - y.mean()) ** 2))
    if total == 0:
        return 0.0
    size = np.bincount(found)
    means = np.bincount(found, y) / size
    return float(np.sum((y - means[found]) ** 2) / total)


def irreducible_mistakes(classes: Any, values: Any) -> float:
    """The least share of nodes that a function of the classes labels wrongly: all but the most frequent label of each
    class.

    Args:
        classes: The class of each node, (nodes,).
        values: The label of each node, (nodes,).
    """
    found, wanted = _both(classes, values)
    labels = np.unique(wanted, return_inverse=True)[1]
    return 1 - int(_majority_counts(found, labels).sum()) / len(found)


def _majority_counts(classes: Any, labels: Any) -> Any:
    """The count of the most frequent label in each class, (classes,)."""
    pairs, count = np.unique(np.stack([classes, labels]), axis=1, return_counts=True)
    largest = np.zeros(int(pairs[0].max(initial=-1)) + 1, np.int64)
    np.maximum.at(largest, pairs[0], count)
    return largest


def _both(classes: Any, values: Any) -> tuple[np.ndarray, np.ndarray]:
    wanted = np.asarray(checks.array("values", values, ndim=1))
    if wanted.dtype.kind == "f" and not np.all(np.isfinite(wanted)):
        raise ValueError(f"values must be finite; got {checks.shown(values)} with nan or infinity")
    return partition("classes", classes, len(wanted)), wanted
