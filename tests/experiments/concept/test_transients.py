"""Transient memorization: starts, turns, shares, and the data near the test point, each checked by itself."""

from __future__ import annotations

import numpy as np
import pytest

from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.concept import transients
from dynascope.experiments.concept.low_dimension import LowDimension
from dynascope.experiments.concept.out_of_distribution import (
    OutOfDistribution,
    data_near_test_point,
    rotation_error,
)
from dynascope.experiments.concept.shares_by_shape import Families, Shape, measure_shares, outcomes
from dynascope.experiments.concept.transient_memorization import TURNS, TransientMemorization

PAPER_SIGNAL = [((1.0, 2.0), (0.05, 0.05))]


def test_a_numpy_start_is_drawn_layer_by_layer_from_the_input_side() -> None:
    rng = np.random.default_rng(97)
    first, second = rng.uniform(-(2**-0.5), 2**-0.5, (3, 2)), rng.uniform(-(3**-0.5), 3**-0.5, (2, 3))
    weights = transients.numpy_starts([97], dim=2, depth=2, width=3, precision="float64")
    np.testing.assert_array_equal(weights[0][0], first)
    np.testing.assert_array_equal(weights[1][0], second)


def test_chosen_starts_turn_where_an_independent_program_found() -> None:
    experiment = TransientMemorization.model_validate({"epochs": 8})
    runs = transients.from_starts(experiment, PAPER_SIGNAL, [97, 174], dim=2)
    for start in (97, 174):
        loss = runs.test_loss.isel(signal=0).sel(start=start).values
        turn = transients.first_turn(loss, runs.step.values)
        assert (transients.off_by(turn, TURNS[start], digits=2) < 1).all()
        assert transients.memorizes(loss)


def test_the_same_starts_in_tiny_steps_are_recorded_on_the_clock_of_the_large_ones() -> None:
    experiment = LowDimension.model_validate({"epochs": 2})
    flow = transients.nearly_flow(experiment, PAPER_SIGNAL, [248])
    assert float(flow.step[-1]) == experiment.steps(2)
    turn = transients.first_turn(flow.test_loss.values[0, 0], flow.step.values)
    assert turn.minimum == pytest.approx(0.058, abs=0.002)
    assert turn.maximum_at == pytest.approx(107, abs=4)


def test_a_curve_that_only_falls_has_no_turn() -> None:
    falling = np.geomspace(1, 1e-6, 50)
    assert np.isnan(transients.first_turn(falling, np.arange(50))).all()


def test_the_deepest_rise_is_between_the_minimum_and_the_peak_after_it() -> None:
    curves = np.array([[2.0, 0.4, 0.5, 0.2, 1.0, 0.0], [4.0, 1.0, 3.0, 0.5, 0.9, 0.0]])
    low, high = transients.deepest_rise(curves)
    np.testing.assert_allclose(low, [0.1, 0.25])
    np.testing.assert_allclose(high, [0.5, 0.75])
    np.testing.assert_array_equal(transients.before_peak(np.array([[3.0, 2.0, 1.0]]), np.array([-1])), [2])


def test_numbers_agree_within_one_per_cent_and_the_rounding_of_the_reference() -> None:
    assert (transients.off_by((0.0408, 0.403), (0.04, 0.4), digits=3) < 1).all()
    assert not (transients.off_by((0.04, 0.41), (0.04, 0.4), digits=3) < 1).all()
    assert (transients.off_by((60.5, 4), (60, 4), digits=0) < 1).all()
    assert not (transients.off_by((np.nan,), (0.04,), digits=3) < 1).any()


def test_depth_makes_starts_memorize() -> None:
    shapes = Families([Shape(2, 4, 2)], {2: [Shape(2, 1, 2), Shape(2, 4, 2)]}, None).all()
    assert shapes == [Shape(2, 4, 2), Shape(2, 1, 2)]
    table = measure_shares(TransientMemorization.model_validate({"epochs": 6}), PAPER_SIGNAL, shapes, starts=40, seed=1)
    found = outcomes(table, "every_step")
    assert found[Shape(2, 1, 2)].mean() < 0.15 < 0.3 < found[Shape(2, 4, 2)].mean()


def test_truncation_empties_the_disc_and_touches_nothing_else() -> None:
    set_up = OutOfDistribution.model_validate({"dim": 2})
    radii = np.array([0.0, 0.5], np.float32)
    data = data_near_test_point(set_up, [((1.0, 2.0), (0.3, 0.3))], member_seeds(0, 2), radii, within=0.5, shown=1)
    free, truncated = (data.inside.isel(signal=0, truncate_radius=k).values for k in (0, 1))
    assert (free > 100).all()
    assert (truncated == 0).all()
    before, after = data["points"].isel(signal=0).values
    moved = (before != after).any(axis=1)
    assert moved.sum() == free[1]
    assert (np.linalg.norm(before[moved] - [1.0, 2.0], axis=1) < 0.5).all()


def test_a_rotation_changes_no_loss() -> None:
    assert rotation_error(OutOfDistribution.model_validate({"dim": 8}), PAPER_SIGNAL, 3) < 1e-12
