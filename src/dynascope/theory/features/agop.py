"""What is known of average gradient outer products without training, and the reference where no target is known.

"Toward Understanding the Dynamics of Over-parameterized Neural Networks", Section 4.5. The closed forms of the targets
are with their task (`tasks.MultiIndex.gradient_outer_product`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope.dynamics.descend import descend
from dynascope.geometry.agop import Apply, agop, call
from dynascope.probes.basic import loss
from dynascope.probes.probe import probe


def blind_alignment(target: Float[Array | np.ndarray, "d d"]) -> Float[Array, ""]:
    """The alignment of G = I, which listens to all directions alike: tr(G*) / (sqrt(d) |G*|_F)."""
    target = jnp.asarray(target)
    dim = jnp.asarray(target.shape[0], target.dtype)
    return jnp.trace(target) / (jnp.sqrt(dim) * jnp.linalg.norm(target))


def expected_at_start(dim: int) -> Float[Array, "d d"]:
    """E G = I / (2 d) for a two-layer ReLU network in NTK parameterization without biases, at its random start: at
    every input the gradient is (m d)^(-1/2) sum_k v_k w_k 1{w_k.x > 0}, and E[w w^T 1{w.x > 0}] = I/2."""
    return jnp.eye(dim) / (2 * dim)


def relu_input_gradient(
    weights: Sequence[Float[Array, "_ _"]], scales: Sequence[float], x: Float[Array, " d"]
) -> Float[Array, " d"]:
    """grad_x f = s_1 W_1^T D_1 for a ReLU network with one output, z_l = s_l W_l h_(l-1), where D_l = df/dz_l comes
    from the layers above: D_(l-1) = s_l (W_l^T D_l) o 1{z_(l-1) > 0}."""
    gates, h = [], x
    for weight, scale in zip(weights[:-1], scales[:-1], strict=True):
        z = scale * weight @ h
        gates.append(z > 0)
        h = jnp.maximum(z, 0)
    slope = scales[-1] * weights[-1][0]
    for weight, scale, gate in zip(weights[-2::-1], scales[-2::-1], gates[::-1], strict=True):
        slope = scale * weight.T @ jnp.where(gate, slope, 0)
    return slope


class Reference(NamedTuple):
    """The outer product of a trained model, taken for the target's, and how well it does."""

    outer: Float[np.ndarray, "d d"]
    score: float


def reference_outer_product(
    model: Any,
    task: Any,
    optimizer: optax.GradientTransformation,
    x: Float[Array, "n ..."],
    apply: Apply = call,
    *,
    steps: int,
    data: Any,
    batch: int | None = None,
    key: PRNGKeyArray | None = None,
    score: Callable[[Any], Array] | None = None,
) -> Reference:
    """Train a model that does well on real data, and take its outer product over the inputs `x` for G*. With no steps
    it is that of the model as given. A model that is not callable needs `apply(params, x)`. `score(model)` says how
    well it does; its loss, if nothing is given."""
    looks = {
        "outer": probe(lambda moment: agop(moment.model, x, apply)),
        "score": loss() if score is None else probe(lambda moment: score(moment.model)),
    }
    trace = descend(model, task, optimizer, steps=steps, data=data, batch=batch, key=key, probes=looks, record=[steps])
    return Reference(trace.outer.values[-1], float(trace.score[-1]))
