import numpy as np
import pytest

from dynascope.theory.concept.assumptions import (
    check_assumptions,
    feasible_constants,
    share_after_repair,
    signal_difference,
)
from dynascope.theory.concept.one_layer import second_moment


def start(constants, dim):
    return np.exp(constants.log_omega) * (np.ones((dim, dim)) + 0.5 * np.eye(dim))


@pytest.mark.parametrize(
    ("a", "log_P", "log_omega", "eta"),
    [((1.0, 10.0), 141.7, -151.5, 5.6e-4), ((1.0, 4.0, 16.0), 211.2, -221.9, 3.5e-4)],
)
def test_feasible_constants_are_absurdly_small(a, log_P, log_omega, eta):
    constants = feasible_constants(np.array(a))
    assert constants.log_P == pytest.approx(log_P, abs=0.05)
    assert constants.log_omega == pytest.approx(log_omega, abs=0.06)
    assert constants.eta == pytest.approx(eta, rel=0.01)


@pytest.mark.parametrize("a", [(1.0, 10.0), (1.0, 4.0), (1.0, 4.0, 16.0), (16.0, 1.0, 4.0)])
def test_feasible_constants_satisfy_every_assumption(a):
    constants = feasible_constants(np.array(a))
    conditions = check_assumptions(np.array(a), start(constants, len(a)), constants)
    assert [each.name for each in conditions if not each.holds] == []


def test_they_are_at_the_edge():
    """A start ten per cent larger, or a smaller P, breaks an assumption."""
    a = np.array([1.0, 10.0])
    constants = feasible_constants(a)
    larger = constants._replace(log_omega=constants.log_omega + 0.1)
    broken = {c.name for c in check_assumptions(a, start(larger, 2), larger) if not c.holds}
    assert broken == {"D.4 log omega <= its cap"}
    smaller = constants._replace(log_P=constants.log_P - 0.1, log_omega=constants.log_omega + 0.1)
    broken = {c.name for c in check_assumptions(a, start(smaller, 2), smaller) if not c.holds}
    assert broken == {"D.5 (a_i + a_j) / (2 a_i) <= share, i=1, j=0"}


def test_the_setting_of_figure_8_is_outside_the_assumptions():
    a = np.asarray(second_moment((1.0, 1.5, 2.2), (0.05,) * 3, 3))
    constants = feasible_constants(a)
    broken = [c.name for c in check_assumptions(a, start(constants, 3), constants) if not c.holds]
    assert broken == [f"D.5 alpha / C <= a_i - 3 a_j, i={i}, j={j}" for i, j in ((1, 0), (2, 1))]


def test_the_first_half_of_d5_is_asked_of_the_closest_pair_with_the_largest_p():
    W0 = np.array([[0.02, 0.01], [0.01, 0.04]])
    half = signal_difference(np.array([1.0, 3.0]), W0, kappa=1.1)
    assert half.lhs == pytest.approx(4 / 6)
    log_P = np.log(0.4 / 0.04)
    assert half.rhs == pytest.approx(log_P / (10 * 1.1**2 * np.log(2.5) + log_P + np.log(4)))
    assert not half.holds


def test_with_p_squared_in_d4_no_strengths_satisfy_d5():
    assert share_after_repair() == pytest.approx(1 / 13.1)


@pytest.mark.parametrize("a", [(1.0, 1.0), (0.0, 1.0), (1.0,)])
def test_strengths_outside_the_theory_are_refused(a):
    with pytest.raises(ValueError, match=r"Assumption D\.[15]"):
        feasible_constants(np.array(a))
