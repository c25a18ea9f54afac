"""Algorithm 1 on its two golden examples, against least squares, and against the flow it is the limit of."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope.curves.stages import first_crossing
from dynascope.models import AttentionHead, Diagonal
from dynascope.tasks.diagonal import DiagonalRegression, QuadraticLoss, exit_and_return, toy_head
from dynascope.theory.rank import assumptions
from dynascope.theory.rank.diagonal_flow import Reduced, reduce_weights, reduced_flow, weights
from dynascope.theory.rank.greedy_ranks import first_arrival, greedy_stages, staircase, table
from dynascope.theory.rank.stage_transition import constrained_least_squares, transition


@pytest.fixture(scope="module")
def linear():
    example = exit_and_return()
    with jax.enable_x64(True):
        task = QuadraticLoss(jnp.asarray(example.S), jnp.asarray(example.c))
        yield example, task, greedy_stages(task, 4)


@pytest.fixture(scope="module")
def head():
    numbers = toy_head(0, dim=6, tokens=5, samples=500)
    with jax.enable_x64(True):
        network, x = AttentionHead(6), jnp.asarray(numbers.x)
        task = DiagonalRegression(network, x, jax.vmap(lambda one: network(one, jnp.asarray(numbers.teacher)))(x))
        yield numbers, task, greedy_stages(task, 12, until=20.0)


def test_the_linear_example_goes_through_its_stages(linear):
    _, _, stages = linear
    np.testing.assert_allclose([s.time for s in stages], [0, 0.2222, 0.7570, 1.7235, 5.5787, 7.2072], atol=1e-4)
    assert [s.winner for s in stages] == [-1, 2, 0, 3, 1, 2]
    assert [s.sign for s in stages] == [0, -1, 1, -1, 1, 1]
    assert [s.left for s in stages] == [(), (), (2,), (), (), ()]
    assert [s.entered for s in stages] == [(), (2,), (0,), (3,), (1,), (2,)]
    np.testing.assert_allclose([s.loss for s in stages], [0, -2.1503, -2.8397, -2.9143, -2.9294, -3.0142], atol=1e-4)
    np.testing.assert_allclose(
        [s.log_weight for s in stages],
        [[1, 1, 1, 1], [0.3106, 0.9155, 2, 1.4575], [0, 0.7601, 2, 1.7827], [0, 0.4731, 1.6808, 2],
         [0, 0, 0.5147, 2], [0, 0, 0, 2]], atol=1e-4,
    )  # fmt: skip
    assert np.isinf(stages[-1].next_time)


def test_least_squares_with_signs_finds_the_same_plateaus(linear):
    example, _, stages = linear
    for before, after in pairwise(stages):
        signs = np.sign(before.beta)
        signs[after.winner] = after.sign
        np.testing.assert_allclose(after.beta, constrained_least_squares(example.S, example.c, signs), atol=1e-9)
    np.testing.assert_allclose(stages[-1].beta, np.linalg.solve(example.S, example.c), rtol=1e-8)


def test_a_coordinate_that_left_waits_for_two_over_its_force(linear):
    _, _, stages = linear
    np.testing.assert_allclose(stages[2].waits[2], 2 / abs(stages[2].force[2]), rtol=1e-9)


def test_the_head_goes_through_its_stages(head):
    _, _, stages = head
    times = [0, 1.1657, 1.4492, 1.5869, 2.6783, 3.0301, 3.3258, 3.3494, 3.8881, 6.8610, 18.0469, 18.0851]
    losses = [1.27217, 0.93181, 0.70486, 0.51907, 0.43141, 0.30251, 0.16785, 0.12850, 0.01079, 0.00106, 0.00066, 0]
    np.testing.assert_allclose([s.time for s in stages], times, atol=1e-4)
    np.testing.assert_allclose([s.loss for s in stages], losses, atol=6e-6)
    assert [s.winner for s in stages[1:]] == [8, 10, 9, 4, 1, 7, 6, 0, 11, 3, 5]
    np.testing.assert_allclose(stages[-1].next_time, 3149.1718, atol=1e-3)
    assert np.argmin(stages[-1].waits) == 2
    assert not any(s.left for s in stages)
    assert max(s.residual for s in stages) < 1e-12


def test_the_limit_in_the_size_of_the_switched_on_weight_exists(linear):
    _, task, stages = linear
    smaller = greedy_stages(task, 4, seed=1e-6)
    np.testing.assert_allclose([s.beta for s in smaller], [s.beta for s in stages], atol=1e-9)


def test_short_and_near_degenerate_stages_are_flagged(head):
    _, _, stages = head
    assert [k for k, stage in enumerate(stages) if not stage.is_resolved(1e-32)] == [1, 2, 5, 6, 9, 10]
    assert [k for k, stage in enumerate(stages) if not stage.is_resolved(1e-300)] == [5, 6, 9, 10]


def test_between_stages_log_weights_run_straight_to_the_next_stage(linear):
    stages = linear[2]
    for now, after in pairwise(stages):
        middle, end = (now.time + after.time) / 2, np.nextafter(after.time, 0)
        curve = staircase(stages, np.array([now.time, middle, end])).log_weight.values
        waiting = np.asarray(now.beta) == 0
        np.testing.assert_allclose(curve[2, waiting], np.asarray(after.log_weight)[waiting], atol=1e-9)
        np.testing.assert_allclose(curve[1], (curve[0] + curve[2]) / 2, atol=1e-9)


def test_with_b_starting_at_zero_as_printed_three_coordinates_are_learned_at_once(linear):
    printed = greedy_stages(linear[1], 4, start=0)
    assert [stage.time for stage in printed[1:4]] == [0, 0, 0]
    assert [stage.winner for stage in printed[1:4]] == [0, 1, 2]
    with pytest.raises(ValueError, match="start must be a finite number, at least 0 and at most 2; got 3"):
        greedy_stages(linear[1], 4, start=3)


@pytest.mark.parametrize("factor", [1e-8, 1e-4, 1e6])
def test_a_multiple_of_a_loss_has_the_same_plateaus_at_other_times(linear, factor):
    example, _, stages = linear
    other = greedy_stages(QuadraticLoss(jnp.asarray(factor * example.S), jnp.asarray(factor * example.c)), 4)
    assert [stage.winner for stage in other] == [stage.winner for stage in stages]
    np.testing.assert_allclose([stage.beta for stage in other], [stage.beta for stage in stages], atol=1e-9)
    np.testing.assert_allclose([factor * stage.time for stage in other], [stage.time for stage in stages], rtol=1e-9)
    assert all(finding.holds for finding in assumptions.non_degeneracy(other, example.u, example.v))


def test_a_transition_that_has_not_arrived_is_left_where_it_stopped(linear):
    example, task, _ = linear
    seeded, signs = jnp.array([0, 0, -1e-10, 0]), jnp.array([0.0, 0, -1, 0])
    short = transition(task, seeded, signs, max_steps=2)
    assert not short.arrived
    np.testing.assert_allclose(short.residual, abs(example.c[2] - example.S[2, 2] * short.beta[2]), rtol=1e-12)
    assert short.residual > 0.1


def test_a_plateau_that_was_not_reached_is_told(linear):
    stages = [*linear[2][:2], linear[2][2]._replace(arrived=False, residual=0.5)]
    assert table(stages).arrived.values.tolist() == [1, 1, 0]
    staircase(stages, np.array([0.1, 0.6]))
    with pytest.warns(UserWarning, match=r"plateau 2, from time 0\.757 on, is not exact: .* \|g\| = 0\.5"):
        staircase(stages, np.array([0.1, 0.8]))


def test_log_scale_weights_tend_to_those_of_the_stages(linear):
    example, task, stages = linear
    changes = np.array([stage.time for stage in stages[1:]])
    trace = reduced_flow(task, example.u, example.v, [1e-8, 1e-16, 1e-32], changes)
    error = np.abs(trace.log_weight.values - staircase(stages, changes).log_weight.values).max(axis=(1, 2))
    np.testing.assert_allclose(error[1:] / error[:-1], 0.5, atol=0.1)


@pytest.mark.parametrize("scale", [1e-8, 1e-32])
def test_the_lags_of_the_transitions_do_not_depend_on_the_scale(linear, scale):
    """How far behind T_k the loss is half-way to its next plateau, in units of 1 / log(1/alpha)."""
    example, task, stages = linear
    lags = np.array([-0.21, 1.77, -3.47, -5.43, -1.30])
    around = lags[:, None] + [-0.03, 0.03]
    times = np.array([stage.time for stage in stages[1:]])[:, None] + around / -np.log(scale)
    loss = reduced_flow(task, example.u, example.v, [scale], times.ravel()).loss.values.reshape(5, 2)
    middle = [(before.loss + after.loss) / 2 for before, after in pairwise(stages)]
    assert np.all(loss[:, 0] > middle)
    assert np.all(loss[:, 1] < middle)


def test_the_flow_of_the_head_meets_the_stages_as_the_start_shrinks(head):
    numbers, task, stages = head
    begun, ends = stages[1:10], [stage.next_time for stage in stages[:9]]
    late = [stage.time + 0.75 * (end - stage.time) for stage, end in zip(stages[:9], ends, strict=True)]
    times = np.union1d(late, [stage.time for stage in begun])
    trace = reduced_flow(task, numbers.u, numbers.v, [1e-4, 1e-8, 1e-16, 1e-32], times, tolerance=1e-6)
    b = trace.log_weight.sel(time=[stage.time for stage in begun]).values - np.array([s.log_weight for s in begun])
    np.testing.assert_allclose(np.abs(b).max(axis=(1, 2)), [0.154, 0.0773, 0.0386, 0.0193], rtol=5e-3)
    error = np.abs(trace["product"].sel(time=late).values[-1] - np.array([s.beta for s in stages[:9]])).max(axis=1)
    assert np.all(np.delete(error, 6) < 1.5e-3)
    np.testing.assert_allclose(error[6], 0.133, atol=2e-3)  # a plateau of length 0.024


def test_the_loss_of_the_head_nears_the_staircase(head):
    numbers, task, stages = head
    times = np.linspace(0, 9, 91)
    trace = reduced_flow(task, numbers.u, numbers.v, [0.1, 0.01], times, tolerance=1e-6)
    gap = np.abs(trace.loss.values - staircase(stages, times).loss.values).mean(axis=1) / stages[0].loss
    np.testing.assert_allclose(gap, [0.047, 0.0245], rtol=0.05)


def test_gradient_descent_is_late_by_a_share_that_does_not_vanish(head):
    """When each coordinate is half of what it is to be, with steps of 0.05 from a start of 1e-16."""
    numbers, task, stages = head
    pace, rate = -np.log(1e-16), 0.05
    start = Diagonal(jnp.asarray(1e-16 * numbers.u), jnp.asarray(1e-16 * numbers.v), task.network)
    probes = {"product": lambda model: model.product()}
    trace = ds.descend(start, task, optax.sgd(rate), steps=int(4.1 * pace / rate), record=1, probes=probes).trace
    share = np.stack([trace["product"].values[:, s.winner] / s.beta[s.winner] for s in stages[1:9]])
    found = first_crossing(share, 0.5, trace.step.values * rate / pace).time
    np.testing.assert_allclose(found, [1.253, 1.456, 1.682, 2.781, 3.102, 3.382, 3.501, 3.994], atol=2e-3)


@pytest.mark.parametrize(("scale", "expected"), [(1e-4, 7.8046), (1e-8, 18.5414)])
def test_the_first_arrival_at_a_finite_scale(head, scale, expected):
    numbers, task, stages = head
    i = stages[1].winner
    predicted = first_arrival(float(stages[0].force[i]), numbers.u[i], numbers.v[i], scale, 1e-2)
    np.testing.assert_allclose(predicted, expected, atol=6e-5)
    pace = -np.log(scale)
    times = predicted / pace + np.linspace(-0.02, 0.02, 9)
    trace = reduced_flow(task, numbers.u, numbers.v, [scale], times)
    log_kappa = reduce_weights(jnp.asarray(numbers.u), jnp.asarray(numbers.v), -pace).log_kappa[i]
    z = -pace * trace.log_weight.values[0, :, i] - float(log_kappa) / 2
    size = [float(weights(Reduced(log_kappa, jnp.asarray(one))).u) for one in z]
    measured = pace * np.interp(np.log(1e-2), np.log(size), times)
    np.testing.assert_allclose(measured, predicted, atol=3e-4)


def test_a_network_without_products_is_refused():
    with pytest.raises(ValueError, match="size must be an integer, at least 1"):
        greedy_stages(lambda beta: jnp.sum(beta), 0)


def test_the_assumptions_hold_on_both_examples(linear, head):
    for numbers, task, stages in (linear, head):
        findings = assumptions.non_degeneracy(stages, numbers.u, numbers.v)
        assert all(finding.holds for finding in findings), [f for f in findings if not f.holds]
        assert all(assumptions.strict_minimum(task, stage).holds for stage in stages)
    assert any("which left" in finding.name for finding in assumptions.non_degeneracy(linear[2], *linear[0][2:]))
    seen = assumptions.non_degeneracy(head[2], head[0].u, head[0].v, scale=1e-32)
    degenerate = [finding.name for finding in seen if not finding.holds]
    assert degenerate == [f"plateau {k}: gap * rate * log(1/alpha) >= 10" for k in (1, 5, 9)]


def test_the_curvature_of_assumption_4_4_is_that_of_the_balanced_loss(head):
    _, task, stages = head
    stage = stages[5]
    support = np.array(stage.support)
    signs = jnp.asarray(np.sign(stage.beta)[support])
    u = jnp.asarray(np.sqrt(np.abs(stage.beta[support])))
    hessian = jax.hessian(lambda u: task(jnp.zeros(12).at[support].set(signs * u**2)))(u)
    found = assumptions.strict_minimum(task, stage).number
    np.testing.assert_allclose(found, np.linalg.eigvalsh(hessian)[0], rtol=1e-6)
    np.testing.assert_allclose(assumptions.strict_minimum(task, stages[1]).number, 3.4313, atol=1e-4)
    last = stages[-1]._replace(beta=head[0].teacher)  # where the flow ends: nothing is left of the loss
    np.testing.assert_allclose(assumptions.strict_minimum(task, last).number, 0.001863, atol=1e-6)


def test_noisy_starts_end_at_the_next_plateau(linear):
    _, task, stages = linear
    for before, after in pairwise(stages[:3]):
        assert assumptions.noise_robust(task, before, after, draws=5).holds
    assert not assumptions.noise_robust(task, stages[0], stages[3], draws=5).holds


def test_ties_and_flat_directions_are_found():
    tied = QuadraticLoss(jnp.eye(2), jnp.ones(2))
    stages = greedy_stages(tied, 2)
    findings = assumptions.non_degeneracy(stages, np.array([1.0, 2.0]), np.array([0.5, 0.5]))
    assert next(finding.name for finding in findings if not finding.holds) == "4.3 plateau 0: a single winner (gap)"
    flat = QuadraticLoss(jnp.ones((2, 2)), jnp.ones(2))
    stage = stages[0]._replace(beta=np.array([0.5, 0.5]))
    assert not assumptions.strict_minimum(flat, stage).holds


def test_a_coordinate_under_a_weak_force_is_given_the_time_it_needs():
    separable = QuadraticLoss(jnp.eye(2), jnp.array([1.0, 0.05]))
    stages = greedy_stages(separable, 2)
    assert assumptions.noise_robust(separable, stages[1], stages[2], draws=5).holds


@pytest.mark.parametrize("scale", [1e-8, 1e-32])
def test_lemmas_d1_to_d3_hold_at_random_weights_and_the_check_can_fail(scale):
    rng = np.random.default_rng(0)
    pace = -np.log(scale)
    b = rng.uniform(-0.5, 2.5, 2000)
    kappa = rng.uniform(0.5, 2, 2000) * scale**2
    w = np.exp(-pace * b)
    u, v = (w + kappa / w) / 2, (w - kappa / w) / 2
    assert all(finding.holds for finding in assumptions.log_scale_lemmas(u, v, b, scale, margin=0.3))
    assert not assumptions.log_scale_lemmas(u, -v, b, scale, margin=0.3)[2].holds


def test_lemma_c5_bounds_a_plateau(head):
    numbers, task, stages = head
    stage, times = stages[4], np.linspace(2.8, 2.9, 5)
    trace = reduced_flow(task, numbers.u, numbers.v, [1e-64], times)
    inactive = np.abs(trace["product"].values[0][:, stage.beta == 0]).max() ** 0.5
    curvature = assumptions.strict_minimum(task, stage).number / 2
    moved = np.sqrt(np.abs(trace["product"].values[0])) - np.sqrt(np.abs(stage.beta))
    distance = np.sqrt(2) * np.linalg.norm(moved, axis=1).max()
    assert distance < assumptions.plateau_bound(inactive, 5.0, curvature)


def test_a_loss_that_is_no_number_has_no_plateaus():
    with pytest.raises(ValueError, match="loss and its gradient must be finite"):
        greedy_stages(lambda beta: jnp.nan * beta.sum(), size=2)
