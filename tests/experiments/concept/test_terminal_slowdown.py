"""concept.terminal-slowdown: rates read off known exponentials."""

import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.concept.sim_experiment import named, part_of
from dynascope.experiments.concept.terminal_slowdown import TerminalSlowdown
from dynascope.experiments.concept.terminal_speed import rate_between, settled_step, speeds


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


def test_gradient_descent_slows_a_little_faster_than_the_flow() -> None:
    experiment = TerminalSlowdown()
    signals = xr.Dataset({name: (("signal", "concept"), np.array([s[k] for s in experiment.signals]))
                          for k, name in enumerate(("mu", "sigma"))})  # fmt: skip
    rates = experiment.predict(signals)
    assert rates.flow.sel(model="one layer, SGD").values[0] == pytest.approx(-1.5703e-3, rel=1e-4)
    assert rates.flow.sel(model="symmetric model").values[0] == pytest.approx(-0.0201)
    assert rates.descent.sel(model="symmetric model").values[0] == pytest.approx(-0.0203, rel=1e-3)


def test_parts_of_a_measurement_come_back_as_they_were() -> None:
    first, second = relaxation((0.1, 0.2)), relaxation((0.1, 0.2)).isel(step=slice(0, 10))
    whole = xr.merge([named("long", first), named("short", second)])
    xr.testing.assert_identical(part_of(whole, "long"), first)
    xr.testing.assert_identical(part_of(whole, "short"), second)
