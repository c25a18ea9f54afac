"""Helpers of the low-dimensional edge experiments: a violation that is there is counted."""

import jax
import numpy as np
import pytest

from dynascope.experiments.edge import example_losses, neuron_sweep, rate_scans
from dynascope.experiments.edge.period_doubling import _last_before
from dynascope.experiments.edge.product_starts import draw_starts, follow_random_starts, positivity_cases
from dynascope.experiments.edge.single_neuron import _settles
from dynascope.lab.machine import precision
from dynascope.tasks.single_neuron import unit_teacher
from dynascope.theory.edge import period_two
from dynascope.theory.edge.single_neuron import spread_of_sampled_K


def test_the_losses_that_oscillate_are_those_with_a_positive_flip_quantity() -> None:
    with precision(True, "highest"):
        positive = example_losses.LossFamily(example_losses.oscillating()).each(period_two.flip_quantity)
        others = example_losses.LossFamily(example_losses.escaping()).each(period_two.flip_quantity)
    assert len(positive) == 15
    assert np.all(positive > 0)
    assert np.all(others < 1e-9)


def test_both_ends_of_a_run_are_recorded() -> None:
    assert rate_scans.ends_of(100, early=2, late=3).tolist() == [0, 1, 2, 97, 98, 99, 100]
    assert rate_scans.ends_of(3).tolist() == [0, 1, 2, 3]


def test_starts_of_the_product_are_positive_and_in_range() -> None:
    starts = draw_starts(0, 1000)
    assert np.all(starts > 0)
    assert np.prod(starts, axis=1).max() <= 1.6
    assert (starts.max(axis=1) / starts.min(axis=1)).max() <= np.e + 1e-9


def test_below_the_range_of_theorem_3_4_the_imbalance_need_not_fall() -> None:
    with precision(True, "highest"):
        found = follow_random_starts(0, 500, (1.2, 0.9))
    broken = found.rises + found.above + found.below
    assert broken.sel(K=1.2) == 0
    assert broken.sel(K=0.9) > 0


def test_lemma_b2_admits_some_starts_and_keeps_them_positive() -> None:
    with precision(True, "highest"):
        found = positivity_cases(0, 500)
    assert 0 < found.admitted < 7 * 500
    assert found.turned_negative == 0


def test_the_sweep_sees_a_bound_broken_where_the_theorem_does_not_apply() -> None:
    sizes, angles = np.array([1e-4, 0.1]), np.array([0.3, 1.5])
    with precision(True, "highest"):
        found = neuron_sweep.sweep(np.array([0.05, 1.1]), sizes, angles, 300).bound_ratio
    assert found.sel(K=0.05).max() > 1
    assert found.sel(K=1.1).max() < 1


def test_the_spread_of_a_samples_own_rate_is_that_of_samples() -> None:
    keys = jax.random.split(jax.random.key(0), 400)
    with precision(True, "highest"):
        points = np.asarray(jax.vmap(lambda key: unit_teacher(2).sample(key, 1000))(keys))
    own = 2 * 2.2 * np.mean(np.maximum(points[..., 0], 0) ** 2, axis=1)
    assert own.mean() == pytest.approx(1.1, abs=0.01)
    assert own.std() == pytest.approx(spread_of_sampled_K(2.2, 2, 1000), rel=0.12)


def test_a_curve_has_settled_only_when_it_stays_at_its_end() -> None:
    curves = np.array([[3.0, 0.1, 3.0, 0.1, 0.1], [0.1, 0.1, 0.1, 0.1, 0.1], [1.0, 1.0, 1.0, 1.0, 2.0]])
    assert _settles(curves).tolist() == [3, 0, 5]


def test_the_end_of_a_period_is_the_last_rate_before_its_double() -> None:
    K = np.array([1.0, 1.15, 1.2, 1.25, 1.3])
    assert _last_before(K, np.array([1, 2, 2, 4, 2]), 2) == 1.2
    assert np.isnan(_last_before(K, np.array([1, 2, 2, 2, 2]), 2))
