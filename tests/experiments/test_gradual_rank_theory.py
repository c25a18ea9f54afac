"""The helpers of the experiments on diagonal networks: what they choose and count, and what they refuse."""

import numpy as np
import pytest
from pydantic import ValidationError

from dynascope.experiments.gradual_rank.diagonal_transformer import DiagonalTransformerRank, first_race
from dynascope.experiments.gradual_rank.perturbation_stability import PerturbationStability
from dynascope.experiments.gradual_rank.staircase import Staircase
from dynascope.experiments.gradual_rank.toy import regression, seen, three_quarters
from dynascope.experiments.gradual_rank.weights import RankWeights
from dynascope.lab.errors import UsageError
from dynascope.lab.fields import build
from dynascope.lab.settings import precision
from dynascope.theory.diagonal_flow import Reduced, product, weights
from dynascope.theory.greedy_ranks import Stage

SMALL = {"dim": 2, "tokens": 2, "samples": 10, "kept": None}


def plateau(time, wait, gap):
    waits = np.array([wait, wait + gap])
    return Stage(time, 0, 1, np.ones(2), np.zeros(2), np.ones(2), 0.0, (), (0,), waits, gap, 0.0, True)


def test_only_plateaus_between_clear_races_are_judged() -> None:
    long, short, tie = plateau(0.0, 1.0, 1.0), plateau(1.0, 0.01, 1.0), plateau(1.01, 1.0, 1e-3)
    after = plateau(2.01, 1.0, 1.0)
    assert seen([long, short, tie, after], scale=1e-32, until=9.0) == [0]
    assert seen([long, after._replace(time=1.0)], scale=1e-32, until=9.0) == [0, 1]
    assert seen([long], scale=0.3, until=9.0) == []


def test_three_quarters_of_a_plateau_end_with_the_record() -> None:
    assert three_quarters(plateau(1.0, 2.0, 1.0), until=9.0) == 2.5
    assert three_quarters(plateau(1.0, 8.0, 1.0), until=5.0) == 4.0


def test_a_scale_of_zero_and_wrong_sizes_get_one_line() -> None:
    with pytest.raises(UsageError) as told:
        build(RankWeights, {"scale": 0.0}, preset="quick")
    assert "scale" in str(told.value)
    assert "\n" not in str(told.value)
    with pytest.raises(UsageError):
        build(Staircase, {"scales": (1e-4, 1.0)}, preset="quick")
    with pytest.raises(ValidationError):
        RankWeights(dim=0)
    with pytest.raises(ValueError, match="kept must be 1 to 2"):
        RankWeights(dim=2, kept=5).head(0)


def test_kicks_leave_negligible_weights_alone_and_balanced_ones_balanced() -> None:
    experiment = PerturbationStability(**SMALL)
    with precision(True, "highest"):
        state_u, state_v = np.array([0.9, 1e-9, 0.5, 1e-12]), np.array([0.89, 5e-10, -0.49, 1e-13])
        log_kappa = np.log(state_u**2 - state_v**2)
        from dynascope.experiments.gradual_rank.disturbed import State

        state = State(log_kappa, np.arctanh(state_v / state_u))
        kicked = experiment.kicked(state, 0.05, np.random.default_rng(0))
        points = {name: Reduced(*(np.asarray(part) for part in one)) for name, one in kicked.items()}
        betas = {name: np.asarray(product(Reduced(*map(_array, point)))) for name, point in points.items()}
        u, v = (np.asarray(part) for part in weights(Reduced(*map(_array, points["balanced"]))))
    np.testing.assert_allclose(betas["undisturbed"], state_u * state_v, rtol=1e-8)
    for name in ("disturbed", "balanced"):
        assert np.all(np.abs(betas[name] - betas["undisturbed"])[[0, 2]] > 1e-3)
        np.testing.assert_array_equal(betas[name][[1, 3]], betas["undisturbed"][[1, 3]])
    np.testing.assert_allclose(np.abs(u)[[0, 2]], np.abs(v)[[0, 2]], rtol=1e-12)
    assert np.sign(betas["balanced"]).tolist() == np.sign(betas["undisturbed"]).tolist()


def _array(values):
    import jax.numpy as jnp

    return jnp.asarray(values)


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
