"""What the experiments on feature learning count and choose, against cases made by hand."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr
from scipy import stats

import dynascope as ds
from dynascope.dynamics import rates
from dynascope.experiments.feature_learning.batch_size import LOOKS, SmallBatchesTeachFeatures
from dynascope.experiments.feature_learning.full_rank import NothingToAlign
from dynascope.experiments.feature_learning.gradient_descent import CatapultsTeachFeatures
from dynascope.experiments.feature_learning.learners import Shape, best_iterate, lost
from dynascope.experiments.feature_learning.optimizers import TABLE, OptimisersAlign
from dynascope.experiments.feature_learning.problems import problem
from dynascope.experiments.feature_learning.spikes import top_shares
from dynascope.experiments.feature_learning.statistics import correlation, paired_difference


def made(train, validation, phase=None):
    count = len(train)
    variables = {
        "train": train, "validation": validation, "test": np.arange(count) / 10.0, "alignment": np.arange(count) / 100.0
    }  # fmt: skip
    if phase is not None:
        variables["rate_phase"] = phase
    found = {name: (("count", "seed", "step"), np.array(values)[None, None]) for name, values in variables.items()}
    corner = np.zeros((1, 1, count, 2, 2))
    found["alignment_corner"] = (("count", "seed", "step", "row", "column"), corner)
    return xr.Dataset(found, {"step": 10 * np.arange(count), "count": [0]})


def test_the_best_iterate_has_the_smallest_validation_loss():
    best = best_iterate(made([1, 0.5, 0.2, 0.1], [1, 0.3, 0.4, 0.5]))
    assert best["at"].item() == 10
    assert best.test.item() == 0.1
    assert best.alignment.item() == 0.01


def test_it_is_not_taken_from_within_a_catapult():
    settled, raised = rates.SETTLED, rates.RAISED
    trace = made([1, 0.5, 0.2, 0.1], [1, 0.3, 0.1, 0.4], [settled, settled, raised, settled])
    assert best_iterate(trace)["at"].item() == 10


@pytest.mark.parametrize(
    ("train", "validation", "phase"),
    [
        ([1, np.nan, np.nan], [1, np.nan, np.nan], None),  # diverged at once
        ([1, 0.5, np.nan], [1, 0.3, np.nan], None),  # and late
        ([1, 0.5, 0.2], [np.nan, np.nan, np.nan], None),
        ([1, 0.5, 0.2], [1, 0.5, 0.2], [rates.RAISED] * 3),  # nothing is allowed
    ],
)
def test_a_run_that_diverges_or_never_settles_has_none(train, validation, phase):
    best = best_iterate(made(train, validation, phase))
    assert np.isnan([best.test.item(), best.alignment.item(), best["at"].item()]).all()
    assert np.isnan(best.alignment_corner).all()
    assert "1 of 1 runs" in lost(best)


def test_what_a_run_does_after_its_stop_does_not_matter():
    best = best_iterate(made([1, 5e-4, np.nan], [1, 0.3, np.nan]))
    assert best["at"].item() == 10
    assert not lost(best)


def test_it_is_not_taken_from_after_the_stop():
    trace = made([1, 0.5, 5e-4, 0.1, 5e-4], [1, 0.9, 0.5, 0.2, 0.1])
    assert best_iterate(trace)["at"].item() == 20


def test_intervals_are_those_of_student_and_fisher():
    one, other = np.array([1.0, 2.0, 4.0, 4.5, 7.0]), np.array([0.5, 1.5, 2.0, 4.0, 5.0])
    found = paired_difference(one, other)
    low, high = stats.t.interval(0.95, 4, loc=np.mean(one - other), scale=stats.sem(one - other))
    np.testing.assert_allclose([found["mean"], *found["interval"]], [np.mean(one - other), low, high])
    related = correlation(one, -other)
    exact = stats.pearsonr(one, -other)
    np.testing.assert_allclose(related["pearson"], exact.statistic)
    interval = exact.confidence_interval(0.95)
    np.testing.assert_allclose(related["interval"], [interval.low, interval.high], rtol=1e-4)
    np.testing.assert_allclose(related["spearman"], stats.spearmanr(one, -other).statistic)
    assert correlation([1, 1, 1, 1], [1, 2, 3, 4])["interval"] == [-1.0, 1.0]


def test_every_seed_has_data_of_its_own_and_the_same_seed_the_same():
    sizes = dict(dim=4, samples=20, held_out=5, noise=0.1)
    one, again, other = (problem("rank-2", 2, seed, **sizes) for seed in (0, 0, 1))
    assert one.x.shape == (2, 20, 4)
    assert one.x_test.shape == (2, 5, 4)
    np.testing.assert_array_equal(one.x, again.x)
    assert not np.array_equal(one.x[0], one.x[1])
    assert not np.array_equal(one.x, other.x)
    np.testing.assert_allclose(np.var(one.y - one.x[..., 0] * one.x[..., 1]), 0.01, rtol=0.6)


@pytest.mark.skipif("DYNASCOPE_DATA" not in os.environ, reason="needs fashion_mnist.npz in $DYNASCOPE_DATA")
def test_a_real_set_takes_its_outer_product_from_a_network_that_is_good_at_it(monkeypatch):
    monkeypatch.setattr("dynascope.experiments.feature_learning.problems.REFERENCE_STEPS", 40)
    given = problem("fashion_mnist", 2, 0, dim=0, samples=64, held_out=1000, noise=0.0, flips=0.25)
    assert given.x.shape == (2, 64, 784)
    assert given.x_test.shape == given.x_validation.shape == (2, 200, 784)
    assert given.target.shape == (784, 784)
    right = float(given.about.split("right on ")[1].split("%")[0])
    assert right > 80


def test_super_critical_steps_are_counted_as_by_hand():
    experiment = SmallBatchesTeachFeatures(
        dim=3,
        samples=12,
        held_out=10,
        width=8,
        seeds=1,
        batches=(3, 12),
        steps=(LOOKS, LOOKS),
        ratio=0.9,
        spike_steps=3,
    )
    measured = experiment.measure(0)
    given = experiment.problem(0)
    x, y = jnp.asarray(given.x[0]), jnp.asarray(given.y[0])
    start = Shape(2, 8, False, "ntk").network(jnp.asarray(0, jnp.int32), 3)

    def outputs(weights, points):
        return jax.nn.relu(points @ weights[0].T / np.sqrt(3)) @ weights[1].T[:, 0] / np.sqrt(8)

    @jax.jit
    def rows(weights, points):
        jacobians = jax.jacrev(outputs)(weights, points)
        return jnp.concatenate([part.reshape(len(points), -1) for part in jacobians], axis=1)

    @jax.jit
    def slope(weights, points, labels):
        return jax.grad(lambda w: jnp.mean((outputs(w, points) - labels) ** 2))(weights)

    def critical(weights, points):
        jacobian = rows(weights, points)
        return len(points) / np.linalg.eigvalsh(np.asarray(jacobian @ jacobian.T, float))[-1]

    np.testing.assert_allclose(measured.critical[0], critical(start.weights, x), rtol=1e-3)
    key = jax.random.fold_in(jax.random.key(0), 1)
    process = ds.Descent(start.weights, lambda w, b: 0.0, optax.sgd(0.1), data=(x, y), batch=3, key=key)
    draw = jax.jit(lambda t, order: process._draw(t, order))
    rate, weights, order, count = 0.9 * critical(start.weights, x), start.weights, jnp.zeros(8, jnp.uint32), [0]
    for t in range(LOOKS):
        order, batch = draw(jnp.asarray(t, jnp.int32), order)
        points, labels = batch.data
        count.append(count[-1] + int(critical(weights, points) < rate))
        gradient = slope(weights, points, labels)
        weights = jax.tree.map(lambda w, g: w - rate.astype(np.float32) * g, weights, gradient)
    found = measured.supercritical.sel(batch=3).values[0]
    assert 0 < count[-1] < LOOKS
    assert np.mean(found == count) > 0.9  # a tie may go either way by rounding
    np.testing.assert_allclose(found[:5], count[:5])


def test_the_share_of_a_spike_is_that_of_its_rise():
    loss = np.array([[1.0, 2.0, 1.5, 1.6, 4.0], [1.0, 0.9, np.nan, 1.0, 1.0]])
    top = np.array([[0.2, 1.1, 0.5, 0.6, 0.5], [0.0, 0.0, 0.0, 0.0, 0.0]])
    np.testing.assert_allclose(top_shares(loss, top), [0.9, -0.1 / 2.4])


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="steps says for each of 2"):
        SmallBatchesTeachFeatures(batches=(5, 2000), steps=(100,))
    with pytest.raises(ValueError, match="at most the 2000 examples"):
        SmallBatchesTeachFeatures(batches=(5, 4000), steps=(100, 100))
    with pytest.raises(ValueError, match="got 'lion'"):
        OptimisersAlign(optimisers=("gd", "lion"))
    assert all(set(row) == set(rates.OPTIMISERS) for row in TABLE.values())


def test_the_comparison_at_equal_training_loss_looks_where_it_says():
    count, steps = 2, 5
    train = np.array([[[1, 0.8, 0.6, 0.5, 0.4]], [[1, 0.3, 2.0, 0.39, 0.1]]])
    aligned = np.array([[[0.1, 0.2, 0.3, 0.4, 0.5]], [[0.1, 0.9, 0.2, 0.6, 0.9]]])
    phase = np.array([[[2] * 5], [[0, 0, 1, 2, 2]]])
    done = np.array([[[0] * 5], [[0, 0, 0, 2, 2]]])
    dims = ("count", "seed", "step")
    trace = xr.Dataset(
        {"train": (dims, train), "alignment": (dims, aligned), "rate_phase": (dims, phase),
         "rate_catapults": (dims, done), "rate": (dims, np.ones((count, 1, steps)))},
        {"step": np.arange(steps)},
    )  # fmt: skip
    said = CatapultsTeachFeatures(seeds=1, catapults=(0, 2))._at_equal_loss(trace)
    assert said.verdict == "holds"
    assert said.measured["at step"] == [3]
    assert said.measured["alignment with"] == [0.6]


def outcomes(aligned, test):
    dims = ("optimiser", "seed")
    return xr.Dataset({"alignment": (dims, aligned), "test": (dims, test)}).assign_attrs(data="made by hand")


def test_an_optimiser_that_diverges_is_left_out_and_counted():
    names = ("gd", "sgd", "momentum", "adam")
    aligned = np.array([[0.5, 0.6], [0.7, 0.8], [0.9, 0.95], [np.nan, np.nan]])
    said, between = OptimisersAlign(seeds=2, optimisers=names).judge(outcomes(aligned, 1.5 - aligned), None)
    assert said.verdict == "holds"
    assert "2 of 8 runs diverged and are left out" in said.statement
    assert said.measured["points"] == 6
    assert said.measured["without a result"] == [0, 0, 0, 2]
    assert between.verdict == "fails"  # of three points nothing can be said

    aligned[:3, 0] = np.nan
    said, _ = OptimisersAlign(seeds=2, optimisers=names).judge(outcomes(aligned, 1.5 - aligned), None)
    assert said.verdict == "fails"
    assert "5 of 8 runs diverged" in said.diagnosis


def through_catapults(done, aligned):
    """Runs of two seeds asked for 0 and 2 catapults, looked at twice; the test loss falls as alignment rises."""
    dims, shape = ("count", "seed", "step"), (2, 2, 2)
    aligned = np.broadcast_to(np.array(aligned)[:, :, None], shape)
    variables = {
        "train": np.full(shape, 0.5), "validation": 1 - aligned, "test": 1 - aligned, "alignment": aligned,
        "rate_phase": np.full(shape, rates.SETTLED), "rate": np.ones(shape),
        "rate_catapults": np.broadcast_to(np.array(done)[:, :, None], shape),
    }  # fmt: skip
    trace = xr.Dataset({name: (dims, values) for name, values in variables.items()}, {"step": [0, 10], "count": [0, 2]})
    return trace.assign_attrs(data="made by hand")


@pytest.mark.parametrize(("kind", "better"), [(CatapultsTeachFeatures, 0.9), (NothingToAlign, 0.2)])
def test_a_claim_about_catapults_needs_them_to_be_complete(kind, better):
    experiment = kind(seeds=2, catapults=(0, 2))
    aligned = [[0.2, 0.21], [better, better + 0.02]]
    complete, short = (through_catapults([[0, 0], [2, last]], aligned) for last in (2, 1))
    assert next(iter(experiment.judge(complete, None))).verdict == "holds"
    said = {claim.id: claim for claim in experiment.judge(short, None)}
    for name in set(said) & {"alignment", "test-loss", "monotone", "correlation"}:
        assert said[name].verdict == "fails", name
        assert "1 of 4 runs did not complete their catapults" in said[name].diagnosis
