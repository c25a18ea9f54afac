"""On an accelerator: the top eigenpair of the tangent kernel of CNN5 with 512 channels, at each of 100 steps.

python -m benchmarks.gpu_kernel

128 images of 32 x 32 x 3. The kernel is known by its products alone: one costs a reverse and a forward derivative. The
whole Jacobian would weigh points x parameters x 4 bytes; what the device holds at most must not grow with that. The
other rows, a few steps each, have half the channels and four times the points, to see what memory follows.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import optax

import dynascope as ds
from benchmarks.timing import on_accelerator, tell

STEPS, ROWS = 100, 32


def setting(points: int, channels: int) -> tuple[ds.models.ConvNet, jax.Array, jax.Array]:
    key = jax.random.key(0)
    x = jax.random.normal(jax.random.key(1), (points, 32, 32, 3))
    return ds.models.ConvNet((32, 32, 3), (channels,) * 4, key=key), x, jnp.sign(x[:, 16, 16, 0])


def loss(model: Any, data: tuple[jax.Array, jax.Array]) -> jax.Array:
    x, y = data
    return jnp.mean((jax.vmap(model)(x)[:, 0] - y) ** 2)


def seconds(points: int, channels: int, steps: int, probes: dict[str, Any]) -> tuple[float, Any]:
    """Of so many recorded steps, the second time they are taken (the first compiles), and the trace."""
    model, x, y = setting(points, channels)

    def job() -> Any:
        return ds.descend(model, loss, optax.sgd(0.1), steps=steps, record=1, data=(x, y), probes=probes).trace

    job()
    start = time.perf_counter()
    trace = job()
    return time.perf_counter() - start, trace


def peak_gigabytes() -> float:
    statistics = jax.devices()[0].memory_stats() or {}
    return round(statistics.get("peak_bytes_in_use", 0) / 2**30, 2)


def row(points: int, channels: int, steps: int) -> dict[str, Any]:
    """Training alone and with the probe; peak memory only ever grows, so the smaller settings come first."""
    model, x, _ = setting(points, channels)
    size = sum(leaf.size for leaf in jax.tree.leaves(model) if hasattr(leaf, "size"))
    alone, _ = seconds(points, channels, steps, {"step_count": lambda model: jnp.zeros(())})
    trained = peak_gigabytes()
    looks = {"kernel": ds.probes.kernel_norm(x, tolerance=1e-3, formed=False, rows=ROWS)}
    probed, trace = seconds(points, channels, steps, looks)
    products = float(trace.kernel_products.mean())
    return {
        "points": points,
        "steps": steps,
        "channels": channels,
        "parameters": size,
        "step ms": round(1000 * alone / steps, 2),
        "with probe ms": round(1000 * probed / steps, 2),
        "products a step": round(products, 2),
        "probe / (products x step)": round((probed - alone) / (products * alone), 2),
        "largest relative residual": f"{float((trace.kernel_residual / trace.kernel).max()):.1e}",
        "Jacobian GB": round(points * size * 4 / 2**30, 2),
        "peak GB, training": trained,
        "peak GB, probed": peak_gigabytes(),
    }


def main() -> None:
    if not on_accelerator("gpu-kernel"):
        return
    device = jax.devices()[0].device_kind
    rows = [row(128, 256, 5), row(128, 512, STEPS), row(512, 512, 5)]
    tell(f"gpu-kernel: top eigenpair of the tangent kernel at each of {STEPS} steps, {device}", rows)


if __name__ == "__main__":
    main()
