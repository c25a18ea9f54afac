"""Stages of curves whose turning points are known."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from dynascope.curves import stages


@pytest.fixture(autouse=True)
def strict_promotion():
    with jax.numpy_dtype_promotion("strict"):
        yield


def broken_line(*corners, per=50):
    """A curve through the given values, straight in between."""
    pieces = [np.linspace(a, b, per, endpoint=False) for a, b in pairwise(corners)]
    return np.append(np.concatenate(pieces), corners[-1])


@pytest.mark.parametrize(
    ("corners", "count"),
    [
        ((1, 0), 1),
        ((1, 1), 0),
        ((1, 2), 0),
        ((1, 2, 0), 1),
        ((1, 0.5, 0.7, 0), 2),
        ((1, 0.2, 0.4, 0.1, 0.3, 0), 3),
        ((1, 0.5, 0.505, 0), 1),  # a rise within the tolerance
        ((1, 0.995), 0),  # a fall within the tolerance
        ((1, 0.5, 0.7), 1),  # still rising at the end
        ((1, 0.9, 1.5, 1.2, 1.4, 1.1, 1.3), 3),
        ((1, 1.005, 0.5, 0.52, 0.515, 0.53, 0), 2),  # small wiggles on the way up
    ],
)
def test_descents_of_broken_lines(corners, count):
    assert stages.descents(broken_line(*corners)) == count


def slow_turning_points(loss, tolerance):
    """The definition, one step at a time."""
    band, extremum, at, direction, points = tolerance * loss[0], None, 0, 0, []
    high = low = loss[0]
    high_at = low_at = 0
    for k, value in enumerate(loss):
        if direction == 0:
            if value > high:
                high, high_at = value, k
            if value < low:
                low, low_at = value, k
            if value < high - band:
                points.append((high_at, "maximum"))
                direction, extremum, at = -1, value, k
            elif value > low + band:
                points.append((low_at, "minimum"))
                direction, extremum, at = 1, value, k
        elif direction * (value - extremum) > 0:
            extremum, at = value, k
        elif direction * (extremum - value) > band:
            points.append((at, "maximum" if direction > 0 else "minimum"))
            direction, extremum, at = -direction, value, k
    return points


@pytest.mark.parametrize("seed", range(12))
def test_the_compiled_count_is_the_definition(seed):
    loss = 5 + np.cumsum(np.random.default_rng(seed).standard_normal(400)) / 10
    expected = slow_turning_points(loss, 0.05)
    assert stages.descents(loss, 0.05, noise=0) == sum(kind == "maximum" for _, kind in expected)
    found = [(point.at, point.kind) for point in stages.turning_points(loss, 0.05, noise=0)]
    assert found == [point for point in expected if point[0] > 0]


def test_turning_points_are_where_the_corners_are():
    points = stages.turning_points(broken_line(1, 0.5, 0.7, 0))
    assert [(point.at, point.kind) for point in points] == [(50, "minimum"), (100, "maximum")]
    assert [point.value for point in points] == pytest.approx([0.5, 0.7])


def test_turning_points_are_of_one_curve():
    with pytest.raises(ValueError, match="loss must be an array with 1 axis"):
        stages.turning_points(np.ones((3, 10)))


def test_rises_and_their_largest():
    loss = 2 * broken_line(1, 0.2, 0.4, 0.1, 0.5, 0)
    np.testing.assert_allclose(stages.rises(loss), [0.2, 0.4])
    assert stages.memorization_depth(loss) == pytest.approx(0.4)
    assert stages.memorization_peak(loss) == 200
    assert stages.memorization_peak(broken_line(1, 0)) == -1
    assert stages.rises(broken_line(1, 0)).shape == (0,)


def test_a_rise_under_way_counts_as_far_as_it_has_come():
    np.testing.assert_allclose(stages.rises(broken_line(1, 0.2, 0.6)), [0.4])


def test_batches_give_what_each_curve_gives_alone():
    rng = np.random.default_rng(3)
    losses = 5 + np.cumsum(rng.standard_normal((3, 4, 300)), axis=-1) / 10
    counts, depths = stages.descents(losses, 0.05), stages.memorization_depth(losses)
    crossing, top = stages.first_crossing(losses, 4.9, falling=True), stages.peak(losses)
    assert counts.shape == depths.shape == crossing.time.shape == top.at.shape == (3, 4)
    for k in np.ndindex(3, 4):
        assert counts[k] == stages.descents(losses[k], 0.05)
        assert depths[k] == stages.memorization_depth(losses[k])
        alone = stages.first_crossing(losses[k], 4.9, falling=True)
        np.testing.assert_equal((crossing.time[k], crossing.uncertainty[k]), (alone.time, alone.uncertainty))
        assert top.value[k] == losses[k].max()


def test_double_precision_is_kept_without_the_global_switch():
    """A turn of 1e-9 is seen in float64 arrays although JAX is at its default precision."""
    assert not jax.config.read("jax_enable_x64")
    loss = 1 + 1e-8 * broken_line(1, 0, 0.5, 0)
    assert stages.descents(loss, 1e-9) == 2
    assert stages.descents(loss.astype(np.float32), 1e-9) == 0


def test_jax_arrays_and_labeled_arrays_are_curves_too():
    loss = broken_line(1, 0.5, 0.7, 0)
    assert stages.descents(jnp.asarray(loss)) == 2
    assert stages.descents(xr.DataArray(loss, dims="step")) == 2
    assert stages.descents(xr.DataArray([loss, loss], dims=("seed", "step"))).tolist() == [2, 2]


def test_a_curve_that_diverges_does_not_disturb_the_others():
    loss = np.stack([broken_line(1, 0.5, 0.7, 0), np.where(np.arange(151) > 60, np.nan, broken_line(1, 0.5, 0.7, 0))])
    assert stages.descents(loss).tolist() == [2, 1]


def test_crossings_are_interpolated():
    times = np.array([0.0, 1, 3, 7])
    crossing = stages.first_crossing(np.array([0.0, 0.25, 0.75, 1]), 0.5, times)
    assert (crossing.time, crossing.uncertainty) == (2, 2)
    falling = stages.first_crossing(np.array([1, 0.75, 0.25, 0]), 0.5, times, falling=True)
    assert (falling.time, falling.uncertainty) == (2, 2)


def test_a_crossing_may_be_at_the_start_or_never():
    curve = np.array([0.6, 0.2, 0.9])
    assert stages.first_crossing(curve, 0.5) == (0, 0)
    assert np.isnan(stages.first_crossing(curve, 2).time)
    assert np.isnan(stages.first_crossing(np.full(3, np.nan), 0.5).time)


def test_each_curve_may_have_its_own_level():
    curves = np.stack([np.linspace(0, 1, 11), np.linspace(0, 2, 11)])
    np.testing.assert_allclose(stages.first_crossing(curves, np.array([0.5, 0.5])).time, [5, 2.5])
    np.testing.assert_allclose(stages.first_crossing(curves, np.array([0.5, 1.0])).time, [5, 5])


def test_peak_and_the_time_below_a_tenth_of_it():
    curve, times = broken_line(0, 0.05, 1, 0), np.arange(151) * 2.0
    top = stages.peak(curve, times)
    assert (top.value, top.time, top.at) == (1, 200, 100)
    assert stages.time_below_peak(curve, 0.1, times).time == pytest.approx(290)
    assert np.isnan(stages.time_below_peak(np.linspace(0, 1, 5)).time)


def test_the_log_tells_the_stages_in_order():
    T = np.linspace(0, 1, 101)
    W = np.zeros((101, 2, 2))
    W[:, 1, 1] = np.clip(4 * T, 0, 1)
    W[:, 0, 0] = np.clip(4 * T - 3, 0, 1)
    W[:, 0, 1] = W[:, 1, 0] = -np.interp(T, [0, 0.3, 0.6, 1], [0, 0.5, 0, 0])
    loss = np.interp(T, [0, 0.3, 0.6, 1], [1, 0.2, 0.5, 0])
    log = stages.stage_log(W, 2, T, loss)
    told = [(event.what, event.where) for event in log if not event.what.startswith("group")]
    assert told == [
        ("major leaves phase", (1,)),
        ("major at half", (1,)),
        ("minor peak", (0, 1)),
        ("loss minimum", ()),
        ("minor below tenth", (0, 1)),
        ("loss maximum", ()),
        ("major leaves phase", (0,)),
        ("major at half", (0,)),
    ]
    np.testing.assert_allclose(
        [event.time for event in log if event.what.startswith("major")], [0.025, 0.125, 0.775, 0.875], atol=1e-9
    )
    assert {event.where for event in log if event.what == "group peak"} == {(0,), (1,)}
