"""The parts of `edge.mlp-processes` that its verdict rests on."""

import jax
import numpy as np
import pytest
import xarray as xr

from dynascope.experiments.edge.cubic_regression import CubicRegression, averaging
from dynascope.experiments.edge.mlp_processes import MlpProcesses
from dynascope.geometry.hessian import dense_hessian


def test_the_average_of_an_oscillation_about_a_line_is_the_line():
    time = np.arange(401)
    rows = averaging(np.arange(0, 301, 5), 401, 40, 100)
    np.testing.assert_allclose(rows @ (0.1 * time), 0.1 * np.arange(0, 301, 5), atol=1e-10)
    assert np.max(np.abs((rows @ (-1.0) ** time)[20:])) < 0.01
    np.testing.assert_array_equal(rows[0], np.eye(1, 401)[0])  # at the start it is the start


def test_sharpness_along_a_path_is_that_of_the_dense_hessian():
    task = CubicRegression(width=4, depth=2, samples=10)
    with jax.enable_x64(True):
        path = np.cumsum(np.asarray(0.05 * jax.random.normal(jax.random.key(0), (1, 6, 13))), axis=1)
        found = task.sharpness_along(path)[0]
        exact = [
            np.linalg.eigvalsh(dense_hessian(lambda w: task.loss(task.with_weights(w), task.data()), point))[-1]
            for point in jax.numpy.asarray(path[0])
        ]
        np.testing.assert_allclose(found, exact, rtol=1e-3)


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_ratios_are_over_the_time_at_the_edge(factor):
    of, at_edge = ("seed", "step"), np.array([[0.0, 0.0, 1.0, 1.0]])
    weights = np.zeros((1, 4, 2))
    measured = xr.Dataset(
        {
            "oscillation": (of, np.array([[9.0, 9.0, 0.0, 2.0]])),
            "average_loss": (of, at_edge),
            "center_sharpness": (of, 10 * at_edge),
            "flow_sharpness": (of, 30 * at_edge),
            "weights": ((*of, "parameter"), weights),
            "flow_weights": ((*of, "parameter"), weights + 1),
        }
    )
    predicted = xr.Dataset(
        {
            "oscillation": (of, factor * at_edge),
            "average_loss": (of, factor * at_edge),
            "weights": ((*of, "parameter"), weights + 0.1),
        }
    )
    found = MlpProcesses.model_validate({"learning_rate": 0.2}).reduce(measured, predicted)
    np.testing.assert_allclose(found.central_distance / found.flow_distance, 0.1)
    np.testing.assert_allclose(found.variance_ratio, [factor])
    np.testing.assert_allclose(found.loss_ratio, [factor])
    np.testing.assert_allclose(found.hover, [1.0])
