"""Training on long contexts: shares of pairs and first gradients against exact moments, attention against a long
sampled context."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.models import OneLayerRecall
from dynascope.theory.recall import phases
from dynascope.theory.recall.contexts import contexts
from dynascope.theory.recall.long_contexts import _loss, long_contexts, population_path

SIZE, ALPHA = 6, 0.3


def start() -> tuple[jax.Array, jax.Array]:
    pairs, chance = long_contexts(SIZE, ALPHA)
    return jnp.asarray(pairs), jnp.asarray(chance)


def context(length: int, target: int) -> np.ndarray:
    """A context by the rule of the task, token by token, with a trigger at the end."""
    rng = np.random.default_rng(0)
    tokens = [1]
    for u, free in zip(rng.random(length), rng.integers(0, SIZE, length), strict=True):
        tokens.append(int(free) if tokens[-1] != 0 else SIZE if u < ALPHA else target)
    return np.array([*tokens, 0], np.int32)


def test_shares_of_pairs_are_those_of_a_sampled_context():
    pairs, chance = long_contexts(SIZE, ALPHA)
    tokens = context(100_000, 2)
    counts = np.zeros((SIZE + 1, SIZE + 1))
    np.add.at(counts, (tokens[:-1], tokens[1:]), 1)
    np.testing.assert_allclose(pairs[2], counts / counts.sum(), atol=0.003)
    np.testing.assert_allclose(pairs.sum((1, 2)), 1, atol=1e-12)
    np.testing.assert_allclose(pairs.sum(1), pairs.sum(2), atol=1e-12)
    assert chance.sum() == pytest.approx(1)


def test_the_first_gradients_are_the_exact_ones_of_long_contexts():
    """Of V the step of `phases.value_step` from exact moments; of F on the trigger alpha - 1/(N + 1) for the noise."""
    gradient = jax.grad(lambda model: _loss(model, *start(), jnp.asarray(ALPHA))[0])(OneLayerRecall(SIZE + 1))
    exact = phases.value_step(contexts(SIZE, 10_000, ALPHA), 1 / (SIZE + 1))
    np.testing.assert_allclose(-gradient.value, exact, atol=4e-5)
    assert -float(gradient.feed[-1, 0]) == pytest.approx(ALPHA - 1 / (SIZE + 1), abs=1e-9)
    assert float(jnp.abs(gradient.score).max()) == 0


def test_attention_and_probabilities_are_those_of_the_model_on_a_long_context():
    rng, zero = np.random.default_rng(3), OneLayerRecall(SIZE + 1)
    drawn = [jnp.asarray(0.5 * rng.normal(size=leaf.shape)) for leaf in jax.tree.leaves(zero)]
    model = jax.tree.unflatten(jax.tree.structure(zero), drawn)
    tokens = jnp.asarray(context(50_000, 2))
    chance = jnp.zeros((SIZE, SIZE + 1)).at[2, int(tokens[-2])].set(1.0)
    _, seen = _loss(model, start()[0], chance, jnp.asarray(ALPHA))
    attention = model.attention(tokens)
    after = jnp.pad(tokens[:-1] == 0, (1, 0)) & (tokens == 2)
    assert float(seen["on_target"]) == pytest.approx(float(jnp.sum(jnp.where(after, attention, 0))), rel=0.03)
    assert float(seen["noise"]) == pytest.approx(float(jax.nn.softmax(model(tokens))[-1]), rel=0.03)


def test_noise_comes_first_and_attention_ends_on_the_target():
    path = population_path(SIZE, ALPHA, 1.0, 150)
    noise, target = path.noise.values, path.on_target.values
    assert noise[0] == pytest.approx(1 / (SIZE + 1))
    assert np.argmax(noise > 0.8 * ALPHA) < 10 < np.argmax(target > 0.5) < 100
    assert noise[-1] == pytest.approx(ALPHA, abs=0.01)
    assert path.on_noise.values[-1] < 0.05
