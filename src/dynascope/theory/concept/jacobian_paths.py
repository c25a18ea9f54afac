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
from dynascope.theory.arguments import PositiveNumber
from dynascope.theory.concept.jacobian_recursion import factor_gd, jacobian_euler, jacobian_of

Steps = int | np.integer | Sequence[int] | np.ndarray
Observe = Callable[[Float[Array, "*batch d d"]], Any]


def recorded_steps(steps: Steps, every: int = 1) -> Int[np.ndarray, " time"]:
    """The steps at which a path is recorded: `0, every, 2 every, ..., steps`, or the given increasing steps."""
    if isinstance(steps, int | np.integer):
        chosen = np.arange(0, checks.whole("steps", steps, at_least=0, at_most=2**31 - 1) + 1, every)
    else:
        chosen = np.asarray(steps, dtype=int)
    if chosen.size == 0 or chosen[0] < 0 or np.any(np.diff(chosen) <= 0):
        raise ValueError(f"steps must be increasing and not negative; got {chosen}")
    return chosen


def identity(W: Float[Array, "*batch d d"]) -> Float[Array, "*batch d d"]:
    """Record `W` itself."""
    return W


def jacobian_euler_path(
    W0: Float[Array, "*batch d d"],
    a: Float[Array, " d"],
    eta: PositiveNumber,
    steps: Steps,
    every: int = 1,
    observe: Observe = identity,
) -> Any:
    """`observe(W)` along the paper's recursion (D.1), stacked on a first axis over `recorded_steps(steps, every)`.

    Paper clock. `observe` keeps a large ensemble small in memory: record the loss instead of all of `W`.
    """
    return _path(jacobian_euler, identity, W0, a, eta, recorded_steps(steps, every), observe)


def factor_path(
    U0: Float[Array, "*batch d width"],
    a: Float[Array, " d"],
    eta: PositiveNumber,
    steps: Steps,
    every: int = 1,
    observe: Observe = identity,
) -> Any:
    """`observe(W)`, `W = U U^T`, along gradient descent on `U`, recorded as in `jacobian_euler_path`.

    Paper clock: the learning rate on the gradient of (4.1) is `eta / 2`.
    """
    return _path(factor_gd, jacobian_of, U0, a, eta, recorded_steps(steps, every), observe)


@partial(jax.jit, static_argnames=("step", "matrix", "observe"))
def _path(step: Any, matrix: Any, start: Array, a: Array, eta: Any, at: Array, observe: Observe) -> Any:
    def advance(state: Array, gap: Array) -> tuple[Array, Any]:
        state = lax.fori_loop(jnp.zeros_like(gap), gap, lambda _, inner: step(inner, a, eta), state)
        return state, observe(matrix(state))

    return lax.scan(advance, start, jnp.diff(at, prepend=0))[1]
