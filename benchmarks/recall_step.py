"""A training step of the two-layer recall transformer with fresh data, against a plain JAX scan and PyTorch.

python -m benchmarks recall_step                              on one CPU thread, at a small size
python -m benchmarks.recall_step [bfloat16 | float32]...      on an accelerator, at the document's size

The library and the plain scan draw every batch inside the compiled loop, with the statistics of Shakespeare's
characters. PyTorch, eager and under torch.compile, is given batches that were drawn before: its time has no sampler in
it. All take SGD with momentum and weight decay on the loss at triggers. On a CPU the times are CPU times of one thread.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import dynascope as ds
from benchmarks.timing import cpu_seconds, tell
from dynascope.tasks import NoisyRecall
from dynascope.tasks.data.text import character_frequencies

RATE, MOMENTUM, DECAY = 0.01, 0.9, 1e-4
REPEATS = 3


class Size(NamedTuple):
    dim: int
    length: int
    batch: int
    steps: int


SMALL, PAPER = Size(64, 64, 32, 60), Size(256, 256, 512, 200)


def task_of(size: Size) -> NoisyRecall:
    text = character_frequencies()
    return NoisyRecall(text.first, text.following, length=size.length)


def optimizer() -> optax.GradientTransformation:
    return optax.chain(optax.add_decayed_weights(DECAY), optax.sgd(RATE, momentum=MOMENTUM))


class Training(eqx.Module):
    """The training through the library."""

    size: Size = eqx.field(static=True)
    compute: str = eqx.field(static=True)

    def __call__(self, seed: Any, task: NoisyRecall) -> ds.Descent:
        init, order = jax.random.split(jax.random.key(seed))
        model = ds.models.RecallTransformer(
            task.vocabulary, self.size.length, key=init, dim=self.size.dim, compute=self.compute
        )
        probes: dict[str, Any] = {"weight": lambda model: model.blocks[0].score[0, 0]}
        return ds.Descent(model, task, optimizer(), batch=self.size.batch, key=order, probes=probes)


def seconds(job: Callable[[], Any]) -> float:
    """Of the job once it is compiled: CPU time of one thread, or on an accelerator wall time; the median of some."""
    job()
    if jax.default_backend() == "cpu":
        return cpu_seconds(job, REPEATS)
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def in_the_library(task: NoisyRecall, size: Size, compute: str) -> float:
    """Milliseconds a step."""
    fixed, record = {"seed": 0, "task": task}, np.array([size.steps])

    def run() -> None:
        ds.ensemble(Training(size, compute), {}, steps=size.steps, record=record, fixed=fixed)

    return 1e3 * seconds(run) / size.steps


def by_hand(task: NoisyRecall, size: Size, compute: str) -> float:
    """Milliseconds a step of a scan around the same network, sampler and optimizer, with its own loss."""
    start = ds.models.RecallTransformer(
        task.vocabulary, size.length, key=jax.random.key(0), dim=size.dim, compute=compute
    )
    weights, fixed = eqx.partition(start, eqx.is_inexact_array)
    rule, trigger = optimizer(), task.triggers[0]

    def loss(weights: Any, key: jax.Array) -> jax.Array:
        batch = task.sample(key, size.batch)
        logits = jax.vmap(eqx.combine(weights, fixed))(batch.tokens)
        here = batch.tokens == trigger
        place, first = jnp.arange(size.length), jnp.argmax(here, axis=1)[:, None]
        asked = here & (place > first) & (place != size.length - 2)
        each = optax.softmax_cross_entropy_with_integer_labels(logits, batch.labels)
        return jnp.sum(jnp.where(asked, each, 0)) / jnp.sum(asked)

    def step(carry: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        weights, memory = carry
        value, gradient = jax.value_and_grad(loss)(weights, key)
        updates, memory = rule.update(gradient, memory, weights)
        return (optax.apply_updates(weights, updates), memory), value

    run = jax.jit(lambda carry, keys: jax.lax.scan(step, carry, keys))
    keys, carry = jax.random.split(jax.random.key(1), size.steps), (weights, rule.init(weights))
    return 1e3 * seconds(lambda: jax.block_until_ready(run(carry, keys))) / size.steps


def sampler(task: NoisyRecall, size: Size) -> float:
    """Milliseconds to draw a batch."""

    def draw(total: jax.Array, key: jax.Array) -> tuple[jax.Array, None]:
        batch = task.sample(key, size.batch)
        return total + batch.tokens[0, -2] + batch.labels[0, -1], None

    run = jax.jit(lambda keys: jax.lax.scan(draw, jnp.asarray(0, jnp.int32), keys)[0])
    keys = jax.random.split(jax.random.key(1), size.steps)
    return 1e3 * seconds(lambda: run(keys).block_until_ready()) / size.steps


def in_torch(task: NoisyRecall, size: Size, compute: str, *, compiled: bool) -> float:
    """Milliseconds a step of the same network in PyTorch, on batches that were drawn before."""
    import torch
    from torch import nn

    torch.set_float32_matmul_precision("high")  # TF32, as JAX has it on such a device
    if jax.default_backend() == "cpu":
        torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dim, scale = size.dim, 1 / math.sqrt(size.dim)

    def drawn(*shape: int) -> nn.Parameter:
        return nn.Parameter((2 * torch.rand(*shape) - 1) / math.sqrt(shape[-1]))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score, self.value, self.output = drawn(dim, dim), drawn(dim, dim), drawn(dim, dim)
            self.into, self.out = drawn(4 * dim, dim), drawn(dim, 4 * dim)

        def forward(self, x: Any, mask: Any) -> Any:
            scores = scale * (x @ (x @ self.score.T).transpose(1, 2)).float() + mask
            x = x + torch.softmax(scores, -1).to(x.dtype) @ x @ self.value.T @ self.output.T
            return x + torch.relu(x @ self.into.T) @ self.out.T

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([Block(), Block()])
            self.embedding: Any = nn.Buffer(torch.randn(task.vocabulary, dim))
            self.places: Any = nn.Buffer(torch.randn(size.length, dim))
            self.readout: Any = nn.Buffer(drawn(task.vocabulary, dim).detach())
            self.mask: Any = nn.Buffer(torch.full((size.length, size.length), -torch.inf).triu(1))

        def forward(self, tokens: Any) -> Any:
            x = self.embedding[tokens] + self.places
            if compute == "bfloat16":
                x = x.bfloat16()
            for block in self.blocks:
                x = block(x, self.mask)
            return (x @ self.readout.T.to(x.dtype)).float()

    pool = jax.jit(lambda key: task.sample(key, 8 * size.batch))(jax.random.key(2))
    tokens, labels = (torch.tensor(np.asarray(each)).long().to(device) for each in (pool.tokens, pool.labels))
    asked = torch.tensor(np.asarray(task.positions(pool.tokens))).to(device)
    net = Net().to(device)
    rule = torch.optim.SGD(net.parameters(), RATE, momentum=MOMENTUM, weight_decay=DECAY)

    def loss_of(tokens: Any, labels: Any, asked: Any) -> Any:
        with torch.autocast(device.type, torch.bfloat16, enabled=compute == "bfloat16"):
            logits = net(tokens)
        each = nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), reduction="none")
        return (each * asked.flatten()).sum() / asked.sum()

    loss = torch.compile(loss_of) if compiled else loss_of

    def job() -> None:
        for number in range(size.steps):
            rows = slice(number % 8 * size.batch, (number % 8 + 1) * size.batch)
            rule.zero_grad(set_to_none=True)
            loss(tokens[rows], labels[rows], asked[rows]).backward()
            rule.step()
        if device.type == "cuda":
            torch.cuda.synchronize()

    return 1e3 * seconds(job) / size.steps


def main() -> None:
    cpu = jax.default_backend() == "cpu"
    size, rows = SMALL if cpu else PAPER, []
    task = task_of(size)

    def add(compute: str, what: str, ms: float, against: str = "") -> None:
        rows.append({"compute": compute, "step": what, "ms": round(ms, 3), "against": against})
        print(f"{compute}, {what}: {ms:.3f} ms {against}", flush=True)

    drawing = sampler(task, size)
    for compute in ("float32",) if cpu else sys.argv[1:] or ("bfloat16", "float32"):
        ours = in_the_library(task, size, compute)
        add(compute, "dynascope, sampler included", ours)
        add(compute, "the sampler alone", drawing, f"{drawing / ours:.1%} of a step")
        plain = by_hand(task, size, compute)
        add(compute, "plain scan, sampler included", plain, f"library / plain = {ours / plain:.2f}")
        for name, compiled in (("PyTorch, eager, no sampler", False), ("PyTorch, torch.compile, no sampler", True)):
            peer = in_torch(task, size, compute, compiled=compiled)
            add(compute, name, peer, f"library / PyTorch = {ours / peer:.2f}")
    where = "one CPU thread" if cpu else jax.devices()[0].device_kind
    tell(f"recall-step: d {size.dim}, T {size.length}, batch {size.batch}, {where}", rows)


if __name__ == "__main__":
    main()
