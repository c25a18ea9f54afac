"""The affine maps of a model, found in its program: no model has to name them.

JAX gives the program of a model at one example as a list of equations (a jaxpr). `evaluate` carries them out one by one
and follows every parameter through the equations that only rearrange, scale or slice it, into compiled functions and
checkpoints too. At a matrix product, a convolution or a lookup of rows,

    z[p, m] = sum over f of W[m, f] a[p, f],    p: positions, m: outputs of the map, f: its inputs,

`tap` is called with the map. The derivative of anything with respect to W is the sum over p of D[p, m] a[p, f], for D
the derivative with respect to z. Equations with derivatives of their own (`custom_jvp`, `custom_vjp`) and loops are
carried out as they are; a parameter that reaches them, or anything else unknown, is not followed to the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from jaxtyping import Array, Int, PyTree


class Parameter(NamedTuple):
    """An array whose entries are entries of one leaf, times the `factors`."""

    value: Array
    leaf: int
    entries: Int[np.ndarray, " ..."]
    """For each entry of the array the number of the leaf's entry that it is."""
    factors: tuple[Any, ...] = ()


class AffineMap(NamedTuple):
    """A product with a parameter, and how its arrays are laid out as z[p, m] = sum over f of W[m, f] a[p, f]."""

    leaf: int
    entries: Int[np.ndarray, "m f"]
    """Which entries of the leaf W is."""
    inputs: jax.ShapeDtypeStruct
    lay_inputs: Callable[[Array], Array]
    """From the inputs as they are to a, (p, f); of a lookup to the numbers of the rows, (p,)."""
    outputs: jax.ShapeDtypeStruct
    lay_outputs: Callable[[Array], Array]
    """From the outputs as they are to z, (p, m)."""
    lookup: bool

    def positions(self) -> int:
        """The number of positions at which it acts."""
        return math.prod(self.outputs.shape) // self.entries.shape[0]


Tap = Callable[[Parameter, AffineMap | None, Array, Array], Array]
"""`tap(parameter, map, inputs, outputs) -> outputs`; without a map if the parameter cannot be followed further."""


class Program(NamedTuple):
    """A model at one example, as equations in its floating-point leaves."""

    traced: ClosedJaxpr
    followed: frozenset[int]
    """The numbers of the leaves that act through affine maps alone."""

    def run(self, leaves: Sequence[Any], x: PyTree, tap: Tap) -> Array:
        """The outputs, with `tap` called at every map of the followed leaves."""

        def start(k: int, leaf: Any) -> Any:
            if k not in self.followed:
                return leaf
            return Parameter(leaf, k, np.arange(leaf.size, dtype=np.int64).reshape(leaf.shape))

        arguments = [*(start(k, leaf) for k, leaf in enumerate(leaves)), *jax.tree.leaves(x)]
        (outputs,) = evaluate(self.traced.jaxpr, self.traced.consts, arguments, tap)
        if isinstance(outputs, Parameter):
            return tap(outputs, None, outputs.value, outputs.value)
        return outputs


def find_affine_maps(
    function: Callable[[PyTree, Any], Array], weights: PyTree, x: PyTree
) -> tuple[Program, list[AffineMap]]:
    """The program of a function, and the affine maps of the leaves that can be followed, in its order.

    Vectors are not followed: derivatives with respect to them are no larger than those with respect to the outputs of
    a map.

    Args:
        function: `function(weights, x)`, one vector.
        weights: A pytree of floating-point arrays.
        x: One example.
    """
    leaves, structure = jax.tree.flatten(weights)
    traced = jax.make_jaxpr(lambda leaves, x: function(jax.tree.unflatten(structure, leaves), x))(leaves, x)
    matrices = frozenset(k for k, leaf in enumerate(leaves) if leaf.ndim > 1)
    maps: list[AffineMap] = []
    lost: set[int] = set()

    def note(parameter: Parameter, found: AffineMap | None, inputs: Array, outputs: Array) -> Array:
        if found is None:
            lost.add(parameter.leaf)
        else:
            maps.append(found)
        return outputs

    jax.eval_shape(lambda leaves, x: Program(traced, matrices).run(leaves, x, note), leaves, x)
    lost |= {one.leaf for one, other in combinations(maps, 2) if _entangled(one, other)}
    kept = [one for one in maps if one.leaf not in lost]
    return Program(traced, frozenset(one.leaf for one in kept)), kept


def _entangled(one: AffineMap, other: AffineMap) -> bool:
    """Whether two maps share some entries of a leaf, but are not the same matrix or its transpose."""
    if one.leaf != other.leaf or same_matrix(one, other) or same_matrix(one, other, turned=True):
        return False
    return np.intersect1d(one.entries, other.entries).size > 0


def same_matrix(one: AffineMap, other: AffineMap, *, turned: bool = False) -> bool:
    """Whether the maps have the same W, or, `turned`, each the transpose of the other's."""
    return one.leaf == other.leaf and np.array_equal(one.entries, other.entries.T if turned else other.entries)


CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr", "closed_call": "call_jaxpr"}
"""Equations that carry out other equations, and nothing else."""


def evaluate(jaxpr: Jaxpr, constants: Sequence[Any], arguments: Sequence[Any], tap: Tap) -> list[Any]:
    """Carry out the equations one by one. Arguments, and so the results, may be `Parameter`s."""
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *arguments), strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else known[atom]

    for equation in jaxpr.eqns:
        operands = [read(atom) for atom in equation.invars]
        places = [place for place, operand in enumerate(operands) if isinstance(operand, Parameter)]
        if places and equation.primitive.name in CALLS:
            inner = equation.params[CALLS[equation.primitive.name]]
            inner, within = (inner.jaxpr, inner.consts) if isinstance(inner, ClosedJaxpr) else (inner, ())
            results = evaluate(inner, within, operands, tap)
        else:
            results = _carry_out(jaxpr, equation, [_value(operand) for operand in operands])
            if len(places) == 1 and (moved := _move(equation, places[0], operands, results)):
                results = moved
            else:
                for place in places:
                    results = _meet(equation, place, operands, results, tap)
        known.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _carry_out(jaxpr: Jaxpr, equation: JaxprEqn, operands: Sequence[Any]) -> list[Any]:
    variables = {a: o for a, o in zip(equation.invars, operands, strict=True) if not isinstance(a, Literal)}
    alone = jaxpr.replace(constvars=[*variables], invars=[], eqns=[equation], outvars=equation.outvars)
    return list(eval_jaxpr(alone, [*variables.values()]))


def _value(operand: Any) -> Any:
    return operand.value if isinstance(operand, Parameter) else operand


def _move(equation: JaxprEqn, place: int, operands: list[Any], results: list[Any]) -> list[Any] | None:
    """The results, if they are the one parameter among the operands: reshaped, transposed, cut or scaled."""
    parameter: Parameter = operands[place]
    entries, factors, params = parameter.entries, parameter.factors, equation.params
    if not all(jnp.issubdtype(result.dtype, jnp.floating) for result in results):
        return None
    parts = [entries]
    match equation.primitive.name:
        case "reshape" | "squeeze" | "broadcast_in_dim" | "convert_element_type" | "copy":
            if entries.size != results[0].size:
                return None
            parts = [entries.reshape(results[0].shape)]
        case "transpose":
            parts = [entries.transpose(params["permutation"])]
        case "slice":
            strides = params["strides"] or entries.ndim * (1,)
            cut = map(slice, params["start_indices"], params["limit_indices"], strides)
            parts = [entries[tuple(cut)]]
        case "split":
            parts = np.split(entries, np.cumsum(params["sizes"])[:-1], axis=params["axis"])
        case "neg":
            factors = (*factors, -1.0)
        case "mul" if jnp.ndim(operands[1 - place]) == 0:
            factors = (*factors, operands[1 - place])
        case "div" if place == 0 and jnp.ndim(operands[1]) == 0:
            factors = (*factors, 1 / operands[1])
        case _:
            return None
    return [Parameter(r, parameter.leaf, part, factors) for r, part in zip(results, parts, strict=True)]


def _meet(equation: JaxprEqn, place: int, operands: list[Any], results: list[Any], tap: Tap) -> list[Any]:
    """The results of an equation that a parameter goes into, tapped if it is an affine map of known form."""
    parameter, name = operands[place], equation.primitive.name
    found = None
    if name in KINDS:
        values = [_value(operand) for operand in operands]
        found = KINDS[name](equation.params, place, parameter.entries, values, results[0])
    if found is None:
        tap(parameter, None, results[0], results[0])
        return results
    inputs, entries, lay_inputs, lay_outputs = found
    lookup = name in LOOKUPS
    if not lookup and not jnp.issubdtype(inputs.dtype, jnp.floating):
        inputs = inputs.astype(results[0].dtype)
    shapes = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in (inputs, results[0])]
    affine = AffineMap(parameter.leaf, entries, shapes[0], lay_inputs, shapes[1], lay_outputs, lookup)
    return [tap(parameter, affine, inputs, results[0])]


Found = tuple[Array, np.ndarray, Callable[[Array], Array], Callable[[Array], Array]] | None
"""The inputs of a map, the entries of W (m, f), and the layouts of its inputs and outputs."""


def _product(params: Any, place: int, entries: np.ndarray, operands: list[Any], z: Array) -> Found:
    contracted, batched = params["dimension_numbers"]
    if batched[0]:
        return None
    inputs, ours, theirs = operands[1 - place], contracted[place], contracted[1 - place]
    free = [axis for axis in range(entries.ndim) if axis not in ours]
    positions = [axis for axis in range(inputs.ndim) if axis not in theirs]
    matrix = entries.transpose(*free, *ours).reshape(math.prod(entries.shape[axis] for axis in free), -1)
    fan_out, fan_in = matrix.shape

    def lay_inputs(a: Array) -> Array:
        return a.transpose(*positions, *theirs).reshape(-1, fan_in)

    def lay_outputs(z: Array) -> Array:  # the axes of the left operand come first
        return z.reshape(fan_out, -1).T if place == 0 else z.reshape(-1, fan_out)

    return inputs, matrix, lay_inputs, lay_outputs


def _convolution(params: Any, place: int, entries: np.ndarray, operands: list[Any], z: Array) -> Found:
    if place != 1 or params["feature_group_count"] > 1 or params["batch_group_count"] > 1:
        return None
    (batch, channels, *space), (out, into, *window), results = params["dimension_numbers"]
    strides, steps, sides = params["window_strides"], params["rhs_dilation"], [entries.shape[axis] for axis in window]
    padding = [(*both, gap - 1) for both, gap in zip(params["padding"], params["lhs_dilation"], strict=True)]
    counts = [z.shape[axis] for axis in results[2:]]
    matrix = entries.transpose(out, *window, into).reshape(entries.shape[out], -1)

    def lay_inputs(a: Array) -> Array:
        """At every position the part of the image that it depends on."""
        a = a.transpose(batch, *space, channels)
        padded = lax.pad(a, jnp.zeros((), a.dtype), [(0, 0, 0), *padding, (0, 0, 0)])

        def shifted(corner: tuple[int, ...]) -> Array:
            axes = zip(corner, steps, strides, counts, strict=True)
            cut = [slice(i * step, i * step + stride * (n - 1) + 1, stride) for i, step, stride, n in axes]
            return padded[(slice(None), *cut)]

        parts = [shifted(corner) for corner in product(*map(range, sides))]
        return jnp.concatenate(parts, axis=-1).reshape(-1, matrix.shape[1])

    def lay_outputs(z: Array) -> Array:
        return z.transpose(results[0], *results[2:], results[1]).reshape(-1, matrix.shape[0])

    return operands[0], matrix, lay_inputs, lay_outputs


def _lookup(params: Any, place: int, entries: np.ndarray, operands: list[Any], z: Array) -> Found:
    """Whole rows of a table: W is its transpose, and a would be one-hot."""
    numbers, axes = params["dimension_numbers"], params["slice_sizes"]
    kinds = lax.GatherScatterMode
    if place != 0 or tuple(axes) != (1, *entries.shape[1:]) or numbers.operand_batching_dims:
        return None
    if 0 not in numbers.start_index_map or (params["mode"] == kinds.FILL_OR_DROP and len(numbers.start_index_map) > 1):
        return None
    rows = operands[1][..., numbers.start_index_map.index(0)]
    if params["mode"] == kinds.CLIP:
        rows = jnp.clip(rows, 0, len(entries) - 1)
    positions = [axis for axis in range(z.ndim) if axis not in numbers.offset_dims]
    matrix = entries.reshape(len(entries), -1).T

    def lay_outputs(z: Array) -> Array:
        return z.transpose(*positions, *numbers.offset_dims).reshape(-1, matrix.shape[0])

    return rows, matrix, jnp.ravel, lay_outputs


def _one_row(params: Any, place: int, entries: np.ndarray, operands: list[Any], z: Array) -> Found:
    if place != 0 or tuple(params["slice_sizes"]) != (1, *entries.shape[1:]):
        return None
    row = jnp.clip(operands[1], 0, len(entries) - 1)
    matrix = entries.reshape(len(entries), -1).T
    return row, matrix, jnp.ravel, lambda z: z.reshape(1, -1)


KINDS = {
    "dot_general": _product,
    "conv_general_dilated": _convolution,
    "gather": _lookup,
    "dynamic_slice": _one_row,
}
"""Equations that are affine maps of a parameter, if they have the right form."""

LOOKUPS = ("gather", "dynamic_slice")
"""Those whose inputs are the numbers of rows."""
