"""What the experiments on quadratic models count and compute, on cases whose answer is known."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr

import dynascope as ds
from dynascope.experiments.catapult import classification_data, quadratic_eigenvalues, single_example, top_eigenspace
from dynascope.experiments.catapult.general_quadratic import Digits, GeneralQuadratic
from dynascope.experiments.catapult.generalization import Generalization
from dynascope.experiments.catapult.one_example import OneExampleTheory, draw_starts
from dynascope.experiments.catapult.regimes import OneExample, boundaries
from dynascope.experiments.catapult.two_layer_models import (
    CATAPULT,
    DIVERGENT,
    MONOTONE,
    kernel_matrix,
    largest_error,
    network,
    regime,
    squared_gradient,
    variant,
)
from dynascope.geometry.tangent_kernel import tangent_kernel
from dynascope.lab.errors import UsageError
from dynascope.lab.fields import build
from dynascope.models import MLP, ConvNet, quadratic
from dynascope.theory.catapult import general_quadratic


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def test_the_loss_decides_the_regime_of_a_run():
    t = np.arange(50)
    falling, bump = np.exp(-t / 3), np.exp(-((t - 10) ** 2) / 20) + 0.5 * np.exp(-t / 10)
    with np.errstate(over="ignore"):
        leaving = np.exp(np.minimum(t**2.0, 800.0))
    noisy = np.maximum(np.exp(-3.0 * t), 1e-30) * (1 + 0.5 * (t % 2))  # rounding noise at the bottom is no rise
    noisy[:8] = np.exp(-3.0 * t[:8])
    assert regime(np.stack([falling, bump, leaving])).tolist() == [MONOTONE, CATAPULT, DIVERGENT]
    assert regime(np.where(t < 20, falling, np.nan)) == DIVERGENT
    assert regime(noisy) == MONOTONE


def test_boundaries_are_the_middle_of_the_first_rise_and_of_the_last_return():
    products = np.array([1.0, 2.0, 3.0, 4.0])
    slow = [MONOTONE, DIVERGENT, CATAPULT, DIVERGENT]  # at 2 it has not come back yet
    found = boundaries(products, np.array([slow, [MONOTONE] * 4, [DIVERGENT] * 4]).T)
    np.testing.assert_array_equal(found, [[1.5, np.nan, np.nan], [3.5, np.nan, np.nan]])


@pytest.mark.parametrize("kind", ["network", "quadratic", "linear"])
def test_the_kernel_in_closed_form_is_the_jacobian_contraction_also_away_from_the_start(kind):
    x = jax.random.normal(jax.random.key(1), (6, 4))
    net, _ = network(jax.random.key(0), 4, 30)
    model = variant(net, kind)
    noise = jax.tree.map(
        lambda leaf: 0.3 * jnp.ones_like(leaf) if jnp.issubdtype(leaf.dtype, jnp.floating) else None, model
    )
    moved = jax.tree.map(
        lambda leaf, by: leaf if by is None else leaf + by, model, noise, is_leaf=lambda leaf: leaf is None
    )
    np.testing.assert_allclose(kernel_matrix(moved, x), tangent_kernel(moved, x), rtol=1e-10)


def test_a_network_of_a_traced_width_is_a_network_of_that_width():
    """Its hidden units are the first ones, its kernel is K of the small network, and training keeps it so."""
    x, y = jax.random.normal(jax.random.key(1), (5, 3)), jnp.ones(5)
    wide, factor = network(jax.random.key(0), 3, 64, 16)
    small = MLP.from_weights([wide.weights[0][:16], wide.weights[1][:, :16]], "relu")
    scale = 1 / np.sqrt(3 * 16)
    np.testing.assert_allclose(factor * jax.vmap(wide)(x), scale * jax.vmap(small)(x), rtol=1e-12)
    process = Digits(64)(jnp.asarray(16), jnp.asarray(1.5), jnp.asarray(0), x, y)
    state = process.advance(process.start(), jnp.asarray(0, jnp.int32), jnp.asarray(5, jnp.int32))
    end = process.snapshot(state, jnp.asarray(5, jnp.int32)).model
    assert np.all(np.asarray(end.weights[0])[16:] == 0)
    assert np.all(np.asarray(end.weights[1])[:, 16:] == 0)
    assert np.any(np.asarray(end.weights[0])[:16] != np.asarray(process.model.weights[0])[:16])


def test_errors_are_over_the_largest_value_so_far():
    seen = xr.Dataset({"loss": (("seed", "step"), [[1.0, 4.0, 2.0]])})
    exact = xr.Dataset({"loss": (("step", "seed"), [[1.0], [4.0], [2.5]])})
    found = largest_error(seen, exact, ("loss",))
    assert found.dims == ("quantity", "seed")
    assert found.values == [[0.125]]


def test_the_rate_of_a_run_is_its_product_over_its_kernel():
    member, fixed = OneExample(3, 20, "quadratic"), {"seed": np.int32(0), "width": np.int32(20)}
    process = member(jnp.asarray(3.0), jnp.asarray(0), jnp.asarray(20))
    trace = ds.ensemble(member, {"product": np.array([3.0])}, fixed=fixed, steps=1, record=1).trace
    start = process.snapshot(process.start(), jnp.asarray(0, jnp.int32)).model
    kernel = float(trace.kernel.values[0, 0])
    moved = float(trace.distance.values[0, 1])
    assert moved == pytest.approx(3.0 / kernel * abs(float(trace.residual.values[0, 0])) * np.sqrt(kernel), rel=1e-9)
    assert start.network.weights[0].shape == (20, 3)


@pytest.mark.parametrize("kind", ["network", "quadratic"])
def test_the_two_eigenvalues_on_scalar_inputs_are_those_of_the_kernel(kind):
    x, _ = quadratic_eigenvalues.two_sided(jax.random.key(3), 20)
    net, _ = network(jax.random.key(0), 1, 50)
    model = variant(net, kind)
    probes = {
        "eigenvalue": lambda model: quadratic_eigenvalues.eigenvalues(model, x),
        "kernel": lambda model: tangent_kernel(model, x[:, None]),
    }

    def loss(model):
        return jnp.mean((jax.vmap(lambda point: model(point[None])[0])(x) - 1) ** 2)

    trace = ds.descend(model, loss, optax.sgd(0.3), steps=4, record=4, probes=probes).trace
    for found, K in zip(trace.eigenvalue.values, trace.kernel.values, strict=True):
        whole = np.linalg.eigvalsh(K)
        np.testing.assert_allclose(np.sort(found), whole[-2:], rtol=1e-9)
        assert abs(whole[-3]) < 1e-9 * whole[-1]


def test_remainders_along_the_top_direction_are_those_of_the_general_recursion():
    x = jax.random.normal(jax.random.key(1), (4, 3))
    y = jnp.asarray([1.0, -1.0, 1.0, -1.0])
    process = top_eigenspace.ManyExamples(8, "quadratic")(jnp.asarray(0), jnp.asarray(1.3), x, y)
    model = process.model
    flat, unravel = jax.flatten_util.ravel_pytree(model.network)

    def outputs(weights):
        whole = type(model)(unravel(weights), model.start)
        return jax.vmap(lambda point: whole(point)[0])(x)

    J, H, r = jax.jacfwd(outputs)(flat), jax.jacfwd(jax.jacfwd(outputs))(flat), outputs(flat) - y
    top = jnp.linalg.eigh(J @ J.T)[1][:, -1]
    rate = 1.3 * 2 / jnp.linalg.eigvalsh(J @ J.T)[-1]
    beyond = general_quadratic.remainders(J, general_quadratic.jacobian_change(J, H, r), rate)
    member, fixed = top_eigenspace.ManyExamples(8, "quadratic"), {"ratio": np.float64(1.3), "x": x, "y": y}
    trace = ds.ensemble(member, {"seed": np.array([0])}, steps=1, record=1, fixed=fixed).trace
    assert float(trace.top_beyond_kernel[0, 1]) == pytest.approx(float(top @ beyond.kernel @ top), rel=1e-8)
    exact = float(top @ beyond.residual @ r / (top @ r))
    assert float(trace.top_beyond_residual[0, 1]) == pytest.approx(exact, rel=1e-7)
    assert float(trace.top_loss[0, 1]) == pytest.approx(float(r @ r) / 2)


def test_a_convolution_with_frozen_gates_is_the_quadratic_model():
    @jax.jit
    def compared(image):
        start, end = (ConvNet((3, 3, 2), (4,), key=jax.random.key(seed)) for seed in (0, 2))
        frozen = eqx.tree_at(lambda model: model.network, variant(start, "quadratic"), end)
        moved = jax.tree.map(lambda a, b: a - b, *(eqx.filter(net, eqx.is_inexact_array) for net in (end, start)))
        taylor = eqx.tree_at(lambda model: model.displacement, quadratic(start), moved)
        outputs = [model(image)[0] for model in (frozen, taylor, end)]
        return outputs, kernel_matrix(frozen, image[None]), tangent_kernel(taylor, image[None])

    (frozen, taylor, network), kernel, expected = compared(np.random.default_rng(1).standard_normal((3, 3, 2)))
    np.testing.assert_allclose(frozen, taylor)
    np.testing.assert_allclose(kernel, expected)
    assert abs(frozen - network) > 1e-3, "gates have changed on the way"


def test_the_top_direction_of_a_convolutional_network_is_measured_too():
    tiny = {"data": "gaussians", "samples": 6, "width": 5, "steps": 3, "seeds": 1, "models": ("quadratic",)}
    experiment = build(top_eigenspace.TopEigenspace, tiny, preset="svhn-cnn")
    measured = experiment.measure(0)
    assert np.all((measured.top_loss > 0) & (measured.top_loss <= measured.loss * (1 + 1e-9)))
    assert next(iter(experiment.judge(experiment.reduce(measured, None)))).id == "top-carries"


def test_the_kernel_of_a_fixed_readout_is_the_squared_gradient():
    process = single_example.SingleDraws(6, 4, 30)(jnp.asarray(1.0), jnp.asarray(0))
    x = process.objective.data[0]
    expected = [squared_gradient(process.model, lambda model, p=point: model(p)) for point in x]
    np.testing.assert_allclose(process.model.kernels(x), expected, rtol=1e-10)


def test_the_row_recorded_is_the_example_that_the_next_step_uses():
    member = single_example.SingleDraws(6, 4, 30)
    trace = ds.ensemble(member, {"seed": np.array([0])}, fixed={"rate": np.float64(0.5)}, steps=8, record=1).trace
    process = member(jnp.asarray(0.5), jnp.asarray(0))
    x, y = process.objective.data
    hidden = process.model.hidden
    for t in range(8):
        row = int(trace.drawn.values[0, t, 0])
        model = type(process.model)(hidden, process.model.readout)
        assert float(process.objective(model)) == pytest.approx(float(trace.loss.values[0, t]))
        gradient = jax.grad(lambda model, row=row: (model(x[row]) - y[row]) ** 2, allow_int=True)(model)
        hidden = hidden - 0.5 * gradient.hidden


def test_pooled_images_are_standardized(monkeypatch, tmp_path):
    drawn = classification_data.sample("gaussians", (0, 1), 30, 20, 0)
    assert drawn.x.shape == (30, 49)
    assert drawn.x_test.shape == (20, 49)
    assert set(drawn.y) == {-1.0, 1.0}
    draw = np.random.default_rng(0)
    images = {
        "x_train": draw.integers(0, 255, (80, 8, 8), np.uint8),
        "y_train": np.arange(80) % 4,
        "x_test": draw.integers(0, 255, (40, 8, 8), np.uint8),
        "y_test": np.arange(40) % 4,
    }
    np.savez(tmp_path / "noise.npz", **images)
    monkeypatch.setenv("DYNASCOPE_DATA", str(tmp_path))
    pooled = classification_data.sample("noise", (1, 3), 20, 1000, 0, pool=4)
    assert pooled.x.shape == (20, 4)
    assert pooled.x_test.shape == (20, 4)  # as many as there are
    assert pooled.x.mean() == pytest.approx(0, abs=1e-9)
    assert pooled.x.std() == pytest.approx(1)


def test_presets_have_as_many_examples_as_the_document():
    speech, three = (build(Generalization, {}, preset=preset).model_dump() for preset in ("speech", "three-layers"))
    assert (speech["samples"], three["samples"], three["test_samples"]) == (256, 100, 500)


@pytest.mark.parametrize("idle", [{"architecture": "cnn"}, {"pool": 2}])
def test_text_is_neither_convolved_nor_pooled(idle):
    with pytest.raises(UsageError, match="data=ag_news has no images: it takes architecture=fcn and pool=1 only"):
        build(Generalization, {"data": "ag_news", **idle})


def test_runs_that_do_not_end_below_their_start_have_no_best_loss():
    loss = np.array([[[[1.0, 0.5, 0.2], [1.0, 3.0, 2.0], [1.0, np.nan, np.nan]]]])
    data = xr.Dataset(dict.fromkeys(("loss", "test_loss", "test_accuracy"), (("model", "ratio", "seed", "step"), loss)))
    found = Generalization().reduce(data.assign_coords(ratio=[0.4], model=["network"]), None).isel(model=0, ratio=0)
    assert found.trained.values.tolist() == [True, False, False]
    np.testing.assert_array_equal(found.loss, [0.2, np.nan, np.nan])
    assert found.accuracy.values[0] == 1.0


@pytest.mark.slow
def test_a_convolutional_network_with_another_activation_has_its_taylor_models_too():
    with jax.enable_x64(False):
        tiny = {"data": "gaussians", "samples": 8, "test_samples": 6, "width": 4, "steps": 4, "seeds": 1, "batch": 4}
        measured = Generalization(ratios=(0.4,), architecture="cnn", activation="tanh", **tiny).measure(0)
    assert set(measured.model.values) == {"network", "quadratic", "linear"}
    start = measured.loss.isel(step=0)
    np.testing.assert_allclose(start, start.isel(model=0).broadcast_like(start), rtol=1e-5)
    slow = measured.loss.sel(ratio=0.4).values
    assert np.all(np.isfinite(slow))
    assert np.unique(np.round(slow[:, 0, -1], 6)).size == 3, "three different models"


@pytest.mark.parametrize("kind", [Generalization, GeneralQuadratic, top_eigenspace.TopEigenspace])
def test_a_misspelled_data_set_is_refused(kind, monkeypatch, tmp_path):
    monkeypatch.setenv("DYNASCOPE_DATA", str(tmp_path))
    with pytest.raises(
        UsageError, match=r"no data set of this name; known are gaussians, digits, mnist,.*; got 'mnsit'"
    ):
        build(kind, {"data": "mnsit"})
    (tmp_path / "mine.npz").touch()
    assert build(kind, {"data": "mine"}).data == "mine"  # one's own file


def test_random_starts_of_one_example_have_the_moments_of_a_network():
    starts = draw_starts((20_000,), np.arange(300))
    assert starts.kernel.mean() == pytest.approx(1, abs=2e-3)
    assert (starts.residual + starts.label).std() == pytest.approx(np.sqrt(1 / 2), abs=0.1)
    assert starts.scalar.mean() == pytest.approx(1, abs=5e-3)
    again = draw_starts((10, 20_000), np.arange(2))
    np.testing.assert_array_equal(again.kernel[1], starts.kernel[0, :2])
    np.testing.assert_array_equal(*again.label)


def test_one_example_without_curvature_never_comes_back_and_its_numbers_are_none():
    experiment = OneExampleTheory(widths=(100, 1000), seeds=2, steps=200, curvature=0)
    found = {claim.id: claim.verdict for claim in experiment.judge(experiment.measure(0))}
    assert {found[name] for name in ("comes-back", "reaches-three", "peak-order", "monotone-kernel")} == {"fails"}
    assert found["others-unstable"] == found["kernel-scale"] == "holds"
