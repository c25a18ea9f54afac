"""The transition to linearity: bounds against dense Hessians, the recursion against autodiff, lemmas against draws."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynascope as ds
from dynascope.models import dag_architectures as architectures
from dynascope.models.graph import Graph
from dynascope.theory.linearity import bounds, errata, gaussian_series, hessian_recursion

KEY = jax.random.key(0)
NETWORKS = {
    "fully connected": lambda: architectures.fully_connected((3, 4, 3, 2), key=KEY, activation="tanh"),
    "dense, edges removed": lambda: architectures.remove_edges(
        architectures.densenet((3, 4, 4, 1), key=KEY, activation="swish"), 0.3, key=KEY
    ),
    "shared, with skips": lambda: architectures.random_skips(
        architectures.convolutional((1, 2, 2), 3, 3, key=KEY, activation="tanh"), key=KEY
    ),
    "shared across layers": lambda: ds.models.DAG.from_graph(
        Graph.from_edges([(0, 3), (1, 3), (3, 4), (2, 4), (0, 4), (4, 5), (3, 5)], parameters=[0, 1, 2, 1, 0, 2, 2]),
        key=KEY,
        activation="tanh",
    ),
    "nonlinear output": lambda: architectures.fully_connected((3, 5, 1), key=KEY, output="shifted tanh"),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_recursion_is_automatic_differentiation(name):
    net = eqx.filter_jit(NETWORKS[name])()
    x = np.array([0.4, -1.1, 0.8])
    found = hessian_recursion.derivatives(net, x)
    assert len(found) == net.sizes[-1]
    for output, one in enumerate(found):

        def function(net, output=output):
            return net(jnp.asarray(x))[output]

        flat = ds.geometry.hessian.flatten(function, net)
        value, gradient = jax.value_and_grad(flat.objective)(flat.point)
        np.testing.assert_allclose(one.value, value, rtol=1e-12)
        np.testing.assert_allclose(one.gradient, gradient, atol=1e-13)
        dense = eqx.filter_jit(ds.geometry.dense_hessian)(function, net)
        np.testing.assert_allclose(one.hessian, dense, atol=1e-13)


def test_blocks_bound_the_norm_and_the_last_one_is_zero():
    net = NETWORKS["fully connected"]()
    hessian = hessian_recursion.derivatives(net, np.array([0.4, -1.1, 0.8]))[0].hessian
    layers = np.repeat([1, 2, 3], [12, 12, 6])
    blocks = hessian_recursion.blocks(hessian, layers)
    assert blocks[2, 2] == 0
    assert np.linalg.norm(hessian, 2) <= float(bounds.block_sum_bound(jnp.asarray(blocks)))
    np.testing.assert_allclose(blocks, blocks.T, rtol=1e-12)


def test_the_block_of_the_last_weights_is_the_jacobian_of_what_they_read():
    """H^(l, L) = m_L^(-1/2) d f_S / d w^(l) (Lemma A.11.1)."""
    net = architectures.fully_connected((3, 4, 1), key=KEY, activation="tanh")
    x = jnp.array([0.4, -1.1, 0.8])
    hessian = hessian_recursion.derivatives(net, np.asarray(x))[0].hessian
    read = jax.jacobian(lambda w: jnp.tanh(w @ x / jnp.sqrt(3.0)))(net.edges[0][0].weights).reshape(4, 12)
    np.testing.assert_allclose(hessian[12:, :12], read / 2, atol=1e-14)


@pytest.mark.parametrize("width", [7, 30])
def test_the_norm_of_a_two_layer_relu_network_is_exact(width):
    x = jnp.array([0.4, -1.1, 0.8])
    net = architectures.fully_connected((3, width, 1), key=KEY)
    dense = ds.geometry.dense_hessian(lambda net: net(x)[0], net)
    assert float(bounds.two_layer_relu_norm(x, width)) == pytest.approx(float(jnp.linalg.norm(dense, 2)), rel=1e-12)


def test_the_kernel_of_a_two_layer_relu_network_changes_as_its_closed_forms_say():
    x, width = jnp.array([0.4, -1.1, 0.8]), 20
    net = architectures.fully_connected((3, width, 1), key=KEY)
    flat = ds.geometry.hessian.flatten(lambda net: net(x)[0], net)
    gradient, product = jax.linearize(jax.grad(flat.objective), flat.point)
    square = float(x @ x)
    worst = bounds.relu_kernel_slope(float(gradient @ gradient), square, width, 3)
    assert worst == pytest.approx(2 * float(jnp.linalg.norm(product(gradient))), rel=1e-12)
    along = bounds.relu_kernel_slope_along_gradient(float(flat.objective(flat.point)), square, width, 3)
    assert along == pytest.approx(2 * float(gradient @ product(gradient)), rel=1e-10)

    def kernel(point):
        return jnp.sum(jax.grad(flat.objective)(point) ** 2)

    direction = product(gradient) / jnp.linalg.norm(product(gradient))
    ends = [kernel(flat.point + s * 1e-5 * direction) for s in (1, -1)]
    assert float(ends[0] - ends[1]) / 2e-5 == pytest.approx(worst, rel=1e-6)


def test_units_that_close_take_what_is_said_from_the_kernel_of_a_wide_relu_network():
    width, draw, falls, said = 1_000_000, np.random.default_rng(0), [], []
    for _ in range(16):  # |x|^2 = d, so that only the unit's height h above its kink matters
        h, v = draw.standard_normal((2, width))
        start = np.mean(np.maximum(h, 0) ** 2 + v**2 * (h > 0))
        first = residual = 1 - v @ np.maximum(h, 0) / np.sqrt(width)
        for _ in range(12):
            step = 0.5 * residual / np.sqrt(width)
            h, v = h + step * v * (h > 0), v + step * np.maximum(h, 0)
            residual = 1 - v @ np.maximum(h, 0) / np.sqrt(width)
        falls.append(start - np.mean(np.maximum(h, 0) ** 2 + v**2 * (h > 0)))
        said.append(bounds.relu_gates_change(first, width))
    assert np.mean(falls) == pytest.approx(np.mean(said), rel=0.1)


def test_scales_take_the_narrowest_layer_in_between():
    smallest = (10, 64, 4, 100)
    assert bounds.hessian_block_scale(smallest, 4, 1) == 0.5
    assert bounds.hessian_block_scale(smallest, 4, 3) == 0.1
    assert bounds.hessian_block_scale(smallest, 2, 1) == 0.125
    assert bounds.jacobian_scale(100, smallest, 4, 3) == 1.0
    assert bounds.jacobian_scale(100, smallest, 4, 2) == 5.0
    with pytest.raises(ValueError, match="layers must satisfy"):
        bounds.hessian_block_scale(smallest, 2, 2)


def test_weights_are_counted_by_reachability():
    net = architectures.fully_connected((3, 4, 5, 1), key=KEY)
    graph = net.graph()
    assert bounds.weights_reached(graph, graph.vertices - 1).tolist() == [12, 20, 5]
    assert bounds.weights_reached(graph, 3 + 4).tolist() == [12, 4, 0]
    toy = Graph.from_edges([(0, 2), (1, 2), (1, 3), (2, 4), (3, 5), (4, 5)])
    assert bounds.weights_reached(toy, 4).tolist() == [2, 1, 0]
    assert bounds.weights_reached(toy, 5).tolist() == [3, 1, 2]
    shared = architectures.convolutional((1, 2), 4, 3, key=KEY).graph()
    assert bounds.weights_reached(shared, shared.vertices - 1).tolist() == [6, 8]


@pytest.mark.parametrize(("depth", "bound"), [(2, 0.5), (3, 0.353553), (5, 0.176777)])
def test_gradients_of_relu_networks_are_longer_than_the_bound(depth, bound):
    assert bounds.gradient_bound(depth) == pytest.approx(bound, rel=1e-5)
    sizes = (20, *[16] * (depth - 1), 1)

    @jax.jit
    @jax.vmap
    def square(key):
        weights, point = jax.random.split(key)
        net = architectures.fully_connected(sizes, key=weights)
        gradient = eqx.filter_grad(lambda net: net(jax.random.normal(point, (20,)))[0])(net)
        return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient))

    squares = np.asarray(square(jax.random.split(KEY, 4000)))
    exact = bounds.relu_gradient_second_moment(depth)
    assert abs(squares.mean() - exact) < 4 * squares.std() / np.sqrt(len(squares))
    assert np.sqrt(exact) >= bound


def test_the_gradient_bound_of_other_activations():
    assert bounds.gradient_bound(2, homogeneity=2, second_moment=0.5) == pytest.approx(0.5**1.5)
    assert bounds.gradient_bound(3, second_moment=2.0) == 1.0
    with pytest.raises(ValueError, match="Jensen"):
        bounds.gradient_bound(2, homogeneity=0.5)


def test_the_kernel_moves_no_more_than_bounded():
    """On a quadratic model, whose Hessians are constant: the supremum is exact."""
    draw = np.random.default_rng(0)
    jacobian, hessians = draw.standard_normal((4, 9)), draw.standard_normal((4, 9, 9)) / 5
    hessians = hessians + hessians.transpose(0, 2, 1)
    step = draw.standard_normal(9)
    step *= 0.3 / np.linalg.norm(step)
    moved = jacobian + hessians @ step
    change = np.linalg.norm(moved @ moved.T - jacobian @ jacobian.T, 2)
    norm = max(np.linalg.norm(h, 2) for h in hessians)
    bound = bounds.kernel_change_bound(float(np.linalg.norm(jacobian, 2)), float(norm), 0.3, 4)
    assert change <= bound <= 20 * change
    one = bounds.kernel_change_bound(2.0, 0.5, 1.0, 1)  # w -> 2 + w / 2 at w = 1: 6.25 - 4
    assert one == pytest.approx(2.25)


def test_the_polyak_ratio_lies_between_the_extreme_eigenvalues():
    kernel = jnp.diag(jnp.array([1.0, 4.0]))
    assert float(bounds.polyak_ratio(jnp.array([2.0, 0.0]), kernel)) == 1.0
    assert float(bounds.polyak_ratio(jnp.array([1.0, 1.0]), kernel)) == 2.5


def test_descent_on_a_linear_model_keeps_to_the_polyak_bound_and_radius():
    mu, beta, rate = 0.5, 2.0, 0.4
    w, losses = np.array([1.0, 3.0]), []
    for _ in range(20):
        losses.append((mu * w[0] ** 2 + beta * w[1] ** 2) / 2)
        w = w * (1 - rate * np.array([mu, beta]))
    bound = bounds.polyak_loss_bound(losses[0], mu, rate, np.arange(20))
    assert np.all(losses <= bound)
    assert bounds.polyak_radius(losses[0], mu, beta) >= np.sqrt(10)


def test_the_linear_model_is_off_by_half_the_norm_times_the_radius_squared():
    assert bounds.linear_model_gap(3.0, 2.0) == 6.0
    assert float(bounds.vector_norm_bound(jnp.array([1.0, 3.0, 2.0]))) == 9.0


def test_the_gaussian_lemmas_hold_on_draws():
    draw = np.random.default_rng(0)
    matrices, radius, count = draw.standard_normal((5, 3, 4)), 2.0, 20_000
    g = draw.standard_normal((count, 5))
    push = g @ np.linalg.svd(matrices.reshape(5, -1))[0][:, :1]
    g = g + radius * np.sign(push) * np.linalg.svd(matrices.reshape(5, -1))[0][:, 0]
    norms = np.linalg.norm(np.einsum("nk,kab->nab", g, matrices), 2, axis=(1, 2))
    tail = gaussian_series.series_tail(matrices, radius, 14.0)
    assert tail.probability < 1
    assert np.mean(norms >= tail.level) <= tail.probability
    assert gaussian_series.variance(np.full((1, 1, 1), 0.1)) == pytest.approx(0.01)

    vectors = draw.standard_normal((count, 4))
    inner = gaussian_series.inner_product_tail(1.0, 1.0, 2.0)
    assert inner.level == 3.0
    assert np.mean(np.abs(vectors[:, 0] + 1) >= inner.level) <= inner.probability
    product = gaussian_series.product_tail(matrices[0], 0.0, 2.0)
    lengths = np.linalg.norm(vectors @ matrices[0].T, axis=1)
    assert np.mean(lengths >= product.level) <= product.probability
    stacked = np.einsum("iab,nib->nai", matrices, draw.standard_normal((count, 5, 4)))
    columns = gaussian_series.columns_tail(matrices, 0.0, 1.0, np.sqrt(2.0))
    assert np.mean(np.linalg.norm(stacked, 2, axis=(1, 2)) >= columns.level) <= columns.probability
    assert gaussian_series.incoming_scale(9, 8, 1.0, 2) == pytest.approx(3 * (np.log(8) + 1))


def test_the_series_exceeds_the_printed_level_too_often():
    numbers = errata.series_radius()
    assert numbers["printed"] > numbers["allowed"] >= numbers["corrected"]


def test_the_mean_gradient_of_relu_chains_is_below_their_bound():
    numbers = errata.mean_gradient()
    assert numbers["relu"] < numbers["relu_bound"] <= numbers["relu_root_mean_square"]


def test_a_derivative_may_exceed_its_own_lipschitz_constant():
    assert errata.derivative_too_high() == {"lipschitz": 2.0, "derivative": 20.0}
    within = errata.derivative_too_high(jnp.tanh)
    assert within["derivative"] < within["lipschitz"]


def test_a_neuron_that_lost_edges_keeps_its_scale_by_the_degree_left():
    assert errata.removal_scale(probability=0.25) == pytest.approx({"old": 0.75, "left": 1.0}, abs=0.03)


@pytest.mark.parametrize(("depth", "mean"), [(2, 0.968), (3, 0.866), (5, 0.501)])
def test_the_mean_length_of_the_gradient_at_width_64(depth, mean):
    """Against one independent run of unknown size, so within 0.04; the mean lies below the root mean square."""

    @jax.jit
    @jax.vmap
    def length(key):
        weights, point = jax.random.split(key)
        net = architectures.fully_connected((20, *[64] * (depth - 1), 1), key=weights)
        gradient = eqx.filter_grad(lambda net: net(jax.random.normal(point, (20,)))[0])(net)
        return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))

    lengths = np.asarray(length(jax.random.split(KEY, 1000)))
    assert lengths.mean() == pytest.approx(mean, abs=0.04)
    assert lengths.mean() < np.sqrt(bounds.relu_gradient_second_moment(depth)) * 1.01
