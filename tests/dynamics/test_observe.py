"""Probes over models that were trained elsewhere."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds

X = jax.random.normal(jax.random.key(0), (12, 3))
Y = jnp.sin(X[:, :1])
PROBES = {
    "loss": ds.probes.loss(),
    "top": ds.probes.top_eigenvalues(2, every=20, tolerance=1e-5),
    "moved": ds.probes.displacement(),
}


def loss(model, batch):
    x, y = batch
    return jnp.mean((jnp.tanh(x @ model["in"]) @ model["out"] - y) ** 2)


def start():
    key = jax.random.key(1)
    return {"in": jax.random.normal(key, (3, 8)), "out": jax.random.normal(key, (8, 1)) / 3}


@pytest.fixture(scope="module")
def training():
    """The models of a descent at every tenth step, and the trace of the same probes inside of it."""
    inside = ds.descend(start(), loss, optax.sgd(0.1), steps=40, data=(X, Y), record=10, probes=PROBES)
    models, model = [start()], ds.descend(start(), loss, optax.sgd(0.1), steps=10, data=(X, Y))
    for _ in range(4):
        models.append(model.model)
        model = model.resume(steps=10)
    return models, inside.trace


def test_the_trace_is_that_of_the_descent_itself(training):
    models, inside = training
    trace = ds.observe(models, loss, data=(X, Y), steps=range(0, 50, 10), probes=PROBES)
    assert trace.loss.dims == inside.loss.dims
    assert trace.top_step.values.tolist() == [0, 20, 40]
    for name in ("loss", "top", "moved"):
        np.testing.assert_allclose(trace[name], inside[name], rtol=2e-4, atol=1e-5)
    assert trace.diverged_at == -1
    assert trace.attrs["left_out"] == []


def test_models_may_come_from_a_mapping_a_generator_or_a_loader(training):
    models, inside = training
    mapped = ds.observe({10 * k: model for k, model in enumerate(models)}, loss, data=(X, Y))
    lazy = ds.observe((model for model in models), loss, data=(X, Y), steps=np.arange(5) * 10)
    loaded = ds.observe(range(5), loss, data=(X, Y), load=lambda k: models[k])
    for trace in (mapped, lazy, loaded):
        np.testing.assert_allclose(trace.loss, inside.loss, rtol=1e-5)
    assert mapped.step.values.tolist() == [0, 10, 20, 30, 40]
    assert loaded.step.values.tolist() == [0, 1, 2, 3, 4]


def test_a_model_that_is_not_finite_is_marked_and_the_rest_is_measured(training):
    models = [*training[0][:2], jax.tree.map(lambda leaf: leaf * jnp.nan, training[0][2]), training[0][3]]
    trace = ds.observe(models, loss, data=(X, Y))
    assert trace.diverged_at == 2
    assert np.isfinite(trace.loss).values.tolist() == [True, True, False, True]


def test_a_missing_checkpoint_is_left_out_with_a_warning(training):
    models = {0: training[0][0], 2: training[0][1]}
    with pytest.warns(UserWarning, match=r"the model of step 1 is left out \(KeyError: 1\)"):
        trace = ds.observe(range(3), loss, data=(X, Y), load=lambda k: models[k])
    assert trace.step.values.tolist() == [0, 2]
    assert trace.attrs["left_out"] == [1]


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"in": jnp.zeros((3, 4)), "out": jnp.zeros((4, 1))}, r"\['in'\] is float32\[3, 4\], in the first model"),
        ({"in": jnp.zeros((3, 8))}, r"others than those of the first model: \['out'\]"),
    ],
)
def test_another_architecture_is_left_out_with_a_warning(training, other, reason):
    with pytest.warns(UserWarning, match=reason):
        trace = ds.observe([training[0][0], other], loss, data=(X, Y))
    assert trace.sizes["step"] == 1


def test_probes_of_the_weights_need_no_loss(training):
    trace = ds.observe(training[0], probes={"norm": lambda model: jnp.linalg.norm(model["in"])})
    assert trace.norm.shape == (5,)
    with pytest.raises(TypeError, match=r"needs a loss: give observe\(\.\.\., task=\.\.\., data=\.\.\.\)"):
        ds.observe(training[0], probes={"loss": ds.probes.loss()})


def test_all_models_share_one_compilation(training, caplog):
    with jax.log_compiles():
        ds.observe(training[0], loss, data=(X, Y))
    assert sum("Finished XLA compilation of jit(_measure)" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"models": []}, "models must hold at least one model"),
        ({"models": "folder"}, "models must be a list, a generator, or a mapping from steps; got 'folder'"),
        ({"models": {0: start()}, "steps": [0]}, "whose keys are the steps"),
        ({"models": [start(), start()], "steps": [3, 3]}, "steps must be"),
        ({"models": [start()], "task": lambda model: model["in"]}, "the loss must return one real number"),
    ],
)
def test_wrong_arguments_are_named_in_one_line(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ds.observe(**{"task": lambda model: jnp.sum(model["in"])} | arguments)


def test_the_first_kernel_of_a_model_with_functions_among_its_leaves_is_kept():
    first = eqx.nn.MLP(2, 1, 3, 1, activation=jnp.tanh, key=jax.random.key(0))
    twice = jax.tree.map(lambda leaf: 2 * leaf if eqx.is_array(leaf) else leaf, first)
    x = jnp.ones((2, 2))
    trace = ds.observe([first, twice], probes={"moved": ds.probes.kernel_distance(x)})
    expected = ds.geometry.kernel_change(twice, first, x)
    np.testing.assert_allclose(trace.moved, [0, float(expected)], rtol=1e-4)
