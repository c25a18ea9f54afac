"""Arrays that are not trained: stored as bits, so that no optimizer, gradient or probe takes them for parameters."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

_WORDS = {2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint64}


class Frozen(eqx.Module):
    """Any pytree, held fixed. Training moves the floating-point leaves of a model; here they are stored as integers,
    the bits of the values, so that momentum, weight decay or a perturbation cannot change them either. `value()`
    returns the same tree, without a gradient. It passes through `jit`, `vmap` and checkpoints like any array."""

    bits: PyTree
    rest: PyTree
    dtypes: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, tree: PyTree) -> None:
        floating, self.rest = eqx.partition(tree, eqx.is_inexact_array)
        self.dtypes = tuple(str(leaf.dtype) for leaf in jax.tree.leaves(floating))
        self.bits = jax.tree.map(_bits, floating)

    def value(self) -> PyTree:
        """The pytree that was given."""
        leaves, structure = jax.tree.flatten(self.bits)
        found = [lax.bitcast_convert_type(leaf, dtype) for leaf, dtype in zip(leaves, self.dtypes, strict=True)]
        return eqx.combine(jax.tree.unflatten(structure, found), self.rest)


def _bits(leaf: Any) -> Array:
    leaf = jnp.asarray(leaf)
    if not jnp.issubdtype(leaf.dtype, jnp.floating):
        raise TypeError(f"Frozen holds real numbers only; got an array of {leaf.dtype}")
    return lax.bitcast_convert_type(leaf, _WORDS[leaf.dtype.itemsize])
