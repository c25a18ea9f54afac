"""Data of any structure, one row for each example: tensors in tuples, lists and mappings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from dynascope import checks

Data = Any
"""A tensor or an array, or a tuple, list or mapping of them, or a `TensorDataset`."""


def as_tensors(data: Data, name: str = "data") -> Data:
    """The same structure of tensors."""

    def tensor(leaf: Any) -> torch.Tensor:
        if isinstance(leaf, torch.Tensor):
            if leaf.is_meta:
                raise ValueError(f"{name} must hold numbers; got a tensor on the device meta")
            with torch.inference_mode(False):
                return leaf.clone() if leaf.is_inference() else leaf.detach()
        if isinstance(leaf, np.ndarray | np.generic | int | float) or hasattr(leaf, "__array__"):
            found = np.array(leaf)
            if found.dtype.kind in "biufc":
                return torch.from_numpy(found)
        hint = "; a batch of it will do, next(iter(loader))" if isinstance(leaf, DataLoader) else ""
        raise TypeError(f"{name} must be tensors with one row for each example; got {checks.shown(leaf)}{hint}")

    return map_leaves(tensor, data.tensors if isinstance(data, TensorDataset) else data)


def map_leaves(function: Callable[[Any], Any], data: Data) -> Data:
    """The structure with a function applied to each leaf; None stays."""
    if data is None:
        return None
    if isinstance(data, Mapping):
        return {key: map_leaves(function, value) for key, value in data.items()}
    if isinstance(data, tuple | list):
        parts = [map_leaves(function, value) for value in data]
        return tuple(parts) if isinstance(data, tuple) else parts
    return function(data)


def leaves(data: Data) -> list[Any]:
    """All leaves of the structure."""
    found: list[Any] = []
    map_leaves(found.append, data)
    return found


def count_rows(data: Data, name: str = "data") -> int:
    """The number of examples, the same in every tensor."""
    tensors = leaves(data)
    if not tensors or any(leaf.ndim == 0 for leaf in tensors):
        raise ValueError(f"{name} must be tensors with one row for each example; got {checks.shown(data)}")
    counts = sorted({len(leaf) for leaf in tensors})
    if len(counts) > 1 or counts[0] == 0:
        got = " and ".join(map(str, counts)) + " rows"
        raise ValueError(f"{name} must have the same number of rows in every tensor, at least 1; got {got}")
    return counts[0]


def take_rows(data: Data, rows: Any, device: torch.device) -> Data:
    """Some rows of the data, a slice or indices, on the model's device."""

    def take(leaf: torch.Tensor) -> torch.Tensor:
        index = rows.to(leaf.device) if isinstance(rows, torch.Tensor) else rows
        return leaf[index].to(device)

    return map_leaves(take, data)


def split_rows(data: Data, rows: int | None, device: torch.device) -> Iterator[tuple[float, Data]]:
    """Parts of at most `rows` rows, each with its share of all rows."""
    count = count_rows(data)
    size = count if rows is None else min(rows, count)
    for first in range(0, count, size):
        last = min(first + size, count)
        yield (last - first) / count, take_rows(data, slice(first, last), device)
