"""SIM ensembles: the library against a hand-written scan, eager PyTorch, and torch.func's vmap, compiled or not."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import Any

from benchmarks.sim_setting import DEEP, SMALL, Setting, numbers
from benchmarks.timing import cpu_seconds, tell

Contender = tuple[float, Callable[[], Any], int]
"""Seconds to compile (0 where nothing is), the job, and the member-steps it does."""


def library(setting: Setting) -> Contender:
    """`ensemble` with a data set per member and shuffled batches, outputs and test loss recorded every tenth step."""
    from dynascope.experiments.concept.sim_experiment import ConceptLearner, Training

    return _through_ensemble(
        setting,
        ConceptLearner(
            Training(
                dim=setting.dim,
                depth=setting.depth,
                rotate=setting.dim > 3,
                samples=setting.samples // 2,
                batch=setting.batch,
            )
        ),
    )


def _through_ensemble(setting: Setting, learner: Any) -> Contender:
    import numpy as np

    import dynascope as ds

    def run() -> Any:
        return ds.ensemble(
            learner,
            {"seed": range(setting.members)},
            steps=setting.steps,
            record=10,
            fixed={
                "signal": (np.array([1.0, 2.0], np.float32), np.array([0.05, 0.05], np.float32)),
                "learning_rate": np.float32(setting.learning_rate),
            },
        ).trace

    start = time.perf_counter()
    trace = run()
    assert np.isfinite(trace.test_loss).all()
    return time.perf_counter() - start - trace.run_seconds, run, setting.members * setting.steps


def hand_written_scan(setting: Setting) -> Contender:
    """What one would write by hand in JAX: one scan per member over pre-shuffled batches, nothing recorded but the
    last weights (a `vmap` of it where that is faster, for the small setting)."""
    import jax
    import jax.numpy as jnp

    weights, data = numbers(setting)

    def loss(weights: Any, x: Any) -> Any:
        y = x
        for weight in weights:
            y = y @ weight.T
        return jnp.mean((y - x) ** 2)

    def train(weights: Any, data: Any, key: Any) -> Any:
        per_epoch = setting.samples // setting.batch

        def epoch(weights: Any, key: Any) -> tuple[Any, None]:
            order = jax.random.permutation(key, setting.samples)[: per_epoch * setting.batch]

            def step(weights: Any, rows: Any) -> tuple[Any, None]:
                gradient = jax.grad(loss)(weights, data[rows])
                return [w - setting.learning_rate * g for w, g in zip(weights, gradient, strict=True)], None

            return jax.lax.scan(step, weights, order.reshape(per_epoch, setting.batch))

        return jax.lax.scan(epoch, weights, jax.random.split(key, setting.steps // per_epoch))[0]

    keys = jax.random.split(jax.random.key(0), setting.members)
    compiled = jax.jit(train)
    members = [([jnp.asarray(w[i]) for w in weights], jnp.asarray(data[i]), keys[i]) for i in range(setting.members)]

    def run() -> Any:
        return [jax.block_until_ready(compiled(*member)) for member in members]

    start = time.perf_counter()
    jax.block_until_ready(compiled(*members[0]))
    return time.perf_counter() - start, run, setting.members * setting.steps


def hand_written_vmap(setting: Setting) -> Contender:
    """A plain vmap of a scan over fresh-index batches."""
    import jax
    import jax.numpy as jnp

    weights, data = numbers(setting)

    def loss(weights: Any, x: Any) -> Any:
        y = x
        for weight in weights:
            y = y @ weight.T
        return jnp.mean((y - x) ** 2)

    def train(weights: Any, data: Any, key: Any) -> Any:
        def step(weights: Any, key: Any) -> tuple[Any, None]:
            rows = jax.random.randint(key, (setting.batch,), 0, setting.samples)
            gradient = jax.grad(loss)(weights, data[rows])
            return [w - setting.learning_rate * g for w, g in zip(weights, gradient, strict=True)], None

        return jax.lax.scan(step, weights, jax.random.split(key, setting.steps))[0]

    arguments = (
        [jnp.asarray(w) for w in weights],
        jnp.asarray(data),
        jax.random.split(jax.random.key(0), setting.members),
    )
    compiled = jax.jit(jax.vmap(train))

    def run() -> Any:
        return jax.block_until_ready(compiled(*arguments))

    start = time.perf_counter()
    run()
    return time.perf_counter() - start, run, setting.members * setting.steps


def eager_torch(setting: Setting, steps: int = 400) -> Contender:
    """A plain training loop: nn.Sequential, SGD, shuffled batches; one member, since they run one by one."""
    import torch

    torch.set_num_threads(1)
    weights, data = numbers(setting)
    layers = [torch.nn.Linear(setting.dim, setting.dim, bias=False) for _ in range(setting.depth)]
    for layer, weight in zip(layers, weights, strict=True):
        layer.weight.data = torch.from_numpy(weight[0].copy())
    net, rows = torch.nn.Sequential(*layers), torch.from_numpy(data[0])
    optimizer = torch.optim.SGD(net.parameters(), lr=setting.learning_rate)

    def run() -> Any:
        per_epoch = setting.samples // setting.batch
        for t in range(steps):
            if t % per_epoch == 0:
                order = torch.randperm(setting.samples)
            place = t % per_epoch * setting.batch
            x = rows[order[place : place + setting.batch]]
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(net(x), x).backward()
            optimizer.step()

    run()
    return 0.0, run, steps


def torch_vmap(setting: Setting, compiled: bool, steps: int = 200) -> Contender:
    """torch.func: the gradient of all members' losses by vmap, with or without torch.compile."""
    import torch

    torch.set_num_threads(1)
    weights, data = numbers(setting)
    parameters = [torch.from_numpy(w) for w in weights]
    rows = torch.from_numpy(data)
    member = torch.arange(setting.members)[:, None]

    def loss(weights: Any, x: Any) -> Any:
        y = x
        for weight in weights:
            y = y @ weight.T
        return torch.mean((y - x) ** 2)

    gradient = torch.func.vmap(torch.func.grad(loss))

    def step(parameters: Any, x: Any) -> Any:
        return [w - setting.learning_rate * g for w, g in zip(parameters, gradient(parameters, x), strict=True)]

    step = torch.compile(step) if compiled else step

    def run() -> Any:
        now = parameters
        for t in range(steps):
            if t % (setting.samples // setting.batch) == 0:
                order = torch.stack([torch.randperm(setting.samples) for _ in range(setting.members)])
            place = t % (setting.samples // setting.batch) * setting.batch
            now = step(now, rows[member, order[:, place : place + setting.batch]])
        return now

    start = time.perf_counter()
    step(parameters, rows[:, : setting.batch])
    return time.perf_counter() - start, run, setting.members * steps


def main() -> None:
    for setting, by_hand in ((DEEP, hand_written_scan), (SMALL, hand_written_vmap)):
        contenders: dict[str, Callable[[], Contender]] = {
            "dynascope ensemble": lambda setting=setting: library(setting),
            f"JAX, {by_hand.__name__.replace('_', ' ')}": lambda setting=setting, by_hand=by_hand: by_hand(setting),
            "PyTorch eager": lambda setting=setting: eager_torch(setting),
            "torch.func vmap": lambda setting=setting: torch_vmap(setting, compiled=False),
        }
        if any(map(shutil.which, ("g++", "clang++", "c++"))):
            contenders["torch.func vmap, torch.compile"] = lambda setting=setting: torch_vmap(setting, compiled=True)
        else:
            print(f"\nsim-{setting.dim}: torch.compile left out, it needs a C++ compiler")
        rows = []
        for name, make in contenders.items():
            compile_seconds, job, work = make()
            rows.append(
                {
                    "contender": name,
                    "member-steps/CPU s": round(work / cpu_seconds(job)),
                    "compile s": round(compile_seconds, 1),
                }
            )
        reference = rows[0]["member-steps/CPU s"]
        for row in rows:
            row["dynascope is faster by"] = f"{reference / row['member-steps/CPU s']:.2f}"
        tell(f"sim-{setting.dim}: {setting.name}, {setting.members} members, batch {setting.batch}, one thread", rows)


if __name__ == "__main__":
    main()
