"""The sharpness of minima with a common scale, against the Hessian of samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.tasks.axis_teacher import AxisTeacher
from dynascope.theory.edge.axis_teacher import common_sharpness, expected_common_sharpness, flattest_square


def test_minima_with_a_common_scale_have_the_sharpness_of_their_hessian():
    task = AxisTeacher(4)
    x = task.sample(jax.random.key(0), 50)
    exact = jnp.linalg.eigvalsh(task.hessian(task.minimum(jnp.full(4, 1.5)), x))[-1:]
    np.testing.assert_allclose(common_sharpness(x, np.array([2.25])), exact, rtol=1e-12)


@pytest.mark.parametrize("square", [0.7, 1.2, 3.0])
def test_the_sharpness_over_the_whole_sphere_is_the_limit_of_large_samples(square):
    x = AxisTeacher(5).sample(jax.random.key(0), 400_000)
    np.testing.assert_allclose(common_sharpness(x, np.array([square])), expected_common_sharpness(square, 5), rtol=5e-3)


def test_sixteen_neurons_are_flattest_at_the_ratio_of_the_document():
    assert flattest_square(16) == pytest.approx(1.21, abs=0.02)
    assert 2 / expected_common_sharpness(flattest_square(16), 16) == pytest.approx(2.5, abs=0.01)
