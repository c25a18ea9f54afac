"""The quadratic model of a two-layer ReLU network on many scalar inputs: two directions, each like one example.

"Toward Understanding the Dynamics of Over-parameterized Neural Networks", Section 3.3, Appendices B.11 and B.12. With d
= 1 an input of any size activates the units of its own sign, so the kernel has rank two: its eigenvectors are p_1 = x
1{x >= 0} and p_2 = x 1{x < 0} at all times (inputs of one sign leave only one of them), with

    lambda_i = |p_i|^2 (1/m) sum_k (u_k^2 + v_k^2) 1{unit k answers to that sign}.

The convention is "sum". In each direction, with rho = <r, p>/|p|, the same for y, and c = |p|^2/m, the dynamics is that
of one example (`quadratic_model.step`). The rest of the residual never changes. Axis 0 below is the sign: +, -.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from dynascope.tasks.scalar_losses import Values, real
from dynascope.theory.catapult import quadratic_model
from dynascope.theory.catapult.quadratic_model import State
from dynascope.theory.domains import PositiveNumber, check_arguments

Pair = Float[Array, "2 n"]


@check_arguments
def directions(x: Float[Array, " n"]) -> Pair:
    """p_1 and p_2, not normalized; a point at 0 belongs to p_1 and contributes nothing.

    Args:
        x: Scalar inputs. Shape (n,).
    """
    return jnp.stack([jnp.where(x >= 0, x, 0), jnp.where(x < 0, x, 0)])


def _unit_directions(x: Float[Array, " n"]) -> Pair:
    """p_i/|p_i|, or 0 if no input has that sign."""
    p = directions(x)
    lengths = jnp.linalg.norm(p, axis=1, keepdims=True)
    return p / jnp.where(lengths > 0, lengths, 1)


@check_arguments
def kernel_eigenvalues(
    x: Float[Array, " n"], first: Float[Array, " m"], second: Float[Array, " m"], gates: Float[Array, " m"]
) -> Float[Array, " 2"]:
    """lambda_1 and lambda_2 from the present weights.

    Args:
        x: Scalar inputs. Shape (n,).
        first: Weights of the first layer. Shape (m,).
        second: Weights of the second layer. Shape (m,).
        gates: Weights of the first layer at the start. Shape (m,).
    """
    squares = jnp.sum(directions(x) ** 2, axis=1)
    answers = jnp.stack([gates >= 0, gates < 0])
    return squares * jnp.sum(jnp.where(answers, first**2 + second**2, 0), axis=1) / first.shape[0]


@check_arguments
def kernel(eigenvalues: Float[Array, " 2"], x: Float[Array, " n"]) -> Float[Array, "n n"]:
    """K = sum_i lambda_i p_i p_i^T / |p_i|^2 (printed without the division).

    Args:
        eigenvalues: lambda_1 and lambda_2. Shape (2,).
        x: Scalar inputs. Shape (n,).
    """
    p = _unit_directions(x)
    return jnp.einsum("s,si,sj->ij", eigenvalues, p, p)


@check_arguments
def components(vector: Float[Array, "*batch n"], x: Float[Array, " n"]) -> Float[Array, "*batch 2"]:
    """Components <vector, p_i>/|p_i| along the two directions; 0 for a sign that no input has.

    Args:
        vector: A number for each input. Shape (..., n).
        x: Scalar inputs. Shape (n,).
    """
    return vector @ _unit_directions(x).T


@check_arguments
def curvatures(x: Float[Array, " n"], width: PositiveNumber) -> Float[Array, " 2"]:
    """c_i = |p_i|^2 / m.

    Args:
        x: Scalar inputs. Shape (n,).
        width: Width m. Positive.
    """
    return quadratic_model.curvature(jnp.sum(directions(x) ** 2, axis=1), width)


@check_arguments
def step(
    state: State, rate: PositiveNumber, labels: Float[Array, "*batch 2"], curvatures: Float[Array, "*batch 2"]
) -> State:
    """One step in both directions: (3.11-3.12) with |x|^2 -> |p|^2, d -> 1, y -> <y, p>/|p|.

    Args:
        state: Residual and kernel in both directions.
        rate: Learning rate eta. Positive.
        labels: <y, p_i>/|p_i|. Shape (..., 2).
        curvatures: c_1 and c_2. Shape (..., 2).
    """
    return quadratic_model.step(state, rate, labels, curvatures)


@check_arguments
def matrix_step(
    residual: Float[Array, " n"],
    kernel: Float[Array, "n n"],
    labels: Float[Array, " n"],
    x: Float[Array, " n"],
    rate: PositiveNumber,
    width: PositiveNumber,
) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """The same step as a matrix recursion (B.7-B.8), with Q = <r o mask, g o mask> p p^T for each sign.

    Args:
        residual: Residuals r. Shape (n,).
        kernel: Tangent kernel K. Shape (n, n).
        labels: Labels y. Shape (n,).
        x: Scalar inputs. Shape (n,).
        rate: Learning rate eta. Positive.
        width: Width m. Positive.
    """
    p, eta, m = directions(x), real(rate), real(width)
    masks = jnp.stack([x >= 0, x < 0]).astype(x.dtype)
    parts = masks * residual
    products = jnp.einsum("si,i->s", parts, residual + labels)
    energies = jnp.einsum("si,ij,sj->s", parts, kernel, parts)
    Q, KK = (jnp.einsum("s,si,sj->ij", weight, p, p) for weight in (products, energies))
    after = residual - eta * kernel @ residual + eta**2 / m * Q @ residual
    return after, kernel + eta**2 / m * KK - 4 * eta / m * Q


@check_arguments
def constant_loss(residual: Float[Array, "*batch n"], x: Float[Array, " n"]) -> Values:
    """The loss in all other directions, which training never changes (Proposition B.11.3).

    Args:
        residual: Residuals r. Shape (..., n).
        x: Scalar inputs. Shape (n,).
    """
    return (jnp.sum(residual**2, axis=-1) - jnp.sum(components(residual, x) ** 2, axis=-1)) / 2


@check_arguments
def initial_top(x: Float[Array, " n"]) -> tuple[Values, Values]:
    """M/2 and 3M/2, M = max(|p_1|^2, |p_2|^2): bounds on lambda_max(K_0) with high probability (B.11.2).

    Args:
        x: Scalar inputs. Shape (n,).
    """
    largest = jnp.max(jnp.sum(directions(x) ** 2, axis=1))
    return largest / 2, 3 * largest / 2
