import jax
import numpy as np
import pytest
from scipy import stats

from dynascope.curves import paths


@pytest.fixture(autouse=True)
def strict_promotion():
    with jax.numpy_dtype_promotion("strict"):
        yield


def test_the_area_of_a_quarter_circle():
    angle = np.linspace(0, np.pi / 2, 2001)
    x, y = 1 - np.cos(angle), np.sin(angle)  # rises along 2 first
    expected = np.pi / 4 - 0.5
    assert paths.signed_area(x, y) == pytest.approx(expected, rel=1e-5)
    assert paths.signed_area(y, x) == pytest.approx(-expected, rel=1e-5)


def test_a_straight_path_has_no_area_wherever_it_starts():
    line = np.linspace(0, 1, 11) ** 2
    assert paths.signed_area(0.3 + line, -0.2 + 2 * line) == pytest.approx(0, abs=1e-15)


def test_two_exponentials_have_the_area_of_their_integral():
    """z_p = 1 - e^{-a_p t}: the area is a_2 / (a_1 + a_2) - 1/2."""
    t = np.linspace(0, 60, 200_001)
    z_1, z_2 = 1 - np.exp(-0.5 * t), 1 - np.exp(-2 * t)
    assert paths.signed_area(z_1, z_2) == pytest.approx(2 / 2.5 - 0.5, abs=1e-6)


def test_the_largest_difference_keeps_its_sign():
    z_1 = np.array([[0, 0.2, 1], [0, 0.9, 1]])
    z_2 = np.array([[0, 0.7, 1], [0, 0.3, 1]])
    np.testing.assert_allclose(paths.largest_difference(z_1, z_2), [0.5, -0.6])


def test_half_times_of_each_concept():
    t = np.linspace(0, 5, 5001)
    z = 1 - np.exp(-np.stack([0.5 * t, 2 * t], axis=-1))
    halves = paths.half_times(np.stack([z, z[:, ::-1]]), t)
    np.testing.assert_allclose(halves.time, np.log(2) / np.array([[0.5, 2], [2, 0.5]]), rtol=1e-6)


def test_reversal_is_the_deepest_fall():
    z = np.array([0, 0.6, 0.5, 0.8, 0.1, 1])
    assert paths.reversal(z) == pytest.approx(0.7)
    assert paths.reversal(np.linspace(0, 1, 5)) == 0
    np.testing.assert_allclose(paths.reversal(np.stack([z, z / 2])), [0.7, 0.35])


def test_the_illusion_gap_is_measured_at_the_given_step():
    outputs = np.array([[0, 0], [0.6, 1.9], [0, 1.9], [1, 2.0]])
    target, strongest = np.array([1.0, 2]), np.array([0.0, 2])
    assert paths.illusion_gap(outputs, 2, strongest, target) == pytest.approx(0.1 / np.sqrt(5))
    gaps = paths.illusion_gap(np.stack([outputs] * 3), np.array([2, 3, -1]), strongest, target)
    np.testing.assert_allclose(gaps, [0.1 / np.sqrt(5), 1 / np.sqrt(5), np.nan])


def slowing(rate, t, noise=0.0, seed=0):
    outputs = np.stack([1 - np.exp(-rate * t), 2 - 2 * np.exp(-4 * t)], axis=-1)
    return outputs + noise * np.random.default_rng(seed).standard_normal(outputs.shape)


def losses(outputs):
    return 0.5 * np.sum((outputs - np.array([1, 2])) ** 2, axis=-1)


def test_the_terminal_rate_of_an_exponential_is_exact():
    t = np.linspace(0, 12, 2001)
    outputs = slowing(0.5, t)
    found = paths.terminal_rate(outputs, t, losses(outputs))
    assert found.slope == pytest.approx(-0.5, rel=1e-3)
    assert found.r_squared > 0.9999


def test_the_line_and_its_error_are_those_of_ordinary_least_squares():
    t = np.sort(np.random.default_rng(1).uniform(0, 10, 30))  # too few for an estimate of the noise
    outputs = slowing(0.5, t, noise=1e-3)
    loss = losses(outputs)
    found = paths.terminal_rate(outputs, t, loss)
    speed = np.linalg.norm(np.diff(outputs, axis=0), axis=-1) / np.diff(t)
    window = (loss[:-1] < 0.05 * loss[0]) & (speed > 1e-6 * speed.max())
    middle, log_speed = (t[1:] + t[:-1])[window] / 2, np.log(speed[window])
    line = stats.linregress(middle, log_speed)
    residuals = log_speed - line.intercept - line.slope * middle
    alike = max(residuals[1:] @ residuals[:-1] / (residuals @ residuals), 0)
    error = line.stderr * np.sqrt((1 + alike) / (1 - alike))
    np.testing.assert_allclose(
        [found.slope, found.standard_error, found.r_squared], [line.slope, error, line.rvalue**2], rtol=1e-9
    )
    assert found.points == window.sum()


def test_an_early_dip_of_the_loss_is_not_the_end():
    t = np.linspace(0, 12, 501)
    outputs = slowing(0.5, t)
    loss = losses(outputs)
    dipped = np.where((t > 0.2) & (t < 1), 0.01 * loss, loss)
    assert paths.terminal_rate(outputs, t, dipped) == paths.terminal_rate(outputs, t, loss)


def test_rates_of_a_batch():
    t = np.linspace(0, 12, 501)
    outputs = np.stack([slowing(rate, t) for rate in (0.4, 0.5, 0.6)])
    found = paths.terminal_rate(outputs, t, losses(outputs))
    np.testing.assert_allclose(found.slope, [-0.4, -0.5, -0.6], rtol=2e-3)


def test_a_run_that_has_not_come_near_its_end_has_no_rate():
    t = np.linspace(0, 0.2, 50)
    found = paths.terminal_rate(slowing(0.5, t), t, losses(slowing(0.5, t)))
    assert np.isnan(found.slope)
    assert found.points == 0
