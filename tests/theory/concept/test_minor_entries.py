import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.curves.stages import peak
from dynascope.theory.concept import minor_entries as minor
from dynascope.theory.concept.jacobian_paths import factor_path, recorded_steps
from dynascope.theory.concept.jacobian_recursion import growth, jacobian_of, suppression
from dynascope.theory.concept.stage_times import log_pivots_of_factor
from dynascope.theory.concept.starts import gaussian_factor

WEAK, STRONG = 0.5025, 2.0025


@pytest.fixture
def a():
    return jnp.asarray([WEAK, STRONG])


def test_the_turning_point_is_where_growth_meets_suppression(a):
    star = minor.turning_point(a[1], a[0])
    assert star == pytest.approx(0.770, abs=5e-4)
    W = jnp.asarray([[0.0, 0.1], [0.1, star]])
    np.testing.assert_allclose(growth(W, a)[0, 1], suppression(W, a)[0, 1], rtol=1e-13)


@pytest.mark.parametrize(("tau", "value"), [(0.1, 0.752), (0.03, 0.767), (0.01, 0.769), (0.001, 0.770)])
def test_the_dominant_major_is_at_the_turning_point_when_the_minor_peaks(a, tau, value):
    W = np.asarray(factor_path(jnp.asarray(gaussian_factor(range(40), tau, 2)), a, 0.004, 6000))
    top = peak(np.abs(W[..., 0, 1]).T)
    dominant = W[top.at, np.arange(40), 1, 1]
    assert np.median(dominant) == pytest.approx(value, abs=0.01)


@pytest.mark.parametrize(("tau", "within"), [(0.1, 0.03), (0.03, 0.005)])
def test_the_closed_form_gives_the_height_of_the_peak(a, tau, within):
    U, eta, steps = jnp.asarray(gaussian_factor(range(300), tau, 2)), 0.004, 4000
    W0, pivots = jacobian_of(U), log_pivots_of_factor(U, a)
    predicted = minor.minor_peak(W0[:, 0, 1], a[1], a[0], jnp.log(W0[:, 1, 1]), pivots[:, 0])
    curves = factor_path(U, a, eta, steps, 4, observe=lambda W: W[..., 0, 1])
    measured = peak(np.abs(np.asarray(curves)).T, recorded_steps(steps, 4))
    error = np.abs(np.abs(predicted.value) / measured.value - 1)
    assert np.quantile(error, 0.9) < within
    assert np.median(np.abs(predicted.time / eta / measured.time - 1)) < 0.01


def test_the_closed_form_solves_its_equation(a):
    """d log w_ij/dt = (a_i + a_j) - (3a_i+a_j)/2 w_ii - (3a_j+a_i)/2 w_jj with logistic majors."""
    times, step = jnp.linspace(0.1, 12, 50), 1e-5
    p_i, p_j = 0.01, 0.003

    def logistic(rate, p, t):
        return 1 / (1 + (1 / p - 1) * jnp.exp(-2 * rate * t))

    def log_entry(t):
        return jnp.log(
            minor.minor_entry(t, jnp.asarray(0.002), a[1], a[0], jnp.log(jnp.asarray(p_i)), jnp.log(jnp.asarray(p_j)))
        )

    slope = (log_entry(times + step) - log_entry(times - step)) / (2 * step)
    expected = (WEAK + STRONG) - (3 * STRONG + WEAK) / 2 * logistic(STRONG, p_i, times)
    expected = expected - (3 * WEAK + STRONG) / 2 * logistic(WEAK, p_j, times)
    np.testing.assert_allclose(slope, expected, atol=1e-7)
    between, after = minor.decay_rate_between(a[1], a[0]), minor.decay_rate_after(a[1], a[0])
    assert between == pytest.approx(0.75)
    assert expected[-1] == pytest.approx(-float(after), rel=1e-2)


@pytest.mark.parametrize("stage", ["between", "after"])
def test_the_minor_decays_at_the_stated_rates(a, stage):
    eta = 0.004
    W = np.asarray(factor_path(jnp.asarray(gaussian_factor(0, 1e-4 if stage == "between" else 0.2, 2)), a, eta, 8000))
    size = np.abs(W[:, 0, 1])
    if stage == "between":
        window, rate = (W[:, 1, 1] > 0.999) & (W[:, 0, 0] < 0.001), minor.decay_rate_between(a[1], a[0])
    else:
        window, rate = (W[:, 0, 0] > 0.999) & (size > 1e-13), minor.decay_rate_after(a[1], a[0])
    at = np.flatnonzero(window)
    assert len(at) > 200
    slope = np.log(size[at[-1]] / size[at[0]]) / (at[-1] - at[0]) / eta
    assert -slope == pytest.approx(float(rate), rel=0.02)


def test_the_peak_is_the_largest_value_of_the_curve(a):
    arguments = (
        jnp.asarray([0.02, -0.01]),
        a[1],
        a[0],
        jnp.log(jnp.asarray([0.03, 0.9])),
        jnp.log(jnp.asarray([0.01, 0.2])),
    )
    top = minor.minor_peak(*arguments)
    curve = minor.minor_entry(jnp.linspace(0, 5, 5001)[:, None], *arguments)
    np.testing.assert_allclose(jnp.abs(top.value), jnp.max(jnp.abs(curve), axis=0), rtol=1e-5)
    assert top.time[1] == pytest.approx(0, abs=1e-12)
    assert top.value[1] == pytest.approx(-0.01)


def test_transients_vanish_with_the_start():
    """The peak scales as omega^{1 - (a_i + a_j) / (2 a_i)}."""
    a_i, a_j = jnp.asarray(STRONG), jnp.asarray(WEAK)
    sizes = jnp.asarray([1e-8, 1e-12])
    top = minor.minor_peak(sizes, a_i, a_j, jnp.log(sizes), jnp.log(sizes)).value
    slope = jnp.log(top[0] / top[1]) / jnp.log(sizes[0] / sizes[1])
    assert slope == pytest.approx(1 - (STRONG + WEAK) / (2 * STRONG), abs=0.01)
