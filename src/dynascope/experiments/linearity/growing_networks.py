"""Networks whose Hessian is measured as they grow: those that become linear in theory, and those that do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Int, Key, PRNGKeyArray

import dynascope as ds
from dynascope.models import dag_architectures as architectures
from dynascope.models.dag import DAG

Kind = Literal["fcn", "densenet", "skips", "convolution"]
WINDOW, PLACES = 3, 5


class Family(NamedTuple):
    """Shapes that are compiled once: networks that differ in sizes only, and in which edges are there."""

    kind: Kind
    hidden: tuple[float | int, ...]
    """The size of each hidden layer as a power of m; 0 is a single neuron."""
    activation: str
    output: str = "linear"


class Case(NamedTuple):
    """A network of the table."""

    title: str
    family: Family
    sizes: tuple[float | int, ...]
    """Powers of m, at most those of the family."""
    linear: bool = True
    """Whether it becomes linear by the theorem."""
    thin: int = 0
    """Number of neurons of its second layer with a single incoming edge."""


FCN2, FCN3, FCN4 = (Family("fcn", (1.0,) * layers, "tanh") for layers in (1, 2, 3))
CASES: dict[str, Case] = {
    "fcn2-relu": Case("2 layers, ReLU", FCN2._replace(activation="relu"), (1,)),
    "fcn2-tanh": Case("2 layers, tanh", FCN2, (1,)),
    "fcn3-tanh": Case("3 layers, tanh", FCN3, (1, 1)),
    "fcn4-tanh": Case("4 layers, tanh", FCN4, (1, 1, 1)),
    "fcn3-relu": Case("3 layers, ReLU", FCN3._replace(activation="relu"), (1, 1)),
    "uneven": Case("3 layers, m and m^1.5", FCN3._replace(hidden=(1, 1.5)), (1, 1.5)),
    "thin-neurons": Case("3 layers, two neurons of in-degree 1", FCN3, (1, 1), thin=2),
    "densenet": Case("DenseNet, swish, half the edges", Family("densenet", (1, 1), "swish"), (1, 1)),
    "skips": Case("4 layers, tanh, skips", Family("skips", (1, 1, 1), "tanh"), (1, 1, 1)),
    "convolution": Case("convolution, shared weights", Family("convolution", (1, 1), "tanh"), (1, 1)),
    "single-neuron-layer": Case("3 layers, the second a single neuron", FCN3, (1, 0), linear=False),
    "bottleneck-layer": Case("4 layers, one of a single neuron", FCN4, (1, 0, 1), linear=False),
    "nonlinear-output": Case(
        "3 layers, output tanh(f + 1)", FCN3._replace(output="shifted tanh"), (1, 1), linear=False
    ),
}
"""Fully connected networks, those of Section 2.3, shared weights and skips; last those that do not become linear."""
FIXED_SIZE: tuple[Kind, ...] = ("skips", "convolution")
"""Kinds that are built at their own size: in these, a neuron without edges is not the same as no neuron."""


@dataclass(frozen=True)
class Initialized:
    """Networks of a family at initialization, measured without training."""

    family: Family
    largest: int
    dim: int

    @eqx.filter_jit
    def measure(
        self, sizes: Int[Array, "s l"], thin: Int[Array, " s"], keys: Key[Array, " s"], **how: Any
    ) -> dict[str, Array]:
        """`linearity_gap` of one output of each, and the smallest in-degree past the first layer."""
        return lax.map(lambda each: self._measure(*each, **how), (sizes, thin, keys))

    def _measure(
        self, sizes: Int[Array, " l"], thin: Int[Array, ""], key: PRNGKeyArray, radius: Array, removed: Array
    ) -> dict[str, Array]:
        for_net, for_edges, for_x, for_gap = jax.random.split(key, 4)
        dim = PLACES if self.family.kind == "convolution" else self.dim
        x = jax.random.normal(for_x, (dim,))
        x = x * jnp.sqrt(jnp.asarray(dim, x.dtype)) / jnp.linalg.norm(x)
        net = self.network(for_net)
        if self.family.kind not in FIXED_SIZE:
            net = architectures.narrow_layers(net, sizes)
        if self.family.kind == "densenet":
            net = architectures.remove_edges(net, removed, key=for_edges)
        elif self.family.kind == "fcn" and len(self.family.hidden) > 1:
            net = architectures.bottleneck_neurons(net, 2, thin)
        found = ds.geometry.linearity_gap(lambda net: net(x)[0], net, radius, for_gap, among=net.edge_marks())
        names = ("value", "norm", "random", "gradient", "hessian", "norm_error")
        return {f"gap_{name}": getattr(found, name) for name in names} | {"in_degree": net.width()}

    def network(self, key: Array) -> DAG:
        hidden = [hidden_size(self.largest, power) for power in self.family.hidden]
        how = {"key": key, "activation": self.family.activation, "output": self.family.output}
        if self.family.kind == "convolution":
            return architectures.convolutional((1, *hidden), PLACES, WINDOW, **how)
        if self.family.kind == "densenet":
            return architectures.densenet((self.dim, *hidden, 1), **how)
        net = architectures.fully_connected((self.dim, *hidden, 1), **how)
        return architectures.random_skips(net, key=key) if self.family.kind == "skips" else net


def hidden_size(width: int, power: float | int) -> int:
    """m to a power, as a whole number."""
    return round(width**power)


def measure_case(
    case: Case, widths: tuple[int, ...], dim: int, seeds: Int[np.ndarray, " s"], **how: Any
) -> dict[str, np.ndarray]:
    """The measurements of a case at every width and seed, each with its own weights: arrays (width, seed)."""
    sizes = [(dim, *(hidden_size(width, power) for power in case.sizes), 1) for width in widths]
    grid = np.repeat(np.arange(len(widths)), len(seeds))
    streams = jnp.asarray(np.asarray(widths, np.int32)[grid]), jnp.asarray(np.tile(seeds, len(widths)))
    keys = jax.vmap(lambda width, seed: jax.random.fold_in(jax.random.key(seed), width))(*streams)
    thin = jnp.full(len(grid), case.thin, jnp.int32)
    member = Initialized(case.family, max(widths), dim)
    found = member.measure(jnp.asarray(np.asarray(sizes, np.int32)[grid]), thin, keys, **how)
    return {name: np.asarray(value).reshape(len(widths), len(seeds)) for name, value in found.items()}
