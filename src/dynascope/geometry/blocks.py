"""All examples against all, some at a time: memory that does not grow with their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PyTree


def block_size(count: int, row: int, budget: int) -> int:
    """How many examples go into a block, at `row` bytes each: all, or so many that two blocks fit the budget."""
    return count if count * row <= budget else max(1, budget // (2 * row))


def in_blocks(
    x: PyTree, block: int, made: Callable[[PyTree], Any], contracted: Callable[[Any, Any], Array]
) -> Float[Array, "nk nk"]:
    """`contracted(made(some), made(others))` of all examples against all: at once where they are one block, else pair
    by pair of blocks, of which one is made anew for every pair."""
    n = jax.tree.leaves(x)[0].shape[0]
    if block >= n:
        whole = made(x)
        return contracted(whole, whole)
    starts = block * jnp.arange(-(-n // block), dtype=jnp.int32)

    def at(first: Array) -> Any:
        chosen = jnp.minimum(first + jnp.arange(block, dtype=jnp.int32), n - 1)  # the last block repeats an example
        return made(jax.tree.map(lambda leaf: leaf[chosen], x))

    def against_all(first: Array) -> Array:
        left = at(first)
        return lax.map(lambda other: contracted(left, at(other)), starts)

    pairs = lax.map(against_all, starts)
    side, outputs = starts.size * pairs.shape[-1], pairs.shape[-1] // block
    return jnp.swapaxes(pairs, 1, 2).reshape(side, side)[: n * outputs, : n * outputs]
