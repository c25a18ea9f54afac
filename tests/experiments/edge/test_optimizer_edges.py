"""The parts of `edge.adaptive` and `edge.momentum` that their verdicts rest on."""

import numpy as np
import xarray as xr

from dynascope.experiments.edge.adaptive import Adaptive
from dynascope.experiments.edge.momentum import Momentum, first_turn
from dynascope.tasks.data import images

STEPS = np.arange(0, 41, 4)


def named(measured, optimizers, **columns):
    columns = {"optimizer": optimizers, **columns}
    return measured.assign_coords({name: ("setting", values) for name, values in columns.items()})


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
    measured = named(measured, ["rmsprop", "adam"], rate=[5e-4, 1e-3], momentum=[0.0, 0.9])
    experiment = Adaptive(steps=40)
    predicted = experiment.predict(measured)
    np.testing.assert_allclose(predicted.edge, edges, rtol=1e-6)
    reduced = experiment.reduce(measured, predicted)
    np.testing.assert_allclose(reduced.hover, 1, rtol=1e-6)
    np.testing.assert_allclose(reduced.early, 0.3, rtol=1e-6)
    np.testing.assert_allclose(reduced.fall, 0.1)
    np.testing.assert_allclose(reduced.of_gradient_descent[:, 0], [3 * 5e-4 / 2, 3 * 1e-3 / 2])
    assert [claim.verdict for claim in experiment.judge(reduced)] == ["holds"] * 5


def with_momentum():
    """Heavy ball with beta = 0 and 0.9, which comes to its edge, falls and stays at 0.8 of it; then two schedules."""
    edges, factors = np.array([2.0, 3.8, 2.5, 2.5]), np.array([1.0, 1.0, 2.0, 0.5])
    ratio = np.where(STEPS < 4, 0.3, np.where(STEPS >= 20, 1 / factors[:, None], 1.0))
    ratio[:2, 2], ratio[:2, 3], ratio[1, 4:] = 1.1, 1.0, 0.8
    sharpness = (edges[:, None] * ratio)[:, None]
    loss = np.broadcast_to(1 / (1.0 + STEPS), sharpness.shape)
    of = ("setting", "seed", "step")
    measured = xr.Dataset({"sharpness": (of, sharpness), "loss": (of, loss)}, {"step": STEPS})
    settings = {"rate": [1.0, 1.0, 1.2, 1.2], "momentum": [0.0, 0.9, 0.5, 0.5], "factor": factors}
    return Momentum(steps=40, factors=(2.0, 0.5)), named(measured, ["heavy-ball"] * 4, **settings), edges


def test_with_a_schedule_the_edge_moves_with_the_rate():
    experiment, measured, edges = with_momentum()
    predicted = experiment.predict(measured)
    np.testing.assert_allclose(predicted.edge, edges, rtol=1e-6)
    reduced = experiment.reduce(measured, predicted)
    np.testing.assert_allclose(reduced.over_last, 1, rtol=1e-6)
    np.testing.assert_allclose(reduced.over_first[:, 0], [0.5, 2], rtol=1e-6)


def test_a_run_that_comes_to_the_edge_and_stays_below_is_at_the_edge_but_does_not_end_there():
    experiment, measured, _ = with_momentum()
    reduced = experiment.reduce(measured, experiment.predict(measured))
    np.testing.assert_allclose(reduced.turn[:, 0], 1.1, rtol=1e-6)
    np.testing.assert_allclose(reduced.hover[:, 0], [1, 0.8], rtol=1e-6)
    np.testing.assert_allclose(reduced.above[:, 0], [1, 0], rtol=1e-6)
    verdicts = {claim.id: claim for claim in experiment.judge(reduced)}
    assert [name for name, claim in verdicts.items() if claim.verdict == "fails"] == ["ends-at-the-edge"]
    ends = verdicts["ends-at-the-edge"].measured
    assert (ends["heavy-ball β = 0"], ends["heavy-ball β = 0.9"], ends["share"]) == (1, 0, 0)


def test_a_turn_is_a_fall_by_five_percent_from_above_half_of_the_edge():
    rows = [[0.3, 0.2, 0.7, 0.68, 0.66], [0.3, 1.1, 1.2, 1.16, 1.0], [0.4, 0.2, 0.3, 0.1, 0.1], [0.5, np.nan, 1, 1, 2]]
    ratio = xr.DataArray(np.array(rows), dims=("seed", "step"))
    np.testing.assert_allclose(first_turn(ratio), [0.7, 1.2, np.nan, np.nan])
