"""Random permutations that are evaluated where they are needed instead of being written out.

Shuffling n rows every epoch by sorting random keys costs more than the training itself for small networks. Here a
permutation of 0..n-1 is a Feistel network on pairs (l, r), l < a, r < b, a b >= n: each half is shifted, modulo its
size, by a hash of the other, which can be undone whatever the hash is, so it is a bijection of 0..ab-1. The few
values that land at n or beyond are sent through again until they come back below it ("cycle walking": J. Black and
P. Rogaway, Ciphers with arbitrary finite domains, 2002). An epoch's permutation is then just `ROUNDS` random words.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int, PRNGKeyArray, UInt32

ROUNDS = 8


def epoch_words(key: PRNGKeyArray, epoch: Int[Array, ""]) -> UInt32[Array, " rounds"]:
    """The random words that make an epoch's permutation."""
    return jax.random.bits(jax.random.fold_in(key, epoch), (ROUNDS,), jnp.uint32)


def permuted(words: UInt32[Array, " rounds"], places: Int[Array, " n"], rows: int) -> Int[Array, " n"]:
    """Where the permutation of 0..rows-1 sends these places."""
    if not 1 <= rows < 2**31:
        raise ValueError(f"can shuffle 1 to 2^31 - 1 rows; got {rows}")
    left_size = math.isqrt(rows - 1) + 1
    right_size = -(-rows // left_size)
    inside = places.astype(jnp.uint32)
    once = _feistel(words, inside, left_size, right_size)
    if left_size * right_size > rows:
        once = lax.while_loop(
            lambda image: jnp.any(image >= rows),
            lambda image: jnp.where(image >= rows, _feistel(words, image, left_size, right_size), image),
            once,
        )
    return once.astype(jnp.int32)


def _feistel(words: Array, places: Array, left_size: int, right_size: int) -> Array:
    left, right = places // jnp.uint32(right_size), places % jnp.uint32(right_size)
    for number in range(0, ROUNDS, 2):
        left = _shift(left, _mix(right ^ words[number]), left_size)
        right = _shift(right, _mix(left ^ words[number + 1]), right_size)
    return left * jnp.uint32(right_size) + right


def _shift(value: Array, noise: Array, size: int) -> Array:
    """(value + a number below size made of the noise) modulo size, without a division. Sizes are below 2^16."""
    moved = value + ((noise >> 16) * jnp.uint32(size) >> 16)
    return jnp.where(moved >= size, moved - jnp.uint32(size), moved)


def _mix(word: Array) -> Array:
    """The finalizer of MurmurHash3: every bit of the input moves every bit of the output."""
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return word ^ (word >> 16)
