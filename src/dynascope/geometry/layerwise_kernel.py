"""The tangent kernel layer by layer, for any model; the Jacobian is not made.

For an affine map z = W a, found in the model's program by `affine_maps`, the kernel needs the inputs a and the
derivative D = df/dz, not their products, the derivatives with respect to W:

- at one position K += (D D^T) o (A A^T), o the entrywise product; at few, the sum of this over pairs of positions;
- at many (a convolution, a long sequence) the derivative with respect to W, the sum over positions of D a^T, is made
  for some rows of W at a time and contracted at once.

Maps that share W have their derivatives added before the contraction. Other parameters, biases among them, go by their
plain derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, PyTree

from dynascope.geometry.affine_maps import AffineMap, Parameter, Program, find_affine_maps, same_matrix

Function = Callable[[PyTree, Any], Array]


class Layers(NamedTuple):
    """A model's program, its affine maps, and how these are contracted."""

    program: Program
    leaves: list[Array]
    maps: list[AffineMap]
    shared: list[list[int]]
    """The numbers of the maps, those with the same W (or its transpose) together."""
    outputs: int

    def plain(self) -> list[Array]:
        """The leaves that go by their plain derivatives."""
        return [leaf for k, leaf in enumerate(self.leaves) if k not in self.program.followed]

    def alike(self, together: list[int]) -> bool:
        """Whether these maps, which share entries, act like one map at all their positions."""
        first, *others = (self.maps[k] for k in together)
        return all(same_matrix(first, other) and first.lookup == other.lookup for other in others)

    def by_positions(self, together: list[int]) -> bool:
        """Whether pairs of positions cost less than the derivatives with respect to W."""
        first, places = self.maps[together[0]], sum(self.maps[k].positions() for k in together)
        (fan_out, fan_in), pairs = first.entries.shape, self.outputs**2
        cheap = 2 * places**2 * (fan_out * pairs + (1 if first.lookup else fan_in)) <= fan_out * fan_in * pairs
        return self.alike(together) and (places == 1 or cheap)

    def bytes(self) -> int:
        """About what is kept for one example: the inputs of all maps, derivatives with respect to their outputs, as
        much again for what is computed from them, and the derivatives with respect to the plain leaves."""
        kept = sum(_bytes(one.inputs) + self.outputs * _bytes(one.outputs) for one in self.maps)
        return 2 * kept + self.outputs * sum(_bytes(leaf) for leaf in self.plain())


def _bytes(shape: Any) -> int:
    return math.prod(shape.shape) * shape.dtype.itemsize


def layers_of(function: Function, weights: PyTree, x: PyTree) -> Layers:
    """The layers of `function(weights, example)` at examples such as those of x (first axis)."""
    one = jax.tree.map(lambda leaf: leaf[0], x)
    program, maps = find_affine_maps(function, weights, one)
    shared: list[list[int]] = []
    for k, new in enumerate(maps):
        known = (s for s in shared if same_matrix(maps[s[0]], new) or same_matrix(maps[s[0]], new, turned=True))
        home = next(known, None)
        shared.append([k]) if home is None else home.append(k)
    outputs = math.prod(jax.eval_shape(function, weights, one).shape)
    return Layers(program, jax.tree.leaves(weights), maps, shared, outputs)


def layerwise_kernel(function: Function, weights: PyTree, x: PyTree, budget: int) -> Float[Array, "nk nk"]:
    """The kernel at the examples x (first axis), outputs of an example side by side. Besides the matrix, about `budget`
    bytes are in memory at a time: if not all examples fit, they are taken in blocks."""
    layers = layers_of(function, weights, x)

    def seen(x: PyTree) -> tuple[list[Seen], list[Array]]:
        return jax.vmap(lambda x: _sensitivities(layers, x))(x)

    def contract(left: tuple[list[Seen], list[Array]], right: tuple[list[Seen], list[Array]]) -> Array:
        parts = [multiply_in_full(_rows(a), _rows(b).T) for a, b in zip(left[1], right[1], strict=True)]
        for together in layers.shared:
            maps = [layers.maps[k] for k in together]
            ours, theirs = ([side[0][k] for k in together] for side in (left, right))
            if layers.by_positions(together):
                parts.append(_over_positions(maps, ours, theirs))
            else:
                parts.append(_over_rows(maps, ours, theirs, budget // 2))
        return reduce(jnp.add, parts)

    n = jax.tree.leaves(x)[0].shape[0]
    return in_blocks(x, block_size(n, layers.bytes(), budget), seen, contract)


Seen = tuple[Array, Float[Array, "n k _ _"]]
"""The inputs of a map at n examples, and the derivatives of all k outputs with respect to its own, laid out."""


def _sensitivities(layers: Layers, x: PyTree) -> tuple[list[tuple[Array, Array]], list[Array]]:
    """The values that every map has `Seen` at one example, and the derivatives with respect to the plain leaves."""
    leaves, followed = layers.leaves, layers.program.followed

    def outputs(offsets: list[Array], plain: list[Array]) -> tuple[Array, Any]:
        given, met = iter(plain), []

        def tap(parameter: Parameter, _: Any, inputs: Array, z: Array) -> Array:
            met.append((inputs, parameter.factors))
            return z + offsets[len(met) - 1]

        whole = [leaf if k in followed else next(given) for k, leaf in enumerate(leaves)]
        return layers.program.run(whole, x, tap), met

    zeros = [jnp.zeros(one.outputs.shape, one.outputs.dtype) for one in layers.maps]
    value, pull, met = jax.vjp(outputs, zeros, layers.plain(), has_aux=True)
    derivatives, gradients = jax.vmap(pull)(jnp.eye(value.size, dtype=value.dtype))

    seen = []
    for one, (inputs, factors), d in zip(layers.maps, met, derivatives, strict=True):
        number = leaves[one.leaf].dtype
        d = jax.vmap(one.lay_outputs)(d).astype(number)
        for factor in factors:
            d = d * jnp.asarray(factor, number)
        seen.append((inputs if one.lookup else inputs.astype(number), d))
    return seen, gradients


Pair = tuple[Array, Array]
"""Inputs and derivatives at each of several positions."""


def full_precision(number: Any) -> Any:
    """The precision in which derivatives of this one are summed: float32 at least."""
    return number if jnp.finfo(number).bits >= 32 else jnp.dtype(jnp.float32)


def multiply_in_full(left: Float[Array, "i f"], right: Float[Array, "f j"]) -> Float[Array, "i j"]:
    """The product of two matrices, in full precision."""
    return jnp.matmul(left, right, precision="highest", preferred_element_type=full_precision(left.dtype))


def _rows(derivatives: Float[Array, "n k ..."]) -> Float[Array, "nk f"]:
    return derivatives.reshape(derivatives.shape[0] * derivatives.shape[1], -1)


def _over_positions(maps: list[AffineMap], left: list[Seen], right: list[Seen]) -> Float[Array, "nk nk"]:
    """The sum over pairs of positions of (D D^T) o (A A^T). Two lookups have product 1 if they are of the same row."""
    fan_in, lookup = maps[0].entries.shape[1], maps[0].lookup

    def positions_first(seen: list[Seen]) -> Pair:
        inputs = [jax.vmap(one.lay_inputs)(a) for one, (a, _) in zip(maps, seen, strict=True)]
        a, d = jnp.concatenate(inputs, axis=1), jnp.concatenate([d for _, d in seen], axis=2)
        return jnp.moveaxis(a, 1, 0), jnp.moveaxis(d, 2, 0)

    def at_one(left: Pair, right: Pair) -> Float[Array, "nk nk"]:
        (a, d), (b, e) = left, right
        n, k, _ = d.shape
        slopes = multiply_in_full(_rows(d), _rows(e).T)
        if lookup:
            same = (a[:, None] == b) & (a >= 0)[:, None] & (a < fan_in)[:, None]
            factor = same.astype(slopes.dtype)
        else:
            factor = multiply_in_full(a, b.T)
        return (slopes.reshape(n, k, n, k) * factor[:, None, :, None]).reshape(n * k, n * k)

    ours, theirs = positions_first(left), positions_first(right)
    if len(ours[0]) == 1:
        return at_one(*jax.tree.map(lambda leaf: leaf[0], (ours, theirs)))

    def add(kernel: Array, pair: tuple[Pair, Pair]) -> tuple[Array, None]:
        return kernel + at_one(*pair), None

    def against_all(kernel: Array, one: Pair) -> tuple[Array, None]:
        return lax.scan(lambda kernel, other: add(kernel, (one, other)), kernel, theirs)[0], None

    side = left[0][1].shape[0] * left[0][1].shape[1]
    return lax.scan(against_all, jnp.zeros((side, side), full_precision(left[0][1].dtype)), ours)[0]


def _over_rows(maps: list[AffineMap], left: list[Seen], right: list[Seen], budget: int) -> Float[Array, "nk nk"]:
    """The derivatives with respect to W, for some rows of W at a time. Half of the budget is for the inputs of some
    examples at a time, laid out, and half for the derivatives of all."""
    (n, k), (fan_out, fan_in) = left[0][1].shape[:2], maps[0].entries.shape
    number = left[0][1].dtype
    laid = sum(one.positions() * one.entries.shape[1] * number.itemsize for one in maps)
    examples = max(1, budget // 2 // (2 * laid))  # inputs are laid out twice
    row = 2 * n * k * fan_in * number.itemsize
    count = max(c for c in range(1, fan_out + 1) if fan_out % c == 0 and (c == 1 or c * row <= budget // 2))

    def of_map(one: AffineMap, seen: tuple[Array, Array], first: Int[Array, ""]) -> Float[Array, "k c f"]:
        a, d = one.lay_inputs(seen[0]), seen[1]
        if same_matrix(maps[0], one):
            a = jax.nn.one_hot(a, fan_in, dtype=number) if one.lookup else a
            chosen = lax.dynamic_slice_in_dim(d, first, count, axis=2)
            return jnp.einsum("kpc,pf->kcf", chosen, a, precision="highest")
        if one.lookup:
            chosen = jax.nn.one_hot(a - first, count, dtype=number)
        else:
            chosen = lax.dynamic_slice_in_dim(a, first, count, axis=1)
        return jnp.einsum("pc,kpf->kcf", chosen, d, precision="highest")

    def by_weights(seen: list[Seen], first: Int[Array, ""]) -> Float[Array, "nk cf"]:
        def of_one(seen: list[tuple[Array, Array]]) -> Float[Array, "k c f"]:
            return reduce(jnp.add, [of_map(one, part, first) for one, part in zip(maps, seen, strict=True)])

        return _rows(jax.vmap(of_one)(seen) if examples >= n else lax.map(of_one, seen, batch_size=examples))

    def some(kernel: Array, first: Int[Array, ""]) -> tuple[Array, None]:
        return kernel + multiply_in_full(by_weights(left, first), by_weights(right, first).T), None

    start = jnp.zeros((n * k, n * k), full_precision(number))
    return lax.scan(some, start, count * jnp.arange(fan_out // count, dtype=jnp.int32))[0]


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
