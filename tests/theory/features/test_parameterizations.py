"""Powers of the width: as printed, and as the networks themselves have them in one step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.geometry.kernel_spectrum import critical_rate
from dynascope.models import MLP
from dynascope.theory.features.parameterizations import width_exponents

WIDTHS = (64, 1024)


def test_the_exponents_are_the_printed_ones():
    """Yang and Hu 2021, Table 1 and Section 4: NTP has r = 1/2, muP r = 0, SP needs c = 1 and then has r = 1/2."""
    assert width_exponents("ntk", 3) == (0.0, -0.5)
    assert width_exponents("mup", 3) == (0.0, 0.0)
    assert width_exponents("standard", 3) == (-1.0, -0.5)
    assert width_exponents("standard", 2) == (-1.0, -1.5), "the first layer alone moves, and it is small"


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("name", ["standard", "ntk", "mup"])
def test_one_step_of_wide_networks_moves_as_theory_says(name: str, depth: int):
    """The largest rate from the tangent kernel, and the movement in a step at it, both at two widths."""
    rates, moves = zip(*(one_step(name, depth, width) for width in WIDTHS), strict=True)
    octaves = np.log(WIDTHS[1] / WIDTHS[0])
    found = np.log(np.array([rates[1] / rates[0], moves[1] / moves[0]])) / octaves
    np.testing.assert_allclose(found, width_exponents(name, depth), atol=0.12)


def one_step(name: str, depth: int, width: int) -> tuple[float, float]:
    """The critical rate, and the relative movement of the last hidden layer in one step at it; medians over seeds."""

    data = jax.random.normal(jax.random.key(0), (12, 6))

    def one(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        net = MLP(6, depth, key=key, width=width, out=1, activation="relu", parameterization=name)
        rate = critical_rate(net, data)
        slope = jax.grad(lambda net: jnp.mean((jax.vmap(net)(data)[:, 0] - data[:, 0] * data[:, 1]) ** 2))(net)
        after = jax.tree.map(lambda weight, step: weight - rate * step, net, slope)
        before, moved = (jax.vmap(lambda x, net=each: hidden(net, x))(data) for each in (net, after))
        return rate, jnp.linalg.norm(moved - before) / jnp.linalg.norm(before)

    rates, moves = jax.lax.map(one, jax.random.split(jax.random.key(1), 5))
    return float(jnp.median(rates)), float(jnp.median(moves))


def hidden(net: MLP, x: jax.Array) -> jax.Array:
    for layer in range(len(net.weights) - 1):
        x = jax.nn.relu(net.affine(layer, x))
    return x
