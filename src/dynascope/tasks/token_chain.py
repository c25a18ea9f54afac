"""Markov chains of tokens, drawn inside a compiled program: the same draw position by position, or in blocks.

A position takes one uniform number u: the next token is a function of the token before and of u, by alias tables (one
comparison and two lookups instead of a search). On an accelerator, where T sequential steps cost more than the work in
them, the positions are cut into about sqrt(T) blocks: all blocks run at once from every token they could start with,
then the blocks that fit are put together. Both ways give the same tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

Tokens = Int[Array, "count length"]
Uniforms = Float[Array, "count length"]
Step = Callable[[Int[Array, "count choices"], Float[Array, "count choices"]], Int[Array, "count choices"]]
"""From tokens and uniform numbers to the tokens that follow, for every sequence (its own first index) and any number of
choices in it."""


class AliasTable(NamedTuple):
    """Walker's tables of distributions over n values, one for each row."""

    keep: Float[Array, "rows n"]
    other: Int[Array, "rows n"]

    def draw(self, rows: Int[Array, "*batch"], u: Float[Array, "*batch"]) -> Int[Array, "*batch"]:
        """A value of each row's distribution, from a uniform number."""
        size = self.keep.shape[1]
        scaled = u * size
        place = jnp.minimum(scaled.astype(jnp.int32), size - 1)
        kept = scaled - place.astype(u.dtype) < self.keep[rows, place]
        return jnp.where(kept, place, self.other[rows, place])


def alias_table(probabilities: Float[np.ndarray, "rows n"]) -> AliasTable:
    """The tables of these distributions, each row of which sums to 1."""
    rows, size = probabilities.shape
    keep, other = np.ones((rows, size)), np.tile(np.arange(size), (rows, 1))
    for row in range(rows):
        left = probabilities[row] * size
        small, large = list(np.flatnonzero(left < 1)), list(np.flatnonzero(left >= 1))
        while small and large:
            low, high = small.pop(), large[-1]
            keep[row, low], other[row, low] = left[low], high
            left[high] -= 1 - left[low]
            if left[high] < 1:
                small.append(large.pop())
    return AliasTable(jnp.asarray(keep, jnp.float32), jnp.asarray(other, jnp.int32))


def chain(step: Step, first: Int[Array, " count"], u: Uniforms, states: int) -> Tokens:
    """The tokens after `first` (each below `states`), one for every uniform number."""
    there = partial(in_blocks, step, states=states)
    return lax.platform_dependent(first, u, cpu=partial(in_a_row, step), default=there)


def in_a_row(step: Step, first: Int[Array, " count"], u: Uniforms) -> Tokens:
    """Position after position."""

    def move(token: Array, now: Array) -> tuple[Array, Array]:
        after = step(token, now)
        return after, after

    return lax.scan(move, first[:, None], u.T[:, :, None])[1][:, :, 0].T


def in_blocks(step: Step, first: Int[Array, " count"], u: Uniforms, states: int) -> Tokens:
    """The same in two passes of about sqrt(T) sequential positions."""
    count, length = u.shape
    if length == 0:
        return jnp.zeros((count, 0), first.dtype)
    size = math.isqrt(length - 1) + 1
    blocks = -(-length // size)
    padded = jnp.pad(u, ((0, 0), (0, blocks * size - length))).reshape(count, blocks, 1, size)
    starts = jnp.broadcast_to(jnp.arange(states, dtype=first.dtype), (count, blocks, states))

    def everywhere(token: Array, now: Array) -> tuple[Array, Array]:
        flat = (count, blocks * states)
        after = step(token.reshape(flat), jnp.broadcast_to(now, token.shape).reshape(flat)).reshape(token.shape)
        return after, after

    paths = lax.scan(everywhere, starts, jnp.moveaxis(padded, 3, 0))[1]  # (size, count, blocks, states)

    def join(token: Array, block: Array) -> tuple[Array, Array]:
        path = jnp.take_along_axis(block, token[None, :, None], axis=2)[:, :, 0]  # (size, count)
        return path[-1], path

    joined = lax.scan(join, first, jnp.moveaxis(paths, 2, 0))[1]  # (blocks, size, count)
    return joined.reshape(blocks * size, count).T[:, :length]


def is_distribution(rows: Float[np.ndarray, "*batch n"]) -> bool:
    """Whether every row holds probabilities that sum to 1."""
    return bool(np.all(rows >= 0) and np.allclose(rows.sum(-1), 1, atol=1e-5))


def uniform_numbers(key: jax.Array, shape: tuple[int, ...]) -> Float[Array, "*shape"]:
    """Uniform numbers in [0, 1), in float32."""
    return jax.random.uniform(key, shape, jnp.float32)
