"""Partitions of nodes into classes, as whole numbers, (nodes,): two nodes are in one class if their numbers agree.

Every partition here is found by sorting, never by hashing: different items never share a number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int

from dynascope import checks


def classes_of(
    values: Any, *, start: Any = None, tolerance: float = 1e-9, errors: np.ndarray | None = None
) -> Int[np.ndarray, " nodes"]:
    """The classes of equal rows.

    Args:
        values: Integers (Python's own too), compared exactly, or floats; (nodes,) or (nodes, columns).
        start: A partition to refine: rows are compared within its classes only.
        tolerance: Two floats are equal if a chain of values of the same column joins them with gaps of at most this, as
            a share of the column's largest value if that is above 1.
        errors: How far each float may be from its exact value, in the shape of the values. Two are then told apart if a
            gap separates what they may be, whatever the tolerance: rows that are equal are never told apart.
    """
    checks.real("tolerance", tolerance, at_least=0)
    values = checks.native(values)
    array = np.asarray(values)
    exact = array.dtype == object and all(isinstance(value, int) for value in array.ravel().tolist())
    if not exact:
        array = np.asarray(checks.array("values", values, min_ndim=1, empty=True))
    if array.ndim > 2:
        raise ValueError(f"values must have shape (nodes,) or (nodes, columns); got {checks.shown(values)}")
    if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
        raise ValueError(f"values must be finite; got {checks.shown(values)} with nan or infinity")
    columns = array[:, None] if array.ndim == 1 else array
    found = np.zeros(len(columns), np.int64) if start is None else partition("start", start, len(columns))
    if errors is not None:
        errors = np.asarray(checks.array("errors", errors, min_ndim=1, empty=True), float)
        if errors.shape != array.shape or np.any(~(errors >= 0)):
            raise ValueError(f"errors must be numbers >= 0 in the shape of the values; got {checks.shown(errors)}")
        errors = errors.reshape(columns.shape)
    for number, column in enumerate(columns.T):
        if column.dtype.kind != "f":
            ranks = _number(column)
        elif errors is not None:
            ranks = _ranks_within(column, errors[:, number])
        else:
            ranks = _ranks(column, float(tolerance))
        found = _number(found * (ranks.max(initial=0) + 1) + ranks)
    return found


def number_of_classes(classes: Any) -> int:
    """The number of classes of a partition.

    Args:
        classes: The class of each node, (nodes,).
    """
    return len(np.unique(partition("classes", classes)))


def refines(finer: Any, coarser: Any) -> bool:
    """Whether one partition refines another: the coarser classes are then a function of the finer ones.

    Args:
        finer: The class of each node, (nodes,).
        coarser: The class of each node, (nodes,).
    """
    one = partition("finer", finer)
    other = partition("coarser", coarser, len(one))
    first = np.zeros(one.max(initial=-1) + 1, np.int64)
    first[one] = other
    return bool(np.all(first[one] == other))


def partition(name: str, classes: Any, nodes: int | None = None) -> Int[np.ndarray, " nodes"]:
    """The classes numbered 0, 1, ...; an error unless they are whole numbers, one for each node."""
    found = np.asarray(checks.array(name, classes, ndim=1, empty=True))
    if found.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold the number of each node's class; got {checks.shown(classes)}")
    if nodes is not None and len(found) != nodes:
        raise ValueError(f"{name} must have shape (nodes,) with nodes = {nodes}; got {checks.shown(classes)}")
    return _number(found)


def multiset_classes(
    start: Int[np.ndarray, " rows"], indptr: Int[np.ndarray, " pointers"], values: Int[np.ndarray, " entries"]
) -> Int[np.ndarray, " rows"]:
    """The classes of rows that agree in `start` and in the multiset of their values,
    `values[indptr[i]:indptr[i + 1]]`. Both hold numbers 0, 1, ...; a row alone in its class costs nothing more.

    Values are sorted within each row. Then rows are separated a few columns at a time: the numbers of as many columns
    as fit are packed into one 64-bit integer, after that of the current class.
    """
    sizes = np.diff(indptr)
    classes = _number(start * (sizes.max(initial=0) + 1) + sizes)  # members of one class are of equal length
    rows = _repeated_rows(classes)
    colors = int(values.max(initial=0)) + 1
    ordered, at = _sorted_rows(rows, indptr, sizes, values, colors)
    found, free = np.full(len(classes), -1, np.int64), 0
    length, live, column, bits = sizes[rows], _number(classes[rows]), 0, max(colors - 1, 1).bit_length()
    while rows.size:
        packed = max(1, (62 - (len(rows) + 1).bit_length()) // bits)
        key = live
        for j in range(column, min(column + packed, int(length.max()))):
            there = np.minimum(at + j, len(ordered) - 1)
            key = (key << bits) | np.where(j < length, ordered[there], 0)
        column += packed
        live = _number(key)
        going = (np.bincount(live) > 1)[live] & (length > column)
        done = ~going
        found[rows[done]] = free + _number(live[done])
        free += len(np.unique(live[done]))
        rows, at, length, live = rows[going], at[going], length[going], live[going]
    alone = np.flatnonzero(found < 0)
    found[alone] = free + np.arange(len(alone))
    return found


def _sorted_rows(
    rows: np.ndarray, indptr: np.ndarray, sizes: np.ndarray, values: np.ndarray, colors: int
) -> tuple[np.ndarray, np.ndarray]:
    """The values of these rows, sorted within each, one row after the other; and the start of each row."""
    count = sizes[rows]
    begin = np.cumsum(count) - count
    if len(rows) < len(sizes):
        values = values[np.repeat(indptr[rows] - begin, count) + np.arange(int(count.sum()))]
    key = np.repeat(np.arange(len(rows)) * colors, count)
    key += values
    key.sort()
    key %= colors
    return key, begin


def _repeated_rows(classes: np.ndarray) -> np.ndarray:
    """The members of classes with more than one."""
    return np.flatnonzero((np.bincount(classes) > 1)[classes]) if classes.size else np.zeros(0, np.int64)


def _number(values: np.ndarray) -> np.ndarray:
    return np.unique(values, return_inverse=True)[1].reshape(values.shape)


def _ranks(column: np.ndarray, tolerance: float) -> np.ndarray:
    order = np.argsort(column, kind="stable")
    ordered = column[order]
    gap = tolerance * max(1.0, float(np.abs(column).max(initial=0)))
    ranks = np.zeros(len(column), np.int64)
    ranks[order[1:]] = np.cumsum(np.diff(ordered) > gap)
    return ranks


def _ranks_within(column: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """The ranks of what is certainly apart: a new rank if the next interval begins above all before it."""
    low, high = column.astype(float) - errors, column.astype(float) + errors
    order = np.argsort(low, kind="stable")
    reached = np.maximum.accumulate(high[order])
    ranks = np.zeros(len(column), np.int64)
    ranks[order[1:]] = np.cumsum(low[order[1:]] > reached[:-1])
    return ranks
