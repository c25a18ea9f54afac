"""Gradient descent on a few points, with the tangent kernel watched: what the experiments on kernels share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array, Float, Int

import dynascope as ds
from dynascope.geometry.hessian import flatten, linearized
from dynascope.models import dag_architectures as architectures
from dynascope.models.dag import DAG
from dynascope.probes.polyak import polyak
from dynascope.probes.probe import Snapshot, probe

Kind = Literal["fully connected", "densenet", "densenet without input"]
TOGETHER = {"fully connected": 4096, "densenet": 512, "densenet without input": 512}
"""Up to so wide a widest network, narrower ones are that one with fewer edges, in one program."""


def half_squares(model: Any, data: tuple[Array, Array]) -> Float[Array, ""]:
    """Half the sum of squared errors (equation 2.15)."""
    x, y = data
    return jnp.sum((jax.vmap(model)(x)[:, 0] - y) ** 2) / 2


class Trained(eqx.Module):
    """An ensemble member: a DAG network and gradient descent at a rate of `share` / lambda_max(K_0), K_0 the kernel of
    the network before its output's activation: of slope at most 1, that makes the kernel no larger."""

    kind: Kind = eqx.field(static=True)
    hidden: int = eqx.field(static=True)
    """The number of hidden layers."""
    activation: str = eqx.field(static=True)
    output: str = eqx.field(static=True)
    curvature: bool = eqx.field(static=True, default=False)
    """Whether to look, at the start, at the Hessian H of the first point's output f: its norm, and 2 |H grad f|, by
    which the kernel of that point changes per distance in the worst direction."""
    quadratic: bool = eqx.field(static=True, default=False)
    """Whether to train the network's second-order Taylor model instead."""
    largest: int = eqx.field(static=True, default=1)
    """The size of hidden layers in the arrays; `train` sets it."""

    def __call__(self, seed: Array, width: Array, x: Array, y: Array, removed: Array, share: Array) -> ds.Descent:
        key = jax.random.fold_in(jax.random.key(seed), width)
        net, inner = (self.network(x.shape[1], width, key, removed, output) for output in (self.output, "linear"))
        largest = jnp.linalg.eigvalsh(ds.geometry.tangent_kernel(inner, x))[-1]
        rate = share / jnp.where(largest > 0, largest, 1)  # a dead network has no kernel, and stays where it is
        probes = {"loss": ds.probes.loss(), "polyak": polyak(x)}
        if self.curvature:

            def output(net: DAG) -> Array:
                return net(x[0])[0]

            def worst(snapshot: Snapshot) -> Array:
                flat = flatten(output, snapshot.model)
                gradient, product = linearized(flat.objective, flat.point)
                return 2 * jnp.linalg.norm(product(gradient))

            probes["hessian"] = ds.probes.output_hessian_norm(output, every=[0])
            probes["worst"] = probe(worst, every=[0])
        model = ds.models.quadratic(net) if self.quadratic else net
        return ds.Descent(model, half_squares, optax.sgd(rate), data=(x, y), probes=probes)

    def network(self, dim: int, width: Array, key: Array, removed: Array, output: str) -> DAG:
        ends = np.array([dim, *[0] * self.hidden, 1], np.int32)
        sizes = jnp.where(jnp.asarray(ends > 0), jnp.asarray(ends), width)
        most, how = (dim, *[self.largest] * self.hidden, 1), {"activation": self.activation, "output": output}
        if self.kind == "fully connected":
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
    parts = [
        ds.ensemble(
            replace(member, largest=max(group)),
            {"width": np.asarray(group, np.int32), "seed": seeds}, steps=steps, record=record, fixed=fixed,
        )
        for group in groups
    ]  # fmt: skip
    return cast(xr.Dataset, xr.concat(parts, "width"))
