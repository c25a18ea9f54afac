"""Losses of outputs against targets."""

import jax.numpy as jnp
import pytest

from dynascope.tasks.supervised import mean_squared_error


@pytest.mark.parametrize(("outputs", "targets"), [((6,), (6,)), ((6, 1), (6,)), ((6,), (6, 1)), ((6, 2), (6, 2))])
def test_a_last_axis_of_one_output_may_be_left_out(outputs, targets):
    assert mean_squared_error(jnp.full(outputs, 3.0), jnp.ones(targets)) == 4


@pytest.mark.parametrize(("outputs", "targets"), [((6, 2), (6,)), ((4, 6), (4, 3, 2)), ((4, 2, 3), (4, 3, 2))])
def test_arrays_of_other_shapes_are_not_reshaped(outputs, targets):
    with pytest.raises(ValueError, match="outputs and targets must have one shape, but for a last axis of length 1"):
        mean_squared_error(jnp.ones(outputs), jnp.ones(targets))
