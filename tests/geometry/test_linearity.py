"""Hessian norms of outputs, by blocks and whole, and the gap to linearity: against dense Hessians and closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope.geometry import linearity
from dynascope.models import dag_architectures as architectures

KEY = jax.random.key(0)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def first_output(x):
    return lambda net: net(x)[0]


@pytest.fixture(scope="module")
def network():
    """A DenseNet of tanh with half its edges, its output and the dense Hessian."""
    with jax.enable_x64(True):
        function = first_output(jnp.array([0.3, -1.2, 0.7, 1.5, -0.4]))

        @eqx.filter_jit
        def made(key):
            net = architectures.densenet((5, 12, 12, 1), key=key, activation="tanh")
            net = architectures.remove_edges(net, 0.3, key=key)
            return net, ds.geometry.dense_hessian(function, net)

        net, dense = made(KEY)
        return net, function, dense


def test_the_norm_is_that_of_the_dense_hessian_whether_searched_or_not(network):
    net, function, dense = network
    exact = float(jnp.linalg.norm(dense, 2))
    searched = ds.geometry.top_eigenpairs(function, net, which="magnitude", dense=0, tolerance=1e-8)
    assert float(jnp.abs(searched.values[0])) == pytest.approx(exact, rel=1e-7)
    found = linearity.hessian_norm(function, net)
    assert float(found.value) == pytest.approx(exact, rel=1e-6)
    assert float(found.error) < 1e-4 * exact


def test_relu_eigenvalues_come_in_pairs_and_the_norm_is_exact():
    x = jnp.array([1.0, -2.0, 0.5, 0.3])
    net = architectures.fully_connected((4, 200, 1), key=KEY)
    found = ds.geometry.top_eigenpairs(first_output(x), net, 2, which="magnitude", dense=0)
    exact = float(jnp.linalg.norm(x)) / np.sqrt(200 * 4)
    np.testing.assert_allclose(np.sort(found.values), [-exact, exact], rtol=1e-9)
    assert float(linearity.hessian_norm(first_output(x), net).value) == pytest.approx(exact, rel=1e-9)


def test_a_linear_output_has_norm_zero():
    net = architectures.fully_connected((30, 20), key=KEY)
    assert float(linearity.hessian_norm(first_output(jnp.ones(30)), net).value) == 0.0


def test_block_norms_are_those_of_the_dense_blocks(network):
    net, function, dense = network
    sizes = [12 * 5, 12 * 17, 29]
    ends = np.cumsum([0, *sizes])
    exact = [[np.linalg.norm(dense[a : a + m, b : b + n], 2) for b, n in zip(ends, sizes, strict=False)]
             for a, m in zip(ends, sizes, strict=False)]  # fmt: skip
    found = linearity.block_norms(function, net, net.layer_numbers(), tolerance=1e-8)
    np.testing.assert_allclose(found.values, exact, rtol=1e-6, atol=1e-12)
    assert found.values[2, 2] == 0  # the output is linear in its own weights


def test_groups_must_match_the_parameters():
    with pytest.raises(ValueError, match="a number for each of 1 arrays in params; got 2"):
        linearity.block_norms(lambda p: p["a"] ** 2, {"a": jnp.array(1.0)}, [1, 2])


def test_the_gap_of_a_quadratic_is_half_its_norm_times_the_radius_squared():
    curvatures = jnp.asarray(np.concatenate([[-3.0], np.linspace(0, 1, 39)]))

    def function(p):
        return jnp.sum(curvatures * p**2) / 2 + jnp.sum(p)

    found = linearity.linearity_gap(function, jnp.linspace(0, 1, 40), 2.0, KEY)
    assert float(found.norm) == pytest.approx(3, rel=1e-9)
    assert float(found.hessian) == pytest.approx(6, rel=1e-9)
    assert float(found.value) == pytest.approx(6, rel=1e-9)
    assert float(found.random) < 2


def test_the_gap_of_a_network_is_that_of_its_linear_model(network):
    net, function, dense = network
    radius = 0.01
    found = linearity.linearity_gap(function, net, radius, KEY)
    half = float(jnp.linalg.norm(dense, 2)) * radius**2 / 2
    assert float(found.hessian) == pytest.approx(half, rel=0.02)
    assert float(found.value) <= half * 1.02
    assert float(found.random) < half / 3


def test_the_probe_sees_the_norm_change_along_a_run(network):
    net, function, _ = network

    def loss(net):
        return (function(net) - 3.0) ** 2

    looks = {"norm": ds.probes.output_hessian_norm(function, tolerance=1e-6)}
    trace = ds.descend(net, loss, optax.sgd(0.05), steps=2, record=1, probes=looks).trace
    assert float(trace.norm[0]) == pytest.approx(float(linearity.hessian_norm(function, net).value), rel=1e-5)
    assert float(trace.norm[2]) != float(trace.norm[0])
    assert {"norm_residual", "norm_error", "norm_products"} <= set(trace)
