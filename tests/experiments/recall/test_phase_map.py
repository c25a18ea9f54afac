"""The map of recall: times, phases, and lengths that a context cannot have."""

from __future__ import annotations

import numpy as np
import xarray as xr

from dynascope.experiments.recall.phase_map import RecallMap, power

STEPS = np.arange(5)


def curves(rows: list[list[float]], name: str = "seed") -> xr.DataArray:
    return xr.DataArray([[rows]], dims=("ratio", "alpha", name, "step"), coords={"alpha": [0.5], "step": STEPS})


def test_a_run_that_has_not_learned_has_no_time_and_the_later_phase_wins():
    noise = curves([[0.0, 0.4, 0.5, 0.5, 0.5], [0.0, 0.1, 0.1, 0.1, 0.1]])
    attention = curves([[0.0, 0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    measured = xr.Dataset({"seen_noise": noise, "seen_on_target": attention})
    predicted = xr.Dataset({"noise": noise[0, :, 0], "on_target": attention[0, :, 0]})
    reduced = RecallMap(alphas=(0.5,), ratios=(1,)).reduce(measured, predicted)
    np.testing.assert_allclose(reduced.noise_time[0, 0], [1.0, np.nan])
    np.testing.assert_allclose(reduced.attention_time[0, 0], [2.5, np.nan])
    assert reduced.phase[0, 0].values.tolist() == [[0, 1, 1, 2, 2], [0, 0, 0, 0, 0]]
    assert float(reduced.attention_time_predicted[0]) == 2.5


def test_a_power_is_read_off_and_a_delay_that_is_no_delay_has_none():
    ratio = xr.DataArray([1, 2, 4], dims="ratio", coords={"ratio": [1, 2, 4]})
    assert abs(power(0.3 / ratio) + 1) < 1e-12
    assert np.isnan(power(0.3 / ratio - 0.1))
