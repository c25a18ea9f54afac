"""A training step of a convolutional network on one thread of a CPU, through the library and in eager PyTorch.

Convolutions of 32, 64 and 64 channels on pictures of 32 x 32 x 3, each followed by ReLU, then a linear map of the
flattened image to ten classes; batches of 64, SGD. The network is written four times: as `ds.models.ConvNet`, in
Equinox, in Flax, and in PyTorch. CPU time per step, the best of several runs.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import dynascope as ds
from benchmarks.timing import tell

CHANNELS, BATCH, CLASSES, RATE = (32, 64, 64), 64, 10, 0.01
STEPS, RUNS = 4, 3


class Equinox(eqx.Module):
    """The network in Equinox, channels first."""

    convolutions: list[eqx.nn.Conv2d]
    head: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        *keys, last = jax.random.split(key, len(CHANNELS) + 1)
        self.convolutions = [
            eqx.nn.Conv2d(fan_in, out, 3, padding=1, key=key)
            for (fan_in, out), key in zip(pairwise((3, *CHANNELS)), keys, strict=True)
        ]
        self.head = eqx.nn.Linear(32 * 32 * CHANNELS[-1], CLASSES, key=last)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = jnp.moveaxis(x, -1, 0)
        for convolution in self.convolutions:
            x = jax.nn.relu(convolution(x))
        return self.head(x.ravel())


def flax_network() -> tuple[Any, Any]:
    from flax import linen as nn

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            for channels in CHANNELS:
                x = nn.relu(nn.Conv(channels, (3, 3))(x))
            return nn.Dense(CLASSES)(x.ravel())

    network = Network()
    return network.init(jax.random.key(0), jnp.zeros((32, 32, 3))), network.apply


def in_the_library(model: Any, apply: Any, data: tuple[np.ndarray, np.ndarray]) -> float:
    """Milliseconds of CPU time per step; what starting and ending a run costs cancels."""
    task = ds.tasks.Supervised("cross-entropy", apply=apply)
    probes = {"loss": ds.probes.loss(every=(0,))}

    def seconds(steps: int) -> float:
        start = time.process_time()
        ds.descend(
            model, task, optax.sgd(RATE), data=data, steps=steps, record=(0, steps), batch=BATCH,
            key=jax.random.key(1), probes=probes,
        )  # fmt: skip
        return time.process_time() - start

    seconds(1)  # compiles
    short, long = (min(seconds(steps) for _ in range(RUNS)) for steps in (1, 1 + STEPS))
    return 1e3 * (long - short) / STEPS


def in_torch(data: tuple[np.ndarray, np.ndarray]) -> float:
    """Milliseconds of CPU time per step, eagerly."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    layers = []
    for fan_in, out in pairwise((3, *CHANNELS)):
        layers += [nn.Conv2d(fan_in, out, 3, padding=1), nn.ReLU()]
    network = nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 32 * CHANNELS[-1], CLASSES))
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE)
    images = torch.tensor(data[0]).permute(0, 3, 1, 2).contiguous()
    labels = torch.tensor(data[1]).long()

    def seconds(steps: int) -> float:
        start = time.process_time()
        for _ in range(steps):
            rows = torch.randint(len(images), (BATCH,))
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(images[rows]), labels[rows]).backward()
            optimizer.step()
        return time.process_time() - start

    seconds(3)
    return 1e3 * min(seconds(STEPS) for _ in range(RUNS)) / STEPS


def main() -> None:
    draw = np.random.default_rng(0)
    data = draw.standard_normal((512, 32, 32, 3), np.float32), draw.integers(0, CLASSES, 512, dtype=np.int32)
    own = ds.models.ConvNet(
        (32, 32, 3), CHANNELS, out=CLASSES, parameterization="standard", bias=True,
        key=jax.random.key(0),
    )  # fmt: skip
    networks = {"ds.models.ConvNet": (own, None), "Equinox": (Equinox(jax.random.key(0)), None), "Flax": flax_network()}
    peer = in_torch(data)
    rows = [{"network": "PyTorch, eager", "ms a step": round(peer, 1), "ratio": 1.0}]
    for name, (model, apply) in networks.items():
        own_time = in_the_library(model, apply, data)
        rows.append({"network": name, "ms a step": round(own_time, 1), "ratio": round(own_time / peer, 2)})
    tell(f"convnet-step: {CHANNELS} channels, 32 x 32 x 3, batch {BATCH}, one thread", rows)


if __name__ == "__main__":
    main()
