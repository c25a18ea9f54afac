"""Compiler options for programs that run for a short time, for every room: on CPUs compiling is most of the wait.

XLA optimizes every program as if it ran for hours. On a CPU each operation that is called outside of a compiled
function is a program too, and takes 25 ms to compile; `as_one_program` makes one of all operations of a function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer

Options = tuple[tuple[str, bool | int], ...]
STEPS_ON_CPU: Options = (("xla_backend_optimization_level", 1),)
"""XLA options with which steps compile a quarter faster and run as fast.

Without fusion emitters they would compile a third faster still, to the same bits or nearly, but steps that draw random
numbers or have smooth activations would take up to half longer."""
SELDOM_ON_CPU: Options = (*STEPS_ON_CPU, ("xla_cpu_use_fusion_emitters", False))
"""XLA options with which a program that runs a dozen times compiles another quarter faster, and a loop of sums and
comparisons, which runs as fast and to equal bits, in half the time."""
ONCE_ON_CPU: Options = (("xla_backend_optimization_level", 0), ("xla_cpu_use_fusion_emitters", False))
"""XLA options with which a program that runs once compiles five times faster."""
P = ParamSpec("P")
Out = TypeVar("Out")
Function = TypeVar("Function", bound=Callable[..., Any])


def jit_once(function: Callable[P, Out]) -> Callable[P, Out]:
    """Compile a function that is called once or twice: without optimization, in a fifth of the time on a CPU.

    Args:
        function: A function of pytrees, as for `equinox.filter_jit`.

    Returns:
        The compiled function.
    """
    return jit_with(function, ONCE_ON_CPU if jax.default_backend() == "cpu" else ())


def jit_cached(function: Callable[P, Out], options: Options = STEPS_ON_CPU) -> Callable[P, Out]:
    """The compiled function, the same one at every call.

    Args:
        function: A function of pytrees, as for `equinox.filter_jit`.
        options: XLA's options on a CPU, unless the user has turned off optimization there.

    Returns:
        The compiled function.
    """
    as_asked = jax.default_backend() != "cpu" or jax.config.values.get("jax_disable_most_optimizations")
    return compiled(function, () if as_asked else options)


def as_one_program(function: Function) -> Function:
    """Decorate a function of arrays that takes an instant: a call compiles one program, not one for each operation.

    It is compiled without optimization, once for each shape of its arrays and each value of its other arguments. Inside
    of another compiled function it is part of that one's program.

    Args:
        function: A function that JAX can trace: arrays are JAX's inside of it.

    Returns:
        The function, with values that may differ in the last digits.
    """

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        here = jnp.zeros(())  # a tracer if the call is traced, even with arguments that are constant
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((here, args, options))):
            return function(*args, **options)
        return jit_cached(function, ONCE_ON_CPU)(*args, **options)

    return cast(Function, call)


def jit_with(function: Callable, options: Options) -> Any:
    """Compile a function with those of the options that this version of XLA knows."""
    jit: Callable = eqx.filter_jit  # it hands further options to jax.jit
    known = {name: value for name, value in options if _is_known(name, value)}
    return jit(function, compiler_options=known) if known else jit(function)


compiled = functools.cache(jit_with)
"""The same, once for each function and its options."""


@functools.cache
def _is_known(name: str, value: bool | int) -> bool:
    """Whether this version of XLA has an option: it refuses programs with options that it does not know."""
    try:
        jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
