"""The parts of `edge.central-flows` that its verdicts rest on."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr

from dynascope.experiments.edge.central_flows import EPS, OPTIMIZERS, CentralFlows, descend_by_rms
from dynascope.experiments.edge.cubic_regression import swings


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def steps_of(optimizer, weights, count=5):
    state, path = optimizer.init(weights), []
    for _ in range(count):
        updates, state = optimizer.update(jnp.sin(weights) + weights, state, weights)
        weights = optax.apply_updates(weights, updates)
        path.append(weights)
    return np.stack(path)


def test_the_steps_are_those_of_rmsprop_in_optax():
    weights = jnp.array([0.3, -1.2, 0.7])
    ours = descend_by_rms(jnp.asarray(0.01), jnp.asarray(0.9), jnp.full(3, 2.0))
    theirs = optax.rmsprop(0.01, decay=0.9, eps=EPS, initial_scale=2.0)
    np.testing.assert_allclose(steps_of(ours, weights), steps_of(theirs, weights), rtol=1e-12)


def test_scalar_rmsprop_divides_by_one_number():
    weights = jnp.array([0.3, -1.2, 0.7])
    gradient = np.sin(weights) + weights
    path = steps_of(descend_by_rms(jnp.asarray(0.01), jnp.asarray(0.9), jnp.asarray(2.0)), weights, 1)
    expected = weights - 0.01 * gradient / np.sqrt(0.9 * 2 + 0.1 * np.sum(gradient**2) + EPS)
    np.testing.assert_allclose(path[0], expected, rtol=1e-12)


def test_a_swing_of_period_two_has_its_variance_and_slow_motion_none():
    steps = np.arange(20.0)
    path = np.stack([0.3 * (-1) ** steps, 2 * steps], axis=1)[None]
    np.testing.assert_allclose(swings(path)[0, 1:-1], 0.09)


def made(off):
    """Runs whose central flow is off by this share of the stable flow's distance; the edge is reached at step 10."""
    of, size = ("optimizer", "seed", "step"), (3, 2, 5)
    edges = np.array([10.0, 40.0, 1000.0])[:, None, None] * np.ones(size)
    many, parameter = (*of, "parameter"), np.ones((*size, 4))
    coords = {"optimizer": list(OPTIMIZERS), "step": np.arange(0, 25, 5)}
    swing = np.where(coords["step"] >= 10, 0.1, 0.0) * np.ones(size)
    both = {"oscillation": (of, swing), "average_loss": (of, np.ones(size)), "sharpness": (of, edges)}
    measured = xr.Dataset(
        {
            **both,
            "weights": (many, 0 * parameter),
            "moments": (many, parameter),
            "stable_weights": (many, parameter),
            "stable_moments": (many, 4 * parameter),
        },
        coords,
    )
    predicted = xr.Dataset(
        {**both, "weights": (many, off * parameter), "moments": (many, (1 + off) ** 2 * parameter)}, coords
    )
    return measured, predicted


@pytest.mark.parametrize(("off", "failing"), [(0.1, []), (0.5, ["central-flows-follow", "squares-follow"])])
def test_distances_are_compared_with_those_of_the_stable_flow(off, failing):
    experiment = CentralFlows()
    reduced = experiment.reduce(*made(off))
    np.testing.assert_allclose(reduced.central_distance / reduced.stable_distance, off)
    np.testing.assert_allclose(reduced.central_root / reduced.stable_root, off)
    np.testing.assert_allclose(reduced.hover, 1)
    assert [claim.id for claim in experiment.judge(reduced) if claim.verdict == "fails"] == failing
