"""Orbits of an iterated map: their period, how exactly they close, whether they attract, and what shrinks beside them.

"Simple structures in neural networks", Chapter 3. A rule takes a state (an array, or any pytree) to the next one. The
measurements of a single state (`diverged`, `leading_components`, the imbalances) are plain functions, so they serve as
probes as they are: `probes={"imbalance": lambda x: orbits.imbalance(x[0], x[1])}`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree
from numpy.typing import ArrayLike

Rule = Callable[[Any], Any]
Values = Float[Array, "..."]
Reals = Values | float | int

PERIODS = (1, 2, 4, 8, 16, 32)
APERIODIC = 0


# --- recorded orbits --------------------------------------------------------------------------------------------------


def period(
    orbit: ArrayLike, burn_in: int = 0, tolerance: float = 1e-7, periods: tuple[int, ...] = PERIODS
) -> Int[np.ndarray, " ..."]:
    """The smallest p with |x_{t+p} - x_t| < tolerance for the last p steps t of the record; 0: aperiodic, or diverged.

    Orbits are arrays `(..., step)`, recorded at every step; the record must go on for 2 p steps after `burn_in`.
    """
    values = np.asarray(orbit)[..., burn_in:]
    if values.shape[-1] < 2 * max(periods):
        raise ValueError(
            f"to see periods up to {max(periods)}, record {2 * max(periods)} steps after the burn-in;"
            f" got {values.shape[-1]}"
        )
    found = np.full(values.shape[:-1], APERIODIC)
    for p in sorted(periods, reverse=True):
        with np.errstate(invalid="ignore", over="ignore"):
            closes = np.all(np.abs(values[..., -p:] - values[..., -2 * p : -p]) < tolerance, axis=-1)
        found = np.where(closes, p, found)
    return found


def last_cycle(orbit: ArrayLike, length: int) -> Float[np.ndarray, "... length"]:
    """The last `length` iterates, beginning with the smallest: comparable between runs that end in another phase."""
    tail = np.asarray(orbit, float)[..., -length:]
    first = np.argmin(np.where(np.isnan(tail), np.inf, tail), axis=-1)[..., None]
    return np.take_along_axis(tail, (first + np.arange(length)) % length, axis=-1)


def transverse_exponent(factors: ArrayLike) -> Float[np.ndarray, " ..."]:
    """mean_t log|factor_t| along `(..., step)`: the rate at which what these factors multiply dies (if negative).

    For the imbalance of a product loss the factor is 1 + eta (xy - mu).
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.mean(np.log(np.abs(np.asarray(factors, float))), axis=-1))


# --- points of an orbit -----------------------------------------------------------------------------------------------


def advance(rule: Rule, state: PyTree, steps: int) -> PyTree:
    """`rule` applied `steps` times, for few steps (it is written out, so that it can be differentiated)."""
    for _ in range(steps):
        state = rule(state)
    return state


def residual(rule: Rule, state: PyTree, period: int = 2) -> Float[Array, ""]:
    """max |F^p(x) - x| over all entries: 0 on an orbit whose period divides p."""
    return _largest(jax.tree.map(jnp.subtract, advance(rule, state, period), state))


def multiplier(rule: Rule, state: Values, period: int = 2) -> Values:
    """(F^p)'(x), the product of F' over the orbit, of a rule that acts entry by entry; the orbit attracts where it is
    between -1 and 1."""
    return jax.jvp(lambda x: advance(rule, x, period), (state,), (jnp.ones_like(state),))[1]


def multipliers(rule: Callable[[Array], Array], state: Float[Array, " n"], period: int = 2) -> Array:
    """The eigenvalues of the Jacobian of F^p at x, for a state of n numbers, the largest first."""
    found = jnp.linalg.eigvals(jax.jacfwd(lambda x: advance(rule, x, period))(state))
    return found[jnp.argsort(-jnp.abs(found))]


# --- states -----------------------------------------------------------------------------------------------------------


def diverged(state: PyTree, bound: Reals = 1e3) -> Bool[Array, ""]:
    """Some entry is not finite or larger than `bound` (for problems scaled so that the solution is of order 1)."""
    return ~(_largest(state) <= bound)


def imbalance(x: Reals, y: Reals) -> Values:
    """|x - y|."""
    return jnp.abs(jnp.asarray(x - y))


def norm_ratio(inner: Float[Array, "*batch d"], outer: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """|w_i| / v_i of neurons v_i relu(w_i . x)."""
    return jnp.linalg.norm(inner, axis=-1) / outer


def gram_imbalance(Y: Float[Array, "m p"], Z: Float[Array, "q p"]) -> Float[Array, ""]:
    """||Y^T Y - Z^T Z||, in the Frobenius norm."""
    return jnp.linalg.norm(_matmul(Y.T, Y) - _matmul(Z.T, Z))


def leading_components(
    Y: Float[Array, "d p"], Z: Float[Array, "d p"], C: Float[Array, "d d"], top: Float[Array, " d"]
) -> dict[str, Array]:
    """Of a factorization Y Z^T of C with top eigenvector u: |u^T Y| and |u^T Z|, the largest singular values of Y and
    Z, and max |M - (u^T M u) u u^T| for M = Y Z^T - C, which is 0 where the error is along u alone.

    Compare |u^T Y| and |u^T Z|: in the low phase of an orbit the largest singular value may belong to the bulk.
    """
    M = _matmul(Y, Z.T) - C
    along = jnp.dot(top, _matmul(M, top[:, None])[:, 0], precision="highest")
    return {
        "Y": jnp.linalg.norm(_matmul(top[None], Y)),
        "Z": jnp.linalg.norm(_matmul(top[None], Z)),
        "Y_norm": jnp.linalg.norm(Y, ord=2),
        "Z_norm": jnp.linalg.norm(Z, ord=2),
        "off_top": jnp.max(jnp.abs(M - along * top[:, None] * top[None, :])),
    }


def _matmul(left: Array, right: Array) -> Array:
    return jnp.matmul(left, right, precision="highest")


def _largest(tree: PyTree) -> Float[Array, ""]:
    """The largest absolute value (nan if there is one)."""
    return jnp.max(jnp.stack([jnp.max(jnp.abs(leaf)) for leaf in jax.tree.leaves(tree)]))
