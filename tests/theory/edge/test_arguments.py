"""Arguments outside the domain of a formula or a task are refused in one sentence that names them.

Of the formulas only bounds of their own are here: tests/api/test_malformed_calls.py makes wrong calls of all of them.
"""

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

from dynascope.tasks import axis_teacher, factorization, products, scalar_losses, separable, single_neuron
from dynascope.theory import edge

KEY = jax.random.key(0)
QUARTIC = scalar_losses.quartic()
REFUSED = {
    "order": lambda: scalar_losses.derivatives(jnp.sin, 0.5, -1),
    "function": lambda: scalar_losses.derivatives(3.0, 0.5, 1),
    "mu": lambda: scalar_losses.quartic(-1.0),
    "scale": lambda: scalar_losses.sine(0.0),
    "coefficients": lambda: scalar_losses.polynomial([]),
    "alpha": lambda: scalar_losses.monomial(2.5),
    "target must be a value": lambda: scalar_losses.squared_loss_to(scalar_losses.BASE_MODELS["sin"], 2.0),
    "scale must": lambda: products.ProductLoss(1.0, float("nan")),
    "n must": lambda: products.many_factors(1),
    "terms": lambda: separable.SeparableLoss((jnp.sin,), jnp.eye(2)),
    "couplings": lambda: separable.ExtendedLoss(jnp.ones(3), jnp.ones((2, 2))),
    "teacher": lambda: single_neuron.SingleNeuron(jnp.eye(2)),
    "count": lambda: single_neuron.sphere_points(KEY, 0, 3),
    "size": lambda: single_neuron.reduced_start(-0.1, 0.5),
    "scales": lambda: axis_teacher.AxisTeacher(4).minimum(jnp.ones(3)),
    "noise": lambda: axis_teacher.AxisTeacher(4).start(KEY, noise=-1.0),
    "square matrix": lambda: factorization.SymmetricFactorization(jnp.ones((2, 3))),
    "scale must be a": lambda: factorization.generic_start(KEY, (2, 2, 2), -0.1),
    "scale must be 0": lambda: factorization.generic_starts(np.random.default_rng(0), 2, 2, [0.1, float("nan")]),
    "doublings": lambda: edge.quartic_orbit.cascade(40),
    "highest": lambda: edge.period_two.leading_order(QUARTIC, highest=2),
    "order must": lambda: edge.period_two.window(QUARTIC, 0.1, order=2),
    "resolution": lambda: edge.product_orbit.largest_gap(1.1, resolution=1),
    "dim": lambda: edge.axis_teacher.flattest_square(1),
    "box": lambda: edge.neuron_intervals.propagate(edge.neuron_intervals.Box(0.5, 0.4, -0.1, 0.1, 0.2)),
}  # fmt: skip


@pytest.fixture
def as_a_user_calls():
    """Without the run-time type checks of the tests, which would refuse some of these arguments first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize("message", REFUSED)
@pytest.mark.usefixtures("as_a_user_calls")
def test_nonsense_is_refused_by_name(message):
    with pytest.raises((ValueError, TypeError), match=message) as error:
        REFUSED[message]()
    assert "\n" not in str(error.value)


def test_lists_and_integers_become_arrays():
    assert edge.quartic_orbit.multiplier([1, 2]).tolist() == pytest.approx([1.0, -9.0])
    assert edge.product_orbit.flow_limit([[1, 2]], 1).shape == (1, 2)


def test_a_shape_that_does_not_fit_is_told_with_the_argument_it_does_not_fit():
    with pytest.raises(
        ValueError, match=r"couplings must have shape \(k, k\) with k = 3 as in strengths; got an array"
    ):
        edge.factorization.extended_spectrum(np.ones(3), np.ones((2, 2)))


def test_traced_arguments_pass_unchecked():
    assert jnp.isnan(jax.jit(lambda rate: edge.quartic_orbit.orbit(1.0, rate).low)(-0.5))
    assert float(jax.jit(lambda mu: scalar_losses.quartic(mu).threshold)(2.0)) == pytest.approx(0.5)
