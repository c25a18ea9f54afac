"""On an NVIDIA GPU: ensembles of small linear networks on the chip and by the ordinary loop, over sizes.

python -m benchmarks.on_chip

Members are trained by SGD on shuffled batches of 128 and recorded at every 20th step. TFLOP/s count the matrix products
alone; the limit of the chip is that of one large product.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import optax

import dynascope as ds
from benchmarks.timing import on_accelerator, tell

BATCH, STEPS, ROWS = 128, 1000, 10_000
SIZES = [(16, 4, 16_384), (64, 4, 1024)]
OTHERS = [(d, 4, 1024) for d in (4, 16, 32, 128)]
OTHERS += [(64, layers, 1024) for layers in (1, 2, 6)]
OTHERS += [(64, 4, members) for members in (64, 4096)]
OTHERS += [(16, 4, members) for members in (64, 4096)]
"""Dimension, layers and members of each row."""


def seconds(d: int, layers: int, members: int, on_chip: bool) -> tuple[float, str]:
    """Of the fastest of three runs, and how the members were advanced."""

    def member(seed: Any) -> ds.Descent:
        init, draw, order = jax.random.split(jax.random.key(seed), 3)
        task = ds.tasks.StructuredIdentity((1.0, 2.0), 0.05, d)
        probes = {"output": ds.probes.output(task.test_point), "test_loss": task.test_loss}
        model, data = ds.models.MLP(d, layers, key=init), task.dataset(draw, ROWS // 2).x
        return ds.Descent(model, task, optax.sgd(0.1), data=data, batch=BATCH, key=order, probes=probes)

    run = {"steps": STEPS, "record": 20, "on_chip": None if on_chip else False}
    traces = [ds.ensemble(member, {"seed": range(members)}, **run).trace for _ in range(3)]
    return min(trace.run_seconds for trace in traces), traces[0].attrs["loop"]


def teraflops(d: int, layers: int, members: int, taken: float) -> float:
    """Of the products of a step: one a layer forward, two back, but for the gradient of the input."""
    return (3 * layers - 1) * 2 * BATCH * d * d * STEPS * members / taken / 1e12


def limit(size: int = 8192) -> float:
    """TFLOP/s of one large product at the precision in force."""
    x = jnp.ones((size, size))
    product = jax.jit(lambda x: x @ x)
    jax.block_until_ready(product(x))
    start = time.perf_counter()
    for _ in range(10):
        y = product(x)
    jax.block_until_ready(y)
    return 10 * 2 * size**3 / (time.perf_counter() - start) / 1e12


def main() -> None:
    if not on_accelerator("on-chip"):
        return
    rows = []
    for precision, sizes in {"default": SIZES + OTHERS, "bfloat16": SIZES, "highest": SIZES}.items():
        with jax.default_matmul_precision(precision):
            most = limit()
            for d, layers, members in sizes:
                ordinary, _ = seconds(d, layers, members, on_chip=False)
                ours, loop = seconds(d, layers, members, on_chip=True)
                rows.append(
                    {
                        "products": precision,
                        "d": d,
                        "layers": layers,
                        "members": members,
                        "ordinary s": round(ordinary, 3),
                        "on chip s": round(ours, 3),
                        "loop": loop,
                        "gain": round(ordinary / ours, 1),
                        "TFLOP/s": round(teraflops(d, layers, members, ours), 1),
                        "limit": round(most),
                    }
                )
                print(rows[-1], flush=True)
    tell(f"on-chip: {STEPS} steps of small networks, {jax.devices()[0].device_kind}", rows)


if __name__ == "__main__":
    main()
