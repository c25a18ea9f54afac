"""Derivatives along a line, the line-search minimum, and the discriminant of the flip, where they are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynascope as ds


def quartic(x):
    return (x**2 - 1) ** 2 / 4


def test_derivatives_of_the_quartic_at_its_minimum():
    found = ds.geometry.directional_derivatives(lambda p: quartic(p["x"]), {"x": jnp.array(1.0)}, {"x": jnp.array(1.0)})
    assert found.tolist() == [0, 0, 2, 6, 6]
    assert float(ds.geometry.discriminant(found)) == 3 * 36 - 2 * 6


def test_the_direction_is_taken_as_it_is():
    found = ds.geometry.directional_derivatives(lambda x: jnp.sum(x**3), jnp.array([1.0, 0.0]), jnp.array([2.0, 0.0]))
    assert found.tolist() == [1, 6, 24, 48, 0]


def test_a_relu_has_slope_zero_at_its_kink():
    found = ds.geometry.directional_derivatives(lambda x: jax.nn.relu(x) ** 2, jnp.array(0.0), jnp.array(1.0), order=2)
    assert found.tolist() == [0, 0, 0]


@pytest.mark.parametrize(("learning_rate", "fraction"), [(1.0, 0.5), (0.4, 1.0), (8.0, 0.0625)])
def test_the_minimum_of_a_parabola_lies_at_one_over_curvature_times_rate(learning_rate, fraction):
    found = ds.geometry.line_search_minimum(lambda x: jnp.sum(x**2), jnp.array([1.0, 2.0]), learning_rate)
    assert float(found.fraction) == pytest.approx(fraction, abs=1e-6)
    np.testing.assert_allclose(found.params, (1 - 2 * fraction * learning_rate) * np.array([1.0, 2.0]), atol=1e-5)
    assert float(found.slope) == pytest.approx(-1.6 if fraction == 1 else 0, abs=1e-4)


def test_the_lowest_of_several_minima_is_taken():
    with jax.enable_x64(True):
        found = ds.geometry.line_search_minimum(lambda x: jnp.cos(6 * jnp.pi * x) + x, jnp.array(0.04), -0.2)
        ends = np.linspace(0, 1, 100_001)
        step = -0.2 * (1 - 6 * np.pi * np.sin(6 * np.pi * 0.04))
        values = np.cos(6 * np.pi * (0.04 - ends * step)) + 0.04 - ends * step
        assert float(found.loss) == pytest.approx(values.min(), abs=1e-8)
        assert abs(float(found.slope)) < 1e-6


def test_the_flip_of_the_quartic_and_of_a_loss_that_has_none():
    with jax.enable_x64(True):
        good = ds.geometry.flip(lambda p: quartic(p[0]), [jnp.array(1.1)], 1.01)
        np.testing.assert_allclose(good.derivatives[2:], [2, 6, 6], rtol=1e-7)
        assert float(good.discriminant) == pytest.approx(96, rel=1e-6)
        bad = ds.geometry.flip(lambda x: (x + x**3) ** 2, jnp.array(0.1), 0.9)
        assert float(bad.discriminant) == pytest.approx(-2 * 48, rel=1e-6)


def test_the_probe_records_the_discriminant_and_what_it_is_made_of():
    import optax

    trace = ds.descend(
        {"x": jnp.array(1.1)}, lambda p: quartic(p["x"]), optax.sgd(1.01), steps=4, record=1,
        probes={"flip": ds.probes.flip_discriminant(1.01)},
    ).trace  # fmt: skip
    np.testing.assert_allclose(trace.flip, 96, rtol=1e-3)
    np.testing.assert_allclose(3 * trace.flip_third**2 - trace.flip_second * trace.flip_fourth, trace.flip, rtol=1e-5)
    assert ((trace.flip_fraction > 0.3) & (trace.flip_fraction < 0.7)).all()
