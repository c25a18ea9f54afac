"""The helpers of the experiments on diagonal networks: what they choose and count, and what they refuse."""

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from pydantic import ValidationError

from dynascope.experiments.rank.diagonal_head import activations, against_stages, record_times, regression
from dynascope.experiments.rank.diagonal_transformer import DiagonalTransformerRank, first_race
from dynascope.experiments.rank.noise_robustness import NoiseRobustness
from dynascope.experiments.rank.perturbation_stability import PerturbationStability, weight_sizes
from dynascope.experiments.rank.perturbed_diagonal_head import State
from dynascope.experiments.rank.stage_times import StageTimes
from dynascope.experiments.rank.staircase import Staircase
from dynascope.experiments.rank.weights import RankWeights
from dynascope.lab.errors import UsageError
from dynascope.lab.fields import build
from dynascope.lab.machine import precision
from dynascope.tasks.diagonal import QuadraticLoss, exit_and_return
from dynascope.theory.rank.diagonal_flow import Reduced, product, reduced_flow, weights
from dynascope.theory.rank.greedy_ranks import Stage, greedy_stages

SMALL = {"dim": 2, "tokens": 2, "samples": 10, "kept": None}


def plateau(time, wait, gap):
    waits = np.array([wait, wait + gap])
    return Stage(time, 0, 1, np.ones(2), np.zeros(2), np.ones(2), 0.0, (), (0,), waits, gap, 0.0, True, 1.0)


def test_a_scale_of_zero_and_wrong_sizes_get_one_line() -> None:
    with pytest.raises(UsageError) as error:
        build(RankWeights, {"scale": 0.0}, preset="quick")
    assert "scale" in str(error.value)
    assert "\n" not in str(error.value)
    with pytest.raises(UsageError):
        build(Staircase, {"scales": (1e-4, 1.0)}, preset="quick")
    with pytest.raises(ValidationError):
        RankWeights(dim=0)
    with pytest.raises(ValueError, match="kept must be an integer, at least 1 and at most 2; got 5"):
        RankWeights(dim=2, kept=5).head(0)


def test_perturbations_leave_negligible_weights_alone_and_balanced_ones_balanced() -> None:
    experiment = PerturbationStability(**SMALL)
    with precision(True, "highest"):
        state_u, state_v = np.array([0.9, 1e-9, 0.5, 1e-12]), np.array([0.89, 5e-10, -0.49, 1e-13])
        log_kappa = np.log(state_u**2 - state_v**2)
        state = State(log_kappa, np.arctanh(state_v / state_u))
        perturbed = experiment.perturbed(state, 0.05, np.random.default_rng(0))
        points = {name: Reduced(*(np.asarray(part) for part in one)) for name, one in perturbed.items()}
        betas = {name: np.asarray(product(Reduced(*map(jnp.asarray, point)))) for name, point in points.items()}
        u, v = (np.asarray(part) for part in weights(Reduced(*map(jnp.asarray, points["balanced"]))))
    np.testing.assert_allclose(betas["unperturbed"], state_u * state_v, rtol=1e-8)
    for name in ("perturbed", "balanced"):
        assert np.all(np.abs(betas[name] - betas["unperturbed"])[[0, 2]] > 1e-3)
        np.testing.assert_array_equal(betas[name][[1, 3]], betas["unperturbed"][[1, 3]])
    np.testing.assert_allclose(np.abs(u)[[0, 2]], np.abs(v)[[0, 2]], rtol=1e-12)
    assert np.sign(betas["balanced"]).tolist() == np.sign(betas["unperturbed"]).tolist()


@pytest.mark.long
def test_two_heads_of_a_layer_tie_and_one_does_not() -> None:
    experiment = DiagonalTransformerRank(samples=20)
    with precision(True, "highest"):
        assert first_race(experiment.problem(0, 2)[0]).gap == 0
        assert first_race(experiment.problem(0, 1)[0]).gap > 1e-3


def test_the_teacher_of_a_seed_is_the_same_in_every_experiment() -> None:
    with precision(True, "highest"):
        one = regression(RankWeights(**SMALL).head(3))
        other = regression(PerturbationStability(**SMALL).head(3))
    np.testing.assert_array_equal(one.y, other.y)


def test_activations_are_every_rise_of_an_entry_with_its_sign() -> None:
    times = np.arange(5.0)
    path = np.array([[-1e-5, 1.0], [-1e-2, 1e-9], [-1e-9, -1e-9], [1e-9, -1.0], [1e-4, -1.0]])
    found = activations(path, times)
    assert [(one.coordinate, one.sign) for one in found] == [(1, 1), (0, -1), (1, -1)]
    np.testing.assert_allclose([one.time for one in found], [0.0, 2 / 3, 2 + 6 / 9])


@pytest.fixture(scope="module")
def returning():
    """The linear example, one coordinate of which leaves and returns: Algorithm 1, and the exact flow from 1e-32."""
    example = exit_and_return()
    with precision(True, "highest"):
        task = QuadraticLoss(jnp.asarray(example.S), jnp.asarray(example.c))
        flow = reduced_flow(task, example.u, example.v, [1e-32], np.linspace(0, 8.9, 600))
        return greedy_stages(task, 4), flow.isel(scale=0, drop=True).expand_dims(seed=[0])


def verdicts(experiment, measured, stages, monkeypatch):
    monkeypatch.setattr(type(experiment), "stages", lambda self, measured: [stages])
    return {
        claim.id: claim.verdict for claim in experiment.judge(experiment.reduce(measured, experiment.predict(measured)))
    }


def test_weights_hold_of_an_exact_flow_in_which_a_coordinate_returns(returning, monkeypatch) -> None:
    stages, flow = returning
    found = verdicts(RankWeights(horizon=8.9), flow, stages, monkeypatch)
    assert found == {"one-at-a-time": "holds", "sizes": "holds", "on-time": "holds", "no-other": "holds"}


@pytest.mark.parametrize(("factor", "stray"), [(0.0, "holds"), (-1.0, "fails"), (0.9, "holds")])
def test_weights_fail_where_nothing_is_learned_and_where_signs_or_sizes_are_wrong(
    factor, stray, returning, monkeypatch
) -> None:
    stages, flow = returning
    found = verdicts(RankWeights(horizon=8.9), flow.assign(product=factor * flow["product"]), stages, monkeypatch)
    assert (found["sizes"], found["no-other"]) == ("fails", stray)
    assert found["one-at-a-time"] == ("holds" if factor > 0 else "fails")


def test_a_path_is_compared_with_the_stages_chosen_alone(returning) -> None:
    stages, flow = returning
    path = flow["product"].isel(seed=0)
    found = against_stages(path, stages, [1, 2], 1e-32, 8.9)
    assert found.error.notnull().values.tolist() == [k in (1, 2) for k in range(len(stages))]
    assert found.lag.notnull().values.tolist() == [k == 2 for k in range(len(stages))]
    assert np.abs(found.lag[2]) < 5
    late = path.assign_coords(time=1.5 * path.time)
    assert np.abs(against_stages(late, stages, [1, 2], 1e-32, 8.9).lag[2]) > 10


def test_times_are_recorded_where_the_limit_is_judged_and_are_always_as_many(returning) -> None:
    stages, _ = returning
    times = record_times(8.9, 200, [stages])
    assert len(times) == 200
    assert (np.diff(times) > 0).all()
    assert set(times) >= {stage.middle(8.9) for stage in stages if stage.time < 8.9}


def test_the_order_of_stages_is_that_of_the_flow_and_not_of_one_at_rest(returning, monkeypatch) -> None:
    stages, flow = returning
    flow = flow[["product", "log_weight", "loss"]].expand_dims(scale=[1e-32])
    linear, heads = flow.isel(seed=0, drop=True), xr.concat([flow] * 2, xr.Variable("seed", [0, 1]))
    monkeypatch.setattr(StageTimes, "stages_of", lambda self, number, until: stages)
    experiment = StageTimes(horizon=8.9, linear_horizon=8.9, scales=(1e-32,))
    with precision(True, "highest"):
        for moving, verdict in ((1.0, "holds"), (0.0, "fails")):
            head = heads.assign(product=moving * heads["product"])
            reduced = experiment.reduce(xr.DataTree.from_dict({"linear": linear, "head": head}), None)
            assert reduced.system.values.tolist() == ["linear", "head 0", "head 1"]
            order = next(claim for claim in experiment.judge(reduced) if claim.id == "order")
            assert order.verdict == verdict


def test_a_ladder_of_scales_is_gone_down_whatever_its_order() -> None:
    assert StageTimes(scales=(1e-32, 1e-8, 1e-16, 1e-8)).scales == (1e-8, 1e-16, 1e-32)


def test_predicted_jumps_must_be_found_too(monkeypatch) -> None:
    times, losses = np.linspace(0, 8, 801), (1.0, 0.8, 0.5, 0.2)
    stages = [
        plateau(2.0 * k, 2.0, 1.0)._replace(loss=loss, winner=k - 1, beta=np.eye(1, 2, k % 2)[0])
        for k, loss in enumerate(losses)
    ]
    whole = np.array(losses)[np.searchsorted([2.0, 4.0, 6.0], times, side="right")]
    monkeypatch.setattr(Staircase, "stages", lambda self, measured: [stages])
    experiment = Staircase(horizon=8.0, scales=(1e-32,))
    predicted = xr.Dataset({"loss": (("seed", "time"), whole[None]), "left": (("seed", "stage"), np.zeros((1, 4)))})
    for curve, verdict in ((whole, "holds"), (np.where(times < 4, 1.0, whole), "fails")):
        measured = xr.Dataset(
            {"loss": (("seed", "scale", "time"), curve[None, None])}, {"seed": [0], "scale": [1e-32], "time": times}
        )
        claims = experiment.judge(experiment.reduce(measured, predicted))
        assert {claim.id: claim.verdict for claim in claims}["stages"] == verdict


def fake_runs(experiment, learned, monkeypatch):
    """The experiment with flows of two seeds made up: everything has been learned from time 1 on, or nothing at all."""
    times = np.linspace(0, 4, 9)
    b = np.where((times >= 1) & learned, 0.0, 1.0)[None, None, :, None] * np.ones((2, 1, 9, 4))
    dims = ("seed", "scale", "time", "coordinate")
    flow = xr.Dataset({"product": (dims, 1 - b), "log_weight": (dims, b)}, {"seed": [0, 1], "time": times})
    gone_on = xr.Dataset({"product": (("case", "time", "coordinate"), np.zeros((40, 3, 4)))}, {"time": [0, 1, 2]})
    stages = [plateau(0.0, 1.0, 1.0), plateau(1.0, 3.0, 3.0)._replace(beta=np.ones(4), winner=0)]
    kind = type(experiment)
    monkeypatch.setattr(kind, "flow", lambda self, seed, scales: flow)
    monkeypatch.setattr(kind, "stages_of", lambda self, number, until: stages)
    monkeypatch.setattr(kind, "continued", lambda self, number, cases: gone_on.isel(case=slice(len(cases))))
    return experiment


@pytest.mark.parametrize("kind", [PerturbationStability, NoiseRobustness])
def test_studies_of_noise_pool_all_seeds_and_say_where_nothing_is_learned(kind, monkeypatch) -> None:
    experiment = kind(**SMALL, seeds=2, horizon=4.0)
    with precision(True, "highest"):
        measured = fake_runs(experiment, True, monkeypatch).measure(0)
        assert set(measured.number.values.tolist()) == {0, 1}
        with pytest.raises(ValueError, match="horizon must be later: no"):
            fake_runs(experiment, False, monkeypatch).measure(0)


def test_the_sizes_of_weights_follow_from_their_product_and_the_difference_of_their_squares() -> None:
    u, v = (
        xr.DataArray([0.3, -2.0, 1.0, 0.5], dims="coordinate"),
        xr.DataArray([1.5, 0.2, -1.0, 0.0], dims="coordinate"),
    )
    larger, smaller = weight_sizes(u * v, abs(u**2 - v**2)).values
    np.testing.assert_allclose(larger, np.maximum(abs(u), abs(v)), atol=1e-12)
    np.testing.assert_allclose(smaller, np.minimum(abs(u), abs(v)), atol=1e-7)
