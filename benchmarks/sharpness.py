"""Sharpness at every step of a run to the edge of stability: followed from step to step, or anew each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

import dynascope as ds
from benchmarks.timing import cpu_seconds, tell
from dynascope.geometry.hessian import dense_hessian, flatten, linearize_gradient
from dynascope.probes.probe import Probe, Snapshot, probe

STEPS, ROWS, PRODUCTS = 1500, 1000, 40
SETTINGS = {"tanh": 0.1, "relu": 0.06}
"""For each activation a learning rate with which the run reaches the edge."""


def setting(activation: str) -> tuple[Any, Callable]:
    net = ds.models.MLP(8, 3, width=16, out=1, key=jax.random.key(0), activation=activation, bias=True)
    x = jax.random.normal(jax.random.key(1), (ROWS, 8))
    y = jnp.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]
    return net, lambda net: jnp.mean((jax.vmap(net)(x)[:, 0] - y) ** 2)


def cold_lanczos(snapshot: Snapshot) -> Any:
    """The top eigenvalue by Lanczos from a random vector, a fixed number of products, orthogonalized in full."""
    flat = flatten(snapshot.loss, snapshot.model)
    _, product = linearize_gradient(flat.objective, flat.point)
    start = jax.random.normal(jax.random.key(0), flat.point.shape)

    def step(carry: Any, i: Any) -> tuple[Any, Any]:
        basis, vector = carry
        basis = basis.at[i].set(vector)
        image = product(vector)
        diagonal = vector @ image
        image = image - (basis @ image) @ basis
        image = image - (basis @ image) @ basis
        length = jnp.linalg.norm(image)
        return (basis, image / length), (diagonal, length)

    basis = jnp.zeros((PRODUCTS, start.size))
    _, (diagonal, beside) = lax.scan(step, (basis, start / jnp.linalg.norm(start)), jnp.arange(PRODUCTS))
    matrix = jnp.diag(diagonal) + jnp.diag(beside[:-1], 1) + jnp.diag(beside[:-1], -1)
    return jnp.linalg.eigvalsh(matrix)[-1]


def dense(snapshot: Snapshot) -> Any:
    return jnp.linalg.eigvalsh(dense_hessian(snapshot.loss, snapshot.model))[-1]


def main() -> None:
    rows = []
    for activation, learning_rate in SETTINGS.items():
        net, loss = setting(activation)
        optimizer = optax.sgd(learning_rate)

        def run(look: Probe, net: Any = net, loss: Any = loss, optimizer: Any = optimizer) -> Any:
            return ds.descend(net, loss, optimizer, steps=STEPS, record=1, probes={"sharpness": look}).trace

        cold_name = f"cold Lanczos, {PRODUCTS} products"
        looks = {
            "no sharpness": ds.probes.loss(),
            cold_name: probe(cold_lanczos),
            "ds.probes.sharpness()": ds.probes.sharpness(),
        }
        seconds, traces = {}, {}
        for name, look in looks.items():
            traces[name] = run(look)
            seconds[name] = cpu_seconds(lambda look=look: run(look), repeats=5)
        exact = traces[cold_name].sharpness.values  # converged, as the whole Hessian shows at every fiftieth step
        sparse = run(probe(dense, every=50)).sharpness
        gap = np.max(np.abs(sparse.values / exact[sparse.sharpness_step] - 1))
        assert gap < 1e-5, gap
        at_edge = np.mean(exact > 1.98 / learning_rate)
        base = seconds["no sharpness"]
        cold = seconds[cold_name] - base
        for name, trace in traces.items():
            looked = name != "no sharpness"
            error = max(gap, np.max(np.abs(trace.sharpness.values / exact - 1)))
            products = trace.get("sharpness_products")
            rows.append(
                {
                    "run": f"{activation}: {name}",
                    "CPU s": round(seconds[name], 2),
                    "part of cold": f"1/{cold / (seconds[name] - base):.1f}" if looked else "",
                    "worst relative error": f"{error:.1e}" if looked else "",
                    "products a step": round(float(products.mean()), 2) if products is not None else "",
                    "steps at the edge": f"{at_edge:.0%}",
                }
            )
    tell(f"sharpness: every one of {STEPS} steps to the edge, MLP of 433 parameters, {ROWS} rows, one thread", rows)


if __name__ == "__main__":
    main()
