"""Every variable of a trace has a long name, and a unit if it is known."""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import optax
import pytest

import dynascope as ds
from dynascope.probes.descriptions import DESCRIPTIONS

BY_USERS = {"probe", "truncations"}
"""Their values are those of a user's function."""


def probes_in(room):
    functions = {name: one for name, one in vars(room).items() if inspect.isfunction(one)}
    return {name for name, one in functions.items() if inspect.signature(one).return_annotation == "Probe"} - BY_USERS


def loss(model, batch):
    return jnp.mean((model @ batch[0].T - batch[1]) ** 2)


@pytest.fixture
def trajectory():
    x, y = jax.random.normal(jax.random.key(0), (6, 3)), jnp.ones((2, 6))
    probes = {
        "loss": ds.probes.loss(),
        "curvature": ds.probes.sharpness(every=2),
        "rank": ds.probes.weight_ranks(change=True),
        "first_row": lambda model: model[0],
    }
    return ds.descend(jnp.ones((2, 3)), loss, optax.sgd(0.1), steps=4, data=(x, y.T[:, 0]), probes=probes)


def test_every_probe_is_described():
    assert probes_in(ds.probes) <= DESCRIPTIONS.keys()
    pytest.importorskip("torch", reason="the optional extra `torch` is not installed")
    assert probes_in(ds.torch) <= DESCRIPTIONS.keys()


def test_variables_have_long_names_and_units(trajectory):
    trace = trajectory.trace
    assert all(variable.attrs["long_name"] for variable in trace.variables.values())
    assert trace.curvature.attrs == {"long_name": "sharpness", "units": "1"}
    assert trace.curvature_error.attrs == {"long_name": "error of the sharpness", "units": "1"}
    assert trace.curvature_products.attrs["units"] == "Hessian-vector products"
    assert trace["rank"].attrs["long_name"] == "stable rank of the change"
    assert trace.first_row.attrs == {"long_name": "first row"}  # nobody knows its unit
    assert trace.step.attrs == trace.curvature_step.attrs == {"long_name": "number of steps taken", "units": "steps"}
    assert trace.diverged_at.attrs["long_name"] == "first step that is not finite"


def test_they_are_kept_by_a_run_that_goes_on(trajectory):
    longer = trajectory.resume(steps=2).trace
    for name, variable in trajectory.trace.variables.items():
        assert longer[name].attrs == variable.attrs


def test_a_watch_describes_its_trace_in_the_same_words():
    torch = pytest.importorskip("torch", reason="the optional extra `torch` is not installed")
    probes = {
        "curvature": ds.torch.sharpness(),
        "adam": ds.torch.sharpness(preconditioned=True),
        "rank": ds.torch.weight_ranks(change=True),
    }
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    watch = ds.torch.Watch(model, "mse", (torch.ones(4, 3), torch.ones(4, 2)), probes, optimizer=optimizer)
    watch.record(1)
    trace = watch.trace
    assert trace.curvature.attrs == {"long_name": "sharpness", "units": "1"}
    assert trace.adam.attrs["long_name"] == "preconditioned sharpness"
    assert trace["rank"].attrs["long_name"] == "stable rank of the change"
    assert all(variable.attrs["long_name"] for variable in trace.variables.values())
