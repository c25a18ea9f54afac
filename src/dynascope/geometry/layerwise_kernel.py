"""The tangent kernel layer by layer, for models whose affine maps are known; no Jacobian is made.

For a map z = s W a (+ b) the kernel needs the inputs a and the derivative D = df/dz:
K += (D D^T) o (s^2 A A^T), and D D^T for the bias, o the entrywise product. Where W acts at many positions (a
convolution, a sequence) the derivative with respect to W is the sum over positions of D a^T; it is made for some output
channels at a time and contract at once.

A model names its maps by `tap_maps(x, tap)`: every map calls `tap(z, a, scale=, bias=, windows=)` and continues with
the value that this returns. `models.mlp.Tap` has the contract; a model of your own needs nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PyTree


class Map(NamedTuple):
    """The sizes of an affine map, known without running it."""

    scale: float
    bias: bool
    windows: Callable[[Array], Array] | None
    inputs: Any
    """The shape and dtype of its inputs, for one example."""
    parts: Any
    """Shape and dtype of what its weight acts on: the windows of the inputs, if it has windows."""
    outputs: Any

    def weights(self) -> int:
        """The number of its parameters."""
        return self.outputs.shape[-1] * (self.parts.shape[-1] + self.bias)


def has_layers(model: Any) -> bool:
    """Whether the model names its affine maps."""
    return callable(getattr(model, "tap_maps", None))


def layerwise_kernel(model: Any, x: PyTree, budget: int) -> Float[Array, "nk nk"]:
    """The kernel at the examples x (first axis), outputs of an example side by side. Besides the matrix, about `budget`
    bytes are in memory at a time: if not all examples fit, they are taken in blocks."""
    one = jax.tree.map(lambda leaf: leaf[0], x)
    maps = maps_of(model, one)

    def sensitivities(x: PyTree) -> tuple[list[Array], list[Array]]:
        """For each map its inputs, and the derivatives of all outputs with respect to the map's own."""

        def outputs(offsets: list[Array]) -> tuple[Array, list[Array]]:
            inputs: list[Array] = []

            def tap(z: Array, a: Array, **_: Any) -> Array:
                inputs.append(a)
                return z + offsets[len(inputs) - 1]

            return jnp.ravel(model.tap_maps(x, tap)), inputs

        at = [jnp.zeros(one.outputs.shape, one.outputs.dtype) for one in maps]
        value, pull, inputs = jax.vjp(outputs, at, has_aux=True)
        return inputs, jax.vmap(lambda one: pull(one)[0])(jnp.eye(value.size, dtype=value.dtype))

    def seen(x: PyTree) -> list[tuple[Array, Array]]:
        return list(zip(*jax.vmap(sensitivities)(x), strict=True))

    def contract(left: list[tuple[Array, Array]], right: list[tuple[Array, Array]]) -> Array:
        def part(one: Map, left: tuple[Array, Array], right: tuple[Array, Array]) -> Array:
            if left[1].ndim == 3:
                return _at_one_position(one, left, right)
            return _at_many_positions(one, left, right, budget // 2)

        return reduce(jnp.add, map(part, maps, left, right))

    n = jax.tree.leaves(x)[0].shape[0]
    block = block_size(n, bytes_of_layers(model, x) // n, budget)
    return in_blocks(x, block, seen, contract)


def bytes_of_layers(model: Any, x: PyTree) -> int:
    """About what all examples at once take: twice the inputs of all maps and the derivatives with respect to their
    outputs; the other half is for what is computed from them."""
    one = jax.tree.map(lambda leaf: leaf[0], x)
    outputs = math.prod(jax.eval_shape(lambda x: model.tap_maps(x, lambda z, a, **_: z), one).shape)
    kept = sum(_bytes(one.inputs) + outputs * _bytes(one.outputs) for one in maps_of(model, one))
    return 2 * kept * jax.tree.leaves(x)[0].shape[0]


def _bytes(shape: Any) -> int:
    return math.prod(shape.shape) * shape.dtype.itemsize


def maps_of(model: Any, x: PyTree) -> list[Map]:
    """The model's maps, in order, at one example; an error if they are not all of the model."""
    maps: list[Map] = []

    def tap(z: Array, a: Array, *, scale: float, bias: bool, windows: Callable | None) -> Array:
        inputs, outputs = (jax.ShapeDtypeStruct(one.shape, one.dtype) for one in (a, z))
        maps.append(Map(scale, bias, windows, inputs, jax.eval_shape(windows, inputs) if windows else inputs, outputs))
        return z

    jax.eval_shape(lambda x: model.tap_maps(x, tap), x)
    shown = sum(one.weights() for one in maps)
    there = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)))
    if shown != there:
        raise ValueError(
            f"the maps in {type(model).__name__}.tap_maps must have all {there} parameters of the model, each once; "
            f"they have {shown} (with `apply` given, `tap_maps` is not used)"
        )
    return maps


def full_precision(number: Any) -> Any:
    """The precision in which derivatives of this one are summed: float32 at least."""
    return number if jnp.finfo(number).bits >= 32 else jnp.dtype(jnp.float32)


def multiply_in_full(left: Float[Array, "i f"], right: Float[Array, "f j"]) -> Float[Array, "i j"]:
    """The product of two matrices, in full precision."""
    return jnp.matmul(left, right, precision="highest", preferred_element_type=full_precision(left.dtype))


Seen = tuple[Float[Array, "n ..."], Float[Array, "n k ..."]]
"""The inputs of a map at some examples, and the derivatives of all outputs with respect to the map's own."""


def _at_one_position(one: Map, left: Seen, right: Seen) -> Float[Array, "nk nk"]:
    (a, d), (b, e) = left, right
    n, k, m = d.shape
    factor = one.scale**2 * multiply_in_full(a, b.T) + (1.0 if one.bias else 0.0)
    slopes = multiply_in_full(d.reshape(n * k, m), e.reshape(n * k, m).T).reshape(n, k, n, k)
    return (slopes * factor[:, None, :, None]).reshape(n * k, n * k)


def _at_many_positions(one: Map, left: Seen, right: Seen, budget: int) -> Float[Array, "nk nk"]:
    """Sum over positions first. Half of the budget is for the windows of some examples at a time, and half for the
    derivatives of all with respect to the weights of some output channels at a time."""
    n, k, m = left[1].shape[0], left[1].shape[1], left[1].shape[-1]
    fan_in = one.parts.shape[-1]
    examples = max(1, budget // 2 // (2 * _bytes(one.parts)))  # windows are laid out twice
    row = 2 * n * k * fan_in * one.inputs.dtype.itemsize
    channels = max(c for c in range(1, m + 1) if m % c == 0 and (c == 1 or c * row <= budget // 2))

    def by_weights(seen: Seen, first: Array) -> Float[Array, "nk f"]:
        def of_one(seen: tuple[Array, Array]) -> Float[Array, "k c f"]:
            a, d = seen
            parts = (a if one.windows is None else one.windows(a)).reshape(-1, fan_in)
            chosen = lax.dynamic_slice_in_dim(d.reshape(k, -1, m), first, channels, axis=2)
            return jnp.einsum("kpc,pf->kcf", chosen, parts, precision="highest")

        found = jax.vmap(of_one)(seen) if examples >= n else lax.map(of_one, seen, batch_size=examples)
        return found.reshape(n * k, channels * fan_in)

    def some(kernel: Array, first: Array) -> tuple[Array, None]:
        return kernel + multiply_in_full(by_weights(left, first), by_weights(right, first).T), None

    start = jnp.zeros((n * k, n * k), full_precision(left[1].dtype))
    kernel, _ = lax.scan(some, start, channels * jnp.arange(m // channels, dtype=jnp.int32))
    kernel = one.scale**2 * kernel
    if not one.bias:
        return kernel
    ours, theirs = (d.reshape(n * k, -1, m).sum(axis=1) for _, d in (left, right))
    return kernel + multiply_in_full(ours, theirs.T)


def block_size(count: int, row: int, budget: int) -> int:
    """How many examples go into a block, at `row` bytes each: all, or so many that two blocks fit the budget."""
    return count if count * row <= budget else max(1, budget // (2 * row))


def in_blocks(
    x: PyTree, block: int, made: Callable[[PyTree], Any], contract: Callable[[Any, Any], Array]
) -> Float[Array, "nk nk"]:
    """`contract(made(some), made(others))` of all examples against all: at once if they are one block, else pair
    by pair of blocks, of which one is made anew for every pair."""
    n = jax.tree.leaves(x)[0].shape[0]
    if block >= n:
        whole = made(x)
        return contract(whole, whole)
    starts = block * jnp.arange(-(-n // block), dtype=jnp.int32)

    def at(first: Array) -> Any:
        chosen = jnp.minimum(first + jnp.arange(block, dtype=jnp.int32), n - 1)  # the last block repeats an example
        return made(jax.tree.map(lambda leaf: leaf[chosen], x))

    def against_all(first: Array) -> Array:
        left = at(first)
        return lax.map(lambda other: contract(left, at(other)), starts)

    pairs = lax.map(against_all, starts)
    side, outputs = starts.size * pairs.shape[-1], pairs.shape[-1] // block
    return jnp.swapaxes(pairs, 1, 2).reshape(side, side)[: n * outputs, : n * outputs]
