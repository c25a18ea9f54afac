"""The experiments on matrix factorization above the threshold, and what they share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.experiments.edge.extended_model import COUPLINGS
from dynascope.experiments.edge.factorization_boundary import FactorizationBoundary
from dynascope.experiments.edge.factorization_minima import _with_orthogonal_tops
from dynascope.tasks.factorization import SymmetricFactorization
from dynascope.tasks.separable import ExtendedLoss


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        yield


def test_orthogonal_tops_leave_the_singular_values_alone():
    random = np.random.default_rng(0)
    factors = {name: jnp.asarray(random.standard_normal((4, 3))) for name in ("Y", "Z")}
    turned = _with_orthogonal_tops(factors)
    sizes = [np.linalg.svd(np.asarray(f["Z"]))[1] for f in (factors, turned)]
    np.testing.assert_allclose(*sizes)
    tops = [np.linalg.svd(np.asarray(turned[name]))[2][0] for name in ("Y", "Z")]
    assert abs(tops[0] @ tops[1]) < 1e-12


def test_all_pairs_of_the_extended_model_are_symmetric_factorization():
    X = jnp.asarray(np.random.default_rng(0).standard_normal((3, 3)))
    strengths = jnp.asarray([1.2, 1.1, 0.9])
    coupled = ExtendedLoss(strengths, jnp.asarray(COUPLINGS["all pairs"], float))
    factorization = SymmetricFactorization(jnp.diag(strengths))
    np.testing.assert_allclose(coupled.step(X, 0.3), factorization.step(X, 0.3), atol=1e-13)


def test_below_the_line_a_factorization_stays_bounded_and_above_it_does_not():
    measured = FactorizationBoundary(columns=2, rows=4, dim=3, steps=600, seeds=2, highest=(1.2, 1.6)).measure(0)
    bounded = (measured.escaped < 0).all("seed")
    total = measured["first"] + measured.second
    assert bool(bounded.where(total < 1.7).isel(second=0).all())
    assert not bool(bounded.where(total > 2.4, False).any())
