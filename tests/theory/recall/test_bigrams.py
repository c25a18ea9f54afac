"""The least losses against all contexts, and against what the sampler draws."""

import jax
import numpy as np
import pytest

from dynascope.tasks import NoisyRecall
from dynascope.theory.recall.bigrams import least_losses


def entropy(p):
    return -np.sum(p * np.log(np.where(p > 0, p, 1)), axis=-1)


def test_the_least_losses_are_those_of_all_contexts():
    size, length, alpha = 3, 5, 0.3
    even = np.full(size, 1 / size)
    found = least_losses(even, np.tile(even, (size, 1)), alpha, 0, length)
    assert found == pytest.approx((np.log(size), np.log(size)))
    skewed = np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3], [0.1, 0.1, 0.8]])
    counts = np.zeros(size + 1)
    for path, weight in paths(even, skewed, alpha, length):
        for token in path[: length - 2]:
            counts[token] += weight * (token != 0)
    rows = np.vstack([skewed, even])
    w = counts / counts.sum()
    found = least_losses(even, skewed, alpha, 0, length)
    assert found == pytest.approx((w @ entropy(rows), entropy(w @ rows)))


def paths(first, following, alpha, length):
    """All contexts without their last token, with their probabilities."""
    size = len(first)
    for target in range(size):
        open_ = [((z,), p / size) for z, p in enumerate(first)]
        for _ in range(length - 2):
            open_ = [
                ((*path, z), weight * p)
                for path, weight in open_
                for z, p in enumerate(step(path[-1], first, following, alpha, target))
                if p > 0
            ]
        yield from open_


def step(token, first, following, alpha, target):
    size = len(first)
    if token == 0:
        return (1 - alpha) * np.eye(size + 1)[target] + alpha * np.eye(size + 1)[size]
    return np.append(first if token == size else following[token], 0.0)


def test_the_sampler_has_the_same_entropy():
    draw = np.random.default_rng(0)
    first, following = draw.dirichlet(np.ones(6)), draw.dirichlet(np.ones(6), size=6)
    task = NoisyRecall(first, following, length=9, alpha=0.4, triggers=(2,))
    tokens = np.asarray(jax.jit(lambda key: task.sample(key, 20_000))(jax.random.key(0)).tokens)[:, :7]
    rows = entropy(np.vstack([following, first]))
    sampled = rows[tokens[tokens != 2]].mean()
    assert least_losses(first, following, 0.4, 2, 9).bigram == pytest.approx(sampled, abs=0.005)


def test_what_is_no_distribution_is_refused():
    with pytest.raises(ValueError, match="following must hold distributions"):
        least_losses(np.full(3, 1 / 3), np.full((3, 3), 0.5), 0.3, 0, 5)
    with pytest.raises(ValueError, match="trigger must be below"):
        least_losses(np.full(3, 1 / 3), np.full((3, 3), 1 / 3), 0.3, 3, 5)
