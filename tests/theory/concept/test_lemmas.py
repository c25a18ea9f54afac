"""Appendix D on its own ground: starts like 1e-80, where every assumption holds."""

import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.theory.concept.assumptions import feasible_constants
from dynascope.theory.concept.jacobian_paths import factor_path, jacobian_euler_path
from dynascope.theory.concept.lemmas import check_lemmas, diagonal_growth_times, exit_steps

A, STEPS = np.array([1.0, 4.0]), 90_000


def bench(shape, a=A, steps=STEPS, integrator="jacobian_euler"):
    constants = feasible_constants(a)
    shape, size = np.asarray(shape), np.exp(constants.log_omega)
    if integrator == "jacobian_euler":
        W = jacobian_euler_path(jnp.asarray(size * shape), jnp.asarray(a), constants.eta, steps)
    else:
        U0 = np.sqrt(size) * np.linalg.cholesky(shape)
        W = factor_path(jnp.asarray(U0), jnp.asarray(a), constants.eta, steps)
    return np.asarray(W), constants


def broken(verdicts):
    return {each.lemma: each.first_violation for each in verdicts if not each.holds}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("integrator", ["jacobian_euler", "factor_gd"])
def test_only_the_printed_noise_bound_fails(sign, integrator):
    W, constants = bench([[1.5, sign], [sign, 1.5]], integrator=integrator)
    verdicts = check_lemmas(W, A, constants, rounding=1e-14 if integrator == "factor_gd" else 0)
    assert set(broken(verdicts)) == {"Cor. D.1"}
    assert len(verdicts) == 16
    np.testing.assert_allclose(np.diagonal(W[-1]), 1, atol=1e-6)


def test_the_reference_run_of_the_bench():
    a = np.array([1.0, 10.0])
    W, constants = bench([[1.5, 1], [1, 1.5]], a, 204_503)
    verdicts = check_lemmas(W, a, constants)
    assert broken(verdicts) == {"Cor. D.1": pytest.approx(11_802, abs=5)}
    exits, earliest = exit_steps(W, constants), diagonal_growth_times(W[0], a, constants)
    np.testing.assert_allclose(exits, [128_481, 12_824], rtol=2e-4)
    np.testing.assert_allclose(earliest, [114_893, 11_489], rtol=2e-4)
    assert np.all((earliest <= exits) & (exits <= constants.kappa**2 * earliest))
    assert int(np.argmax(W[:, 1, 1] >= 0.8)) == pytest.approx(13_797, rel=2e-4)


def test_a_nearly_singular_start_breaks_the_diagonal_growth_and_then_the_recursion():
    a = np.array([1.0, 10.0])
    W, constants = bench([[1.05, 1], [1, 1.05]], a, 150_000)
    failures = broken(check_lemmas(W, a, constants))
    assert failures["D.3"] == pytest.approx(13_843, abs=5)
    assert failures["D.5"] == pytest.approx(13_952, abs=5)
    assert not np.isfinite(W[-1]).all()


def test_gradient_descent_recovers_from_the_same_start():
    a = np.array([1.0, 10.0])
    W, constants = bench([[1.05, 1], [1, 1.05]], a, 160_000, "factor_gd")
    failures = broken(check_lemmas(W, a, constants, rounding=1e-14))
    assert failures["D.3"] == pytest.approx(13_993, abs=5)
    assert "D.5" not in failures
    np.testing.assert_allclose(W[-1], np.eye(2), atol=1e-6)


def test_the_noise_bounds_are_one_factor_P_apart(good_path):
    W, constants = good_path
    margin = {each.lemma: each.worst_margin for each in check_lemmas(W, A, constants)}
    assert margin["Cor. D.1 with P^2"] - margin["Cor. D.1"] == pytest.approx(constants.log_P)
    # for d = 2 the noise is on the diagonal only: N_ii = w_12^2 (a_1 + a_2)
    largest = 2 * np.log(np.abs(W[:, 0, 1]).max()) + np.log(A.sum())
    bound = np.log(2 * 4 * 2) + 2 * np.log(1.5) + 2 * constants.log_omega + constants.log_P
    assert margin["Cor. D.1"] == pytest.approx(bound - largest)


def spoil(W, **changes):
    """A copy of a path in which an entry is overwritten."""
    W = W.copy()
    for where, value in changes["at"].items():
        W[where] = value
    return W


@pytest.mark.parametrize(
    ("lemma", "where", "value"),
    [
        ("D.1", (100, 0, 1), 1e-60),
        ("D.2", (100, 0, 1), -1e-79),
        ("D.3", (100, 0, 0), 1e-85),
        ("D.4 at 0.5", (16_500, 1, 1), 1e-3),
        ("D.5", (80_000, 0, 0), 1.11),
        ("Cor. D.2", (80_000, 0, 0), 1.06),
        ("D.6", (80_000, 0, 0), 0.89),
        ("D.7", (80_000, 1, 0), 1e-20),
        ("D.8", (40_000, 1, 0), 1e-3),
    ],
)
def test_each_lemma_notices_its_own_violation(lemma, where, value, good_path):
    W, constants = good_path
    before, after = (broken(check_lemmas(path, A, constants)) for path in (W, spoil(W, at={where: value})))
    assert lemma not in before
    assert after[lemma] == pytest.approx(where[0], abs=1)


def test_a_major_that_never_comes_breaks_the_time_bound(good_path):
    W, constants = good_path
    stuck = W.copy()
    stuck[:, 0, 0] = np.minimum(stuck[:, 0, 0], 0.7)
    assert "D.8, time" in broken(check_lemmas(stuck, A, constants))


@pytest.fixture(scope="module")
def good_path():
    import jax

    with jax.enable_x64(True):
        return bench([[1.5, 1], [1, 1.5]])
