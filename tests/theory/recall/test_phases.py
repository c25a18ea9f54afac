"""Steps of values and of attention against automatic differentiation of the one-layer model over all contexts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.theory.recall import errata, phases
from dynascope.theory.recall.contexts import contexts


def inputs_of(sequences, tokens):
    now = np.eye(tokens)[sequences]
    before = np.concatenate([np.zeros_like(now[:, :1]), now[:, :-1]], axis=1)
    return jnp.asarray(np.concatenate([now, before], axis=-1))


def population_loss(every, size, noise, values, scores):
    """Eq. 4.2 over all contexts, with a feed-forward logit that predicts the noise token with probability `noise`."""
    x = inputs_of(every.sequences, size + 1)
    attention = jax.nn.softmax(jnp.einsum("i,nti->nt", scores, x))
    logits = jnp.einsum("ki,nti,nt->nk", values, x, attention)
    logits = logits.at[:, size].add(jnp.log(size * noise / (1 - noise)))
    picked = jax.nn.log_softmax(logits)[np.arange(len(x)), every.labels]
    return -jnp.sum(jnp.asarray(every.weights) * picked)


@pytest.mark.parametrize("noise", [0.25, 0.3])
def test_a_step_of_the_values_is_autograd(enumerated, noise):
    every, zero = enumerated(3, 5, 0.3), jnp.zeros((4, 8))
    gradient = jax.grad(lambda v: population_loss(every, 3, noise, v, jnp.zeros(8)))(zero)
    np.testing.assert_allclose(phases.value_step(contexts(3, 5, 0.3), noise), -gradient, atol=1e-13)


@pytest.mark.parametrize("noise", [0.25, 0.3])
def test_a_step_of_attention_is_autograd(enumerated, noise):
    """For values so small that they leave the predictions as they are."""
    every, tiny = enumerated(3, 5, 0.3), 1e-6
    values = np.random.default_rng(0).normal(size=(4, 8))
    gradient = jax.grad(lambda s: population_loss(every, 3, noise, tiny * jnp.asarray(values), s))(jnp.zeros(8))
    step = phases.attention_step(contexts(3, 5, 0.3), values, noise)
    np.testing.assert_allclose(step, -gradient / tiny, atol=1e-6)


def test_limits_of_phase_two_and_three():
    size, alpha = 400, 0.3
    moments = contexts(size, 20 * size, alpha)
    values = phases.value_step(moments, alpha)
    limits = phases.value_limits(alpha)
    found = size**2 * np.array([values[5, 5], values[5, size + 6], values[0, 0], values[0, size]])
    expected = [limits["diagonal"], limits["diagonal"], limits["trigger"], limits["trigger-noise"]]
    np.testing.assert_allclose(found, expected, rtol=0.02)
    np.testing.assert_allclose(values[size], 0, atol=1e-18)
    gaps, limits = phases.gaps(phases.attention_step(moments, values, alpha)), phases.gap_limits(alpha)
    assert size**3 * gaps.trigger == pytest.approx(limits["trigger"], rel=0.02)
    assert size**4 * gaps.noise == pytest.approx(limits["noise"], rel=0.05)
    assert gaps.noise_at_trigger > 0


@pytest.mark.parametrize(("current", "previous"), [(1.0, 1.0), (1.0, 0.0), (2.0, 1.0)])
def test_limits_of_diagonal_values(current, previous):
    size, alpha = 400, 0.3
    step = phases.attention_step(
        contexts(size, 20 * size, alpha), phases.diagonal_values(size, current, previous), alpha
    )
    gaps, limits = phases.gaps(step), phases.diagonal_gap_limits(alpha, current, previous)
    assert size * gaps.trigger == pytest.approx(limits["trigger"], rel=0.02)
    assert size**2 * gaps.noise == pytest.approx(limits["noise"], abs=0.008)


def test_the_first_step_of_attention_has_its_limits():
    for share in (1, 100):
        limits, found = phases.early_attention_limits(0.3, float(share)), errata.first_attention(800, 800 * share, 0.3)
        assert found["noise"] == pytest.approx(limits["noise"], rel=0.03)
        assert found["other"] == pytest.approx(limits["other"], rel=0.06)
        assert (found["other"] > 0) == (share > 1)


def test_numbers_at_eighty_tokens():
    """Computed apart from this code."""
    found = errata.attention_gaps(80, 800, 0.3)
    assert found == pytest.approx({"trigger": 0.227, "noise": -0.774}, abs=6e-4)
    assert errata.first_attention(80, 800, 0.3)["noise"] == pytest.approx(-0.0168, abs=6e-5)


def test_the_row_of_the_noise_token():
    size, alpha = 300, 0.3
    moments = contexts(size, 30 * size, alpha)
    steps = sum(2.0 * phases.value_step(moments, p)[size] for p in (0.0, 0.1))
    row = phases.noise_row(size, alpha, np.array([0.0, 0.1]), 2.0)
    np.testing.assert_allclose(steps[[5, size]], row, rtol=0.01)
