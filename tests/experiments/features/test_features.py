"""What the experiments on feature learning count and choose, against cases made by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr

import dynascope as ds
from dynascope.dynamics import rates
from dynascope.experiments.catapult.deep_experiment import Network
from dynascope.experiments.features.batch_experiment import RECORDINGS
from dynascope.experiments.features.batch_size import SmallBatchesTeachFeatures, top_shares
from dynascope.experiments.features.full_rank import NothingToAlign
from dynascope.experiments.features.gradient_descent import CatapultsTeachFeatures
from dynascope.experiments.features.learning_rate import SmallRatesForgetBatches
from dynascope.experiments.features.near_zero import NearZero
from dynascope.experiments.features.optimizers import TABLE, OptimizersAlign
from dynascope.experiments.features.outcomes import best_iterate, larger, with_results
from dynascope.lab import registry
from dynascope.lab.errors import UsageError
from dynascope.lab.fields import build


def made(train, validation, phase=None):
    count = len(train)
    variables = {"train": train, "validation": validation}
    variables |= {"test": np.arange(count) / 10.0, "alignment": np.arange(count) / 100.0}
    if phase is not None:
        variables["rate_phase"] = phase
    found = {name: (("catapults", "seed", "step"), np.array(values)[None, None]) for name, values in variables.items()}
    corner = np.zeros((1, 1, count, 2, 2))
    found["alignment_corner"] = (("catapults", "seed", "step", "row", "column"), corner)
    return xr.Dataset(found, {"step": 10 * np.arange(count), "catapults": [0]})


def test_the_best_iterate_has_the_smallest_validation_loss():
    best = best_iterate(made([1, 0.5, 0.2, 0.1], [1, 0.3, 0.4, 0.5]))
    assert best["at"].item() == 10
    assert best.test.item() == 0.1
    assert best.alignment.item() == 0.01


def test_it_is_not_taken_from_within_a_catapult():
    settled, raised = rates.SETTLED, rates.RAISED
    trace = made([1, 0.5, 0.2, 0.1], [1, 0.3, 0.1, 0.4], [settled, settled, raised, settled])
    assert best_iterate(trace)["at"].item() == 10


def test_seeds_without_a_result_are_left_out_and_claims_about_none_fail():
    found = xr.Dataset({"test": (("start", "seed"), [[0.1, np.nan], [0.2, 0.3]])})
    assert with_results(found).test.values.tolist() == [[0.1], [0.2]]
    none = with_results(found.where(found.seed < 0))
    claim = larger("larger", "The second is larger", none.test[1], none.test[0])
    assert claim.verdict == "fails"


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


def test_what_a_run_does_after_its_stop_does_not_matter():
    best = best_iterate(made([1, 5e-4, np.nan], [1, 0.3, np.nan]))
    assert best["at"].item() == 10


def test_it_is_not_taken_from_after_the_stop():
    trace = made([1, 0.5, 5e-4, 0.1, 5e-4], [1, 0.9, 0.5, 0.2, 0.1])
    assert best_iterate(trace)["at"].item() == 20


def test_super_critical_steps_are_counted_as_by_hand():
    experiment = SmallBatchesTeachFeatures(
        dim=3,
        samples=12,
        held_out=10,
        width=8,
        seeds=1,
        batches=(3, 12),
        steps=(RECORDINGS, RECORDINGS),
        ratio=0.9,
        spike_steps=3,
    )
    measured = experiment.measure(0)["training"]
    given = experiment.problem(0)
    x, y = jnp.asarray(given.x[0]), jnp.asarray(given.y[0])
    start = Network("fcn", 2, 8, "ntk", False)(jax.random.key(0), (3,))

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
    draw = jax.jit(lambda t: process.draw(t))
    rate, weights, count = 0.9 * critical(start.weights, x), start.weights, [0]
    for t in range(RECORDINGS):
        batch = draw(jnp.asarray(t, jnp.int32))
        points, labels = x[batch], y[batch]
        count.append(count[-1] + int(critical(weights, points) < rate))
        gradient = slope(weights, points, labels)
        weights = jax.tree.map(lambda w, g: w - rate.astype(np.float32) * g, weights, gradient)
    found = measured.supercritical.sel(batch=3).values[0]
    assert 0 < count[-1] < RECORDINGS
    assert np.mean(found == count) > 0.9  # a tie may go either way by rounding
    np.testing.assert_allclose(found[:5], count[:5])


def test_the_share_of_a_spike_is_that_of_its_rise():
    loss = np.array([[1.0, 2.0, 1.5, 1.6, 4.0], [1.0, 0.9, np.nan, 1.0, 1.0]])
    top = np.array([[0.2, 1.1, 0.5, 0.6, 0.5], [0.0, 0.0, 0.0, 0.0, 0.0]])
    np.testing.assert_allclose(top_shares(loss, top), [0.9, -0.1 / 2.4])


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="steps must have a number for each of 2 batches; got 1"):
        SmallBatchesTeachFeatures(batches=(5, 2000), steps=(100,))
    with pytest.raises(ValueError, match="batches must be at most samples=2000; got 4000"):
        SmallBatchesTeachFeatures(batches=(5, 4000), steps=(100, 100))
    with pytest.raises(ValueError, match="got 'lion'"):
        OptimizersAlign(optimizers=("gd", "lion"))
    assert all(set(row) == set(rates.OPTIMIZERS) for row in TABLE.values())


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        (SmallBatchesTeachFeatures, {"flips": 0.1}, "flips has no effect with data=rank-2: leave it at 0.0; got 0.1"),
        (NearZero, {"reference_steps": 5}, "reference_steps has no effect with data=rank-2"),
        (CatapultsTeachFeatures, {"data": "svhn", "dim": 30}, "dim has no effect with data=svhn: leave it at 100"),
        (CatapultsTeachFeatures, {"data": "svhn", "noise": 0.5}, "noise has no effect with data=svhn"),
        (
            CatapultsTeachFeatures,
            {"architecture": "cnn", "depth": 5},
            "data=rank-2 has no images: architecture must be fcn; got cnn",
        ),
        (
            CatapultsTeachFeatures,
            {"data": "svhn", "architecture": "myrtle"},
            "depth must be 5 with architecture=myrtle; got 2",
        ),
        (SmallBatchesTeachFeatures, {"rate": 0.1, "ratio": 0.3}, "ratio has no effect where rate is given"),
        (SmallRatesForgetBatches, {"small_rate": 0.1, "small_ratio": 0.3}, "small_ratio has no effect where"),
    ],
)
def test_a_field_without_effect_is_refused(kind, fields, said):
    with pytest.raises(UsageError, match=said) as error:
        build(kind, fields)
    assert "\n" not in str(error.value)


KINDS = [registry.load(entry.id) for entry in registry.entries() if entry.id.startswith("features.")]
TRAINING_EXAMPLES = {"cifar10": 2 * 5000, "fashion_mnist": 2 * 6000, "mnist": 5923 + 5958, "usps": 1194 + 731}
TRAINING_EXAMPLES |= {"svhn": 4948 + 10585, "celeba": 182637}
"""How many the official sets have of the two classes."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_preset_has_a_control_and_asks_for_no_more_examples_than_there_are(kind):
    for preset in kind.presets:
        build(kind, {}, preset=preset, control=True)
        experiment = build(kind, {}, preset=preset)
        assert experiment.samples <= TRAINING_EXAMPLES.get(experiment.data, np.inf), preset


def test_a_small_rate_may_be_absolute(monkeypatch):
    small = {"dim": 20, "samples": 12, "held_out": 4, "seeds": 2, "batches": (3, 4), "steps": (RECORDINGS, RECORDINGS)}
    asked = {}

    def train(self, given, rates, seed, **how):
        asked.update(how, rates=rates)
        return xr.Dataset(coords={"ratio": [0, 1]})

    monkeypatch.setattr(SmallRatesForgetBatches, "train", train)
    monkeypatch.setattr(SmallRatesForgetBatches, "critical_at_start", lambda *_: np.array([4.0, 8.0], np.float32))
    measured = build(SmallRatesForgetBatches, small, preset="rate-0.1").measure(0)
    np.testing.assert_allclose(asked["rates"], [[2.0, 4.0], [0.1, 0.1]], rtol=1e-6)
    assert asked["stretch"] == (1, 30)  # so many more steps as the rate is smaller
    np.testing.assert_allclose(measured.ratio, [0.5, (0.1 / 4 + 0.1 / 8) / 2], rtol=1e-6)


def test_the_comparison_at_equal_training_loss_looks_where_it_says():
    steps = 5
    train = np.array([[[1, 0.8, 0.6, 0.5, 0.4]], [[1, 0.3, 2.0, 0.39, 0.1]]])
    aligned = np.array([[[0.1, 0.2, 0.3, 0.4, 0.5]], [[0.1, 0.9, 0.2, 0.6, 0.9]]])
    phase = np.array([[[2] * 5], [[0, 0, 1, 2, 2]]])
    done = np.array([[[0] * 5], [[0, 0, 0, 2, 2]]])
    dims = ("catapults", "seed", "step")
    variables = {"train": train, "alignment": aligned, "rate_phase": phase, "rate_catapults": done}
    variables |= {"validation": train, "test": train}
    trace = xr.Dataset(
        {name: (dims, values) for name, values in variables.items()}, {"step": np.arange(steps), "catapults": [0, 2]}
    )
    reduced = CatapultsTeachFeatures(seeds=1, catapults=(0, 2)).reduce(trace, None)
    assert reduced.loss_few.values == 0.4
    assert reduced.alignment_few.values == 0.5
    assert reduced.alignment_many.values == 0.6


def test_an_optimizer_that_diverges_is_left_out_and_counted():
    def judged(aligned):
        dims = ("optimizer", "seed")
        found = xr.Dataset(
            {"alignment": (dims, aligned), "test": (dims, 1.5 - aligned)}, attrs={"data": "made by hand"}
        )
        return {claim.id: claim for claim in OptimizersAlign(seeds=2).judge(found)}

    aligned = np.array([[0.5, 0.6], [0.7, 0.8], [0.9, 0.95], [np.nan, np.nan]])
    said = judged(aligned)
    assert said["correlation"].verdict == "holds"
    assert said["correlation"].measured["points"] == 6
    assert said["between-optimizers"].verdict == "fails"  # of three points nothing can be said
    assert said["results"].verdict == "holds"
    aligned[:3, 0] = np.nan
    assert judged(aligned)["results"].verdict == "fails"


def through_catapults(done, aligned):
    """Runs of two seeds asked for 0 and 2 catapults, looked at twice; the test loss falls as alignment rises."""
    dims, shape = ("catapults", "seed", "step"), (2, 2, 2)
    aligned = np.broadcast_to(np.array(aligned)[:, :, None], shape)
    variables = {"train": np.full(shape, 0.5), "validation": 1 - aligned, "test": 1 - aligned, "alignment": aligned}
    variables |= {"rate_phase": np.full(shape, rates.SETTLED), "rate": np.ones(shape)}
    variables["rate_catapults"] = np.broadcast_to(np.array(done)[:, :, None], shape)
    trace = xr.Dataset(
        {name: (dims, values) for name, values in variables.items()}, {"step": [0, 10], "catapults": [0, 2]}
    )
    return trace.assign_attrs(data="made by hand")


@pytest.mark.parametrize(("kind", "better"), [(CatapultsTeachFeatures, 0.9), (NothingToAlign, 0.2)])
def test_a_claim_about_catapults_needs_them_to_be_complete(kind, better):
    experiment = kind(seeds=2, catapults=(0, 2))
    aligned = [[0.2, 0.21], [better, better + 0.02]]
    complete, short = (experiment.reduce(through_catapults([[0, 0], [2, last]], aligned), None) for last in (2, 1))
    assert next(iter(experiment.judge(complete))).verdict == "holds"
    said = {claim.id: claim.verdict for claim in experiment.judge(short)}
    assert (said["alignment"], said["results"]) == ("fails", "fails")  # one seed is left, and three runs of four
