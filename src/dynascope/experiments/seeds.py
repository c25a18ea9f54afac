"""The seeds of random starts, from the seed of the run."""

from __future__ import annotations


def start_seeds(seed: int, count: int) -> range:
    """NumPy seeds of random starts: from a million on, so that none of them is one of the reference's (0 to 40,000)."""
    first = 1_000_000 * (1 + seed)
    return range(first, first + count)
