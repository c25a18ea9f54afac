"""The permutation that is never written out: it is one, and it is random."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.dynamics.descend import epoch_words, permuted


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 64, 97, 1000, 10_007])
def test_it_is_a_permutation(rows):
    words = epoch_words(jax.random.key(1), jnp.asarray(2))
    image = permuted(words, jnp.arange(rows, dtype=jnp.int32), rows)
    np.testing.assert_array_equal(np.sort(image), np.arange(rows))


def test_all_orders_of_four_rows_are_equally_likely():
    draws = jax.vmap(lambda e: permuted(epoch_words(jax.random.key(0), e), jnp.arange(4, dtype=jnp.int32), 4))(
        jnp.arange(24_000)
    )
    _, counts = np.unique(np.asarray(draws), axis=0, return_counts=True)
    assert len(counts) == 24
    assert ((counts - 1000) ** 2 / 1000).sum() < 49.7  # chi-square, 23 degrees of freedom, p = 0.001


def test_neighbors_are_not_kept_together():
    draws = jax.vmap(lambda e: permuted(epoch_words(jax.random.key(0), e), jnp.arange(50, dtype=jnp.int32), 50))(
        jnp.arange(2000)
    )
    adjacent = np.mean(np.diff(np.asarray(draws), axis=1) == 1)
    assert abs(adjacent - 1 / 50) < 4 * np.sqrt(1 / 50 / (2000 * 49))
