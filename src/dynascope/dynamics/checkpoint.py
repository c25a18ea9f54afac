"""Checkpoints of a batch of members: writing them, and finding them again.

Members do not depend on one another, so a checkpoint is a table with one row per member. A run can therefore be resumed
on another number of devices, with the members in other batches.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PyTree, UInt32


class Kept(NamedTuple):
    """The rows of a table: `size` members from number `first` on; the last one may be repeated."""

    name: str
    first: int
    size: int

    @property
    def end(self) -> int:
        return self.first + self.size


def kept_rows(names: Iterable[str], name: str, first: int) -> Kept | None:
    """The name of the newest table of the run `name` that has member number `first`."""
    found = [re.fullmatch(rf"{re.escape(name)}-(\d+)-(\d+)", kept) for kept in names]
    tables = [Kept(match[0], int(match[1]), int(match[2])) for match in found if match]
    return max(
        (table for table in tables if table.first <= first < table.end),
        key=lambda table: (table.first, -table.size),  # a table is only ever cut up
        default=None,
    )


class Checkpoint(NamedTuple):
    """The table in which a batch of members is kept, and the earlier one that may hold it."""

    name: str
    members: int
    """The number of members, without repeats that only fill up the batch."""
    batched: bool
    source: str
    row: int
    """The first member's row in the source."""
    usual: bool
    """Whether the batch would be the same without the source."""

    def write(self, progress: PyTree, done: int, label: np.ndarray) -> dict[str, np.ndarray]:
        """The table of the members' progress after `done` recordings."""
        rows = slice(self.members) if self.batched else ...
        leaves = {f"leaf{i}": as_numpy(leaf)[rows] for i, leaf in enumerate(jax.tree.leaves(progress))}
        return {"done": np.asarray(done), "label": label, **leaves}

    def read(
        self, kept: Mapping[str, np.ndarray], label: Callable[[], np.ndarray], fresh: PyTree
    ) -> tuple[int, PyTree] | None:
        """Recordings done, and the progress after them; None if the table belongs to another run."""
        here = slice(self.row, self.row + self.members)
        if not np.array_equal(np.atleast_1d(kept.get("label", ""))[here], label()):
            return None
        leaves, structure = jax.tree.flatten(fresh)
        found = [kept[f"leaf{i}"] for i in range(len(leaves)) if f"leaf{i}" in kept]
        if len(found) < len(leaves):
            return None
        if self.batched:
            found = [_filled_up(leaf[here], like.shape[0]) for leaf, like in zip(found, leaves, strict=True)]
        if not all(map(fits, found, leaves)):
            return None
        return int(kept["done"]), jax.tree.unflatten(structure, list(map(_placed, found, leaves)))

    def label(self, made_of: PyTree, shared: PyTree) -> np.ndarray:
        """For each member a fingerprint of its own arrays and of the shared ones, so that a checkpoint of another run
        is not mistaken for this one's. Arrays on an accelerator enter by a checksum that is computed there."""
        common = hashlib.sha256()
        for place, leaf in jax.tree_util.tree_leaves_with_path(shared):
            array = as_numpy(leaf) if isinstance(leaf, jax.Array) else np.asarray(leaf)
            common.update(f"{jax.tree_util.keystr(place)} {array.dtype} {array.shape}".encode())
            common.update(np.ascontiguousarray(array).tobytes())
        digests = [common.copy() for _ in range(self.members)]
        for place, leaf in jax.tree_util.tree_leaves_with_path(made_of):
            shape = leaf.shape[1:] if self.batched else leaf.shape
            name = f"{jax.tree_util.keystr(place)} {leaf.dtype} {shape}".encode()
            for digest, row in zip(digests, _fingerprints(leaf, self.batched)[: self.members], strict=True):
                digest.update(name)
                digest.update(np.ascontiguousarray(row).tobytes())
        return np.asarray([digest.hexdigest() for digest in digests])


def _fingerprints(leaf: jax.Array | np.ndarray, batched: bool) -> np.ndarray:
    """Data that tells members apart, one row for each: their arrays if these are in the host's memory, else two
    checksums. On a CPU, compiling the checksums once for each shape takes longer than reading the arrays."""
    words = as_words(leaf)
    if isinstance(leaf, jax.Array) and any(device.platform != "cpu" for device in leaf.devices()):
        return np.asarray(_checksums(words if batched else words[None]))
    return np.asarray(words) if batched else np.asarray(words)[None]


@jax.jit
def _checksums(rows: jax.Array) -> UInt32[Array, "rows 2"]:
    """Two checksums of every row: each word is mixed with its place, and all are added up."""
    if rows.dtype == bool:
        words = rows.astype(jnp.uint32)
    elif jnp.issubdtype(rows.dtype, jnp.complexfloating):
        words = lax.bitcast_convert_type(jnp.stack([rows.real, rows.imag], axis=-1), jnp.uint32)
    elif rows.dtype.itemsize >= 4:
        words = lax.bitcast_convert_type(rows, jnp.uint32)
    else:
        words = lax.bitcast_convert_type(rows, f"uint{8 * rows.dtype.itemsize}").astype(jnp.uint32)
    words = words.reshape(rows.shape[0], -1)
    place = jnp.arange(words.shape[1], dtype=jnp.uint32)
    factors = jnp.uint32(0x9E3779B1), jnp.uint32(0x85EBCA77)
    return jnp.stack(
        [_mixed(words ^ _mixed(place * factor)).sum(axis=1, dtype=jnp.uint32) for factor in factors], axis=1
    )


def _mixed(words: jax.Array) -> jax.Array:
    """A bijection of 32-bit words in which every bit depends on all others (Murmur's finalizer)."""
    for factor in (0x85EBCA6B, 0xC2B2AE35):
        words = (words ^ (words >> 16)) * jnp.uint32(factor)
    return words ^ (words >> 16)


def _filled_up(rows: np.ndarray, size: int) -> np.ndarray:
    return rows[np.minimum(np.arange(size), len(rows) - 1)]


def _placed(kept: np.ndarray, like: jax.Array) -> jax.Array:
    """The array on the devices of `like`; if there are several, it is never all on one of them."""
    if len(like.sharding.device_set) == 1:
        return as_jax(kept, like)
    if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        return jax.device_put(as_jax(kept, like), like.sharding)
    return jax.device_put(kept.view(like.dtype), like.sharding)


def as_numpy(leaf: jax.Array | np.ndarray) -> np.ndarray:
    """An array in the form in which it is kept: a random key as its words, numbers that NumPy lacks (bfloat16) as their
    bits."""
    array = np.asarray(as_words(leaf))
    return array.view(f"u{array.itemsize}") if array.dtype.kind == "V" else array


def fits(kept: np.ndarray, like: jax.Array | np.ndarray) -> bool:
    """Whether a kept array can take the place of `like`."""
    wanted = as_numpy(like)
    return kept.shape == wanted.shape and kept.dtype == wanted.dtype


def as_words(leaf: jax.Array | np.ndarray) -> jax.Array | np.ndarray:
    """A random key as its words; other arrays as they are."""
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def as_jax(kept: np.ndarray, like: jax.Array | np.ndarray) -> jax.Array:
    """A kept array, converted back to the type of `like`."""
    if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.asarray(kept), impl=jax.random.key_impl(like))
    return jnp.asarray(kept if kept.dtype == like.dtype else kept.view(like.dtype))
