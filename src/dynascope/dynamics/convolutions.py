"""Convolutions on CPUs, in the one layout for which XLA has a fast form inside loops.

XLA's compiler for CPUs uses its fast library for a convolution only if images are (batch, *space, channels) and kernels
(*space, in, out). Outside loops it converts other convolutions, including gradients, to this form; inside loops it does
not (https://github.com/jax-ml/jax/issues/12868), and they run about fifty times slower. So the conversion is done here,
on the traced function, after differentiation and `jax.vmap`: every convolution is written channels-last, between
transpositions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np
from jax import lax
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxprs_in_params

Out = TypeVar("Out")


def channels_last(function: Callable[..., Out]) -> Callable[..., Out]:
    """Write every convolution of a function channels-last, if the function is compiled for a CPU.

    Args:
        function: A function of pytrees of arrays that JAX can trace. It may differentiate, loop, and call compiled
            functions.

    Returns:
        A function with the same values; a function without convolutions keeps its operations as they are.
    """

    def rewritten(*arguments: Any) -> Out:
        traced, shapes = jax.make_jaxpr(jax.jit(function), return_shape=True)(*arguments)
        values = eval_jaxpr(_rewrite(traced.jaxpr, {}), traced.consts, *jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shapes), values)

    return rewritten


def _rewrite(jaxpr: Jaxpr, done: dict[int, Jaxpr]) -> Jaxpr:
    """Rewrite a traced function and all that it calls; one without convolutions is returned unchanged.

    `done` keeps the rewritten functions, so that a function that is called twice is still compiled once.
    """
    if id(jaxpr) not in done:
        equations = [_rewrite_equation(equation, done) for equation in jaxpr.eqns]
        same = all(new is old for new, old in zip(equations, jaxpr.eqns, strict=True))
        done[id(jaxpr)] = jaxpr if same else jaxpr.replace(eqns=equations)
    return done[id(jaxpr)]


def _rewrite_equation(equation: JaxprEqn, done: dict[int, Jaxpr]) -> JaxprEqn:
    if equation.primitive is lax.conv_general_dilated_p:
        return _rewrite_convolution(equation)

    def rewrite(part: Any) -> Any:
        if isinstance(part, ClosedJaxpr):
            return part.replace(jaxpr=_rewrite(part.jaxpr, done))
        return _rewrite(part, done) if isinstance(part, Jaxpr) else part

    inner = list(jaxprs_in_params(equation.params))
    if all(_rewrite(jaxpr, done) is jaxpr for jaxpr in inner):
        return equation
    parts = {name: jax.tree.map(rewrite, part, is_leaf=_is_no_tuple) for name, part in equation.params.items()}
    return equation.replace(params=parts)


def _rewrite_convolution(equation: JaxprEqn) -> JaxprEqn:
    """Call a compiled function, with channels-last convolutions on a CPU and the original ones elsewhere."""
    images, kernels, results = equation.params["dimension_numbers"]
    space = tuple(range(1, len(images) - 1))
    last = lax.ConvDimensionNumbers(
        (0, len(space) + 1, *space), (len(space) + 1, len(space), *range(len(space))), (0, len(space) + 1, *space)
    )
    if (images, kernels, results) == last:
        return equation
    batch, channels, *places = images
    out, into, *window = kernels

    def plain(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return equation.primitive.bind(x, kernel, **equation.params)

    def turned(x: jax.Array, kernel: jax.Array) -> jax.Array:
        x = lax.transpose(x, (batch, *places, channels))
        kernel = lax.transpose(kernel, (*window, into, out))
        y = equation.primitive.bind(x, kernel, **equation.params | {"dimension_numbers": last})
        return lax.transpose(y, np.argsort((results[0], *results[2:], results[1])))

    call = jax.jit(lambda x, kernel: lax.platform_dependent(x, kernel, cpu=turned, default=plain))
    (called,) = jax.make_jaxpr(call)(*(variable.aval for variable in equation.invars)).eqns
    return called.replace(invars=equation.invars, outvars=equation.outvars)


def _is_no_tuple(part: Any) -> bool:
    return not isinstance(part, tuple)
