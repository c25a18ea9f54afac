"""Probes of the learner, on modules and on plain pytrees."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import dynascope as ds


def test_outputs_and_jacobian_of_a_module():
    net = ds.models.MLP(3, 2, key=jax.random.key(0))
    point = jnp.array([1.0, 2.0, 3.0])
    task = ds.tasks.StructuredIdentity((1.0, 2.0), 0.1, 3)
    trace = ds.descend(
        net, task, optax.sgd(0.0), steps=1, record=1,
        probes={"one": ds.probes.output(point), "two": ds.probes.outputs(jnp.stack([point, 2 * point])),
                "jacobian": ds.probes.jacobian(point), "moved": ds.probes.displacement()},
    ).trace  # fmt: skip
    np.testing.assert_allclose(trace.one[0], net(point), rtol=1e-6)
    np.testing.assert_allclose(trace.two[0], [net(point), net(2 * point)], rtol=1e-6)
    np.testing.assert_allclose(trace.jacobian[0], net.matrix(), rtol=1e-5)
    assert trace.two.dims == ("step", "point", "coordinate")
    assert trace.moved.values.tolist() == [0.0, 0.0]


def test_a_dictionary_is_probed_through_apply():
    def apply(model, x):
        return model["w"] @ x

    trace = ds.descend(
        {"w": jnp.eye(2)}, lambda m: jnp.sum(m["w"] ** 2), optax.sgd(0.25), steps=1, record=1,
        probes={"y": ds.probes.output(jnp.ones(2), apply=apply), "moved": ds.probes.displacement()},
    ).trace  # fmt: skip
    assert trace.y.values.tolist() == [[1.0, 1.0], [0.5, 0.5]]
    np.testing.assert_allclose(trace.moved, [0, np.sqrt(0.5)], rtol=1e-6)
