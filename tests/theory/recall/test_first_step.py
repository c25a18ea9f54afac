"""First gradients and margins, against all contexts of a tiny task and against samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.theory.recall import first_step, margins
from dynascope.theory.recall.gradient_lemma import population_gradient, sample_gradient

KINDS = {
    "τ,τ": (5, 5),
    "τ,q": (5, 0),
    "τ,k": (5, 2),
    "q,τ": (0, 5),
    "q,q": (0, 0),
    "q,k": (0, 3),
    "j,τ": (2, 5),
    "j,q": (3, 0),
    "j,j": (4, 4),
    "j,k": (1, 2),
}


def test_entries_of_the_value_gradient_are_those_of_all_contexts(enumerated):
    every = enumerated(5, 4, 0.3)
    table = first_step.exact_value_entries(5, 4, 0.3, forced=True)
    for kind, (j, k) in KINDS.items():
        gamma = (1 / 6 - (every.labels == j)) * (every.sequences == k).mean(1)
        mean = every.weights @ gamma
        found = table.sel(entry=kind)
        np.testing.assert_allclose(found["mean"], mean, rtol=1e-10)
        np.testing.assert_allclose(found.variance, every.weights @ gamma**2 - mean**2, rtol=1e-10)


def test_table_c1_is_the_leading_order():
    exact, table = first_step.exact_value_entries(2000, 20000, 0.3), first_step.value_entries(2000, 20000, 0.3)
    np.testing.assert_allclose(exact["mean"], table["mean"], rtol=0.005)
    np.testing.assert_allclose(exact.variance, table.variance, rtol=0.008)


def test_printed_variances_are_only_bounds_below_the_noise_row():
    exact = first_step.exact_value_entries(600, 6000, 0.3).variance
    ratio = (exact / first_step.value_entries(600, 6000, 0.3, printed=True).variance).values
    np.testing.assert_allclose(ratio[3:], [0.85, 0.60, 0.41, 0.41, 0.41, 0.66, 0.41], atol=0.006)


@pytest.mark.parametrize(("alpha", "positive"), [(0.381, True), (0.383, False)])
def test_tokens_predict_themselves_up_to_the_largest_noise(alpha, positive):
    own = first_step.value_entries(50, 500, alpha)["mean"].sel(entry="j,j")
    assert bool(-own > 0) is positive
    assert (alpha < first_step.LARGEST_NOISE) is positive


def test_feed_forward_entries_are_those_of_labels():
    entries, p = first_step.feed_forward_entries(50, 0.3), np.array([0.3, 0.7 / 50])
    np.testing.assert_allclose(entries["mean"], 1 / 51 - p)
    np.testing.assert_allclose(entries.variance, p * (1 - p))


def test_means_stay_within_the_deviation():
    rng, samples, entries = np.random.default_rng(0), 400, first_step.feed_forward_entries(20, 0.3)
    bound = first_step.deviation(entries.variance.values, entries.range.values, samples, 21, 0.1)
    labels = rng.choice(21, (200, samples), p=[0.7 / 20] * 20 + [0.3])
    found = 1 / 21 - (labels[..., None] == np.array([20, 0])).mean(1)
    assert (np.abs(found - entries["mean"].values) < bound).mean() > 0.99
    np.testing.assert_allclose(bound[0], np.sqrt(4 * 0.21 * np.log(420) / 400) + 4 * 0.7 * np.log(420) / 400)


def test_the_gradient_lemma_is_autograd():
    keys = jax.random.split(jax.random.key(0), 3)
    unembedding, weights, inputs = (
        jax.random.normal(key, shape) for key, shape in zip(keys, [(4, 3), (3, 5), (6, 5)], strict=True)
    )
    labels = np.array([0, 1, 2, 3, 3, 1])

    def loss(weights):
        scores = jax.nn.log_softmax(inputs @ weights.T @ unembedding.T)
        return -jnp.mean(scores[np.arange(6), labels])

    gradient = jax.grad(loss)(weights)
    predicted = np.asarray(jax.nn.softmax(inputs @ weights.T @ unembedding.T))
    x, out = np.asarray(inputs), np.asarray(unembedding)
    np.testing.assert_allclose(sample_gradient(out, predicted, labels, x), gradient, rtol=1e-10)
    shares = np.bincount(labels) / 6
    means = np.stack([x[labels == k].mean(0) for k in range(4)])
    guessed = (predicted.T @ x / 6) / shares[:, None]
    np.testing.assert_allclose(population_gradient(out, shares, guessed, means), gradient, rtol=1e-10)


def test_margins_of_one_step_on_samples():
    """N = 50, with m >> N samples: alpha for the feed-forward map, alpha/N for one half of the inputs of attention."""
    size, alpha, samples = 50, 0.3, 100_000
    rng = np.random.default_rng(0)
    labels = rng.choice(size + 1, samples, p=[(1 - alpha) / size] * size + [alpha])
    forward = np.bincount(labels, minlength=size + 1) / samples - 1 / (size + 1)
    expected = margins.first_margins(size, alpha)
    assert margins.margin(forward) == pytest.approx(expected.feed_forward, abs=0.03)
    table = -first_step.exact_value_entries(size, 5000, alpha)["mean"]
    found = table.sel(entry="τ,k") - table.sel(entry="j,j")  # of a context without noise tokens, where q is rare
    half = margins.first_margins(size, alpha, previous=False).attention
    assert float(found) == pytest.approx(half, rel=0.1)
    assert expected.attention == 2 * half
    assert margins.first_margins(size, alpha, 1.0, False).attention == pytest.approx(alpha * half)


def test_both_margins_fluctuate_like_the_share_of_noise():
    rng = np.random.default_rng(1)
    shares = rng.binomial(200, 0.3, 4000) / 200
    assert margins.fluctuation(0.3, 200.0) == pytest.approx(shares.std() / shares.mean(), rel=0.05)
