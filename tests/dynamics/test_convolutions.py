"""Convolutions are written channels-last for CPUs, wherever they stand in a program, and keep their values."""

from __future__ import annotations

import re
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax

import dynascope as ds
from dynascope.dynamics.convolutions import channels_last

KINDS = {
    "plain": ((2, 3, 6, 5), (4, 3, 3, 3), {}),
    "strided": ((2, 3, 7, 6), (4, 3, 3, 3), {"window_strides": (2, 1)}),
    "dilated": ((2, 3, 7, 6), (4, 3, 2, 3), {"rhs_dilation": (1, 2)}),
    "transposed": ((2, 3, 4, 4), (4, 3, 3, 2), {"lhs_dilation": (2, 2), "padding": ((1, 2), (0, 2))}),
    "grouped": ((2, 6, 5, 5), (4, 3, 3, 3), {"feature_group_count": 2}),
    "depthwise": ((2, 4, 5, 5), (8, 1, 3, 3), {"feature_group_count": 4}),
    "batch groups": ((6, 3, 5, 5), (4, 3, 3, 3), {"batch_group_count": 2}),
    "one-dimensional": ((2, 3, 9), (4, 3, 3), {"window_strides": (2,)}),
    "three-dimensional": ((2, 2, 4, 3, 4), (3, 2, 2, 3, 2), {"window_strides": (1, 1, 2)}),
    "mixed axes": ((5, 2, 6, 3), (3, 2, 4, 3), {"dimension_numbers": ("HNWC", "HWOI", "CHNW")}),
    "channels-last": ((2, 6, 5, 3), (3, 3, 3, 4), {"dimension_numbers": ("NHWC", "HWIO", "NHWC")}),
}
LAST = {
    3: "[b, 0, f]x[0, i, o]->[b, 0, f]",
    4: "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
    5: "[b, 0, 1, 2, f]x[0, 1, 2, i, o]->[b, 0, 1, 2, f]",
}


def layouts(program: str) -> list[str]:
    """The axes of each convolution of a lowered program."""
    return re.findall(r"stablehlo\.convolution\(.*?dim_numbers = (.*?), window", program)


def normal(seed: int, shape: tuple[int, ...]) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape)


@pytest.mark.parametrize("kind", KINDS)
def test_every_convolution_and_its_derivatives_become_channels_last_and_keep_their_values(kind):
    shape, window, options = KINDS[kind]
    options = {"window_strides": (1,) * (len(shape) - 2), "padding": "SAME"} | options
    given = normal(0, shape), normal(1, window)

    def convolve(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return lax.conv_general_dilated(x, kernel, **options)

    def gradients(x: jax.Array, kernel: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.grad(lambda x, kernel: jnp.sum(jnp.sin(convolve(x, kernel))), (0, 1))(x, kernel)

    def function(x: jax.Array, kernel: jax.Array):
        members = jnp.stack([kernel, 2 * kernel, -kernel])
        step = lambda _, members: members - 0.01 * jax.vmap(gradients, (None, 0))(x, members)[1]  # noqa: E731
        hessian_vector_product = jax.jvp(gradients, (x, kernel), (x, kernel))
        return convolve(x, kernel), hessian_vector_product, lax.fori_loop(0, 3, step, members)

    rewritten = jax.jit(channels_last(function))
    assert set(layouts(rewritten.lower(*given).as_text())) == {LAST[len(shape)]}
    jax.tree.map(
        lambda new, old: np.testing.assert_allclose(new, old, rtol=2e-5, atol=2e-5 * float(jnp.max(jnp.abs(old)))),
        rewritten(*given),
        jax.jit(function)(*given),
    )


def convolve(x: jax.Array, kernel: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME")


@jax.custom_jvp
def with_own_jvp(x, kernel):
    return convolve(x, kernel)


@jax.custom_vjp
def with_own_vjp(x, kernel):
    return convolve(x, kernel)


with_own_jvp.defjvp(lambda given, tangents: (convolve(*given), convolve(tangents[0], given[1])))
with_own_vjp.defvjp(
    lambda x, kernel: (convolve(x, kernel), kernel), lambda kernel, out: (convolve(out, kernel), kernel)
)

PLACES = {
    "jit": jax.jit(convolve),
    "checkpoint": jax.checkpoint(convolve),
    "gradient of checkpoint": jax.grad(lambda x, kernel: jnp.sum(jax.checkpoint(convolve)(x, kernel) ** 2)),
    "custom jvp": with_own_jvp,
    "gradient of custom jvp": jax.grad(lambda x, kernel: jnp.sum(with_own_jvp(x, kernel) ** 2)),
    "custom vjp": with_own_vjp,
    "gradient of custom vjp": jax.grad(lambda x, kernel: jnp.sum(with_own_vjp(x, kernel) ** 2)),
    "scan": lambda x, kernel: lax.scan(lambda x, _: (convolve(x, kernel), None), x, length=2)[0],
    "while": lambda x, kernel: lax.while_loop(lambda x: jnp.sum(x**2) < 100, lambda x: convolve(x, kernel) + x, x),
    "cond": lambda x, kernel: lax.cond(x[0, 0, 0, 0] > 0, convolve, lambda x, _: x, x, kernel),
    "map": lambda x, kernel: lax.map(lambda x: convolve(x[None], kernel)[0], x),
    "linear solve": lambda x, kernel: lax.custom_linear_solve(
        lambda x: convolve(x, 0 * kernel) + 2 * x, x, lambda matvec, b: matvec(b) / 4, symmetric=True
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_convolutions_are_found_in_everything_that_a_function_calls(place):
    given = normal(0, (2, 3, 4, 4)), normal(1, (3, 3, 3, 3)) / 5
    rewritten = jax.jit(channels_last(PLACES[place]))
    found = layouts(rewritten.lower(*given).as_text())
    assert found
    assert set(found) == {LAST[4]}
    np.testing.assert_allclose(rewritten(*given), jax.jit(PLACES[place])(*given), rtol=2e-5, atol=2e-5)


def test_a_rewritten_function_keeps_its_own_derivatives_and_can_be_mapped():
    x, kernel = normal(0, (2, 3, 4, 4)), normal(1, (3, 3, 3, 3))
    tangent = jax.jvp(lambda kernel: channels_last(with_own_jvp)(x, kernel), (kernel,), (kernel,))[1]
    assert not np.any(tangent)  # the rule leaves the kernel's tangent out
    mapped = jax.vmap(channels_last(convolve), (None, 0))(x, jnp.stack([kernel, -kernel]))
    np.testing.assert_allclose(mapped[1], convolve(x, -kernel), rtol=1e-5, atol=1e-5)


def test_without_convolutions_the_operations_stay_as_they_are():
    def step(tree):
        return {"a": jnp.tanh(tree["a"] @ tree["a"].T), "key": jax.random.split(tree["key"])[0], "none": None}

    given = {"a": normal(0, (3, 3)), "key": jax.random.key(1), "none": None}
    traced = jax.make_jaxpr(jax.jit(step))(given)
    assert str(jax.make_jaxpr(channels_last(step))(given)) == str(traced)


def test_a_function_that_is_called_twice_is_compiled_once():
    call = jax.jit(convolve)
    given = normal(0, (2, 3, 4, 4)), normal(1, (3, 3, 3, 3))
    lowered = jax.jit(channels_last(lambda x, kernel: call(call(x, kernel), kernel))).lower(*given)
    assert len(layouts(lowered.as_text())) == 1


def test_other_devices_get_convolutions_as_they_were_written():
    given = normal(0, (2, 3, 4, 4)), normal(1, (3, 3, 3, 3))
    traced = jax.jit(channels_last(convolve)).trace(*given)
    assert layouts(traced.lower(lowering_platforms=("cuda",)).as_text()) == ["[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]"]


class Equinox(eqx.Module):
    first: eqx.nn.Conv2d
    second: eqx.nn.Conv2d

    def __init__(self, key):
        keys = jax.random.split(key)
        self.first = eqx.nn.Conv2d(1, 4, 3, padding=1, key=keys[0])
        self.second = eqx.nn.Conv2d(4, 2, 3, stride=2, groups=2, key=keys[1])

    def __call__(self, x):
        hidden = jax.nn.relu(self.first(jnp.moveaxis(x, -1, 0)))
        return jnp.mean(self.second(hidden), axis=(1, 2))


def equinox_network():
    return Equinox(jax.random.key(0)), None


def own_network():
    return ds.models.ConvNet((8, 8, 1), (4, 4), out=2, key=jax.random.key(0)), None


def flax_network():
    nn = pytest.importorskip("flax.linen", reason="flax is not installed")
    layers = [nn.Conv(4, (3, 3)), nn.relu, nn.Conv(4, (3, 3), strides=2), lambda x: x.ravel(), nn.Dense(2)]
    network = nn.Sequential(layers)
    return network.init(jax.random.key(0), jnp.zeros((8, 8, 1))), network.apply


def torch_network():
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    pytest.importorskip("torch2jax", reason="needs the extra torch")
    nn = torch.nn
    layers = nn.Conv2d(1, 4, 3), nn.ReLU(), nn.ConvTranspose2d(4, 2, 3, stride=2), nn.Flatten(), nn.Linear(2 * 13**2, 2)
    network = ds.models.from_torch(nn.Sequential(*layers))
    return network, lambda network, x: network(jnp.moveaxis(x, -1, 0))


@pytest.mark.parametrize(
    ("network", "members"), [(own_network, 2), (equinox_network, 1), (flax_network, 1), (torch_network, 1)]
)
def test_whoever_wrote_the_network_its_training_and_probes_run_channels_last(network, members, tmp_path: Path):
    model, apply = network()
    task = ds.tasks.Supervised("mse", apply=apply)
    data = normal(1, (6, 8, 8, 1)), normal(2, (6, 2))

    def member(rate) -> ds.Descent:
        probes = {"sharpness": ds.probes.sharpness(every=2)}
        return ds.Descent(model, task, optax.sgd(rate), data=data, batch=3, key=jax.random.key(3), probes=probes)

    jax.config.update("jax_dump_ir_to", str(tmp_path))
    try:
        ds.ensemble(member, {"rate": np.linspace(0.01, 0.02, members)}, steps=4)
    finally:
        jax.config.update("jax_dump_ir_to", "")
    programs = [path.read_text() for path in tmp_path.rglob("*.mlir")]
    loops = [layouts(program) for program in programs if "stablehlo.while" in program and layouts(program)]
    assert loops
    assert {layout for found in loops for layout in found} == {LAST[4]}
