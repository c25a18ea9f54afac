"""The experiments on the symmetric model f(x) = U U^T x, and what they share."""

import jax
import numpy as np
import pytest

import dynascope as ds
from dynascope.curves import stages
from dynascope.experiments.concept import lemma_paths, symmetric_experiment
from dynascope.experiments.concept.descent_stages import alternation, off_reference, turns_of
from dynascope.experiments.concept.failure_mode import FailureMode
from dynascope.experiments.concept.initialization_breakdown import InitializationBreakdown
from dynascope.experiments.concept.jacobian_stages import JacobianStages
from dynascope.experiments.concept.multiple_descents import QuadrupleDescent, TripleDescent
from dynascope.experiments.concept.published_figures import PublishedFigures
from dynascope.experiments.concept.symmetric_drawing import draw_partition
from dynascope.experiments.concept.training_trajectory import TrainingTrajectory
from dynascope.theory.concept.staged_path import predicted_runs


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        yield


def verdicts(experiment):
    """What the experiment says of each claim, and its measurement."""
    measured = experiment.measure(0)
    reduced = experiment.reduce(measured, experiment.predict(measured))
    return {claim.id: claim for claim in experiment.judge(reduced)}, measured, reduced


def test_training_and_the_faster_scan_are_the_same_descent():
    experiment = TripleDescent(steps=500)
    starts = experiment.gaussian(range(5), 0.3)
    trained = experiment.train(starts)
    scanned = symmetric_experiment.StartScan()
    fixed = {"mu": np.array(experiment.mu), "sigma": np.array(experiment.sigma), "learning_rate": np.float64(0.01)}
    again = ds.ensemble(scanned, {"start": starts}, steps=500, record=1, fixed=fixed).trace
    np.testing.assert_allclose(again.test_loss, trained.test_loss, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(again.loss, trained.loss, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(again.majors, np.diagonal(trained.W.values, axis1=2, axis2=3), rtol=1e-9)


def test_a_scan_counts_descents_as_if_it_recorded_every_step():
    experiment = TripleDescent(steps=3000)
    starts = experiment.aligned(range(40), 0.5, 0.03)
    scanned = experiment.scan(starts, (0.005, 0.01))
    curves = experiment.train(starts).test_loss.values
    for row, tolerance in zip(scanned.descents.values, (0.005, 0.01), strict=True):
        np.testing.assert_array_equal(row, stages.descents(curves, tolerance))


def test_scans_in_chunks_are_one_scan(monkeypatch):
    experiment = JacobianStages(steps=200)
    starts = experiment.gaussian(range(10))
    whole = experiment.scan(starts)
    monkeypatch.setattr(symmetric_experiment, "SCAN_CHUNK", 4)
    np.testing.assert_array_equal(experiment.scan(starts).half_step, whole.half_step)


def test_small_starts_follow_the_staged_prediction():
    experiment = TripleDescent(scale=0.01)
    run = experiment.train(experiment.gaussian([62]))
    predicted = predicted_runs(run, experiment.mu, experiment.sigma, experiment.learning_rate)
    assert float(np.abs(predicted.W - run.W.values).max()) < 0.03
    for each in (predicted, run):
        assert int(turns_of(each.test_loss.values, 0.003, 6).sel(reading="step").notnull().sum()) == 4


@pytest.mark.parametrize("kind", [TripleDescent, QuadrupleDescent])
def test_the_chosen_starts_have_as_many_descents_as_concepts(kind):
    claims, measured, _ = verdicts(kind(starts=20, aligned_starts=20, grid_starts=2))
    shown = [name for name in claims if name not in ("shares", "aligned-map")]
    assert {name for name in shown if claims[name].verdict != "holds"} == kind.known_failures.keys()
    shown = measured["chosen"].to_dataset().isel(start=0)
    stage = alternation(shown.W.values, shown.test_loss.values, kind().strengths, 0.01)
    assert stage.in_descent.all()


def test_a_reference_is_not_matched_by_another_run():
    experiment = TripleDescent()
    starts = experiment.gaussian([62, 62, 61]) * np.array([1.0, 1.05, 1.0])[:, None, None]
    turns = turns_of(experiment.train(starts).test_loss.values, 0.01, 6)
    right, larger, other = off_reference(turns, TripleDescent.references[:1] * 3)
    assert right < 1 < larger < other == np.inf


def test_stages_without_their_descents_are_none():
    experiment = JacobianStages(scale=0.001)
    run = experiment.train(experiment.gaussian([3]))
    stage = alternation(run.W.values[0], run.test_loss.values[0], experiment.strengths, 0.01)
    assert not stage.in_descent.any()
    assert np.isnan(stage.group_left).all()


@pytest.mark.slow
def test_a_narrow_model_fails_forever_and_a_plateau_ends():
    few = {"starts": 50, "narrow_starts": 5, "aligned_starts": 20, "narrow_steps": 2000}
    claims, _, _ = verdicts(FailureMode(**few))
    names = ("lasting-failure", "missing-concept", "rank-kept", "plateau", "overlay", "plateau-ends", "plateau-length")
    assert [claims[name].verdict for name in names] == ["holds"] * 5 + ["erratum", "holds"]


def test_starts_are_late_as_in_a_program_without_the_library():
    experiment = FailureMode()
    starts = experiment.gaussian(range(200))
    U, A = starts, np.diag(np.square(experiment.mu) / 3 + np.square(experiment.sigma))
    for _ in range(experiment.steps):
        D = (U @ U.transpose(0, 2, 1) - np.eye(3)) @ A
        U = U - experiment.learning_rate * (D + D.transpose(0, 2, 1)) @ U
    majors = experiment.scan(starts, steps=experiment.steps).majors.values
    assert np.allclose(majors, np.sum(U**2, axis=-1), rtol=0, atol=1e-9)


def test_negative_minors_never_give_two_descents():
    experiment = InitializationBreakdown()
    starts = experiment.gaussian(range(600))
    twice = experiment.scan(starts).descents.values[0] > 1
    negative = np.sum(starts[:, 0] * starts[:, 1], axis=1) < 0
    assert not twice[negative].any()
    assert 0.4 < twice[~negative].mean() < 0.6


def test_training_outputs_leave_their_axes_together():
    claims, _, _ = verdicts(TrainingTrajectory(starts=50))
    fails = {name for name, claim in claims.items() if claim.verdict != "holds"}
    assert fails == {"irregular-at-different-stages"}


def test_published_figures_have_smaller_rises_with_the_printed_equation():
    experiment = PublishedFigures()
    claims, measured, reduced = verdicts(experiment)
    assert {claim.verdict for claim in claims.values()} == {"holds", "erratum"}
    kinds = {name: claim.kind for name, claim in claims.items() if claim.kind}
    assert kinds == {
        "squared-moment": "program",
        "no-failure": "error",
        "negative-major": "program",
        "plateau-not-failure": "program",
    }
    assert set(experiment.draw(measured, None, reduced)) == {
        "published-figures",
        "published-figures-descending-on-u",
        "published-figures-entries",
    }


def test_lemmas_hold_on_a_regular_path_and_break_on_singular_ones():
    measured = lemma_paths.measure_lemmas((lemma_paths.SMALL[0], *lemma_paths.SINGULAR))
    claims = {claim.id: claim.verdict for claim in lemma_paths.judge_lemmas(measured)}
    assert claims.pop("lemmas") == claims.pop("exit-times") == "holds"
    assert set(claims.values()) == {"erratum"}


def test_no_figure_satisfies_the_assumptions():
    claims = {claim.id: claim.verdict for claim in lemma_paths.judge_assumptions(lemma_paths.reduce_assumptions())}
    assert claims.pop("repair-infeasible") == "holds"
    assert set(claims.values()) == {"erratum"}


def test_the_partition_is_drawn_with_every_entry():
    figure = draw_partition(5, 2)
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert len(texts) == 25
    assert texts.count("") == 9
