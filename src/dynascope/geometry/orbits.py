"""Points of an iterated map: how exactly an orbit closes there, whether it attracts, and how balanced a state is.

"Simple structures in neural networks", Chapter 3. A rule takes a state (an array, or any pytree) to the next one. The
functions of a single state can be used as probes directly: `probes={"imbalance": lambda x: geometry.imbalance(x[0],
x[1])}`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from dynascope import checks

Rule = Callable[[Any], Any]
Values = Float[Array, "..."]
Reals = Values | float


def advance(rule: Rule, state: PyTree, steps: int) -> PyTree:
    """`rule` applied `steps` times, for few steps (the loop is unrolled, so that it can be differentiated)."""
    checks.function("rule", rule, "rule(state)")
    for _ in range(steps):
        state = rule(state)
    return state


@checks.converts
def residual(rule: Rule, state: PyTree, period: int = 2) -> Float[Array, ""]:
    """max |F^p(x) - x| over all entries of a state: 0 on an orbit whose period divides p.

    Args:
        rule: F, from a state to the next one.
        state: x, an array or any pytree.
        period: p.

    Returns:
        The residual, a scalar.
    """
    _check_orbit(state, period)
    return _largest(jax.tree.map(jnp.subtract, advance(rule, state, period), state))


@checks.converts
def multiplier(rule: Rule, state: Values, period: int = 2) -> Values:
    """(F^p)'(x), the product of F' over the orbit, for a rule that acts entry by entry.

    Args:
        rule: F, from a state to the next one.
        state: x, of any shape.
        period: p.

    Returns:
        The multiplier of each entry; the orbit attracts if it is between -1 and 1.
    """
    _check_orbit(state, period)
    state = jnp.asarray(state)
    state = state if jnp.issubdtype(state.dtype, jnp.floating) else state.astype(jnp.result_type(float))
    return jax.jvp(lambda x: advance(rule, x, period), (state,), (jnp.ones_like(state),))[1]


@checks.converts
def multipliers(rule: Callable[[Array], Array], state: Float[Array, " n"], period: int = 2) -> Array:
    """The eigenvalues of the Jacobian of F^p at x.

    Args:
        rule: F, from a state to the next one.
        state: x, shape `(n,)`.
        period: p.

    Returns:
        Complex eigenvalues `(n,)`, the largest in size first.
    """
    _check_orbit(checks.array("state", state, ndim=1), period)
    state = jnp.asarray(state, jnp.result_type(float, state))
    found = jnp.linalg.eigvals(jax.jacfwd(lambda x: advance(rule, x, period))(state))
    return found[jnp.argsort(-jnp.abs(found))]


def has_diverged(state: PyTree, bound: Reals = 1e3) -> Bool[Array, ""]:
    """Some entry is not finite or larger than `bound` (for problems scaled so that the solution is of order 1)."""
    return ~(_largest(state) <= bound)


@checks.converts
def imbalance(x: Reals, y: Reals) -> Values:
    """|x - y|, entry by entry.

    Args:
        x: Numbers of any shape.
        y: Numbers of any shape.

    Returns:
        The distances.
    """
    return jnp.abs(jnp.asarray(checks.array("x", x) - checks.array("y", y)))


@checks.converts
def norm_ratio(inner: Float[Array, "*batch d"], outer: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """|w_i| / v_i of neurons v_i relu(w_i . x).

    Args:
        inner: The weights w_i, `(..., d)`.
        outer: The weights v_i, `(...)`.

    Returns:
        The ratios, shape `(...)`.
    """
    inner, outer = checks.jax_array("inner", inner, min_ndim=1), checks.jax_array("outer", outer)
    if outer.shape != inner.shape[:-1]:
        raise ValueError(f"outer must have shape {inner.shape[:-1]}, one weight a neuron; got {checks.shown(outer)}")
    return jnp.linalg.norm(inner, axis=-1) / outer


@checks.converts
def gram_imbalance(Y: Float[Array, "m p"], Z: Float[Array, "q p"]) -> Float[Array, ""]:
    """||Y^T Y - Z^T Z||, in the Frobenius norm.

    Args:
        Y: A factor `(m, p)`.
        Z: A factor `(q, p)`.

    Returns:
        The norm, a scalar.
    """
    Y, Z = checks.jax_array("Y", Y, ndim=2), checks.jax_array("Z", Z, ndim=2)
    if Y.shape[1] != Z.shape[1]:
        raise ValueError(f"Y and Z must have the same number of columns; got shapes {Y.shape} and {Z.shape}")
    return jnp.linalg.norm(_matmul(Y.T, Y) - _matmul(Z.T, Z))


@checks.converts
def leading_components(
    Y: Float[Array, "d p"], Z: Float[Array, "d p"], C: Float[Array, "d d"], top: Float[Array, " d"]
) -> dict[str, Array]:
    """The components of a factorization Y Z^T of C along the top eigenvector u of C, and off it.

    Compare |u^T Y| and |u^T Z|: in the low phase of an orbit the largest singular value may belong to the bulk.

    Args:
        Y: A factor `(d, p)`.
        Z: A factor `(d, p)`.
        C: The matrix `(d, d)`.
        top: u, shape `(d,)`.

    Returns:
        `Y` and `Z`, |u^T Y| and |u^T Z|; `Y_norm` and `Z_norm`, the largest singular values; `off_top`, max |M - (u^T M
        u) u u^T| for M = Y Z^T - C, which is 0 if the error is along u alone.
    """
    shapes = [jnp.shape(checks.array(*named)) for named in (("Y", Y), ("Z", Z), ("C", C), ("top", top))]
    d = shapes[0][:1]
    if len(shapes[0]) != 2 or shapes[1] != shapes[0] or shapes[2] != d + d or shapes[3] != d:
        raise ValueError(f"Y, Z, C and top must have shapes (d, p), (d, p), (d, d) and (d,); got {shapes}")
    M = _matmul(Y, Z.T) - C
    along = jnp.dot(top, _matmul(M, top[:, None])[:, 0], precision="highest")
    return {
        "Y": jnp.linalg.norm(_matmul(top[None], Y)),
        "Z": jnp.linalg.norm(_matmul(top[None], Z)),
        "Y_norm": jnp.linalg.norm(Y, ord=2),
        "Z_norm": jnp.linalg.norm(Z, ord=2),
        "off_top": jnp.max(jnp.abs(M - along * top[:, None] * top[None, :])),
    }


def _check_orbit(state: PyTree, period: int) -> None:
    checks.whole("period", period, at_least=1, at_most=1000)
    if not (leaves := jax.tree.leaves(state)):
        raise TypeError(f"state must hold arrays; got {checks.shown(state)}")
    for leaf in leaves:
        checks.array("state", leaf)


def _matmul(left: Array, right: Array) -> Array:
    return jnp.matmul(left, right, precision="highest")


def _largest(tree: PyTree) -> Float[Array, ""]:
    """The largest absolute value (nan if there is one)."""
    return jnp.max(jnp.stack([jnp.max(jnp.abs(leaf)) for leaf in jax.tree.leaves(tree)]))
