"""Concentration lemmas behind the transition to linearity: Gaussian vectors, and a ball of radius R around them.

"Toward Understanding the Dynamics of Over-parameterized Neural Networks", Appendix A.11. Each function gives a level
that is exceeded with at most the probability beside it, where g is N(0, I) and the vector used is within R of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dynascope.theory.domains import Count, NotNegativeNumber, PositiveNumber, check_arguments

Length = NotNegativeNumber


class Tail(NamedTuple):
    """A level, and a bound of the probability to exceed it."""

    level: float
    """The level."""
    probability: float
    """Bound of the probability to exceed it."""


@check_arguments
def variance(matrices: Float[np.ndarray, "k a b"]) -> float:
    """nu = max(||sum B B^T||, ||sum B^T B||) of a matrix Gaussian series sum of g_k B_k.

    Args:
        matrices: The matrices B_k. Shape (k, a, b).
    """
    rows = np.einsum("kab,kcb->ac", matrices, matrices)
    columns = np.einsum("kab,kac->bc", matrices, matrices)
    return float(max(np.linalg.norm(rows, 2), np.linalg.norm(columns, 2)))


@check_arguments
def series_tail(matrices: Float[np.ndarray, "k a b"], radius: Length, t: Length) -> Tail:
    """P(||sum of (g_k + dg_k) B_k|| >= t + R sqrt nu) <= (d1 + d2) exp(-t^2 / (2 nu)) for ||dg|| <= R (Lemma A.11.8).

    The document's statement has R nu instead of R sqrt nu, which its proof has; see `theory.linearity.errata`.

    Args:
        matrices: The matrices B_k. Shape (k, a, b).
        radius: R, the distance from the Gaussian vector. Not negative.
        t: Distance of the level from the mean. Not negative.
    """
    nu = variance(matrices)
    return Tail(t + radius * np.sqrt(nu), sum(matrices.shape[1:]) * float(np.exp(-(t**2) / (2 * nu))))


@check_arguments
def inner_product_tail(length: PositiveNumber, radius: Length, t: Length) -> Tail:
    """|a . b| <= t + ||b|| R except with probability 2 exp(-t^2 / (2 ||b||^2)) (Lemma A.11.4).

    Args:
        length: ||b||. Positive.
        radius: R, the distance from the Gaussian vector. Not negative.
        t: Distance of the level from the mean. Not negative.
    """
    return Tail(t + length * radius, 2 * float(np.exp(-(t**2) / (2 * length**2))))


@check_arguments
def product_tail(matrix: Float[np.ndarray, "a b"], radius: Length, t: Length, c: PositiveNumber = 0.5) -> Tail:
    """||B a|| <= t + ||B||_F + ||B|| R except with probability 2 exp(-c t^2 / ||B||^2) (Lemma A.11.7).

    Args:
        matrix: B. Shape (a, b).
        radius: R, the distance from the Gaussian vector. Not negative.
        t: Distance of the level from the mean. Not negative.
        c: Constant that the document leaves open; 0.5 is right, as ||B a|| is ||B||-Lipschitz. Positive. Default: 0.5.
    """
    norm = np.linalg.norm(matrix, 2)
    return Tail(float(t + np.linalg.norm(matrix) + norm * radius), 2 * float(np.exp(-c * t**2 / norm**2)))


@check_arguments
def columns_tail(matrices: Float[np.ndarray, "n a b"], radius: Length, t: Length, C: PositiveNumber) -> Tail:
    """||[B_1 a_1 ... B_n a_n]|| <= C (max ||B_i|| (sqrt n + R + t) + max ||B_i||_F) except with probability 2 exp(-t^2)
    (Lemma A.11.6).

    Args:
        matrices: The matrices B_i. Shape (n, a, b).
        radius: R, the distance from the Gaussian vector. Not negative.
        t: Distance of the level from the mean. Not negative.
        C: Absolute constant, which the lemma does not give. Positive.
    """
    norms = np.linalg.norm(matrices, 2, axis=(1, 2))
    widest = np.linalg.norm(matrices, axis=(1, 2)).max()
    return Tail(float(C * (norms.max() * (np.sqrt(len(matrices)) + radius + t) + widest)), 2 * float(np.exp(-(t**2))))


@check_arguments
def activation_scale(width: int, radius: Length, layer: Count) -> float:
    """The order of a neuron's |f| in a layer, (log m + R)^l (Lemma A.11.2). The power is not sharp.

    Args:
        width: Width m.
        radius: R, the distance from the Gaussian vector. Not negative.
        layer: Layer l, from 0.
    """
    return float((np.log(width) + radius) ** layer)


@check_arguments
def incoming_scale(degree: int, width: int, radius: Length, layer: int) -> float:
    """The order of the length of a neuron's incoming values, sqrt(in-degree) (log m + R)^(l-1) (Lemma A.11.3).

    Args:
        degree: In-degree of the neuron.
        width: Width m.
        radius: R, the distance from the Gaussian vector. Not negative.
        layer: Layer l, from 1.
    """
    return float(np.sqrt(degree)) * activation_scale(width, radius, layer - 1)
