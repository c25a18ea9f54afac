"""Truncation against numpy's singular value decomposition; the model that is given stays as it is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.geometry import low_rank, truncate
from dynascope.geometry.truncation import _by_eigenvectors, cut_to


def best(matrix, rank):
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    return left[:, :rank] * values[:rank] @ right[:rank]


TALL = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)


@pytest.mark.parametrize("matrix", [TALL, TALL.T])
def test_it_is_the_best_matrix_of_its_rank(matrix):
    cut = jax.jit(lambda m: [low_rank(m, rank=rank) for rank in range(5)])(matrix)
    for rank in range(4):
        np.testing.assert_allclose(cut[rank], best(matrix, rank), atol=1e-5)
    np.testing.assert_array_equal(cut[4], matrix)
    by_gram = cut_to(jnp.asarray(matrix), _by_eigenvectors(jnp.asarray(TALL)), 2)
    np.testing.assert_allclose(by_gram, best(matrix, 2), atol=1e-5)


def test_a_share_is_rounded_down():
    matrix = jnp.asarray(np.random.default_rng(1).normal(size=(100, 100)), jnp.float32)
    for share, rank in ((0.07, 7), (0.079, 7), (0.999, 99), (0.0, 0)):
        assert np.linalg.matrix_rank(np.asarray(low_rank(matrix, share=share), float), tol=1e-3) == rank
    np.testing.assert_array_equal(low_rank(matrix, share=1), matrix)


def test_only_the_weights_picked_change_and_the_model_stays():
    stack = jnp.asarray(np.stack([TALL, 2 * TALL]))
    model = {"a": jnp.asarray(TALL), "b": [jnp.ones((3, 3)), stack], "name": "mine"}
    cut = truncate(model, lambda m: (m["a"], m["b"][1]), rank=1)
    np.testing.assert_allclose(cut["a"], best(TALL, 1), atol=1e-5)
    np.testing.assert_allclose(cut["b"][1], [best(TALL, 1), best(2 * TALL, 1)], atol=1e-5)
    assert cut["b"][0] is model["b"][0]
    np.testing.assert_array_equal(model["a"], TALL)
    again = truncate(model, lambda m: m["a"], share=0)
    assert float(jnp.abs(again["a"]).max()) == 0


def test_narrow_floats_are_cut_in_float32():
    matrix = jnp.asarray(TALL, jnp.bfloat16)
    cut = low_rank(matrix, rank=2)
    assert cut.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(cut, np.float32), best(np.asarray(matrix, np.float32), 2), atol=0.02)


def test_what_cannot_be_cut_is_refused():
    model = {"a": jnp.ones(3), "n": jnp.ones((2, 2), int)}
    with pytest.raises(TypeError, match="where must pick matrices"):
        truncate(model, lambda m: m["a"], rank=1)
    with pytest.raises(TypeError, match="where must pick matrices"):
        truncate(model, lambda m: m["n"], rank=1)
    with pytest.raises(TypeError, match="give exactly one of rank and share"):
        low_rank(jnp.asarray(TALL), rank=1, share=0.5)
    with pytest.raises(ValueError, match="rank must be an integer, at least 0 and at most 4"):
        low_rank(jnp.asarray(TALL), rank=5)


def test_a_matrix_of_integers_is_approximated_by_real_numbers():
    matrix = np.array([[1, 2], [3, 4]])
    found = low_rank(matrix, rank=1)
    u, sigma, v = np.linalg.svd(matrix)
    np.testing.assert_allclose(found, sigma[0] * np.outer(u[:, 0], v[0]), rtol=1e-5)
