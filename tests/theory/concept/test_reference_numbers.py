"""The symmetric model's runs against reference numbers computed independently, in NumPy.

Steps are gradient steps on `U`; a learning rate of 0.01 is a step of 0.02 in the paper clock.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.curves import paths, stages
from dynascope.theory.concept import stage_times
from dynascope.theory.concept.jacobian_paths import factor_path, recorded_steps
from dynascope.theory.concept.jacobian_recursion import jacobian_of
from dynascope.theory.concept.linear_loss import out_of_distribution_loss, population_loss
from dynascope.theory.concept.one_layer import second_moment
from dynascope.theory.concept.starts import aligned_factor, gaussian_factor

TWO = ((1.0, 2.0), (0.05, 0.05))
THREE = ((1.0, 1.5, 2.2), (0.05, 0.05, 0.05))
FOUR = ((1.0, 1.5, 2.2, 2.7), (0.05, 0.05, 0.05, 0.5))
FAILURE = ((0.7, 1.7, 3.0), (0.05, 0.05, 0.05))
ETA = 2 * 0.01


@pytest.fixture(autouse=True)
def double_precision_and_strict_promotion():
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"):
        yield


def moments(setting):
    return second_moment(*setting, len(setting[0]))


def observed(setting):
    return partial(out_of_distribution_loss, z=jnp.asarray(setting[0]))


def run(setting, start, steps, eta=ETA):
    W = factor_path(jnp.asarray(start), moments(setting), eta, steps)
    return np.asarray(W), np.asarray(observed(setting)(W))


def losses(setting, starts, steps, eta=ETA):
    """Loss curves `(seed, step)` of a batch of starts."""
    return np.asarray(factor_path(jnp.asarray(starts), moments(setting), eta, steps, observe=observed(setting))).T


EXTREMA = {
    "X5 gauss 3": (TWO, gaussian_factor(3, 0.1, 2), 3000, [(0.0076, 103), (0.165, 265)]),
    "X5 gauss 22": (TWO, gaussian_factor(22, 0.1, 2), 3000, [(0.082, 74), (0.155, 173)]),
    "X5 gauss 9": (TWO, gaussian_factor(9, 0.1, 2), 3000, [(0.154, 72), (0.208, 255)]),
    "X5 aligned": (TWO, aligned_factor(0, 0.1, 0.1, 2), 3000, [(0.125, 84), (0.204, 332)]),
    "X8 gauss 62": (
        THREE,
        gaussian_factor(62, 0.1, 3),
        6000,
        [(0.251, 72), (0.281, 119), (0.041, 279), (0.066, 435)],
    ),
    "X8 gauss 62 large": (
        THREE,
        gaussian_factor(62, 0.3, 3),
        6000,
        [(0.711, 23), (0.996, 77), (0.024, 223), (0.140, 356)],
    ),
    "X8 aligned": (
        THREE,
        aligned_factor(0, 0.3, 0.1, 3),
        6000,
        [(0.095, 57), (0.265, 139), (0.125, 249), (0.159, 415)],
    ),
    "X9 gauss": (
        FOUR,
        gaussian_factor(10440, 0.2, 4),
        9000,
        [(0.767, 13), (0.862, 39), (0.849, 59), (0.920, 110), (0.271, 291), (0.397, 540)],
    ),
    "X9 aligned": (
        FOUR,
        aligned_factor(0, 0.5, 0.03, 4),
        9000,
        [(0.072, 47), (0.838, 121), (0.601, 173), (0.633, 211), (0.337, 360), (0.410, 639)],
    ),
}


@pytest.mark.parametrize("name", EXTREMA)
def test_multiple_descents_turn_where_the_reference_says(name):
    setting, start, steps, extrema = EXTREMA[name]
    W, loss = run(setting, start, steps)
    assert stages.descents(loss) == len(extrema) // 2 + 1
    found = [(point.value / loss[0], point.at) for point in stages.turning_points(loss)]
    np.testing.assert_allclose([at for _, at in found], [at for _, at in extrema], atol=1)
    np.testing.assert_allclose([v for v, _ in found], [v for v, _ in extrema], rtol=0.01, atol=6e-4)
    assert loss[-1] < 1e-6
    training = np.asarray(population_loss(jnp.asarray(W), moments(setting)))
    assert np.all(np.diff(training) <= 1e-15)


def test_a_quadruple_descent_within_a_finer_tolerance():
    _, loss = run(FOUR, gaussian_factor(34138, 0.1, 4), 9000)
    assert [int(stages.descents(loss, tolerance)) for tolerance in (0.01, 0.002)] == [2, 4]


def test_the_stages_of_figure_5_alternate():
    W, loss = run(TWO, gaussian_factor(3, 0.1, 2), 3000)
    np.testing.assert_allclose(W[0][np.triu_indices(2)], [0.107, 0.023, 0.005], atol=6e-4)
    time = {(event.what, event.where): event.time for event in stages.stage_log(W, 2, loss=loss)}
    assert np.ceil(time["major at half", (1,)]) == 79
    assert np.ceil(time["major at half", (0,)]) == 400
    assert time["minor peak", (0, 1)] == 91
    assert time["minor below tenth", (0, 1)] == pytest.approx(262, abs=1.01)
    assert (
        time["major at half", (1,)]
        < time["minor peak", (0, 1)]
        < time["loss minimum", ()]
        < time["minor below tenth", (0, 1)]
        < time["loss maximum", ()]
        < time["major at half", (0,)]
    )
    assert stages.peak(W[:, 0, 1]).value == pytest.approx(0.356, abs=5e-4)


def test_the_majors_of_figure_9_come_in_the_order_of_their_strength():
    W, _ = run(FOUR, aligned_factor(0, 0.5, 0.03, 4), 9000)
    halves = stages.first_crossing(np.diagonal(W, axis1=1, axis2=2).T, 0.5).time
    np.testing.assert_allclose(np.ceil(halves), [993, 275, 143, 45], atol=1)


@pytest.mark.parametrize("scale", [0.3, 0.1, 0.03, 0.01])
def test_a_negative_minor_never_gives_a_second_descent(scale):
    starts = gaussian_factor(range(2000), scale, 2)
    count = stages.descents(losses(TWO, starts, 3000))
    positive = np.asarray(jacobian_of(jnp.asarray(starts)))[:, 0, 1] > 0
    assert np.all(count[~positive] == 1)
    assert np.max(count) == 2
    if scale == 0.1:
        assert np.mean(count[positive] > 1) == pytest.approx(0.514, abs=4 * 0.0158)


SHARES = {0.3: 0.280, 0.1: 0.266, 0.03: 0.216, 0.01: 0.114, 0.001: 0.0}


@pytest.mark.parametrize("scale", SHARES)
def test_the_share_of_double_descents_falls_with_the_start(scale):
    share = np.mean(stages.descents(losses(TWO, gaussian_factor(range(2000), scale, 2), 4500)) > 1)
    error = np.sqrt(2 * SHARES[scale] * (1 - SHARES[scale]) / 2000)  # both shares are samples
    assert share == pytest.approx(SHARES[scale], abs=3 * error)


@pytest.mark.long
def test_width_removes_the_double_descent():
    reference = {2: 0.266, 3: 0.162, 4: 0.091, 8: 0.022, 16: 0.002, 64: 0.0}
    shares = {}
    for width, expected in reference.items():
        starts = gaussian_factor(range(2000), np.sqrt(0.02 / width), 2, width)
        shares[width] = np.mean(stages.descents(losses(TWO, starts, 1200)) > 1)
        assert shares[width] == pytest.approx(expected, abs=3 * np.sqrt(2 * expected * (1 - expected) / 2000) + 1e-3)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_aligned_starts_always_descend_twice():
    for scale in (0.03, 0.1, 0.5):
        assert np.all(stages.descents(losses(TWO, aligned_factor(range(500), scale, 0.1, 2), 3000)) == 2)


def test_a_factor_too_narrow_fails_for_ever():
    starts = gaussian_factor(range(200), 0.3, 3, 2)
    end = factor_path(jnp.asarray(starts), moments(FAILURE), ETA, [8000], observe=observed(FAILURE))
    np.testing.assert_allclose(end, 0.245, atol=1e-6)
    W, _ = run(FAILURE, starts[0], 8000)
    np.testing.assert_allclose(W[-1], np.diag([0.0, 1, 1]), atol=1e-9)


@pytest.mark.parametrize(("scale", "plateau"), [(0.3, 0.2415), (0.1, 0.2447)])
def test_a_full_start_can_wait_on_a_plateau(scale, plateau):
    start, eta = gaussian_factor(1370, scale, 3), 2 * 0.05
    W, loss = run(FAILURE, start, 1200, eta)
    assert loss[400] == pytest.approx(plateau, abs=6e-5)
    assert W[400, 0, 0] < 0.01
    assert loss[-1] < 1e-3
    a = moments(FAILURE)
    half = stage_times.half_time(stage_times.log_pivots_of_factor(jnp.asarray(start), a), a)
    assert (half > eta * 400).tolist() == [True, False, False]
    assert not (half > eta * 1200).any()
    predicted = stage_times.steps_at(half, a, eta)[0]
    assert predicted == pytest.approx(float(stages.first_crossing(W[:, 0, 0], 0.5).time), rel=0.1)


def test_the_plateau_grows_with_the_logarithm_of_the_misalignment():
    a, eta, scales = moments(FAILURE), 2 * 0.05, np.array([1e-2, 1e-4, 1e-6, 1e-9])
    medians, predicted = [], []
    for epsilon in scales:
        starts = jnp.asarray(aligned_factor(range(100), 0.5, epsilon, 3))
        weakest = factor_path(starts, a, eta, 2000, 2, observe=lambda W: W[..., 0, 0])
        times = stages.first_crossing(np.asarray(weakest).T, 0.5, recorded_steps(2000, 2)).time
        medians.append(np.median(times))
        plateau = stage_times.plateau_length(stage_times.log_pivots_of_factor(starts, a), a)
        predicted.append(np.median(stage_times.steps_at(plateau, a, eta)[:, 0]))
    np.testing.assert_allclose(medians, [335, 615, 895, 1315], atol=25)
    np.testing.assert_allclose(predicted, medians, rtol=0.05)
    slope = np.polyfit(np.log(1 / scales), medians, 1)[0]
    assert slope == pytest.approx(1 / (2 * float(a[0]) * 0.05), rel=0.05)


def test_the_end_of_learning_slows_at_the_rate_of_the_weakest_concept():
    W, loss = run(TWO, gaussian_factor(3, 0.1, 2), 3000)
    outputs = W @ np.array(TWO[0])
    found = paths.terminal_rate(outputs, np.arange(3001), loss)
    assert found.slope == pytest.approx(-4 * 0.01 * 0.5025, rel=0.05)
    assert found.r_squared > 0.98
    later = paths.terminal_rate(outputs, np.arange(3001), loss, loss_share=1e-4)
    assert later.slope == pytest.approx(np.log(1 - 4 * 0.01 * 0.5025), rel=0.005)  # -0.0203, of the finite step
    assert abs(later.slope - np.log(1 - 4 * 0.01 * 0.5025)) < 3 * later.standard_error < 1e-4
