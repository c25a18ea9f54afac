"""Graph networks, against loops over nodes and neighbors in NumPy, and against PyTorch's layers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope.models.gin import receptive_fields

KEY = jax.random.key(3)
RING = ds.graphs.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (1, 1), (4, 5)], 8)


def featured(graph: Any, channels: int = 3) -> Any:
    return graph.with_features(np.random.default_rng(1).integers(0, 3, (graph.nodes, channels)))


def affine(layer: Any, k: int, x: np.ndarray) -> np.ndarray:
    return np.asarray(layer.weights[k], float) @ x + np.asarray(layer.biases[k], float)


def by_hand(model: Any, graph: Any) -> np.ndarray:
    """GIN node by node, as its definition reads."""
    h = [np.asarray(row, float) for row in graph.features]
    seen = [[row] for row in h]
    for k, layer in enumerate(model.layers):
        total = [
            (1 + float(model.epsilons[k])) * h[i] + sum((h[j] for j in graph.neighbors(i)), 0 * h[i])
            for i in range(graph.nodes)
        ]
        h = [affine(layer, 1, np.maximum(affine(layer, 0, row), 0)) for row in total]
        if model.head is not None or k < len(model.layers) - 1:
            h = [np.maximum(row, 0) for row in h]
        for i, row in enumerate(h):
            seen[i].append(row)
    if model.head is None:
        return np.stack(h)
    return np.stack([affine(model.head, 1, np.maximum(affine(model.head, 0, np.concatenate(row)), 0)) for row in seen])


@pytest.mark.parametrize("jumping", [True, False])
def test_gin_is_its_definition(jumping: bool):
    graph = featured(RING)
    model = ds.models.GIN(3, 3, 2, width=5, jumping=jumping, key=KEY)
    model = jax.tree.map(lambda leaf: leaf + 0.1, model)  # epsilons away from 0
    found = model(ds.models.FeaturedGraph(graph))
    np.testing.assert_allclose(found, by_hand(model, graph), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("graph", [ds.graphs.cycle(60), ds.graphs.barabasi_albert(60, 2, seed=0), RING])
def test_outputs_at_some_nodes_are_those_of_the_whole_graph(graph: Any):
    inputs = ds.models.FeaturedGraph(featured(graph))
    model = ds.models.GIN(3, 4, 2, width=5, key=KEY)
    nodes = jnp.array([0, 7, 4])
    np.testing.assert_allclose(model(inputs, nodes), model(inputs)[nodes], rtol=1e-5, atol=1e-6)

    def loss(model: Any, some: Any) -> Any:
        return jnp.sum((model(inputs)[nodes] if some is None else model(inputs, some)) ** 2)

    for one, other in zip(*(jax.tree.leaves(jax.grad(loss)(model, some)) for some in (nodes, None)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_receptive_fields_are_taken_where_they_are_smaller():
    inputs = ds.models.FeaturedGraph(featured(ds.graphs.cycle(60)))
    fields = receptive_fields(inputs, jnp.array([5, 9]), 4)
    assert [None if field is None else len(field) for field in fields] == [None, 54, 18, 6, 2]
    assert sorted({*np.asarray(fields[2]).tolist()}) == [3, 4, 5, 6, 7, 8, 9, 10, 11]


def test_the_first_layer_is_computed_once_for_each_kind_of_node():
    graph = ds.graphs.parity_colors(ds.graphs.random_regular(6, 100, seed=0))
    inputs = ds.models.FeaturedGraph(graph)
    blue = (ds.graphs.adjacency(graph) @ graph.features)[:, 0]
    assert len(inputs.own) == len({*zip(np.arange(100) % 2, blue, strict=True)}) <= 14
    np.testing.assert_array_equal(inputs.own[inputs.kind], graph.features)
    np.testing.assert_array_equal(inputs.sums[inputs.kind][:, 0], blue)


def test_a_ga_mlp_reads_each_node_alone():
    model = ds.models.GAMLP(4, 2, width=7, key=KEY)
    x = jax.random.normal(KEY, (3, 5, 4))
    expected = np.stack(
        [
            [affine(model.network, 1, np.maximum(affine(model.network, 0, node), 0)) for node in graph]
            for graph in np.asarray(x, float)
        ]
    )
    np.testing.assert_allclose(model(x), expected, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(model(x[1, 2]), expected[1, 2], rtol=2e-5, atol=2e-6)
    with pytest.raises(ValueError, match=r"takes one example of shape \(4,\)"):
        model(x[..., :3])


def test_sign_has_a_map_for_each_operator():
    model = ds.models.SIGN(3, 2, 4, width=5, key=KEY)
    x = np.asarray(jax.random.normal(KEY, (6, 3, 2)), float)
    parts = [x[:, k] @ np.asarray(model.branches[k], float).T + np.asarray(model.offsets[k], float) for k in range(3)]
    hidden = np.maximum(np.concatenate(parts, axis=1), 0)
    expected = np.stack([affine(model.readout, 0, row) for row in hidden])
    np.testing.assert_allclose(model(jnp.asarray(x.reshape(6, 6), jnp.float32)), expected, rtol=2e-5, atol=2e-6)


def test_the_named_models_have_their_sizes():
    named = ds.models.ga_mlp
    sgc = named.sgc(5, 3, key=KEY)
    assert [weight.shape for weight in sgc.network.weights] == [(3, 5)]
    assert sgc.network.biases is None
    assert [weight.shape for weight in named.gfnn(5, 3, width=4, key=KEY).network.weights] == [(4, 5), (3, 4)]
    assert named.gfn(5, 2, 3, width=4, key=KEY).network.weights[0].shape == (4, 16)


@pytest.mark.parametrize("power_graph", [False, True])
def test_the_spectral_network_is_its_definition(power_graph: bool):
    torch = pytest.importorskip("torch")
    model = ds.models.SpectralGNN(3, 2, width=4, power_graph=power_graph, key=KEY)
    model = jax.tree.map(lambda leaf: leaf + 0.05, model)
    adjacency = ds.graphs.adjacency(ds.graphs.erdos_renyi(20, 0.2, seed=0)).toarray().astype(np.float32)
    a = torch.from_numpy(adjacency)
    operators = [torch.eye(20), a, (a @ a).clamp(max=1) if power_graph else a @ a]
    layers = [model.first, *(jax.tree.map(lambda leaf, k=k: leaf[k], model.rest) for k in range(2))]
    x = a.sum(1, keepdim=True)
    for layer in layers:
        weight, bias, scale, shift = (
            torch.from_numpy(np.array(getattr(layer, name))) for name in ("weight", "bias", "scale", "shift")
        )
        z = torch.cat([operator @ x for operator in operators], 1) @ weight.T + bias
        z = torch.cat([z[:, :2].relu(), z[:, 2:]], 1)
        x = torch.nn.functional.batch_norm(z, None, None, scale, shift, training=True)
    expected = x.numpy() @ np.asarray(model.readout.weights[0]).T + np.asarray((model.readout.biases or [])[0])
    np.testing.assert_allclose(model(jnp.asarray(adjacency)), expected, rtol=1e-3, atol=1e-4)


def test_graph_networks_train_as_every_other_model():
    graph = ds.graphs.parity_colors(ds.graphs.cycle(12))
    inputs = ds.models.FeaturedGraph(graph)
    task = ds.tasks.NodeTask(inputs)
    data = jnp.arange(12, dtype=jnp.int32), jnp.asarray(graph.features[:, 0], float)
    start = ds.models.GIN(2, 2, 1, width=4, key=KEY)
    trained = ds.descend(start, task, optax.adam(0.02), data=data, batch=4, key=KEY, steps=60, record=60)
    assert trained.trace.loss[-1] < 0.3 * trained.trace.loss[0]
    assert isinstance(trained.model, ds.models.GIN)


def test_malformed_inputs_are_refused():
    with pytest.raises(TypeError, match="Graph with nodes and features"):
        ds.models.FeaturedGraph(RING)
    with pytest.raises(TypeError, match="FeaturedGraph with 2 features"):
        ds.models.GIN(2, 1, 1, key=KEY)(ds.models.FeaturedGraph(featured(RING)))
    with pytest.raises(ValueError, match="width must be even"):
        ds.models.SpectralGNN(2, 2, width=3, key=KEY)
