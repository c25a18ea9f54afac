"""The seeds of everything random in a run, derived from the one seed that the run is given."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Int32, PRNGKeyArray


def member_seeds(seed: int, count: int, block: int = 100_000) -> Int32[np.ndarray, " count"]:
    """The seeds of an ensemble's members: runs with different `seed` share none, up to `block` members each.

    Run 0 has the seeds 0, 1, 2, ..., run 1 the seeds `block`, `block + 1`, and so on. Where these would overflow 32
    bits (from run 21,474 on), the run has a block of negative seeds instead, drawn from its own seed.
    """
    if seed < 0:
        raise ValueError(f"seed must be 0 or more; got {seed}")
    first = block * seed
    if first + max(block, count) > 2**31:
        first = -int(np.random.default_rng(seed).integers(max(block, count), 2**31))
    return np.arange(first, first + count, dtype=np.int32)


def run_key(seed: int) -> PRNGKeyArray:
    """The key of what a run draws once: `jax.random.key(seed)`, which drops all but the last 32 bits of `seed`, with
    the other bits folded in."""
    key = jax.random.key(seed % 2**32)
    while seed := seed >> 32:
        key = jax.random.fold_in(key, np.uint32(seed % 2**32))
    return key


def start_seeds(seed: int, count: int) -> range:
    """NumPy seeds of random starts: from a million on, so that none of them is one of the reference's (0 to 40,000)."""
    first = 1_000_000 * (1 + seed)
    return range(first, first + count)
