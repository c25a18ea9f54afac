"""Graphs of neurons, and networks on them: against sums over edges, against other constructions of the same network."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import dynascope as ds
from dynascope.models import dag_architectures as architectures
from dynascope.models.graph import Graph

KEY = jax.random.key(0)
TOY = ((0, 2), (1, 2), (0, 3), (2, 3), (1, 4), (3, 4), (2, 5), (4, 6), (0, 6))


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def edge_by_edge(net, x):
    """The definition, vertex by vertex, from the explicit graph and the flat weights."""
    graph, weights = net.graph(), np.asarray(ravel_pytree(eqx.filter(net, eqx.is_inexact_array))[0])
    degrees = np.concatenate([np.zeros(len(x), int), *map(np.asarray, net.in_degrees)])
    functions = {"relu": lambda z: max(z, 0.0), "tanh": np.tanh, "swish": lambda z: z / (1 + np.exp(-z))}
    before, after = np.zeros(graph.vertices), np.zeros(graph.vertices)
    after[: len(x)] = x
    for v in range(len(x), graph.vertices):
        into = graph.target == v
        before[v] = weights[graph.parameter[into]] @ after[graph.source[into]] / np.sqrt(max(degrees[v], 1))
        after[v] = functions[net.activation](before[v]) + (after[graph.skip[v]] if graph.skip[v] >= 0 else 0)
    return before


def swish():
    return architectures.densenet((3, 4, 5, 2), key=KEY, activation="swish")


def tanh():
    return architectures.fully_connected((3, 4, 5, 1), key=KEY, activation="tanh")


NETWORKS = {
    "fully connected": tanh,
    "dense": swish,
    "dense without input": lambda: architectures.densenet((3, 4, 5, 1), key=KEY, with_input=False),
    "edges removed": lambda: architectures.remove_edges(swish(), 0.5, key=jax.random.key(1)),
    "skips": lambda: architectures.random_skips(tanh(), key=jax.random.key(2)),
    "shared": lambda: architectures.convolutional((2, 3, 2), 5, 3, key=KEY, activation="tanh"),
    "shared, even window": lambda: architectures.convolutional((1, 2), 4, 2, key=KEY, outputs=2),
    "shared with skips": lambda: architectures.random_skips(
        architectures.convolutional((2, 3), 4, 3, key=KEY), key=jax.random.key(3)
    ),
    "bottleneck neurons": lambda: architectures.bottleneck_neurons(tanh(), 2, 2),
    "bottleneck layer": lambda: architectures.fully_connected((3, 4, 1, 4, 1), key=KEY),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_the_sum_over_its_edges(name):
    net = eqx.filter_jit(NETWORKS[name])()
    x = np.random.default_rng(0).standard_normal(net.sizes[0])
    expected = edge_by_edge(net, x)
    value, (before, after) = eqx.filter_jit(lambda net, x: (net(x), net.layers(x)))(net, jnp.asarray(x))
    np.testing.assert_allclose(value, expected[-net.sizes[-1] :], rtol=1e-12)
    np.testing.assert_allclose(jnp.concatenate(before), expected[net.sizes[0] :], rtol=1e-12, atol=1e-14)
    assert len(after) == len(before)


def test_a_layer_is_the_longest_path_not_the_shortest():
    graph = Graph.from_edges(TOY)
    assert graph.layer.tolist() == [0, 0, 1, 2, 3, 2, 4]
    assert graph.inputs.tolist() == [0, 1]
    assert graph.outputs.tolist() == [5, 6]
    assert graph.in_degree.tolist() == [0, 0, 2, 2, 2, 1, 2]
    assert (graph.depth, graph.width) == (4, 1)


def test_a_cycle_is_refused():
    with pytest.raises(ValueError, match="cycle"):
        _ = Graph.from_edges([(0, 1), (1, 2), (2, 1)]).layer


def test_ancestors_are_what_a_vertex_depends_on():
    graph = Graph.from_edges(TOY)
    assert np.flatnonzero(graph.ancestors(5)).tolist() == [0, 1, 2, 5]
    assert graph.ancestors(6).sum() == 6


def test_any_graph_is_a_network_with_outputs_in_several_layers():
    graph = Graph.from_edges(TOY)
    net = ds.models.DAG.from_graph(graph, key=KEY, activation="tanh")
    assert net(jnp.array([0.3, -0.7])).shape == (2,)
    w = np.zeros((7, 7))
    for layer, (groups, origins) in enumerate(zip(net.edges, net.sources, strict=True), start=1):
        to = np.flatnonzero(graph.layer == layer)
        for group, origin in zip(groups, origins, strict=True):
            w[np.ix_(to, np.flatnonzero(graph.layer == origin))] = group.weights
    assert (w != 0).sum() == len(TOY)
    f = np.zeros(7)
    f[:2], pre = (0.3, -0.7), np.zeros(7)
    for v in (2, 3, 5, 4, 6):
        pre[v] = w[v] @ f / np.sqrt((w[v] != 0).sum())
        f[v] = np.tanh(pre[v])
    np.testing.assert_allclose(net(jnp.array([0.3, -0.7])), pre[[5, 6]], rtol=1e-12)


def unrolled():
    """h = tanh(b x0), then twice tanh((a h + b x) / sqrt 2): inputs 0, 1, 2, and vertex 6 reads the last h."""
    edges = [(0, 3), (3, 4), (1, 4), (4, 5), (2, 5), (5, 6)]
    return Graph.from_edges(edges, parameters=[7, 4, 7, 4, 7, 9])


def test_edges_share_weights_in_whatever_layers_they_are():
    net = ds.models.DAG.from_graph(unrolled(), key=KEY, activation="tanh")
    a, b, c = np.asarray(net.shared)
    (x0, x1, x2), root = (0.3, -0.7, 1.1), np.sqrt(2)
    h = np.tanh(b * x0)
    for x in (x1, x2):
        h = np.tanh((a * h + b * x) / root)
    np.testing.assert_allclose(net(jnp.array([x0, x1, x2])), [c * h], rtol=1e-12)
    np.testing.assert_allclose(edge_by_edge(net, np.array([x0, x1, x2]))[-1], c * h, rtol=1e-12)
    assert net.graph().parameter.tolist() == [1, 1, 0, 1, 0, 2]  # those from inputs first
    assert [mark.shape for mark in net.edge_marks()] == [(3,)]
    assert (net.sizes, int(net.width())) == ([3, 1, 1, 1, 1], 1)


def test_the_gradient_of_a_shared_weight_is_the_sum_over_its_edges():
    graph, x = unrolled(), jnp.array([0.3, -0.7, 1.1])
    net = ds.models.DAG.from_graph(graph, key=KEY, activation="tanh")
    own = ds.models.DAG.from_graph(Graph.from_edges(zip(graph.source, graph.target, strict=True)), key=KEY,
                                   activation="tanh")  # fmt: skip
    own = eqx.tree_at(lambda n: [g.weights for e in n.edges for g in e], own,
                      [g.weights for e in net.edges for g in map(net._weighted, e)])  # fmt: skip
    together, single = (eqx.filter_grad(lambda n: n(x)[0])(one) for one in (net, own))
    parts = np.concatenate([g.weights[g.weights != 0] for e in single.edges for g in e])
    expected = np.bincount(net.graph().parameter, weights=parts)
    np.testing.assert_allclose(together.shared, expected, rtol=1e-12)
    assert len(jax.tree.leaves(eqx.filter(net, eqx.is_inexact_array))) == 1


def test_what_shared_weights_cannot_do_is_told_in_one_line():
    net = ds.models.DAG.from_graph(unrolled(), key=KEY)
    with pytest.raises(ValueError, match="belong to no layer"):
        net.layer_numbers()
    with pytest.raises(TypeError, match="must not have shared edges"):
        architectures.remove_edges(net, 0.5, key=KEY)
    skipping = architectures.random_skips(net, key=KEY)
    assert float(skipping(jnp.ones(3))[0]) == pytest.approx(edge_by_edge(skipping, np.ones(3))[-1])


def test_skips_are_declared_by_vertex():
    graph = Graph.from_edges([(0, 1), (1, 2), (2, 3)], skips={2: 0})
    net = ds.models.DAG.from_graph(graph, key=KEY, activation="tanh")
    one, two, three = (float(groups[0].weights[0, 0]) for groups in net.edges)
    assert float(net(jnp.array([0.4]))[0]) == pytest.approx(three * (np.tanh(two * np.tanh(one * 0.4)) + 0.4))


@pytest.mark.parametrize(
    ("edges", "skips", "line"),
    [
        ([(0, 2), (0, 3), (2, 3)], None, r"every vertex from 0 to 3 needs an edge; got none for \[1\]"),
        ([(0, 1), (0, 1), (1, 2)], None, r"each edge must occur once; got \(0, 1\) more often"),
        ([(0, 1), (-1, 1)], None, r"vertices are numbered from 0 to 1; got the edge \(-1, 1\)"),
        ([(-2, -1)], None, r"got the edge \(-2, -1\)"),
        ([(0, 1), (1, 2)], {2: 0}, "skips must end in hidden vertices, not in inputs or outputs; got one into 2"),
        ([(0, 1), (1, 2)], {0: 1}, "skips must end in hidden vertices"),
        ([(0, 1), (1, 2)], {1: 5}, "skips must name vertices from 0 to 2; got 1: 5"),
    ],
)
def test_what_is_no_graph_of_a_network_is_told_in_one_line(edges, skips, line):
    with pytest.raises(ValueError, match=line):
        Graph.from_edges(edges, skips=skips)


def test_a_graph_made_by_hand_is_checked_before_it_becomes_a_network():
    edges = np.array([0, 2]), np.array([2, 3]), np.array([0, 1])
    with pytest.raises(ValueError, match=r"every vertex from 0 to 3 needs an edge; got none for \[1\]"):
        ds.models.DAG.from_graph(Graph(4, *edges, np.full(4, -1)), key=KEY)


def test_a_network_becomes_its_graph_and_the_same_network_again():
    net = architectures.random_skips(architectures.densenet((3, 4, 5, 1), key=KEY), key=KEY)
    graph = net.graph()
    assert graph.layer.tolist() == [0] * 3 + [1] * 4 + [2] * 5 + [3]
    assert graph.width == 7 == int(net.width())
    again = ds.models.DAG.from_graph(graph, key=KEY)
    again = eqx.tree_at(lambda n: [g.weights for e in n.edges for g in e], again,
                        [g.weights for e in net.edges for g in e])  # fmt: skip
    np.testing.assert_allclose(again(jnp.ones(3)), net(jnp.ones(3)), rtol=1e-12)


def test_removal_rescales_by_the_in_degree_that_is_left():
    net = architectures.remove_edges(architectures.fully_connected((50, 400, 1), key=KEY), 0.3, key=jax.random.key(1))
    degrees = np.asarray(net.in_degrees[0])
    np.testing.assert_array_equal(degrees, (np.asarray(net.edges[0][0].weights) != 0).sum(axis=1))
    assert degrees.mean() == pytest.approx(35, abs=0.5)
    none = architectures.remove_edges(architectures.fully_connected((4, 3, 1), key=KEY), 1.0, key=KEY)
    assert none(jnp.ones(4)).tolist() == [0.0]


def test_a_narrowed_network_is_the_small_one():
    wide = architectures.fully_connected((3, 8, 8, 1), key=KEY, activation="tanh")
    narrow = architectures.narrow_layers(wide, jnp.array([3, 4, 2, 1], jnp.int32))
    small = architectures.fully_connected((3, 4, 2, 1), key=KEY, activation="tanh")
    corners = [g.weights[: s.weights.shape[0], : s.weights.shape[1]]
               for (g,), (s,) in zip(wide.edges, small.edges, strict=True)]  # fmt: skip
    small = eqx.tree_at(lambda n: [g.weights for (g,) in n.edges], small, corners)
    np.testing.assert_allclose(narrow(jnp.ones(3)), small(jnp.ones(3)), rtol=1e-12)
    assert int(narrow.width()) == 2 == int(small.width())


def test_bottleneck_neurons_have_one_incoming_edge():
    net = architectures.bottleneck_neurons(architectures.fully_connected((3, 6, 6, 1), key=KEY), 2, 2)
    assert net.in_degrees[1].tolist() == [1, 1, 6, 6, 6, 6]
    assert int(net.width()) == 1


def test_only_weights_of_edges_are_trained():
    net = architectures.remove_edges(architectures.densenet((3, 4, 4, 1), key=KEY), 0.5, key=KEY)
    gradient = eqx.filter_grad(lambda n: n(jnp.ones(3))[0])(net)
    leaves = jax.tree.leaves(eqx.filter(net, eqx.is_inexact_array))
    assert len(leaves) == sum(len(groups) for groups in net.edges)
    for groups, slopes in zip(net.edges, gradient.edges, strict=True):
        for group, slope in zip(groups, slopes, strict=True):
            assert not np.any(np.asarray(slope.weights)[~np.asarray(group.mask)])
    numbers = net.layer_numbers()
    assert jax.tree.leaves(numbers) == [1, 2, 2, 3, 3, 3]


def test_a_nonlinear_output_is_applied_last():
    plain = architectures.fully_connected((3, 4, 1), key=KEY)
    bent = architectures.fully_connected((3, 4, 1), key=KEY, output="shifted tanh")
    np.testing.assert_allclose(bent(jnp.ones(3)), np.tanh(plain(jnp.ones(3)) + 1), rtol=1e-12)


@pytest.mark.usefixtures("as_a_user")
def test_an_unknown_activation_is_refused():
    with pytest.raises(ValueError, match="activation must be one of 'linear'"):
        architectures.fully_connected((3, 4, 1), key=KEY, activation="cubic")


def test_widths_and_removal_may_be_traced():
    @jax.jit
    @jax.vmap
    def value(width, probability):
        net = architectures.densenet((3, 8, 8, 1), key=KEY)
        net = architectures.narrow_layers(net, jnp.array([3, 0, 0, 1], jnp.int32).at[1:3].set(width))
        return architectures.remove_edges(net, probability, key=KEY)(jnp.ones(3))

    assert value(jnp.array([2, 8], jnp.int32), jnp.array([0.0, 0.5])).shape == (2, 1)
