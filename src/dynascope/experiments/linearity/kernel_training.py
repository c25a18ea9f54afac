"""Shared by the experiments on tangent kernels: a few points of two classes, and networks trained on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array, Float, Int

import dynascope as ds
from dynascope.geometry.hessian import flatten, linearize_gradient
from dynascope.models import dag_architectures as architectures
from dynascope.models.dag import DAG
from dynascope.probes.polyak import polyak
from dynascope.probes.probe import Snapshot, probe
from dynascope.tasks.data import datasets

Data = Literal["cifar10", "mnist", "digits", "gaussians"]
POOL = 4
Kind = Literal["fcn", "densenet", "densenet without input"]
TOGETHER = {"fcn": 4096, "densenet": 512, "densenet without input": 512}
"""Up to this largest width, one program serves all widths: narrower networks are the widest with fewer edges."""


class Points(NamedTuple):
    """Inputs, each coordinate of order 1, labels -1 and +1, and a description."""

    x: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    name: str


def points(data: Data, samples: int, seed: int) -> Points:
    """Airplanes and birds of CIFAR-10; the digits 3 and 8 of MNIST (or of its part in the package, "digits"), averaged
    over squares of 4 x 4 pixels and standardized; or two Gaussians in as many dimensions."""
    key = jax.random.key(seed)
    if data == "gaussians":
        return _gaussians(samples, seed)
    if data == "cifar10":
        found = datasets.two_classes("cifar10", (0, 2), samples, 0, key)
        return Points(found.x, found.y, f"airplanes and birds of CIFAR-10, {samples} points")
    found = datasets.two_classes(data, (3, 8), samples, 0, key, flat=False)
    pooled = found.x.reshape(samples, 28 // POOL, POOL, 28 // POOL, POOL).mean(axis=(2, 4)).reshape(samples, -1)
    pooled = (pooled - pooled.mean()) / pooled.std()
    return Points(pooled, found.y, f"3 and 8 of MNIST, {pooled.shape[1]} averaged pixels, {samples} points")


def _gaussians(samples: int, seed: int, dim: int = 49) -> Points:
    draw = np.random.default_rng(seed)
    y = np.where(np.arange(samples) % 2, 1.0, -1.0)
    x = draw.standard_normal((samples, dim)) + 0.5 * y[:, None] * draw.choice([-1.0, 1.0], dim)
    return Points(x / x.std(), y, f"two Gaussians in {dim} dimensions, {samples} points")


def half_sum_of_squares(outputs: Float[Array, "n 1"], targets: Float[Array, " n"]) -> Float[Array, ""]:
    """Half the sum of squared errors (equation 2.15)."""
    return jnp.sum((outputs[:, 0] - targets) ** 2) / 2


class Trained(ds.Member):
    """An ensemble member: a DAG network and gradient descent at the rate `share` / lambda_max(K_0), where K_0 is the
    initial kernel of the network before its output's activation, whose slope is at most 1."""

    kind: Kind
    hidden: int
    """The number of hidden layers."""
    activation: str
    output: str
    curvature: bool = False
    """Whether to measure, at initialization, the Hessian H of the first point's output f: its norm, and 2 |H grad f|,
    the change of the kernel of that point per distance in the worst direction."""
    quadratic: bool = False
    """Whether to train the network's second-order Taylor model instead."""
    largest: int = 1
    """The size of the hidden layers in the arrays; set by `train`."""

    def __call__(self, seed: Array, width: Array, x: Array, y: Array, removed: Array, share: Array) -> ds.Descent:
        key = jax.random.fold_in(jax.random.key(seed), width)
        net, inner = (self.network(x.shape[1], width, key, removed, output) for output in (self.output, "linear"))
        largest = jnp.linalg.eigvalsh(ds.geometry.tangent_kernel(inner, x))[-1]
        rate = share / jnp.where(largest > 0, largest, 1)  # a dead network has no kernel and does not move
        probes = {"loss": ds.probes.loss(), "polyak": polyak(x)}
        if self.curvature:

            def output(net: DAG) -> Array:
                return net(x[0])[0]

            def worst(snapshot: Snapshot) -> Array:
                flat = flatten(output, snapshot.model)
                gradient, product = linearize_gradient(flat.objective, flat.point)
                return 2 * jnp.linalg.norm(product(gradient))

            probes["hessian"] = ds.probes.output_hessian_norm(output, every=[0])
            probes["worst"] = probe(worst, every=[0])
        model = ds.models.quadratic(net) if self.quadratic else net
        task = ds.tasks.Supervised(half_sum_of_squares)
        return ds.Descent(model, task, optax.sgd(rate), data=(x, y), probes=probes)

    def network(self, dim: int, width: Array, key: Array, removed: Array, output: str) -> DAG:
        ends = np.array([dim, *[0] * self.hidden, 1], np.int32)
        sizes = jnp.where(jnp.asarray(ends > 0), jnp.asarray(ends), width)
        most, how = (dim, *[self.largest] * self.hidden, 1), {"activation": self.activation, "output": output}
        if self.kind == "fcn":
            return architectures.narrow_layers(architectures.fully_connected(most, key=key, **how), sizes)
        net = architectures.densenet(most, key=key, with_input=self.kind == "densenet", **how)
        net = architectures.narrow_layers(net, sizes)
        return architectures.remove_edges(net, removed, key=jax.random.fold_in(key, 1))


def train(
    member: Trained,
    widths: tuple[int, ...],
    seeds: Int[np.ndarray, " s"],
    x: np.ndarray,
    y: np.ndarray,
    *,
    steps: int,
    record: np.ndarray,
    removed: float = 0.0,
    share: float = 1.0,
    precision: str = "float32",
) -> xr.Dataset:
    """Traces over `width`, `seed` and `step`."""
    number = np.dtype(precision).type
    fixed = {"x": x.astype(number), "y": y.astype(number), "removed": number(removed), "share": number(share)}
    groups = [widths] if max(widths) <= TOGETHER[member.kind] else [(width,) for width in widths]
    how: dict[str, Any] = {"steps": steps, "record": record, "fixed": fixed}
    parts = [
        ds.ensemble(replace(member, largest=max(group)), {"width": np.asarray(group, np.int32), "seed": seeds}, **how)
        for group in groups
    ]
    return cast(xr.Dataset, xr.concat([part.trace for part in parts], "width"))
