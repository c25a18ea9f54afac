"""General quadratic models: the formula, what is trained, and the recursion they obey."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope.models.quadratic_model import DiagonalForm, QuadraticModel, unit_features
from dynascope.theory.catapult import general_quadratic, quadratic_model
from dynascope.theory.catapult.quadratic_model import State


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def model_and_point(gamma=0.03, dim=20):
    draw = np.random.default_rng(0)
    x, w, signs = draw.standard_normal(dim), draw.standard_normal(dim), draw.choice([-1.0, 1.0], dim)
    model = QuadraticModel(jnp.asarray(w), unit_features, DiagonalForm(jnp.asarray(signs)), gamma)
    return model, jnp.asarray(x), w, signs


def test_it_is_the_formula():
    model, x, w, signs = model_and_point()
    expected = w @ np.asarray(x) / np.linalg.norm(x) + 0.03 / 2 * np.sum(signs * w**2)
    assert float(model(x)) == pytest.approx(expected, rel=1e-13)


def test_only_the_weights_are_trained():
    model, x, w, signs = model_and_point()
    trace = ds.descend(
        model, lambda model: (model(x) - 1) ** 2 / 2, optax.adamw(0.1, weight_decay=0.1), steps=5,
        probes={"gamma": lambda model: model.gamma.value(), "signs": lambda model: model.form.entries.value(),
                "weights": lambda model: model.weights},
    ).trace  # fmt: skip
    assert np.all(trace.gamma == 0.03)
    np.testing.assert_array_equal(trace.signs.values[-1], signs)
    assert np.all(trace.weights.values[-1] != w)


def test_gradient_descent_obeys_the_general_recursion():
    model, x, w, signs = model_and_point()
    rate, label = 2.5, 1.0
    trace = ds.descend(
        model, lambda model: (model(x) - label) ** 2 / 2, optax.sgd(rate), steps=30, record=1,
        probes={"output": lambda model: model(x)},
    ).trace  # fmt: skip
    phi = np.asarray(x) / np.linalg.norm(x)
    hessian = jnp.asarray(0.03 * np.diag(signs))[None]
    r, J = jnp.asarray([trace.output.values[0] - label]), jnp.asarray(phi + 0.03 * signs * w)[None]
    for now in trace.output.values[1:]:
        r, J = general_quadratic.step(r, J, hessian, rate)
        assert float(r[0]) == pytest.approx(now - label, abs=1e-10)


def test_without_curvature_it_is_linear_and_without_features_it_obeys_the_closed_map():
    model, x, w, _ = model_and_point(gamma=0.0)
    assert float(model(x)) == pytest.approx(w @ np.asarray(x) / np.linalg.norm(x))
    pure = QuadraticModel(jnp.asarray(w), lambda x: jnp.zeros(20), lambda x, w: 2 * w[::-1], 0.1)
    rate = 3 / float(jnp.sum((0.1 * 2 * w[::-1]) ** 2))
    trace = ds.descend(
        pure, lambda model: model(x) ** 2 / 2, optax.sgd(rate), steps=10, record=1,
        probes={"output": lambda model: model(x)},
    ).trace  # fmt: skip
    state = State(jnp.asarray(trace.output.values[0]), jnp.asarray(3 / rate))
    for now in trace.output.values[1:]:
        state = general_quadratic.pure_step(state, rate, 0.1, 4.0)
        assert float(state.residual) == pytest.approx(now, abs=1e-10)
    assert quadratic_model.CRITICAL < 3 < quadratic_model.LARGEST
