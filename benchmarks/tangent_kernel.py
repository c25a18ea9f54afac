"""The tangent kernel of a fully connected network at 256 examples with 10 outputs: by layers, or from the Jacobian.

By layers for the network of the library, and for the same network of Equinox. The peer in torch is what its tutorial on
tangent kernels does: `torch.func.jacrev` under `vmap`, then a contraction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import dynascope as ds
from benchmarks.timing import cpu_seconds, tell

ROWS, OUTPUTS, DIM, WIDTH, DEPTH = 256, 10, 64, 256, 3


def setting() -> tuple[ds.models.MLP, jax.Array]:
    net = ds.models.MLP(DIM, DEPTH, width=WIDTH, out=OUTPUTS, key=jax.random.key(0), activation="relu")
    return net, jax.random.normal(jax.random.key(1), (ROWS, DIM))


def of_equinox(net: ds.models.MLP) -> eqx.nn.MLP:
    """The same network, of Equinox's layers."""
    blank = eqx.nn.MLP(DIM, OUTPUTS, WIDTH, DEPTH - 1, use_bias=False, use_final_bias=False, key=jax.random.key(0))
    return eqx.tree_at(lambda blank: [layer.weight for layer in blank.layers], blank, net.weights)


def explicit(net: Any, x: jax.Array) -> jax.Array:
    """The whole Jacobian, contracted."""
    found = jax.vmap(jax.jacrev(lambda net, x: net(x)), in_axes=(None, 0))(net, x)
    parts = (leaf.reshape(ROWS * OUTPUTS, -1) for leaf in jax.tree.leaves(found))
    return sum((part @ part.T for part in parts), start=jnp.zeros((ROWS * OUTPUTS,) * 2))


def compiled(function: Callable, *arguments: Any) -> tuple[Callable[[], np.ndarray], float]:
    """The job, and the MiB that its program holds beside arguments and result."""
    program = jax.jit(function).lower(*arguments).compile()
    memory = program.memory_analysis().temp_size_in_bytes / 2**20
    return lambda: np.asarray(program(*arguments)), memory


def with_torch(net: Any, x: jax.Array) -> tuple[Callable[[], np.ndarray], float]:
    """The same with torch.func; the MiB are those of the Jacobian."""
    import torch
    from torch.func import functional_call, jacrev, vmap

    torch.set_num_threads(1)
    layers: list[Any] = []
    for weight in net.weights:
        layer = torch.nn.Linear(*weight.shape[::-1], bias=False)
        layer.weight.data = torch.tensor(np.array(weight))
        layers += [layer, torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    params = {name: leaf.detach() for name, leaf in model.named_parameters()}
    points = torch.tensor(np.array(x))

    def job() -> np.ndarray:
        def one(params: Any, x: Any) -> Any:
            return functional_call(model, params, (x.unsqueeze(0),)).squeeze(0)

        found = vmap(jacrev(one), (None, 0))(params, points)
        parts = [leaf.reshape(ROWS * OUTPUTS, -1) for leaf in found.values()]
        return sum(part @ part.T for part in parts).numpy()

    size = sum(leaf.numel() for leaf in params.values())
    return job, ROWS * OUTPUTS * size * 4 / 2**20


def main() -> None:
    net, x = setting()
    foreign, rest = eqx.partition(of_equinox(net), eqx.is_array)

    def kernel_of_foreign(foreign: Any, x: jax.Array) -> jax.Array:
        return ds.geometry.tangent_kernel(eqx.combine(foreign, rest), x)

    contenders = {
        "dynascope, its own network": (9, *compiled(lambda net, x: ds.geometry.tangent_kernel(net, x), net, x)),
        "dynascope, Equinox's": (9, *compiled(kernel_of_foreign, foreign, x)),
        "jax, jacrev and contraction": (1, *compiled(explicit, net, x)),
        "torch.func, jacrev and contraction": (1, *with_torch(net, x)),
    }
    rows, reference, ours = [], None, 0.0
    for name, (repeats, job, memory) in contenders.items():
        found = job()
        reference = found if reference is None else reference
        error = np.max(np.abs(found - reference)) / np.max(np.abs(reference))
        seconds = cpu_seconds(job, repeats)
        ours = ours or seconds
        rows.append(
            {
                "contender": name,
                "CPU s": round(seconds, 3),
                "times as long": round(seconds / ours, 1),
                "MiB held": round(memory),
                "apart": f"{error:.0e}",
            }
        )
    size = sum(weight.size for weight in net.weights)
    tell(f"tangent-kernel: {ROWS} examples, {OUTPUTS} outputs, MLP of {size} weights, one thread", rows)


if __name__ == "__main__":
    main()
