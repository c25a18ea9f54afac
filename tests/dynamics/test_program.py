"""What is compiled, and how: as much as it is worth."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax
import pytest

import dynascope as ds
from dynascope import compilation
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
        return compilation.jit_with(function, options)

    monkeypatch.setattr(program, "compiled", compiled)
    optimizing = jax.config.values.get("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    try:
        with jax.default_device(jax.devices("cpu")[0]):
            ds.descend(jnp.ones(3), norm_loss, optax.sgd(0.1), steps=4)
    finally:
        jax.config.update("jax_disable_most_optimizations", optimizing)
    assert asked == {"_begin": dict(compilation.ONCE_ON_CPU), "_advance": dict(compilation.STEPS_ON_CPU)}
