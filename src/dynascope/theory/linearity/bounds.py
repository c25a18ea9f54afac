"""Transition to linearity: bounds on the Hessian of a wide network's output, and their consequences.

"Toward Understanding the Dynamics of Over-parameterized Neural Networks", Chapter 2 and Appendix A. Networks are those
of `models.dag`: N(0, 1) weights, each neuron divided by the root of its in-degree. The document proves an order of
magnitude, ||H|| = O((log m + R)^(L^2) / sqrt m) with m the smallest in-degree past the first layer; here are the parts
that can be evaluated. Losses are half the sum of squares, so that ||grad L||^2 = r^T K r. `hessian_recursion` has the
exact Hessian of a small network, `gaussian_series` the concentration lemmas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dynascope.models.graph import Graph
from dynascope.theory.domains import NOT_NEGATIVE, POSITIVE, Count, Domain, PositiveNumber, check_arguments

Numbers = float | int | Float[Array, "..."] | Float[np.ndarray, "..."] | np.floating
Size, Above0 = Annotated[Numbers, NOT_NEGATIVE], Annotated[Numbers, POSITIVE]


# The Hessian


@check_arguments
def two_layer_relu_norm(x: Float[Array, " d"], width: int) -> Float[Array, ""]:
    """||H|| = ||x|| / sqrt(m d) of a two-layer ReLU network's output, exactly, if any unit is active.

    On active units H pairs the second weight with the first ones along x, and H^2 is a multiple of the identity there.

    Args:
        x: Input. Shape (d,).
        width: Width m.
    """
    return jnp.linalg.norm(x) / jnp.sqrt(jnp.asarray(width * x.size, x.dtype))


@check_arguments
def linear_model_gap(norm: Size, radius: Size) -> Numbers:
    """|f - f_lin| <= sup ||H|| R^2 / 2 in the ball (Corollary 2.3.7).

    Args:
        norm: Largest ||H|| in the ball. Not negative, any shape.
        radius: Radius R of the ball. Not negative, any shape.
    """
    return norm * radius**2 / 2


@check_arguments
def vector_norm_bound(norms: Float[Array, " outputs"]) -> Float[Array, ""]:
    """The norm of the Hessian tensor of several outputs is at most d_L max_k ||H_k|| (Corollary A.3.1).

    Args:
        norms: ||H_k|| of each output. Shape (outputs,).
    """
    return norms.size * jnp.max(norms)


@check_arguments
def block_sum_bound(blocks: Float[Array, "l l"]) -> Float[Array, ""]:
    """||H|| <= the sum of the norms of its blocks (Lemma A.11.1).

    Args:
        blocks: Spectral norms of the blocks. Shape (l, l).
    """
    return jnp.sum(blocks)


@check_arguments
def jacobian_scale(degree: int, smallest: Sequence[int], layer: int, of: int) -> float:
    """The order of ||d f_S / d w^(of)||, f_S the incoming values of a neuron (Lemma A.2.1): max over of < p <= layer of
    sqrt(degree / m_p), m_p the smallest in-degree of layer p. Its Frobenius norm is of order sqrt(degree).

    Args:
        degree: In-degree of the neuron.
        smallest: Smallest in-degrees m_1, m_2, ... of the layers.
        layer: Layer of the neuron, from 1.
        of: Layer of the weights, from 1.
    """
    return float(np.sqrt(degree / np.min(_between(smallest, of, layer))))


@check_arguments
def hessian_block_scale(smallest: Sequence[int], layer: int, first: int) -> float:
    """The order of ||d^2 f~ / d w^(l1) d w^(l2)|| of a neuron, l1 <= l2: max over l1 < p <= layer of 1 / sqrt m_p
    (Lemma A.2.2).

    Args:
        smallest: Smallest in-degrees m_1, m_2, ... of the layers.
        layer: Layer of the neuron, from 1.
        first: l1, the lower layer of the two.
    """
    return float(1 / np.sqrt(np.min(_between(smallest, first, layer))))


def _between(smallest: Sequence[int], below: int, top: int) -> Sequence[int]:
    if not 1 <= below < top <= len(smallest):
        raise ValueError(f"layers must satisfy 1 <= l' < l <= {len(smallest)}; got l' = {below}, l = {top}")
    return smallest[below:top]


@check_arguments
def weights_reached(graph: Graph, vertex: Count) -> Int[np.ndarray, " layers"]:
    """The number of weights into each layer that a neuron depends on, by backward reachability (Proposition A.9.1): the
    dimensions to use in `gaussian_series.series_tail`, not the total number of weights.

    Args:
        graph: The network's graph.
        vertex: The neuron, from 0.
    """
    reached = graph.ancestors(vertex)[graph.target]
    counts = np.zeros(graph.depth, dtype=np.int64)
    for layer in range(1, graph.depth + 1):
        counts[layer - 1] = len(np.unique(graph.parameter[reached & (graph.layer[graph.target] == layer)]))
    return counts


# The gradient


@check_arguments
def gradient_bound(
    depth: int,
    *,
    homogeneity: Annotated[float, Domain("at least 1 (its Jensen step needs that)", lambda r: r >= 1)] = 1,
    second_moment: PositiveNumber = 0.5,
) -> float:
    """A lower bound of sqrt E ||grad f||^2, for x ~ N(0, I) and an activation with sigma(a z) = a^r sigma(z), a > 0:
    sqrt min(1, min over 1 <= j <= L of C^(1 + r + ... + r^(j-1))) (Proposition 2.4.4).

    The document states it for E ||grad f||; its proof replaces E ||.||^2 by (E ||.||)^2, but the inequality goes the
    other way: `theory.linearity.errata` has a network below it. The defaults are those of the ReLU: 2^(-L/2).

    Args:
        depth: Number of layers of weights L.
        homogeneity: r, at least 1. Default: 1.
        second_moment: C = E sigma(z)^2. Positive. Default: 0.5.
    """
    exponents = np.cumsum(float(homogeneity) ** np.arange(depth))
    return float(np.sqrt(min(1.0, np.min(second_moment**exponents))))


@check_arguments
def relu_gradient_second_moment(depth: int) -> float:
    """E ||grad f||^2 = L / 2^(L-1) of a fully connected ReLU network of any widths, x ~ N(0, I): each of L layers of
    weights has the same share, and each of L - 1 layers of gates halves it.

    Args:
        depth: Number of layers of weights L.
    """
    return depth / 2 ** (depth - 1)


# The tangent kernel


@check_arguments
def kernel_change_bound(jacobian_norm: Size, hessian_norm: Size, radius: Size, points: int) -> Numbers:
    """||K(w) - K(w_0)|| <= 2 ||J_0|| e + e^2 with e = sqrt(n) sup ||H|| R, for n scalar outputs.

    By Weyl's inequality no eigenvalue of K moves further, lambda_min neither (Section 2.4.1).

    Args:
        jacobian_norm: ||J_0||. Not negative, any shape.
        hessian_norm: Largest ||H|| in the ball. Not negative, any shape.
        radius: Radius R of the ball. Not negative, any shape.
        points: Number of outputs n.
    """
    moved = np.sqrt(points) * hessian_norm * radius
    return 2 * jacobian_norm * moved + moved**2


@check_arguments
def relu_kernel_slope(kernel: Size, squared_length: Size, width: int, dim: int) -> Numbers:
    """2 ||H grad f||, the change of K = ||grad f||^2 of a two-layer ReLU network per distance in the worst direction: 2
    sqrt(K ||x||^2 / (m d)), of order m^(-1/2).

    Args:
        kernel: K. Not negative, any shape.
        squared_length: ||x||^2. Not negative, any shape.
        width: Width m.
        dim: Dimension d of the input.
    """
    return 2 * (kernel * squared_length / (width * dim)) ** 0.5


@check_arguments
def relu_kernel_slope_along_gradient(output: Numbers, squared_length: Size, width: int, dim: int) -> Numbers:
    """The slope of K along the gradient, the direction of descent: 2 grad f^T H grad f = 4 f ||x||^2 / (m d), of order
    1/m.

    Args:
        output: f. Any shape.
        squared_length: ||x||^2. Not negative, any shape.
        width: Width m.
        dim: Dimension d of the input.
    """
    return 4 * output * squared_length / (width * dim)


@check_arguments
def relu_gates_change(residual: Numbers, width: Above0) -> Numbers:
    """The decrease of K, which is 1 at the start, while a wide two-layer ReLU network learns one example with ||x||^2 =
    d: |y - f(0)| / (pi sqrt(m)).

    A unit of outer weight v moves by v (y - f(0)) / sqrt(m). Those that move down and began within that distance of 0
    close, and each takes v^2 / m from the kernel: with the density phi of the units at 0, phi(0) E[|v|^3 1(v < 0)] = 1
    / pi.

    Args:
        residual: y - f(0). Any shape.
        width: Width m. Positive, any shape.
    """
    return abs(residual) / (math.pi * width**0.5)


# The Polyak-Lojasiewicz condition


@check_arguments
def polyak_ratio(residual: Float[Array, " n"], kernel: Float[Array, "n n"]) -> Float[Array, ""]:
    """||grad L||^2 / (2 L) = r^T K r / r^T r (equation 2.16): at least lambda_min(K), so that lambda_min(K) >= mu in a
    ball is the condition PL* with mu there. A nonlinear output has it too, with the kernel of the output.

    Args:
        residual: Residuals r. Shape (n,).
        kernel: Tangent kernel K. Shape (n, n).
    """
    return residual @ kernel @ residual / (residual @ residual)


@check_arguments
def polyak_loss_bound(
    start: PositiveNumber, mu: PositiveNumber, rate: PositiveNumber, steps: Int[np.ndarray, " t"]
) -> Float[np.ndarray, " t"]:
    """(1 - eta mu)^t L_0 bounds the loss of gradient descent under PL* with mu, for eta at most 1 / smoothness.

    Args:
        start: Loss L_0 at the start. Positive.
        mu: Constant mu of PL*. Positive.
        rate: Learning rate eta. Positive.
        steps: Numbers of steps t. Shape (t,).
    """
    return np.asarray(start * (1 - rate * mu) ** steps, dtype=float)


@check_arguments
def polyak_radius(start: Size, mu: Above0, smoothness: Size) -> Numbers:
    """PL* in a ball of this radius, 2 sqrt(2 beta L_0) / mu, suffices for descent to converge inside (Liu, Zhu & Belkin
    2022, Loss landscapes and optimization in over-parameterized non-linear systems and neural networks, theorem 6).

    Args:
        start: Loss L_0 at the start. Not negative, any shape.
        mu: Constant mu of PL*. Positive, any shape.
        smoothness: beta, a bound on the Hessian of the loss. Not negative, any shape.
    """
    return 2 * (2 * smoothness * start) ** 0.5 / mu
