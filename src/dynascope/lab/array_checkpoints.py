"""Checkpoints of trainings in JAX on disk: Equinox files, and arrays by name in NumPy files."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from dynascope.lab.errors import UsageError

FILES = (".eqx", ".npz")


def find_array_checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """The checkpoints of a folder with their steps (the last number in each name), in the order of the steps.

    Args:
        folder: The folder.
    """
    if not folder.is_dir():
        raise UsageError(f"the checkpoints must be a folder; there is no {folder}")
    paths = [path for path in folder.iterdir() if path.suffix in FILES]
    if not paths:
        raise UsageError(f"{folder} holds no checkpoint of JAX: files {' or '.join(FILES)}")
    numbers = {path: re.findall(r"\d+", path.stem) for path in paths}
    if unnamed := sorted(path.name for path in paths if not numbers[path]):
        raise UsageError(f"{unnamed[0]} has no step in its name; name each one after its step: step_2000.eqx")
    found = sorted((int(numbers[path][-1]), path) for path in paths)
    for (one, first), (other, second) in itertools.pairwise(found):
        if one == other:
            raise UsageError(f"{first.name} and {second.name} both belong to step {one}")
    return found


def read_array_checkpoint(path: Path, like: PyTree) -> PyTree:
    """A model with the arrays of a checkpoint.

    Args:
        path: A file written by `eqx.tree_serialise_leaves`, or a NumPy file with the arrays under their places in the
            model (`layers.0.weight`), or, if they have no names, in their order (`arr_0`).
        like: A model of the same structure.
    """
    if path.suffix == ".eqx":
        return eqx.tree_deserialise_leaves(path, like)
    arrays, static = eqx.partition(like, eqx.is_array)
    leaves, structure = jax.tree_util.tree_flatten_with_path(arrays)
    names = [jax.tree_util.keystr(place, simple=True, separator=".") for place, _ in leaves]
    with np.load(path, allow_pickle=False) as file:
        if set(file.files) == {f"arr_{k}" for k in range(len(names))}:
            names = [f"arr_{k}" for k in range(len(names))]
        if odd := sorted(set(names) ^ set(file.files)):
            raise ValueError(f"its arrays do not match those of the model: {odd[0]}")
        found = [file[name] for name in names]
    for name, array, (_, leaf) in zip(names, found, leaves, strict=True):
        if array.shape != leaf.shape:
            raise ValueError(f"{name} is {array.shape}, in the model {leaf.shape}")
    loaded = [jax.numpy.asarray(array, leaf.dtype) for array, (_, leaf) in zip(found, leaves, strict=True)]
    return eqx.combine(jax.tree_util.tree_unflatten(structure, loaded), static)
