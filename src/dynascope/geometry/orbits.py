"""Points of an iterated map: how exactly an orbit closes there, whether it attracts, and how balanced a state is.

"Simple structures in neural networks", Chapter 3. A rule takes a state (an array, or any pytree) to the next one. The
functions of a single state serve as probes as they are:
`probes={"imbalance": lambda x: geometry.imbalance(x[0], x[1])}`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

Rule = Callable[[Any], Any]
Values = Float[Array, "..."]
Reals = Values | float | int


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
