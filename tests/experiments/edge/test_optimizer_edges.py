"""The parts of `edge.adaptive` and `edge.momentum` that their verdicts rest on."""

import numpy as np
import xarray as xr

from dynascope.experiments.edge.adaptive import Adaptive
from dynascope.experiments.edge.momentum import Momentum
from dynascope.experiments.edge.ten_digits import with_settings
from dynascope.tasks.data import images

STEPS = np.arange(0, 41, 4)


def test_small_images_are_averages_of_squares():
    found, whole = Adaptive(samples=12).examples(), images.load("digits")
    assert found["x"].shape == (12, 49)
    np.testing.assert_allclose(found["x"].reshape(12, 7, 7)[3, 2, 4], whole.x_train[3, 8:12, 16:20].mean() / 255)
    np.testing.assert_array_equal(found["y"].argmax(axis=1), whole.y_train[:12])


def test_ratios_are_of_the_edge_of_each_setting_in_the_second_half():
    ratio = np.where(STEPS >= 20, 1.0, 0.3)
    edges = np.array([4000.0, 38e3])
    of = ("setting", "seed", "step")
    measured = xr.Dataset(
        {
            "preconditioned": (of, edges[:, None, None] * ratio),
            "preconditioned_converged": (of, np.ones((2, 1, 11), bool)),
            "sharpness": (of, np.full((2, 1, 11), 3.0)),
            "loss": (of, np.broadcast_to(np.where(STEPS >= 36, 0.1, 1.0), (2, 1, 11))),
        },
        {"step": STEPS},
    )
    measured = with_settings(measured, ["rmsprop", "adam"], [5e-4, 1e-3], [0.0, 0.9])
    experiment = Adaptive(steps=40)
    predicted = experiment.predict(measured)
    np.testing.assert_allclose(predicted.edge, edges, rtol=1e-6)
    reduced = experiment.reduce(measured, predicted)
    np.testing.assert_allclose(reduced.hover, 1, rtol=1e-6)
    np.testing.assert_allclose(reduced.early, 0.3, rtol=1e-6)
    np.testing.assert_allclose(reduced.fall, 0.1)
    np.testing.assert_allclose(reduced.of_gradient_descent[:, 0], [3 * 5e-4 / 2, 3 * 1e-3 / 2])
    assert [claim.verdict for claim in experiment.judge(reduced)] == ["holds"] * 5


def test_with_a_schedule_the_edge_moves_with_the_rate():
    before, factors = np.array([2.0, 3.8, 2.5, 2.5]), np.array([1.0, 1.0, 2.0, 0.5])
    after = np.where(STEPS >= 20, 1 / factors[:, None], 1.0)
    sharpness = (before[:, None] * np.where(STEPS < 4, 0.3, after))[:, None]
    measured = xr.Dataset(
        {
            "sharpness": (("setting", "seed", "step"), sharpness),
            "loss": (("setting", "seed", "step"), np.broadcast_to(1 / (1.0 + STEPS), sharpness.shape)),
        },
        {"step": STEPS},
    )
    named = with_settings(measured, ["heavy-ball"] * 4, [1.0, 1.0, 1.2, 1.2], [0.0, 0.9, 0.5, 0.5])
    measured = named.assign_coords(factor=("setting", factors))
    experiment = Momentum(steps=40, factors=(2.0, 0.5))
    predicted = experiment.predict(measured)
    np.testing.assert_allclose(predicted.edge, before, rtol=1e-6)
    reduced = experiment.reduce(measured, predicted)
    np.testing.assert_allclose(reduced.hover, 1, rtol=1e-6)
    np.testing.assert_allclose(reduced.over_last, 1, rtol=1e-6)
    np.testing.assert_allclose(reduced.over_first[:, 0], [0.5, 2], rtol=1e-6)
    assert [claim.verdict for claim in experiment.judge(reduced)] == ["holds"] * 5
