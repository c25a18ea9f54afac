"""The quadratic model of a two-layer ReLU network on many scalar inputs: two directions, each like one example.

"Toward Understanding the Dynamics of Over-parameterized Neural Networks", Section 3.3, Appendices B.11 and B.12. With
d = 1 an input switches on the units of its own sign, whatever its size, so the kernel has rank two: its eigenvectors
are p_1 = x 1{x >= 0} and p_2 = x 1{x < 0} at all times (inputs of one sign leave only one of them), with

    lambda_i = |p_i|^2 (1/m) sum_k (u_k^2 + v_k^2) 1{unit k answers to that sign}.

The convention is "sum". In each direction, with rho = <r, p>/|p|, the same for y, and c = |p|^2/m, the dynamics is that
of one example (`quadratic_model.step`). The rest of the residual never changes. Axis 0 below is the sign: +, -.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from dynascope.tasks.scalar_losses import Values, real
from dynascope.theory.arguments import PositiveNumber
from dynascope.theory.catapult import quadratic_model
from dynascope.theory.catapult.quadratic_model import State

Pair = Float[Array, "2 n"]


def directions(x: Float[Array, " n"]) -> Pair:
    """p_1 and p_2, not normalized. A point at 0 belongs to p_1 and contributes nothing."""
    return jnp.stack([jnp.where(x >= 0, x, 0), jnp.where(x < 0, x, 0)])


def unit_directions(x: Float[Array, " n"]) -> Pair:
    """p_i/|p_i|, or 0 where no input has that sign."""
    p = directions(x)
    lengths = jnp.linalg.norm(p, axis=1, keepdims=True)
    return p / jnp.where(lengths > 0, lengths, 1)


def kernel_eigenvalues(
    x: Float[Array, " n"], first: Float[Array, " m"], second: Float[Array, " m"], gates: Float[Array, " m"]
) -> Float[Array, " 2"]:
    """lambda_1 and lambda_2 from the weights now; `gates` are the first layer's weights at the start."""
    squares = jnp.sum(directions(x) ** 2, axis=1)
    answers = jnp.stack([gates >= 0, gates < 0])
    return squares * jnp.sum(jnp.where(answers, first**2 + second**2, 0), axis=1) / first.shape[0]


def kernel(eigenvalues: Float[Array, " 2"], x: Float[Array, " n"]) -> Float[Array, "n n"]:
    """K = sum_i lambda_i p_i p_i^T / |p_i|^2 (printed without the division)."""
    p = unit_directions(x)
    return jnp.einsum("s,si,sj->ij", eigenvalues, p, p)


def along(vector: Float[Array, "*batch n"], x: Float[Array, " n"]) -> Float[Array, "*batch 2"]:
    """<vector, p_i>/|p_i|; 0 along the direction of a sign that no input has."""
    return vector @ unit_directions(x).T


def curvatures(x: Float[Array, " n"], width: PositiveNumber) -> Float[Array, " 2"]:
    """c_i = |p_i|^2 / m."""
    return quadratic_model.curvature(jnp.sum(directions(x) ** 2, axis=1), width)


def step(
    state: State, rate: PositiveNumber, labels: Float[Array, "*batch 2"], curvatures: Float[Array, "*batch 2"]
) -> State:
    """One step in both directions: (3.11-3.12) with |x|^2 -> |p|^2, d -> 1, y -> <y, p>/|p|."""
    return quadratic_model.step(state, rate, labels, curvatures)


def matrix_step(
    residual: Float[Array, " n"],
    kernel: Float[Array, "n n"],
    labels: Float[Array, " n"],
    x: Float[Array, " n"],
    rate: PositiveNumber,
    width: PositiveNumber,
) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """The same step as a matrix recursion (B.7-B.8), with Q = <r o mask, g o mask> p p^T for each sign."""
    p, eta, m = directions(x), real(rate), real(width)
    masks = jnp.stack([x >= 0, x < 0]).astype(x.dtype)
    parts = masks * residual
    products = jnp.einsum("si,i->s", parts, residual + labels)
    energies = jnp.einsum("si,ij,sj->s", parts, kernel, parts)
    Q, KK = (jnp.einsum("s,si,sj->ij", weight, p, p) for weight in (products, energies))
    after = residual - eta * kernel @ residual + eta**2 / m * Q @ residual
    return after, kernel + eta**2 / m * KK - 4 * eta / m * Q


def constant_loss(residual: Float[Array, "*batch n"], x: Float[Array, " n"]) -> Values:
    """The loss in all other directions, which training never changes (Proposition B.11.3)."""
    return (jnp.sum(residual**2, axis=-1) - jnp.sum(along(residual, x) ** 2, axis=-1)) / 2


def initial_top(x: Float[Array, " n"]) -> tuple[Values, Values]:
    """M/2 and 3M/2, M = max(|p_1|^2, |p_2|^2): bounds on lambda_max(K_0) with high probability (B.11.2)."""
    largest = jnp.max(jnp.sum(directions(x) ** 2, axis=1))
    return largest / 2, 3 * largest / 2
