"""Where the members of an ensemble run: spread over every device of this machine, so many side by side on each.

Members know nothing of one another, so each device runs the program of one device on its share of them, and at its own
pace (`jax.shard_map`). The numbers are those of one device, to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

ALONG_MEMBERS = PartitionSpec("member")


class Layout(NamedTuple):
    """How a batch of members lies on the devices."""

    width: int
    """Members side by side on each device."""
    devices: tuple[jax.Device, ...]

    size: int
    """Members side by side on all devices."""
    mesh: Mesh | None
    """None for one device: then nothing is sharded."""

    def place(self, tree: PyTree, first: int, count: int) -> PyTree:
        """Rows `first` to `first + count` of a tree, on these devices; the last one is repeated to fill them up."""
        chosen = first + np.minimum(np.arange(self.size), count - 1)
        rows = jax.tree.map(lambda leaf: leaf[chosen], tree)
        if self.mesh is None:
            return jax.tree.map(jnp.asarray, rows)
        return jax.device_put(rows, NamedSharding(self.mesh, ALONG_MEMBERS))


def usable_devices(held: PyTree) -> tuple[jax.Device, ...]:
    """The devices of this machine, all of the first one's kind, on which an ensemble may run.

    Who says where to compute is obeyed: `jax.default_device` names the one device, arrays in `held` that are committed
    to a device stay there, and who has set a mesh shards by it.
    """
    default = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(default, jax.Device):
        return (default,)
    first, *others = jax.local_devices(backend=default)
    committed = any(isinstance(leaf, jax.Array) and leaf.committed for leaf in jax.tree.leaves(held))
    if committed or not jax.sharding.get_abstract_mesh().empty:
        return (first,)
    return (first, *(other for other in others if other.device_kind == first.device_kind))


def spread(members: int, width: int, devices: tuple[jax.Device, ...]) -> Layout:
    """As few members on each device as it takes, at most `width`; and as few devices as hold them so."""
    width = min(width, math.ceil(members / len(devices)))
    used = devices[: math.ceil(members / width)]
    mesh = Mesh(np.array(used), tuple(ALONG_MEMBERS)) if len(used) > 1 else None
    return Layout(width, used, width * len(used), mesh)


def on_each_device(function: Callable[..., PyTree], mesh: Mesh | None) -> Callable[..., PyTree]:
    """A function of arrays along the members, called on each device with its share."""
    if mesh is None:
        return function
    return jax.shard_map(function, mesh=mesh, in_specs=ALONG_MEMBERS, out_specs=ALONG_MEMBERS, check_vma=False)
