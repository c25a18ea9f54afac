"""The gradient of a linear map under a softmax: sums of outer products of predictions and inputs.

"Simple structures in neural networks", Lemma C.12, for logits W_U W x and cross-entropy.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from dynascope.theory.domains import check_arguments


@check_arguments
def sample_gradient(
    unembedding: Float[np.ndarray, "classes d"],
    predicted: Float[np.ndarray, "m classes"],
    labels: Int[np.ndarray, " m"],
    inputs: Float[np.ndarray, "m e"],
) -> Float[np.ndarray, "d e"]:
    """(1/m) sum_i sum_k (p(k|x_i) - 1{y_i = k}) W_U(k) x_i^T.

    Args:
        unembedding: Rows W_U(k). Shape (classes, d).
        predicted: Predicted probabilities p(k|x_i). Shape (m, classes).
        labels: Labels y_i. Shape (m,).
        inputs: Inputs x_i. Shape (m, e).
    """
    classes = len(unembedding)
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(f"labels must be from 0 to {classes - 1}; got {labels.min()} to {labels.max()}")
    error = predicted - np.eye(classes)[labels]
    return unembedding.T @ error.T @ inputs / len(labels)


@check_arguments
def population_gradient(
    unembedding: Float[np.ndarray, "classes d"],
    shares: Float[np.ndarray, " classes"],
    predicted_means: Float[np.ndarray, "classes e"],
    means: Float[np.ndarray, "classes e"],
) -> Float[np.ndarray, "d e"]:
    """sum_k s_k W_U(k) (m_k' - m_k)^T.

    Args:
        unembedding: Rows W_U(k). Shape (classes, d).
        shares: s_k = p(y = k). Shape (classes,).
        predicted_means: m_k' = E[p(k|x) x]/s_k, with p(k|x) the predicted probability. Shape (classes, e).
        means: m_k = E[x | y = k]. Shape (classes, e).
    """
    return unembedding.T @ (shares[:, None] * (predicted_means - means))
