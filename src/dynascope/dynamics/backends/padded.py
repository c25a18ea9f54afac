"""A traced function, evaluated on arrays that are padded to the sizes of a kernel language.

Triton's tensors have sizes that are powers of two, and its matrix products sizes of 16 or more. So every axis longer
than 1 is padded to such a size. The values in the padding are arbitrary: elementwise operations may do anything with
them, and operations along the axis (sums, maxima, matrix products) mask them out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer, eval_jaxpr
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var
from jax.typing import DTypeLike

SMALLEST = 16
"""The smallest size of a matrix product."""
ELEMENTWISE = frozenset(
    """
    abs add and ceil clamp convert_element_type cos div eq exp exp2 expm1 floor ge gt integer_pow is_finite le
    log log1p logistic lt max min mul ne neg not one_minus_square or pow rem rsqrt select_n shift_left
    shift_right_logical sign sin sqrt square sub tan tanh xor
    """.split()  # noqa: SIM905
)
"""Elementwise operations that the kernel language has."""
ENLARGING = frozenset({"broadcast_in_dim", "iota"})
"""Operations that are cheaper to repeat inside the kernel than reading their results."""
CALLS = frozenset({"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "checkpoint"})
"""Operations that call a function once, with the parameter that holds it."""
HELD = ("jaxpr", "call_jaxpr", "fun_jaxpr")
SAME = frozenset({"copy", "copy_p", "optimization_barrier", "stop_gradient"})
LOSES_NAN = frozenset({"max", "min", "clamp"})
"""Operations that ignore a NaN in the kernel language; in JAX they propagate it."""
ERF_ABOVE = (-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05)
ERF_ABOVE += (-7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02)
ERF_BELOW = (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03)
ERF_BELOW += (-1.42647390514189e-02,)
"""A rational approximation of erf(x) / x in x^2, for |x| <= 4, to float32 precision."""
ERFC = (0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368)
ERFC += (-1.26551223,)
"""log(erfc(x) / t) + x^2 as a polynomial in t = 1 / (1 + x / 2), for x >= 0 (Press et al., Numerical Recipes)."""

Term = Var | Literal
"""An input or output of an operation."""
Numbers = Any
"""A traced array, or a NumPy array of literals."""
Shaped = jax.Array | jax.ShapeDtypeStruct
Precision = lax.PrecisionLike
Product = Callable[[jax.Array, jax.Array, Precision], jax.Array]
"""A matrix product of `(m, k)` and `(k, n)`, at the precision that the operation requires."""


class Program(NamedTuple):
    """A traced function."""

    inputs: Sequence[Var]
    """Its variables: constants first, then arguments."""
    equations: Sequence[JaxprEqn]
    outputs: Sequence[Term]


class NotInKernel(Exception):
    """An operation that this evaluation or the kernel language does not support."""


def padded_size(size: int) -> int:
    """1, or the next power of two from 16 on."""
    return 1 if size == 1 else max(SMALLEST, 1 << (size - 1).bit_length())


def padded_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape with every axis padded."""
    return tuple(map(padded_size, shape))


def pad(array: jax.Array) -> jax.Array:
    """The array with zeros up to its padded shape."""
    return jnp.pad(array, [(0, padded_size(size) - size) for size in array.shape]) if array.ndim else array


def cut(array: jax.Array, shape: Sequence[int]) -> jax.Array:
    """The array without its padding."""
    return array[tuple(slice(size) for size in shape)]


def before_and_inside(traced: ClosedJaxpr) -> tuple[Program, dict[Var, jax.Array]]:
    """The part of a traced function that depends on its arguments, and the values of the other variables that it needs:
    those that depend on constants alone are computed once, before the kernel, by ordinary operations."""
    jaxpr, known, before, inside = traced.jaxpr, dict.fromkeys(traced.jaxpr.constvars), [], []
    for equation in jaxpr.eqns:
        inputs = _variables(equation.invars)
        if inputs and known.keys() >= set(inputs) and equation.primitive.name not in ENLARGING:
            before.append(equation)
            known.update(dict.fromkeys(equation.outvars))
        else:
            inside.append(equation)
    read = {variable for equation in _needed(inside, jaxpr.outvars) for variable in _variables(equation.invars)}
    needed = [variable for variable in known if variable in read.union(_variables(jaxpr.outvars))]
    values = eval_jaxpr(jaxpr.replace(eqns=before, invars=[], outvars=needed), traced.consts)
    return Program([*needed, *jaxpr.invars], inside, jaxpr.outvars), dict(zip(needed, values, strict=True))


def evaluate(program: Program, given: Sequence[Numbers | None], product: Product) -> list[Numbers]:
    """The outputs of a traced function, all arrays padded. Operations whose results are unused are left out."""
    values = dict(zip(program.inputs, given, strict=True))

    def read(variable: Term) -> Numbers:
        return np.asarray(variable.val, _shaped(variable).dtype) if isinstance(variable, Literal) else values[variable]

    for equation in _needed(program.equations, program.outputs):
        found = _apply(equation, [read(variable) for variable in equation.invars], product)
        values.update(zip(equation.outvars, found, strict=True))
    return [read(variable) for variable in program.outputs]


def _variables(terms: Sequence[Term]) -> list[Var]:
    """The non-literal inputs or outputs of an operation."""
    return [term for term in terms if not isinstance(term, Literal)]


def _needed(equations: Sequence[JaxprEqn], outputs: Sequence[Term]) -> list[JaxprEqn]:
    """The equations on which an output depends."""
    wanted, kept = set(_variables(outputs)), []
    for equation in reversed(equations):
        if wanted.intersection(equation.outvars):
            kept.append(equation)
            wanted.update(_variables(equation.invars))
    return kept[::-1]


def _apply(equation: JaxprEqn, inputs: list[Numbers], product: Product) -> list[Numbers]:
    name, params = equation.primitive.name, equation.params
    shapes = [_shaped(variable).shape for variable in equation.invars]
    to = _shaped(equation.outvars[0]).shape
    if name in ELEMENTWISE:
        if any(isinstance(value, Tracer) for value in inputs):
            return [_with_nan(name, equation.primitive.bind(*inputs, **params), inputs)]
        with jax.ensure_compile_time_eval():  # of literals alone
            return [np.asarray(equation.primitive.bind(*inputs, **params))]
    if name in SAME or (name == "reduce_precision" and _keeps_all(params, inputs[0].dtype)):
        return inputs
    if name == "add_any":
        return [inputs[0] + inputs[1]]
    if name == "cond":
        return _select_branch(equation, inputs, product)
    inner, consts = _inner(equation)
    if inner:
        return evaluate(inner, [*consts, *inputs], product)
    if name in ("erf", "erfc"):
        exact = (_erf if name == "erf" else _erfc)(inputs[0].astype(jnp.float32))
        return [exact.astype(inputs[0].dtype)]
    if name == "broadcast_in_dim":
        return [lax.broadcast_in_dim(inputs[0], padded_shape(to), params["broadcast_dimensions"])]
    if name in ("reshape", "squeeze", "expand_dims"):
        return [_reshape(inputs[0], shapes[0], to)]
    if name == "transpose":
        return [lax.transpose(inputs[0], params["permutation"])]
    if name == "iota":
        return [lax.broadcasted_iota(params["dtype"], padded_shape(to), params["dimension"])]
    if name in ("reduce_sum", "reduce_max", "reduce_min"):
        return [_reduce(name, inputs[0], shapes[0], params["axes"])]
    if name in ("reduce_and", "reduce_or"):
        name = {"reduce_and": "reduce_min", "reduce_or": "reduce_max"}[name]
        return [_reduce(name, inputs[0], shapes[0], params["axes"])]
    if name == "dot_general":
        return [_dot(inputs, shapes, params, product, _shaped(equation.outvars[0]).dtype)]
    raise NotInKernel(name)


def _shaped(term: Term) -> jax.ShapeDtypeStruct:
    """The shape and type of an input or output."""
    value: Any = term.aval
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


def _inner(equation: JaxprEqn) -> tuple[Program | None, Sequence[Numbers]]:
    """The function that an operation calls once, and its constants; None if it calls none."""
    if equation.primitive.name not in CALLS:
        return None, ()
    return next((_open(equation.params[key]) for key in HELD if key in equation.params), (None, ()))


def _open(closed: Any) -> tuple[Program, Sequence[Numbers]]:
    jaxpr, consts = getattr(closed, "jaxpr", closed), getattr(closed, "consts", ())
    if any(np.ndim(const) for const in consts):
        raise NotInKernel("arrays that a compiled function holds")
    return Program([*jaxpr.constvars, *jaxpr.invars], jaxpr.eqns, jaxpr.outvars), consts


def _select_branch(equation: JaxprEqn, inputs: list[Numbers], product: Product) -> list[Numbers]:
    """Evaluate all branches of a condition and select one: branches on a chip are short."""
    index, *arguments = inputs
    opened = map(_open, equation.params["branches"])
    chosen, *others = [evaluate(branch, [*consts, *arguments], product) for branch, consts in opened]
    for number, branch in enumerate(others, 1):
        taken = index.astype(jnp.int32) == number
        chosen = [jnp.where(taken, one, other) for one, other in zip(branch, chosen, strict=True)]
    return chosen


def _mask(array: Numbers, shape: Sequence[int], axes: Sequence[int], fill: float | int) -> Numbers:
    """The array with `fill` in the padding along these axes."""
    for axis in axes:
        if shape[axis] != array.shape[axis]:
            inside = lax.broadcasted_iota(jnp.int32, array.shape, axis) < shape[axis]
            array = jnp.where(inside, array, jnp.full_like(array, fill))
    return array


def _with_nan(name: str, found: Numbers, inputs: list[Numbers]) -> Numbers:
    """The result of an operation, with the NaN restored that the kernel language ignores."""
    if name in LOSES_NAN and jnp.issubdtype(found.dtype, jnp.floating):
        for value in inputs[1:2] if name == "clamp" else inputs:
            if isinstance(value, Tracer):
                found = jnp.where(value != value, value, found)
    return found


def _keeps_all(params: dict[str, Any], dtype: DTypeLike) -> bool:
    """Whether a rounding to this many bits changes nothing."""
    exact = jnp.finfo(dtype)
    return params["exponent_bits"] >= exact.nexp and params["mantissa_bits"] >= exact.nmant


def _reduce(name: str, array: Numbers, shape: Sequence[int], axes: Sequence[int]) -> Numbers:
    if array.dtype == bool:
        return _reduce(name, array.astype(jnp.int32), shape, axes) > 0
    floating = jnp.issubdtype(array.dtype, jnp.floating)
    exact: Any = None if floating else jnp.iinfo(array.dtype)
    low, high = (-math.inf, math.inf) if floating else (exact.min, exact.max)
    fill, reduce = {
        "reduce_sum": (0, jnp.sum),
        "reduce_max": (low, jnp.max),
        "reduce_min": (high, jnp.min),
    }[name]
    found = _mask(array, shape, axes, fill)
    for axis in sorted(axes, reverse=True):
        found = reduce(found, axis=axis)
    if floating and name != "reduce_sum":
        found = jnp.where(_reduce("reduce_max", array != array, shape, axes), math.nan, found)
    return found


def _reshape(array: Numbers, shape: Sequence[int], to: Sequence[int]) -> Numbers:
    """A reshape: axes of length 1 may be added and removed; others change only if they are not padded."""
    if [size for size in shape if size > 1] == [size for size in to if size > 1]:
        return lax.reshape(array, padded_shape(to))
    if array.shape == tuple(shape) and padded_shape(to) == tuple(to):
        return lax.reshape(array, to)
    raise NotInKernel(f"reshape from {tuple(shape)} to {tuple(to)}")


def _dot(
    inputs: list[Numbers], shapes: list[tuple[int, ...]], params: dict[str, Any], product: Product, dtype: DTypeLike
) -> Numbers:
    (left_axes, right_axes), batch = params["dimension_numbers"]
    if any(batch) or len(left_axes) != 1 or any(not 1 <= len(shape) <= 2 for shape in shapes):
        raise NotInKernel(f"product of arrays of shapes {shapes[0]} and {shapes[1]}")
    if not jnp.issubdtype(dtype, jnp.floating):
        raise NotInKernel(f"product of {dtype}")
    (left_axis,), (right_axis,) = left_axes, right_axes
    left, right = _mask(inputs[0], shapes[0], left_axes, 0), _mask(inputs[1], shapes[1], right_axes, 0)
    left = left.T if left.ndim == 2 and left_axis == 0 else left
    right = right.T if right.ndim == 2 and right_axis == 1 else right
    if left.ndim == right.ndim == 2 and min(*left.shape, *right.shape) >= SMALLEST:
        if left.shape[0] < right.shape[1]:  # the longer side first takes fewer registers
            return product(right.T, left.T, params["precision"]).T.astype(dtype)
        return product(left, right, params["precision"]).astype(dtype)
    left, right = left.astype(dtype), right.astype(dtype)
    rows = left if left.ndim == 2 else left[None]  # (m, k), and columns (k, n): one axis at least has length 1
    columns = right if right.ndim == 2 else right[:, None]
    if rows.shape[1] == 1:
        out = rows * columns
    elif rows.shape[0] == 1:
        out = jnp.sum(rows.T * columns, axis=0)[None]
    else:
        out = jnp.sum(rows * columns.T, axis=1)[:, None]
    out = out if right.ndim == 2 else out[:, 0]
    return out if left.ndim == 2 else out[0]


def _erf(x: Numbers) -> Numbers:
    near = jnp.clip(x, -4, 4)
    above, below = (_polynomial(near * near, numbers) for numbers in (ERF_ABOVE, ERF_BELOW))
    return jnp.where(x != x, x, near * above / below)


def _erfc(x: Numbers) -> Numbers:
    t = 1 / (1 + 0.5 * jnp.abs(x))
    upper = t * jnp.exp(_polynomial(t, ERFC) - x * x)
    return jnp.where(x < 0, 2 - upper, upper)


def _polynomial(x: Numbers, numbers: Sequence[float]) -> Numbers:
    total = jnp.full_like(x, numbers[0])
    for number in numbers[1:]:
        total = total * x + number
    return total
