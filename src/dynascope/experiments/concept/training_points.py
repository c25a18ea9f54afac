"""The training data themselves: how near they come to the test point, and what Gaussian clusters say they should."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array
from scipy.stats import norm

from dynascope.experiments.concept.sim_experiment import SimExperiment
from dynascope.experiments.concept.transients import Signals
from dynascope.models.mlp import MLP
from dynascope.tasks.structured_identity import StructuredIdentity, random_rotation


def look_at_data(
    experiment: SimExperiment, signals: Signals, seeds: np.ndarray, radii: np.ndarray, within: float, shown: int
) -> xr.Dataset:
    """Of the very data that the networks of `experiment` are trained on, for every signal, seed and truncation radius:
    how near they come to the test point, how many lie `within` that distance, their second moment; and the points of
    one seed, all in the unrotated frame."""
    learner, rate = experiment.learner(), jnp.asarray(experiment.learning_rate, experiment.precision)
    mu, sigma = (np.asarray([signal[k] for signal in signals], experiment.precision) for k in (0, 1))
    concepts = mu.shape[1]

    def points(seed: Array, mu: Array, sigma: Array, radius: Array) -> Array:
        descent = learner(seed, (mu, sigma), rate, truncate_radius=radius)
        return descent.task.concepts(descent.data)

    def look(setting: Any) -> tuple[Array, Array, Array]:
        x, target = points(*setting), jnp.pad(setting[1], (0, experiment.dim - concepts))
        distance = jnp.linalg.norm(x - target[None, :], axis=1)
        return jnp.min(distance), jnp.sum(distance < within), jnp.mean(x**2, axis=0)[:concepts]

    shape = (len(signals), len(seeds), len(radii))
    which, seed, radius = np.indices(shape).reshape(3, -1)
    every = jax.jit(lambda settings: jax.lax.map(look, settings))
    nearest, inside, moment = every((seeds[seed], mu[which], sigma[which], radii[radius]))
    seen = jax.jit(points)
    chosen = [[seen(seeds[shown], mu[k], sigma[k], r)[:, :concepts] for r in radii] for k in range(len(signals))]
    dims = ("signal", "seed", "truncate_radius")
    return xr.Dataset(
        {
            "nearest": (dims, np.asarray(nearest).reshape(shape)),
            "inside": (dims, np.asarray(inside).reshape(shape)),
            "moment": ((*dims, "concept"), np.asarray(moment).reshape(*shape, concepts)),
            "points": (("signal", "truncate_radius", "point", "concept"), np.array(chosen)),
            "shown": shown,
        }
    )


def rotation_error(experiment: SimExperiment, signals: Signals, seed: int) -> float:
    """In float64, the largest relative change of the population, sample and test loss of a network when the data are
    rotated and the network with them."""
    mu, sigma = signals[0]
    with jax.enable_x64(True):
        turn, init, data = jax.random.split(jax.random.key(seed), 3)
        rotation = random_rotation(turn, experiment.dim)
        network = MLP(experiment.dim, experiment.depth, key=init)
        weights = list(network.weights)
        weights[0] = weights[0] @ rotation.T
        weights[-1] = rotation @ weights[-1]
        losses = []
        for model, turned in ((network, None), (MLP.from_weights(weights), rotation)):
            task = StructuredIdentity(np.array(mu), np.array(sigma), experiment.dim, rotation=turned)
            x = task.dataset(data, 500).x
            losses.append([task.population_loss(model), task.loss(model, x), task.test_loss(model)])
        first, second = np.array(losses)
    return float(np.max(np.abs(second / first - 1)))


class NearestLaw(NamedTuple):
    """What Gaussian clusters imply: how many points are expected inside the radius, and the range in which the smallest
    distance from the test point lies in 99 % of samples."""

    inside: float
    nearest: tuple[float, float]


def nearest_law(mu: tuple[float, float], sigma: tuple[float, float], radius: float, per_cluster: int) -> NearestLaw:
    """For two clusters at `mu_p` on axis p with spreads `sigma`, and the test point `mu`."""
    radii = np.append(np.linspace(1e-3, min(mu), 2000), radius)
    offsets = ((0.0, -mu[1]), (-mu[0], 0.0))  # of the clusters' centers from the test point
    chances = np.array([_disc_chance(radii, offset, sigma) for offset in offsets])
    none_nearer = per_cluster * np.log1p(-chances[:, :-1]).sum(axis=0)
    low, high = np.interp(np.log([1 / 0.995, 1 / 0.005]), -none_nearer, radii[:-1])
    return NearestLaw(float(per_cluster * chances[:, -1].sum()), (float(low), float(high)))


def _disc_chance(radii: np.ndarray, offset: tuple[float, float], sigma: tuple[float, float]) -> np.ndarray:
    """The chance that a Gaussian centered at `offset` from the middle of a disc falls into it, for each radius."""
    node, weight = np.polynomial.legendre.leggauss(200)
    u, half = radii[:, None] * np.sin(node * np.pi / 2), radii[:, None] * np.cos(node * np.pi / 2)
    across = norm.cdf(half, offset[1], sigma[1]) - norm.cdf(-half, offset[1], sigma[1])
    return np.sum(weight * np.pi / 2 * half * norm.pdf(u, offset[0], sigma[0]) * across, axis=1)
