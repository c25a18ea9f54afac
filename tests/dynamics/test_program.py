"""What is compiled, and how: as much as it is worth."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope.dynamics import program


def test_a_probe_is_traced_once_for_its_shape_and_once_for_the_program():
    traced = []

    def norm(model):
        traced.append(model)
        return jnp.sum(model**2)

    probes = {"norm": ds.probes.probe(lambda snapshot: norm(snapshot.model), every=(0, 3))}
    ds.descend(jnp.ones(3), norm_loss, optax.sgd(0.1), steps=4, probes=probes)
    assert len(traced) == 2


def norm_loss(model):
    return jnp.sum(model**4)


def test_the_start_is_compiled_without_optimization_and_the_steps_with_some(monkeypatch: pytest.MonkeyPatch):
    asked = {}

    def compiled(function, options):
        asked[function.__name__] = dict(options)
        return program._jit(function, options)

    monkeypatch.setattr(program, "_compiled", compiled)
    optimizing = jax.config.values.get("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    try:
        with jax.default_device(jax.devices("cpu")[0]):
            ds.descend(jnp.ones(3), norm_loss, optax.sgd(0.1), steps=4)
    finally:
        jax.config.update("jax_disable_most_optimizations", optimizing)
    assert asked == {"_begin": dict(program.ONCE_ON_CPU), "_advance": dict(program.STEPS_ON_CPU)}


def test_a_function_that_runs_once_has_the_same_values():
    x = jnp.linspace(-1, 1, 50)
    np.testing.assert_allclose(program.jit_once(lambda x: jnp.tanh(x) @ x)(x), jnp.tanh(x) @ x, rtol=1e-6)


def test_an_option_that_this_version_of_xla_does_not_know_is_left_out():
    function = program._jit(lambda x: x + 1, (("xla_cpu_no_such_option", True), ("xla_backend_optimization_level", 0)))
    assert function(jnp.ones(())) == 2
