"""On an accelerator: a training step of the diffusion model of pictures, against a plain JAX scan and PyTorch.

python -m benchmarks.diffusion_step

The U-Net has 10.6 million parameters, batches have 128 pictures of 32 x 32 x 3. The plain scan is what one would write
by hand around the same network. The PyTorch network runs twice: as the published program runs it (eagerly, with the
defaults of PyTorch and deterministic convolutions, batches from a `DataLoader` with four workers, the loss read at
every step), and as fast as it goes eagerly (TF32 everywhere, any algorithm, data on the device, nothing read). Then:
what it takes to generate 128 pictures in 100 steps, and what doing so at 60 checkpoints adds to a training of 20,000.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import dynascope as ds
from benchmarks.timing import on_accelerator, tell
from dynascope.dynamics import clipped_network
from dynascope.models import Diffusion, generate
from dynascope.tasks.diffusion import Examples, VariationalDiffusion

SHAPE, CONDITION, BATCH, IMAGES, RATE = (32, 32, 3), 4, 128, 5222, 1e-3
EVERY = 333
"""Steps between two checkpoints: 60 in 20,000."""
STEPS, REPEATS = 3 * EVERY, 3
LOW, HIGH, NOISE = -5.0, 10.0, 1e-3

Data = tuple[jax.Array, jax.Array]


def data() -> Data:
    draw = np.random.default_rng(0)
    images, conditions = draw.random((IMAGES, *SHAPE), np.float32), draw.random((IMAGES, CONDITION), np.float32)
    return jnp.asarray(images), jnp.asarray(conditions)


def optimizer() -> optax.GradientTransformation:
    return clipped_network(optax.adamw(RATE, weight_decay=0.01), 1.0, schedule=optax.adam(RATE))


class Training(eqx.Module):
    """The diffusion model through the library; with pictures generated at every checkpoint, if `probed`."""

    probed: bool = eqx.field(static=True)

    def __call__(self, seed: Any, x: Any, condition: Any) -> ds.Descent:
        init, order = jax.random.split(jax.random.key(seed))
        model = Diffusion(ds.models.UNet(SHAPE, CONDITION, key=init, compute="bfloat16"))
        probes: dict[str, Any] = {"offset": lambda model: model.offset}
        if self.probed:
            probes["brightness"] = lambda model: jnp.mean(
                generate(model, condition[:BATCH], SHAPE, key=jax.random.key(1)), axis=(1, 2, 3)
            )
        return ds.Descent(
            model,
            VariationalDiffusion(),
            optimizer(),
            data=Examples(x, condition),
            batch=BATCH,
            key=order,
            probes=probes,
        )


def in_the_library(given: Data, steps: int, probed: bool = False) -> float:
    """Milliseconds a step, the median of some runs after a first one, which compiles; the start is not recorded."""
    record = np.arange(EVERY, steps + 1, EVERY) if probed else np.array([steps])
    fixed = {"seed": 0, "x": given[0], "condition": given[1]}

    def run() -> float:
        return ds.ensemble(Training(probed), {}, steps=steps, record=record, fixed=fixed).trace.run_seconds

    run()  # its first steps are slow even once it is compiled
    return 1e3 * statistics.median(run() for _ in range(REPEATS)) / steps


def by_hand(given: Data) -> float:
    """Milliseconds a step of a scan around the same network, loss and optimizer."""
    images, conditions = given
    network = ds.models.UNet(SHAPE, CONDITION, key=jax.random.key(0), compute="bfloat16")
    weights, static = eqx.partition(network, eqx.is_array)
    start = {"network": weights, "schedule": jnp.asarray([LOW, HIGH - LOW], jnp.float32)}
    rule = optax.partition(
        {
            "network": optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(RATE, weight_decay=0.01)),
            "schedule": optax.adam(RATE),
        },
        {"network": "network", "schedule": "schedule"},
    )

    def loss(parameters: Any, key: jax.Array) -> jax.Array:
        keys = jax.random.split(key, 4)
        rows = jax.random.randint(keys[0], (BATCH,), 0, IMAGES)
        x, c = images[rows], conditions[rows]
        offset, slope = parameters["schedule"]
        gamma = offset + jnp.abs(slope) * (jax.random.uniform(keys[1]) + jnp.arange(BATCH, dtype=jnp.float32)) / BATCH
        e, column = jax.random.normal(keys[2], x.shape), gamma[:, None, None, None]
        z = jnp.sqrt(jax.nn.sigmoid(-column)) * x + jnp.sqrt(jax.nn.sigmoid(column)) * e
        unet = eqx.combine(parameters["network"], static)
        found = jax.vmap(lambda z, g, c, k: unet(z, g, c, key=k))(z, gamma, c, jax.random.split(keys[3], BATCH))
        v = jax.nn.sigmoid(offset + jnp.abs(slope))
        latent = v + (1 - v) * jnp.mean(x**2) - jnp.log(v) - 1
        return 0.5 * (jnp.abs(slope) * jnp.mean((e - found) ** 2) + latent + jnp.exp(offset) / NOISE**2) / jnp.log(2.0)

    def step(carry: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        parameters, memory = carry
        value, gradient = jax.value_and_grad(loss)(parameters, key)
        updates, memory = rule.update(gradient, memory, parameters)
        return (optax.apply_updates(parameters, updates), memory), value

    run = jax.jit(lambda carry, keys: jax.lax.scan(step, carry, keys))
    keys, carry = jax.random.split(jax.random.key(1), STEPS), (start, rule.init(start))
    return 1e3 * seconds(lambda: jax.block_until_ready(run(carry, keys))) / STEPS


def seconds(job: Callable[[], Any]) -> float:
    """Of the job once it is compiled, the median of some runs."""
    job()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def in_torch(published: bool) -> float:
    """Milliseconds a step of the same network in PyTorch, in a process of its own: JAX is no company for workers that
    are forked."""
    command = [sys.executable, "-m", "benchmarks.diffusion_torch", *(["published"] if published else [])]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def sampling(given: Data) -> float:
    """Seconds to generate 128 pictures in 100 steps."""
    model = Diffusion(ds.models.UNet(SHAPE, CONDITION, key=jax.random.key(0), compute="bfloat16"))
    conditions, key = given[1][:BATCH], jax.random.key(1)
    return seconds(lambda: jax.block_until_ready(generate(model, conditions, SHAPE, key=key)))


def peak_gigabytes() -> float:
    return round((jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0) / 2**30, 2)


def main() -> None:
    if not on_accelerator("diffusion-step"):
        return
    published, fast = in_torch(published=True), in_torch(published=False)
    given, rows = data(), []

    def add(what: str, value: float, unit: str, against: str = "") -> None:
        rows.append({"what": what, "measured": round(value, 3), "unit": unit, "against": against})
        print(f"{what}: {value:.3f} {unit} {against}", flush=True)

    ours = in_the_library(given, STEPS)
    add("a step through the library, bfloat16", ours, "ms")
    plain = by_hand(given)
    add("a step of a plain scan, bfloat16", plain, "ms", f"library / plain = {ours / plain:.2f}")
    drawn = sampling(given)
    add("128 pictures in 100 steps", drawn, "s")
    probed = in_the_library(given, STEPS, probed=True)
    add("a step with 60 checkpoints in 20,000", probed, "ms", f"adds {probed / ours - 1:.1%} to a run")
    add("most memory in use", peak_gigabytes(), "GiB")
    for what, peer in (("as the published program runs it", published), ("as fast as it goes eagerly", fast)):
        add(f"a step in PyTorch, {what}", peer, "ms", f"PyTorch / library = {peer / ours:.1f}")
    tell(f"diffusion-step: U-Net of 10.6 M, batch {BATCH}, {jax.devices()[0].device_kind}", rows)


if __name__ == "__main__":
    main()
