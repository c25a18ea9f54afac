"""How learning slows: rates read off known exponentials."""

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.concept.learning_order import rate_between, settled_slopes, speeds
from dynascope.theory.concept.terminal_rates import settled_step


def relaxation(rates: tuple[float, float], mu: tuple[float, float] = (1.0, 2.0)) -> xr.Dataset:
    """Two outputs that relax to `mu` at their own rates, as Theorem 4.1 has it from W(0) = 0."""
    step = np.arange(0, 4000, 5)
    output = np.stack([m * (1 - np.exp(-rate * step)) for m, rate in zip(mu, rates, strict=True)], axis=-1)
    loss = 0.5 * np.sum((output - np.array(mu)) ** 2, axis=-1)
    return xr.Dataset({"output": (("step", "concept"), output), "test_loss": ("step", loss)}, {"step": step})


def test_the_slope_of_one_exponential_is_found_in_every_band_of_the_loss() -> None:
    trace = relaxation((0.002, 0.002))
    for band in ((0.5, 1e-2), (1e-2, 1e-4), (1e-4, 0.0)):
        rate = rate_between(trace, *band)
        assert rate.slope == pytest.approx(-0.002, rel=1e-6)
        assert rate.r_squared == pytest.approx(1)


def test_from_the_settled_step_on_the_slower_exponential_is_left() -> None:
    a, mu, step_size = np.array([0.5, 2.0]), np.array([1.0, 2.0]), 0.003
    trace = relaxation((0.5 * step_size, 2.0 * step_size))
    begin = settled_step(a, mu, step_size)
    middle, speed = speeds(trace)
    late = speed[middle > begin][0] / (1.0 * 0.5 * step_size * np.exp(-0.5 * step_size * middle[middle > begin][0]))
    assert late == pytest.approx(np.hypot(1, 0.05), abs=0.002)
    assert rate_between(trace.sel(step=slice(begin, None)), 1.0).slope == pytest.approx(-0.5 * step_size, rel=1e-3)


def test_settled_slopes_are_those_of_the_slower_exponential_in_every_band() -> None:
    a, mu, step_size = np.array([[0.5, 2.0]]), np.array([[1.0, 2.0]]), 0.003
    trace = relaxation((0.5 * step_size, 2.0 * step_size)).expand_dims(signal=1, seed=1)
    trace = trace.assign(mu=(("signal", "concept"), mu))
    slopes = settled_slopes(trace, a, step_size)
    assert slopes.shape == (1, 2, 1)
    np.testing.assert_allclose(slopes, -0.5 * step_size, rtol=3e-3)
    assert np.isnan(settled_slopes(trace, np.array([[1.99, 2.0]]), step_size)).all()
