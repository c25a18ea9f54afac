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

    @property
    def size(self) -> int:
        return self.width * len(self.devices)

    @property
    def mesh(self) -> Mesh | None:
        """None for one device: then nothing is sharded."""
        return Mesh(np.array(self.devices), tuple(ALONG_MEMBERS)) if len(self.devices) > 1 else None


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
    return Layout(width, devices[: math.ceil(members / width)])


def lay_out(tree: PyTree, mesh: Mesh | None) -> PyTree:
    """Arrays whose first axis is that of the members, each device with its share alone."""
    if mesh is None:
        return jax.tree.map(jnp.asarray, tree)
    return jax.device_put(tree, NamedSharding(mesh, ALONG_MEMBERS))


def on_each_device(function: Callable[..., PyTree], mesh: Mesh | None) -> Callable[..., PyTree]:
    """A function of arrays along the members, called on each device with its share."""
    if mesh is None:
        return function
    return jax.shard_map(function, mesh=mesh, in_specs=ALONG_MEMBERS, out_specs=ALONG_MEMBERS, check_vma=False)
