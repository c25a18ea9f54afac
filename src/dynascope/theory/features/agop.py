"""Properties of average gradient outer products (AGOPs) that are known without training.

"Toward Understanding the Dynamics of Over-parameterized Neural Networks", Section 4.5. The closed forms of the targets
are with their task (`tasks.MultiIndex.gradient_outer_product`).
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dynascope.theory.domains import check_arguments


@check_arguments
def isotropic_alignment(target: Float[Array | np.ndarray, "d d"]) -> Float[Array, ""]:
    """The alignment of G = I, a model that depends on all directions equally: tr(G*) / (sqrt(d) |G*|_F).

    Args:
        target: The AGOP G* of the target.
    """
    target = jnp.asarray(target)
    dim = jnp.asarray(target.shape[0], target.dtype)
    return jnp.trace(target) / (jnp.sqrt(dim) * jnp.linalg.norm(target))


@check_arguments
def expected_at_start(dim: int) -> Float[Array, "d d"]:
    """E G = I / (2 d) at initialization, for a two-layer ReLU network in NTK parameterization without biases.

    At every input the gradient is (m d)^(-1/2) sum_k v_k w_k 1{w_k.x > 0}, and E[w w^T 1{w.x > 0}] = I/2.

    Args:
        dim: Dimension d of the inputs.
    """
    return jnp.eye(dim) / (2 * dim)


@check_arguments
def relu_input_gradient(
    weights: Sequence[Float[Array, "_ _"]], scales: Sequence[float], x: Float[Array, " d"]
) -> Float[Array, " d"]:
    """grad_x f = s_1 W_1^T D_1 for a ReLU network with one output, z_l = s_l W_l h_(l-1), where D_l = df/dz_l comes
    from the layers above: D_(l-1) = s_l (W_l^T D_l) o 1{z_(l-1) > 0}.

    Args:
        weights: Matrices W_l of the layers, the first one first. Shape (_, _).
        scales: Factors s_l of the layers.
        x: Input. Shape (d,).
    """
    gates, h = [], x
    for weight, scale in zip(weights[:-1], scales[:-1], strict=True):
        z = scale * weight @ h
        gates.append(z > 0)
        h = jnp.maximum(z, 0)
    slope = scales[-1] * weights[-1][0]
    for weight, scale, gate in zip(weights[-2::-1], scales[-2::-1], gates[::-1], strict=True):
        slope = scale * weight.T @ jnp.where(gate, slope, 0)
    return slope
