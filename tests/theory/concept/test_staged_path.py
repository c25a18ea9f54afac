"""A run of the symmetric model predicted from its start alone."""

import jax
import numpy as np
import pytest
import xarray as xr

from dynascope.theory.concept.staged_path import predicted_runs, staged_path


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_the_staged_path_is_exact_at_the_start_and_learns_everything(dim):
    start, a = 0.1 * np.random.default_rng(5).standard_normal((dim, dim)), np.array([0.3, 0.7, 1.6, 2.1])[:dim]
    path = staged_path(start, a, 0.01, np.array([0, 20_000]))
    np.testing.assert_allclose(path[0], start @ start.T, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(path[-1], np.eye(dim), atol=1e-6)


def test_the_staged_path_never_learns_what_the_rank_forbids():
    start = 0.1 * np.random.default_rng(5).standard_normal((3, 2))
    path = staged_path(start, np.array([0.3, 0.7, 1.6]), 0.01, np.array([100_000]))
    np.testing.assert_allclose(path[-1], np.diag([0.0, 1, 1]), atol=1e-6)


def test_a_prediction_has_the_names_and_steps_of_the_trace():
    U = 0.1 * np.random.default_rng(5).standard_normal((2, 1, 3, 3))
    trace = xr.Dataset({"U": (("start", "step", "row", "width"), U)}, {"step": [0]})
    predicted = predicted_runs(trace, (1.0, 1.5, 2.2), (0.05,) * 3, 0.01)
    np.testing.assert_allclose(predicted.W[:, 0], U[:, 0] @ np.swapaxes(U[:, 0], 1, 2), rtol=1e-10, atol=1e-15)
    assert predicted.test_loss.sizes == {"start": 2, "step": 1}
    assert predicted.half_step.sizes == {"start": 2, "concept": 3}
