"""Compiler options, and functions that are compiled as one program."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope import compilation
from dynascope.compilation import as_one_program


@as_one_program
def distance(x, y, power=2):
    """Several operations."""
    return jnp.sum(jnp.abs(x - y) ** power) ** (1 / power)


def test_a_function_that_runs_once_has_the_same_values():
    x = jnp.linspace(-1, 1, 50)
    np.testing.assert_allclose(compilation.jit_once(lambda x: jnp.tanh(x) @ x)(x), jnp.tanh(x) @ x, rtol=1e-6)


def test_an_option_that_this_version_of_xla_does_not_know_is_left_out():
    options = (("xla_cpu_no_such_option", True), ("xla_backend_optimization_level", 0))
    assert compilation.jit_with(lambda x: x + 1, options)(jnp.ones(())) == 2


def test_one_program_takes_arrays_of_either_kind_and_plain_options():
    x, y = np.array([3.0, 0.0], np.float32), np.array([0.0, 4.0], np.float32)
    assert distance(x, y) == 5
    assert distance(jnp.asarray(x), y, power=1) == 7


@pytest.mark.usefixtures("optimized")
def test_one_program_is_part_of_a_program_that_calls_it():
    x, y = jnp.array([3.0, 0.0]), jnp.array([0.0, 4.0])
    gradient = jax.jit(jax.grad(lambda x: distance(x, y)))(x)
    np.testing.assert_allclose(gradient, [0.6, -0.8], rtol=1e-6)


@pytest.mark.usefixtures("optimized")  # else it has no options, which only an outer program may have
def test_one_program_takes_constants_inside_of_another():
    x, y = np.array([3.0, 0.0], np.float32), np.array([0.0, 4.0], np.float32)
    assert jax.jit(lambda scale: scale * distance(x, y))(2.0) == 10
    assert jnp.all(jax.vmap(lambda scale: scale * distance(x, y))(jnp.ones(2)) == 5)


def test_one_program_is_compiled_once_for_its_shapes():
    traced = []
    double = as_one_program(lambda x: traced.append(x.shape) or 2 * x)
    for length in (2, 3, 2):
        double(np.ones(length, np.float32))
    assert traced == [(2,), (3,)]
