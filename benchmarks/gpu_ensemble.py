"""On an accelerator: 1,024 trainings of the 4-layer d=64 network at once, by the ordinary loop and on the chip, against
a scan written by hand.

python -m benchmarks.gpu_ensemble
"""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import optax

import dynascope as ds
from benchmarks.probe_cost import STEPS
from benchmarks.timing import on_accelerator, tell

MEMBERS, BATCH, ROWS = 1024, 128, 10_000


def task_of(key: Any) -> ds.tasks.StructuredIdentity:
    return ds.tasks.StructuredIdentity((1.0, 2.0), 0.05, 64, rotation=ds.tasks.random_rotation(key, 64))


def member(seed: Any) -> ds.Descent:
    turn, init, draw, order = jax.random.split(jax.random.key(seed), 4)
    task = task_of(turn)
    probes = {"output": ds.probes.output(task.test_point), "test_loss": task.test_loss}
    model, data = ds.models.MLP(64, 4, key=init), task.dataset(draw, ROWS // 2).x
    return ds.Descent(model, task, optax.sgd(0.1), data=data, batch=BATCH, key=order, probes=probes)


def by_hand() -> tuple[float, float]:
    """Seconds to compile and to run: a vmap of a scan over epochs and batches, recording the test loss each epoch."""

    def loss(weights: Any, x: Any) -> Any:
        y = x
        for weight in weights:
            y = y @ weight.T
        return jnp.mean((y - x) ** 2)

    def begin(seed: Any) -> Any:
        turn, init, draw, order = jax.random.split(jax.random.key(seed), 4)
        task = task_of(turn)
        return ds.models.MLP(64, 4, key=init).weights, task.dataset(draw, ROWS // 2).x, task.test_point, order

    def train(weights: Any, data: Any, point: Any, key: Any) -> Any:
        per_epoch = ROWS // BATCH

        def epoch(weights: Any, key: Any) -> tuple[Any, Any]:
            order = jax.random.permutation(key, ROWS)[: per_epoch * BATCH].reshape(per_epoch, BATCH)

            def step(weights: Any, rows: Any) -> tuple[Any, None]:
                gradient = jax.grad(loss)(weights, data[rows])
                return [w - 0.1 * g for w, g in zip(weights, gradient, strict=True)], None

            weights, _ = jax.lax.scan(step, weights, order)
            return weights, loss(weights, point[None, :])

        return jax.lax.scan(epoch, weights, jax.random.split(key, STEPS // per_epoch))[1]

    arguments = jax.block_until_ready(jax.jit(jax.vmap(begin))(jnp.arange(MEMBERS)))
    start = time.perf_counter()
    compiled = jax.jit(jax.vmap(train)).lower(*arguments).compile()
    compile_seconds = time.perf_counter() - start
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        jax.block_until_ready(compiled(*arguments))
        seconds.append(time.perf_counter() - start)
    return compile_seconds, min(seconds)


def main(precisions: tuple[str, ...] = ("default", "bfloat16", "highest")) -> None:
    if not on_accelerator("gpu-ensemble"):
        return
    rows = []
    for precision in precisions:
        contenders = {}
        with jax.default_matmul_precision(precision):
            for on_chip in (False, None):
                run = {"steps": STEPS, "record": 20, "on_chip": on_chip}
                traces = [ds.ensemble(member, {"seed": range(MEMBERS)}, **run).trace for _ in range(3)]
                best = min(traces, key=lambda trace: trace.run_seconds)
                assert float(best.test_loss.isel(step=-1).max()) < 1e-2
                learned = float(best.test_loss.isel(step=-1).median())
                name = "dynascope" + (", by the ordinary loop" if on_chip is False else f": {best.attrs['loop']}")
                contenders[name] = max(trace.compile_seconds for trace in traces), best.run_seconds
            contenders["scan by hand"] = by_hand()
        for name, (compiling, running) in contenders.items():
            rows.append(
                {
                    "run": name,
                    "matrix products": precision,
                    "seconds": round(running, 2),
                    "compile s": round(compiling, 1),
                }
            )
    print(f"median final test loss through the library: {learned:.1e}")
    device = jax.devices()[0].device_kind
    tell(f"gpu-ensemble: {MEMBERS} trainings, 4 layers, d=64, batch {BATCH}, {STEPS} steps, on {device}", rows)


if __name__ == "__main__":
    main()
