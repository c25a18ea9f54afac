"""Moments of the chain against all contexts, and against the recursions of one token."""

import numpy as np
import pytest

from dynascope.theory.recall.chain import occupation, transition
from dynascope.theory.recall.counts import exact_counts, leading_counts, weighted_series


@pytest.mark.parametrize("target", [0, 1, 2])
def test_counts_are_those_of_all_contexts(enumerated, target):
    every = enumerated(3, 5, 0.3)
    here = every.targets == target
    weights = every.weights[here] / every.weights[here].sum()
    counts = np.stack([(every.sequences[here, :-1] == token).sum(1) for token in range(4)], 1)
    found = occupation(3, 4, 0.3, target)
    np.testing.assert_allclose(found.mean, weights @ counts, rtol=1e-12)
    np.testing.assert_allclose(found.square, np.einsum("s,si,sj->ij", weights, counts, counts), rtol=1e-12)
    last = [weights[every.sequences[here, -2] == token].sum() for token in range(4)]
    np.testing.assert_allclose(found.last, last, rtol=1e-12)


@pytest.mark.parametrize("target", [0, 1])
def test_counts_are_those_of_the_recursion_over_the_last_token(target):
    """S <- S P + e_k p_t(k), Q <- Q P + e_k (2 (S P)_k + p_t(k))."""
    size, alpha = 7, 0.2
    P, p = transition(size, alpha, target), np.append(np.full(size, 1 / size), 0.0)
    found = occupation(size, 50, alpha, target)
    np.testing.assert_allclose(P.sum(1), 1)
    for token in (0, 1, 2, size):
        unit, now = np.eye(size + 1)[token], p
        S = Q = unit * p[token]
        for _ in range(49):
            now = now @ P
            Q = Q @ P + unit * (2 * (S @ P)[token] + now[token])
            S = S @ P + unit * now[token]
        np.testing.assert_allclose([S.sum(), Q.sum()], [found.mean[token], found.square[token, token]], rtol=1e-12)
        np.testing.assert_allclose(now, found.last, rtol=1e-12)


def test_leading_orders_of_the_lemmas():
    exact, leading = exact_counts(100, 1000, 0.3), leading_counts(100, 1000, 0.3)
    assert (np.abs(exact["mean"] / leading["mean"] - 1) < 0.04).all()
    far, leading = exact_counts(2000, 20000, 0.3), leading_counts(2000, 20000, 0.3)
    for name in ("mean", "square"):
        np.testing.assert_allclose(far[name], leading[name], rtol=0.006)
    own = float(exact_counts(600, 6000, 0.3).square[0])
    assert own == pytest.approx(1283, abs=1)
    assert float(leading_counts(600, 6000, 0.3, printed=True).square[0]) == pytest.approx(1819, abs=1)


def test_a_forced_trigger_is_one_more(enumerated):
    every = enumerated(3, 5, 0.3)
    here = every.targets == 1
    weights = every.weights[here] / every.weights[here].sum()
    counts = (every.sequences[here] == 0).sum(1)
    found = exact_counts(3, 5, 0.3, forced=True).sel(case="C.7")
    np.testing.assert_allclose([found["mean"], found.square], [weights @ counts, weights @ counts**2], rtol=1e-12)


def test_the_weighted_series_is_its_sum():
    for ratio in (-0.5, 0.9, 2.0):
        assert weighted_series(ratio, 7) == pytest.approx(sum(t * ratio**t for t in range(1, 8)))
