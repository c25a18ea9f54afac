"""What counts walks in the experiments: dead units, errors on both splits, labels."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from dynascope import graphs
from dynascope.dynamics import ensemble
from dynascope.experiments.graphs.walk_counting import WalkCounting
from dynascope.experiments.graphs.walk_drawing import TABLE
from dynascope.experiments.graphs.walk_networks import MessageCounter, OperatorCounter, narrowed
from dynascope.experiments.graphs.walk_training import OPERATORS, columns_of, problem, similar, with_validation
from dynascope.lab.fields import build
from dynascope.models import MLP, FeaturedGraph

GRAPH: Any = graphs.parity_colors(graphs.cycle(20))
Y = np.linspace(0, 1, 20, dtype=np.float32)
FIXED = {"y": Y, "order": np.arange(20, dtype=np.int32)}


def setting(rate: float, width: int) -> Any:
    return {"setting": {"rate": np.array([rate], np.float32), "width": np.array([width], np.float32)}, "seed": [0]}


def test_a_narrowed_network_is_drawn_as_one_of_its_width_and_its_dead_units_stay_dead():
    wide = MLP(6, 2, width=64, out=1, activation="relu", bias=True, key=jax.random.key(0))
    inputs, hidden = jnp.array([1.0, 1, 1, 0, 0, 0]), (jnp.arange(64) < 16).astype(float)
    found = narrowed(wide, inputs, hidden)
    first, second = (np.asarray(weight) for weight in found.weights)
    assert np.all(first[16:] == 0)
    assert np.all(first[:, 3:] == 0)
    assert np.all(second[:, 16:] == 0)
    assert 0.9 / np.sqrt(3) < np.abs(first).max() <= 1 / np.sqrt(3)
    assert 0.7 / 4 < np.abs(second).max() <= 1 / 4
    x = jax.random.normal(jax.random.key(1), (6,))
    gradient = jax.grad(lambda network: (network(x)[0] - 1) ** 2)(found)
    assert np.all(np.asarray(gradient.weights[0])[16:] == 0)
    assert np.all(np.asarray(gradient.weights[1])[:, 16:] == 0)


def test_a_member_of_a_grid_is_the_network_of_its_width_alone():
    """With the same draws, a network of width 4 beside dead units learns as one that has no others."""
    columns = columns_of(GRAPH, 1, *OPERATORS["A"]).astype(np.float32)
    padded = np.concatenate([columns, np.zeros((20, 2), np.float32)], axis=1)
    used = (np.arange(6) < 4).astype(np.float32)
    over = {"model": {"features": padded[None], "used": used[None]}, **setting(0.01, 4)}
    member = OperatorCounter(8, 12, 4, 30, "constant")
    run = ensemble(member, over, fixed=FIXED, steps=30, record=30)
    model = run.member(model=0, setting=0, seed=0).model.network
    assert np.all(np.asarray(model.weights[0])[4:] == 0)
    assert np.all(np.asarray(model.weights[0])[:, 4:] == 0)
    assert np.any(np.asarray(model.weights[0])[:4, :4] != 0)
    outputs = jax.vmap(model)(padded)[:, 0]
    squared = (np.asarray(outputs) - Y) ** 2 / Y.var()
    last = run.trace.error.isel(step=-1).squeeze()
    np.testing.assert_allclose(last, [squared[:12].mean(), squared[12:].mean()], rtol=1e-4)


def test_message_passing_learns_on_a_graph():
    fixed = {**FIXED, "graph": FeaturedGraph(GRAPH), "y": np.asarray(GRAPH.features[:, 0], np.float32)}
    member = MessageCounter(4, 12, 4, 100, "cosine", 1)
    trace = ensemble(member, setting(0.02, 4), fixed=fixed, steps=100, record=100, keep=False).trace
    assert trace.error.isel(step=-1).max() < 0.5 * trace.error.isel(step=0).min()


@pytest.mark.parametrize(
    ("schedule", "at_half", "at_end"), [("cosine", 0.5, 0.0), ("steps", 0.49, 0.2401), ("constant", 1.0, 1.0)]
)
def test_the_rate_follows_its_schedule(schedule: Any, at_half: float, at_end: float):
    optimizer = MessageCounter(4, 12, 4, 100, schedule, 1).optimizer(jnp.asarray(0.1))
    state, taken = optimizer.init(jnp.zeros(())), []
    for _ in range(101):  # with a constant gradient Adam's steps are the rate
        update: Any
        with jax.numpy_dtype_promotion("standard"):  # as in descend
            update, state = optimizer.update(jnp.ones(()), state)
        taken.append(-float(update))
    np.testing.assert_allclose(
        [taken[0], taken[50], taken[100]], [0.1, 0.1 * at_half, 0.1 * at_end], rtol=1e-3, atol=1e-6
    )


def test_labels_are_walks_through_blue_nodes_and_the_control_shuffles_them():
    graph, y, order, count = problem("regular", 3, 0)
    assert (graph.nodes, count) == (1000, 300)
    assert (y.mean(), y.max()) == (19.066, 108)
    assert y.var() == pytest.approx(552.49, abs=0.005)
    np.testing.assert_array_equal(order, np.arange(1000))
    assert np.all(y[1::2] == 0)
    _, shuffled, *_ = problem("regular", 3, 0, shuffled=True)
    assert np.any(shuffled[1::2] != 0)
    np.testing.assert_array_equal(np.sort(shuffled), np.sort(y))


def test_the_split_of_cora_has_as_many_blue_as_red_nodes():
    graph, y, order, count = problem("cora", 2, 3)
    assert y.mean() == pytest.approx(7.209, abs=5e-4)
    assert y.var() == pytest.approx(362.07, abs=5e-3)
    assert np.bincount(order[:count] % 2).tolist() == [500, 500]
    np.testing.assert_array_equal(np.sort(order), np.arange(graph.nodes))


def test_columns_are_the_powers_side_by_side():
    columns = columns_of(GRAPH, 1, *OPERATORS["A+"])
    adjacency = graphs.adjacency(GRAPH).toarray()
    np.testing.assert_array_equal(
        columns,
        np.concatenate([GRAPH.features, adjacency @ GRAPH.features, adjacency @ adjacency @ GRAPH.features], axis=1),
    )
    standardized = columns_of(
        graphs.parity_colors(graphs.barabasi_albert(30, 2, seed=0)), 2, *OPERATORS["Ã(1), standardized"]
    )
    np.testing.assert_allclose(standardized.mean(0), 0, atol=1e-9)
    np.testing.assert_allclose(standardized.std(0), 1)


def test_widths_that_are_far_apart_are_not_one_program():
    assert similar((256, 8, 16, 32, 64)) == [(8, 16, 32, 64), (256,)]
    assert similar((16,)) == [(16,)]


def test_the_parts_of_a_run_become_one_table_of_errors():
    sizes = {"regular_edges": 1, "cora_edges": 1, "regular_epochs": 1, "cora_epochs": 1, "seeds": 2, "batch": 100}
    grid = {"message_rates": (0.01,), "message_widths": (2, 32), "operator_rates": (0.1, 0.01), "operator_widths": (2,)}
    experiment: Any = build(WalkCounting, {**sizes, **grid})
    parts = experiment.measurements()
    assert list(parts) == [
        f"{which}-{part}" for which in ("regular", "cora") for part in ("messages-2", "messages-32", "operators")
    ]
    found = {name: part.measure(0) for name, part in parts.items() if name.startswith("regular")}
    assert found["regular-messages-32"].width.values.tolist() == [32]
    experiment = build(WalkCounting, {**sizes, **grid, "which": ("regular",)})
    errors = experiment.errors(xr.DataTree.from_dict(found))
    assert dict(errors.sizes) == {"graph": 1, "model": 7, "setting": 2, "seed": 2, "recording": 4, "split": 3}
    wide = errors.sel(graph="regular", model="GIN", setting=1)
    np.testing.assert_array_equal(wide, found["regular-messages-32"].error.isel(model=0, setting=0))
    assert np.all(np.isfinite(errors))


def test_every_fifth_training_node_is_for_validation_and_test_nodes_stay():
    _, _, order, count = problem("cora", 2, 3)
    found, held = with_validation(order, count, 0.2)
    assert held == 200
    assert np.bincount(found[800:1000] % 2).tolist() == [100, 100]
    assert set(found[:1000].tolist()) == set(order[:1000].tolist())
    np.testing.assert_array_equal(found[1000:], order[1000:])
    np.testing.assert_array_equal(with_validation(order, count, 0.0)[0], order)


def test_a_member_with_validation_nodes_records_their_error_and_does_not_train_on_them():
    columns = columns_of(GRAPH, 1, *OPERATORS["A"]).astype(np.float32)
    over = {"model": {"features": columns[None], "used": np.ones((1, 4), np.float32)}, **setting(0.01, 4)}
    runs = []
    for y in (Y, np.where(np.arange(20) < 8, Y, 1 - Y).astype(np.float32)):
        member = OperatorCounter(4, 8, 4, 20, "constant", held=4)
        runs.append(ensemble(member, over, fixed={**FIXED, "y": y}, steps=20, record=20))
    assert runs[0].trace["split"].values.tolist() == ["train", "validation", "test"]
    first, second = (run.member(model=0, setting=0, seed=0).model.network for run in runs)
    np.testing.assert_array_equal(first.weights[0], second.weights[0])
    squared = (np.asarray(jax.vmap(first)(columns)[:, 0]) - Y) ** 2 / Y.var()
    parts = [squared[:8].mean(), squared[8:12].mean(), squared[12:].mean()]
    np.testing.assert_allclose(runs[0].trace.error.isel(step=-1).squeeze(), parts, rtol=1e-4)


def test_message_passing_without_jumping_knowledge_learns_too():
    fixed = {**FIXED, "graph": FeaturedGraph(GRAPH), "y": np.asarray(GRAPH.features[:, 0], np.float32)}
    member = MessageCounter(8, 12, 4, 200, "cosine", 2, jumping=False)
    trace = ensemble(member, setting(0.02, 8), fixed=fixed, steps=200, record=200, keep=False).trace
    assert trace.error.isel(step=-1).max() < 0.5 * trace.error.isel(step=0).min()


def test_published_rows_have_their_own_rate_and_width():
    experiment: Any = build(WalkCounting, {}, preset="published")
    rows = {name: (part.rates, part.widths, part.held_out) for name, part in experiment.measurements().items()}
    assert rows == {
        "regular-messages": ((0.005,), (16,), 0.0),
        "regular-operators-A": ((0.01,), (32,), 0.0),
        "regular-operators-A+": ((0.001,), (256,), 0.0),
        "cora-messages": ((0.01,), (32,), 0.0),
        "cora-operators-A": ((0.01,), (256,), 0.0),
        "cora-operators-A+": ((0.01,), (32,), 0.0),
    }
    models = [part.operators for name, part in experiment.measurements().items() if name.startswith("regular-op")]
    assert sorted(name for each in models for name in each) == sorted(OPERATORS)


def test_published_rows_are_judged_against_the_table_on_both_graphs():
    shape, names = {"graph": ["regular", "cora"], "model": list(TABLE), "split": ["train", "test"]}, ("seed", "graph")
    printed = [[TABLE[model][graph] for model in TABLE] for graph in shape["graph"]]
    errors = xr.DataArray(np.tile(np.asarray(printed)[None, ..., None], (3, 1, 1, 2)), dims=(*names, "model", "split"))
    errors = errors.assign_coords(shape)
    reduced = xr.Dataset({"error": errors, "best_test": 1.1 * errors})
    experiment: Any = build(WalkCounting, {}, preset="published")

    def verdicts(reduced: xr.Dataset) -> dict[str, str]:
        found = [*experiment.table_claims(reduced.sel(graph="regular"))]
        found += experiment.cora_table_claims(reduced.sel(graph="cora"))
        return {claim.id: claim.verdict for claim in found}

    found = verdicts(reduced)
    assert found.keys() == {"table-gin", "table-powers", "table-more-powers", "table-cora-gin", "table-cora-powers"}
    assert set(found.values()) == {"holds"}
    assert set(verdicts(1.2 * reduced).values()) == {"holds", "fails"}
    assert set(verdicts(0.7 * reduced).values()) == {"fails"}


def test_validation_nodes_choose_the_setting_and_the_epoch_for_every_model():
    shape = (1, 2, 2, 1, 3, 3)
    errors = np.ones(shape)  # graph, model, setting, seed, recording, split
    errors[:, :, 0, :, 1, 0] = 0.01  # the least training error, and the least of validation with its test error
    errors[:, :, 1, :, 2, 1], errors[:, :, 1, :, 2, 2] = 0.5, 0.3
    dims = ("graph", "model", "setting", "seed", "recording", "split")
    coords = {"graph": ["regular"], "model": ["GIN", "A"], "split": ["train", "validation", "test"]}
    table = xr.DataArray(errors, dims=dims, coords=coords).assign_coords(recording=[0, 1, 2], setting=[0, 1])

    class Fixed(WalkCounting):
        def errors(self, measured: Any) -> xr.DataArray:
            return table.transpose(*dims)

    none = xr.Dataset({"smooth": 1.0, "floor": 0.0})
    reduced = Fixed(which=("regular",)).reduce(xr.DataTree(), none)
    assert reduced.setting.values.tolist() == [[1, 1]]
    assert reduced.error.sel(split="test").values.ravel().tolist() == [0.3, 0.3]
    by_training = Fixed(which=("regular",), held_out=0.0).reduce(xr.DataTree(), none)
    assert by_training.setting.values.tolist() == [[0, 0]]
