"""Fully connected networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.models import MLP


def test_a_linear_network_is_the_product_of_its_weights():
    net = MLP(3, 4, key=jax.random.key(0), width=5)
    assert [weight.shape for weight in net.weights] == [(5, 3), (5, 5), (5, 5), (3, 5)]
    x = jnp.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(net(x), net.matrix() @ x, rtol=1e-5)
    np.testing.assert_allclose(net.matrix(), jax.jacfwd(net)(x), rtol=1e-5)


def test_relu_acts_on_hidden_layers_only():
    net = MLP.from_weights([jnp.array([[1.0], [-1.0]]), jnp.array([[-2.0, -3.0]])], "relu")
    assert float(net(jnp.array([1.0]))[0]) == -2.0
    assert float(net(jnp.array([-1.0]))[0]) == -3.0


def test_default_weights_are_uniform_within_the_inverse_root_of_the_fan_in():
    net = MLP(64, 2, key=jax.random.key(0), width=256, bias=True)
    for weight, bias in zip(net.weights, net.biases, strict=True):
        bound = 1 / np.sqrt(weight.shape[1])
        assert np.abs(weight).max() <= bound
        np.testing.assert_allclose(weight.std(), bound / np.sqrt(3), rtol=0.03)
        assert 0 < np.abs(bias).max() <= bound


def test_a_scale_makes_the_weights_gaussian():
    net = MLP(64, 1, key=jax.random.key(0), scale=0.01, bias=True)
    np.testing.assert_allclose(net.weights[0].std(), 0.01, rtol=0.05)
    assert not net.biases[0].any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 0}, "depth must be an integer, at least 1"),
        ({"depth": 2, "width": 0}, "width must be an integer, at least 1"),
        ({"depth": 2, "scale": -0.1}, "scale must be a finite number, at least 0; got -0.1"),
        ({"depth": 2, "scale": float("nan")}, "scale must be a finite number, at least 0; got nan"),
        ({"depth": 2, "activation": "sigmoid"}, "activation must be one of 'linear', 'relu', .*; got 'sigmoid'"),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_wrong_use_gets_one_clear_line(options, message):
    with pytest.raises(ValueError, match=message):
        MLP(3, key=jax.random.key(0), **{"activation": "linear", **options})


def test_only_a_linear_network_has_a_matrix():
    with pytest.raises(ValueError, match="only a linear network"):
        MLP(3, 2, key=jax.random.key(0), activation="relu").matrix()


def test_weights_must_follow_one_another():
    with pytest.raises(ValueError, match=r"matrices that can be multiplied, .*; got shapes \[\(2, 3\), \(2, 3\)\]"):
        MLP.from_weights([jnp.ones((2, 3)), jnp.ones((2, 3))])


def test_a_scale_beyond_the_largest_number_is_refused():
    with pytest.raises(
        ValueError, match=r"scale must be a finite number, at least 0, that float32 can hold; got 1e\+40"
    ):
        MLP(3, 2, key=jax.random.key(0), scale=1e40)
    with jax.enable_x64(True):
        assert np.isfinite(MLP(3, 2, key=jax.random.key(0), scale=1e40).weights[0]).all()
