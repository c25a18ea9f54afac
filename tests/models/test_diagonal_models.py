"""Diagonal networks: they see only the product, and the heads do what their formulas say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.models import AttentionHead, Diagonal, DiagonalTransformer, LinearNetwork


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def normal(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def test_a_head_is_attention_with_diagonal_matrices():
    x, k, q, v, o = normal(4, 3), *normal(4, 3, seed=1)
    scores = np.array(x @ jnp.diag(k) @ jnp.diag(q).T @ x.T)
    attention = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    expected = attention @ x @ jnp.diag(v) @ jnp.diag(o).T
    model = Diagonal(jnp.concatenate([k, v]), jnp.concatenate([q, o]), AttentionHead(3))
    np.testing.assert_allclose(model(x), expected, rtol=1e-12)


@pytest.mark.parametrize("heads", [1, 2])
def test_scaling_one_factor_up_and_the_other_down_changes_nothing(heads):
    network = DiagonalTransformer(dim=3, depth=2, heads=heads, hidden=5, key=jax.random.key(0))
    u, v, x = normal(network.size, seed=1), normal(network.size, seed=2), normal(4, 3)
    factor = jnp.exp(normal(network.size, seed=3))
    np.testing.assert_allclose(
        Diagonal(u, v, network)(x), Diagonal(u * factor, v / factor, network)(x), rtol=1e-10, atol=1e-12
    )


def test_a_transformer_of_one_layer_and_head_is_head_residual_and_feedforward():
    network = DiagonalTransformer(dim=3, depth=1, heads=1, hidden=5, key=jax.random.key(0))
    beta, x = normal(6, seed=1), normal(4, 3)
    middle = x + AttentionHead(3)(x, beta)
    expected = middle + jax.nn.gelu(middle @ network.inner[0]) @ network.outer[0].T
    np.testing.assert_allclose(network(x, beta), expected, rtol=1e-12)


def test_entries_of_the_product_are_named_by_their_place():
    network = DiagonalTransformer(dim=3, depth=2, heads=2, hidden=5, key=jax.random.key(0))
    assert network.place(0) == (0, 0, "KQ", 0)
    assert network.place(network.size - 1) == (1, 1, "VO", 2)
    assert network.place(3) == (0, 0, "VO", 0)


def test_the_feedforward_weights_are_frozen():
    network = DiagonalTransformer(dim=3, depth=1, heads=1, hidden=5, key=jax.random.key(0))
    model = Diagonal(normal(6, seed=1), normal(6, seed=2), network)
    gradient = jax.grad(lambda model: jnp.sum(model(normal(4, 3)) ** 2))(model)
    assert float(jnp.abs(gradient.network.inner).max()) == 0
    assert float(jnp.abs(gradient.u).max()) > 0


def test_a_linear_network_is_linear():
    np.testing.assert_allclose(LinearNetwork(3)(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 0.0, -1.0])), -2.0)


def test_wrong_sizes_get_one_line():
    with pytest.raises(ValueError, match=r"u and v must have shape \(6,\), .*; got \(5,\), \(5,\)"):
        Diagonal(normal(5), normal(5), AttentionHead(3))
    with pytest.raises(ValueError, match="depth must be an integer, at least 1"):
        DiagonalTransformer(dim=3, depth=0, heads=1, hidden=5, key=jax.random.key(0))
