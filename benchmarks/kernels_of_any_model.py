"""The tangent kernel of models of any library: by layers, found in the traced program, or from the Jacobian.

For each shape the network of the library is the reference of the time: a fully connected network beside Equinox's, a
convolutional one beside one of Flax and one of PyTorch by `from_torch`, a transformer beside one of Equinox's layers.
`apart` is the largest difference from the kernel that plain `jacrev` gives, over its largest entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import dynascope as ds
from benchmarks import tangent_kernel as fully_connected
from benchmarks.timing import cpu_seconds, tell

OUTPUTS, IMAGES, TEXTS = 10, 64, 64
SIDE, CHANNELS = 14, (16, 32)
TOKENS, DIM, HEADS, HIDDEN = 16, 32, 4, 128
REPEATS = 5
Apply = Callable[[Any, jax.Array], jax.Array]
Contender = tuple[str, Apply, Any, jax.Array]
"""Its name, `apply(model, x)` for one example, the model, and the examples."""


def call(model: Any, x: jax.Array) -> jax.Array:
    return model(x)


def perceptrons() -> Iterator[Contender]:
    net, x = fully_connected.setting()
    yield "perceptron: dynascope", call, net, x
    yield "perceptron: Equinox", call, fully_connected.of_equinox(net), x


def convolutional() -> Iterator[Contender]:
    x = jax.random.normal(jax.random.key(1), (IMAGES, SIDE, SIDE, 1))
    shape, pools = (SIDE, SIDE, 1), (1,) * len(CHANNELS)
    own = ds.models.ConvNet(
        shape, CHANNELS, key=jax.random.key(0), out=OUTPUTS, pools=pools, parameterization="standard", bias=True
    )
    yield "convolutional: dynascope", call, own, x
    apply, params = in_flax(x[0])
    yield "convolutional: Flax", apply, params, x
    yield "convolutional: from PyTorch", call, ds.models.from_torch(in_torch()), jnp.moveaxis(x, -1, 1)


def in_flax(image: jax.Array) -> tuple[Apply, Any]:
    from flax import linen

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            for channels in CHANNELS:
                x = linen.avg_pool(linen.relu(linen.Conv(channels, (3, 3))(x)), (2, 2), (2, 2))
            return linen.Dense(OUTPUTS)(x.reshape(-1))

    net = Net()
    return lambda params, x: jnp.asarray(net.apply(params, x)), net.init(jax.random.key(0), image)


def in_torch() -> Any:
    import torch

    torch.manual_seed(0)
    layers: list[Any] = []
    for before, channels in zip((1, *CHANNELS), CHANNELS, strict=False):
        layers += [torch.nn.Conv2d(before, channels, 3, padding=1), torch.nn.ReLU(), torch.nn.AvgPool2d(2)]
    side = SIDE // 2 ** len(CHANNELS)
    return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(CHANNELS[-1] * side**2, OUTPUTS))


class Block(eqx.Module):
    """A block of a transformer, of Equinox's layers."""

    attention: eqx.nn.MultiheadAttention
    feed: eqx.nn.MLP
    norms: list[eqx.nn.LayerNorm]

    def __init__(self, key: jax.Array) -> None:
        one, other = jax.random.split(key)
        self.attention = eqx.nn.MultiheadAttention(HEADS, DIM, use_output_bias=True, key=one)
        self.feed = eqx.nn.MLP(DIM, DIM, HIDDEN, 1, key=other)
        self.norms = [eqx.nn.LayerNorm(DIM), eqx.nn.LayerNorm(DIM)]

    def __call__(self, x: jax.Array) -> jax.Array:
        normed = jax.vmap(self.norms[0])(x)
        x = x + self.attention(normed, normed, normed)
        return x + jax.vmap(self.feed)(jax.vmap(self.norms[1])(x))


def transformers() -> Iterator[Contender]:
    def apply(net: Any, x: jax.Array) -> jax.Array:
        return jnp.mean(net(x), axis=0)[:OUTPUTS]

    x = jax.random.normal(jax.random.key(1), (TEXTS, TOKENS, DIM))
    yield "transformer: dynascope", apply, ds.models.Transformer(DIM, 1, HEADS, HIDDEN, key=jax.random.key(0)), x
    yield "transformer: Equinox", apply, Block(jax.random.key(0)), x


def by_layers(apply: Apply) -> Callable[[Any, jax.Array], jax.Array]:
    return lambda model, x: ds.geometry.tangent_kernel(model, x, apply=apply)


def by_jacrev(apply: Apply) -> Callable[[Any, jax.Array], jax.Array]:
    """The whole Jacobian, contracted."""

    def kernel(model: Any, x: jax.Array) -> jax.Array:
        params, rest = eqx.partition(model, eqx.is_inexact_array)

        def one(params: Any, x: jax.Array) -> jax.Array:
            return apply(eqx.combine(params, rest), x)

        found = jax.vmap(jax.jacrev(one), in_axes=(None, 0))(params, x)
        parts = [leaf.reshape(len(x) * OUTPUTS, -1) for leaf in jax.tree.leaves(found)]
        with jax.default_matmul_precision("highest"):
            return sum((part @ part.T for part in parts), start=jnp.zeros((len(x) * OUTPUTS,) * 2))

    return kernel


def timed(function: Callable, model: Any, x: jax.Array, repeats: int) -> tuple[np.ndarray, float]:
    """The kernel, and the CPU seconds once it is compiled."""
    program = eqx.filter_jit(function)
    found = np.asarray(program(model, x))
    return found, cpu_seconds(lambda: np.asarray(program(model, x)), repeats)


def main() -> None:
    for race, contenders in (
        ("fully connected", perceptrons),
        ("convolutional", convolutional),
        ("transformer", transformers),
    ):
        rows, ours = [], 0.0
        for name, apply, model, x in contenders():
            kernel, seconds = timed(by_layers(apply), model, x, REPEATS)
            expected, plain = timed(by_jacrev(apply), model, x, 1)
            ours = ours or seconds
            rows.append(
                {
                    "model": name,
                    "CPU s": round(seconds, 4),
                    "over our own": round(seconds / ours, 2),
                    "jacrev, CPU s": round(plain, 3),
                    "jacrev / ours": round(plain / seconds, 1),
                    "apart": f"{np.max(np.abs(kernel - expected)) / np.max(np.abs(expected)):.0e}",
                }
            )
        tell(f"kernels-{race.replace(' ', '-')}: {len(rows)} models, {OUTPUTS} outputs, one thread", rows)


if __name__ == "__main__":
    main()
