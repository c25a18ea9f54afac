"""Whole paths of the symmetric model, compiled: the paper's recursion on `W`, and gradient descent on `U`.

Clock: `eta` is the step in the paper clock (`eta = 2 h` for gradient descent on `U` with learning rate `h`; see
`jacobian_recursion`). Batches of starts are leading axes and run side by side in one array program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from dynascope import checks
from dynascope.theory.concept.jacobian_recursion import factor_gd, jacobian_euler, jacobian_of
from dynascope.theory.domains import PositiveNumber, check_arguments

Steps = int | np.integer | Sequence[int] | np.ndarray
Observe = Callable[[Float[Array, "*batch d d"]], Any]


@check_arguments
def recorded_steps(steps: Steps, every: int = 1) -> Int[np.ndarray, " time"]:
    """The steps at which a path is recorded: `0, every, 2 every, ..., steps`, or the given ones.

    Args:
        steps: Number of steps, or the increasing steps to record.
        every: Interval between recorded steps, if `steps` is a number. Default: 1.
    """
    if isinstance(steps, int | np.integer):
        chosen = np.arange(0, checks.whole("steps", steps, at_least=0, at_most=2**31 - 1) + 1, every)
    else:
        chosen = np.asarray(steps, dtype=int)
    if chosen.size == 0 or chosen[0] < 0 or np.any(np.diff(chosen) <= 0):
        raise ValueError(f"steps must be increasing and not negative; got {chosen}")
    return chosen


@check_arguments
def identity(W: Float[Array, "*batch d d"]) -> Float[Array, "*batch d d"]:
    """`W` itself.

    Args:
        W: Jacobian `W`. Shape (..., d, d).
    """
    return W


@check_arguments
def jacobian_euler_path(
    W0: Float[Array, "*batch d d"],
    a: Float[Array, " d"],
    eta: PositiveNumber,
    steps: Steps,
    every: int = 1,
    observe: Observe = identity,
) -> Any:
    """`observe(W)` at the recorded steps (first axis) of the paper's recursion (D.1).

    Args:
        W0: Initial Jacobian `W(0)`. Shape (..., d, d).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
        eta: Step in the paper clock. Positive.
        steps: Number of steps, or the increasing steps to record.
        every: Interval between recorded steps, if `steps` is a number. Default: 1.
        observe: Function of `W` (..., d, d) to record, such as a loss instead of all of `W`. Default: identity.
    """
    return _path(jacobian_euler, identity, W0, a, eta, recorded_steps(steps, every), observe)


@check_arguments
def factor_path(
    U0: Float[Array, "*batch d width"],
    a: Float[Array, " d"],
    eta: PositiveNumber,
    steps: Steps,
    every: int = 1,
    observe: Observe = identity,
) -> Any:
    """`observe(U U^T)` at the recorded steps (first axis) of gradient descent on `U`, at `eta / 2` on the gradient of
    (4.1).

    Args:
        U0: Initial factor `U(0)`. Shape (..., d, width).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
        eta: Step in the paper clock. Positive.
        steps: Number of steps, or the increasing steps to record.
        every: Interval between recorded steps, if `steps` is a number. Default: 1.
        observe: Function of `W` (..., d, d) to record, such as a loss instead of all of `W`. Default: identity.
    """
    return _path(factor_gd, jacobian_of, U0, a, eta, recorded_steps(steps, every), observe)


@partial(jax.jit, static_argnames=("step", "matrix", "observe"))
def _path(step: Any, matrix: Any, start: Array, a: Array, eta: Any, at: Array, observe: Observe) -> Any:
    def advance(state: Array, gap: Array) -> tuple[Array, Any]:
        state = lax.fori_loop(jnp.zeros_like(gap), gap, lambda _, inner: step(inner, a, eta), state)
        return state, observe(matrix(state))

    return lax.scan(advance, start, jnp.diff(at, prepend=0))[1]
