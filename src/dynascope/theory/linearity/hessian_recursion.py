"""The exact gradient and Hessian of a DAG network's outputs, neuron by neuron: equations 2.13 and 2.14.

An independent alternative to automatic differentiation for small networks: every neuron carries a dense Hessian. With
f~_v = s sum of w f_u over incoming edges, s = in(v)^(-1/2), and e_w the unit vector of w,

    d f~_v   = s sum of [f_u e_w + w df_u],
    d^2 f~_v = s sum of [w d^2 f_u + e_w df_u^T + df_u e_w^T],    d^2 f_u = sigma' d^2 f~_u + sigma'' df~_u df~_u^T,

and a skip adds the derivatives of the neuron that is added. Weights may be shared.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from dynascope import checks
from dynascope.models.dag import ACTIVATIONS, DAG
from dynascope.theory.domains import check_arguments


class Derivatives(NamedTuple):
    """A function of the weights, in the network's flat order, with its first two derivatives."""

    value: float
    """The value."""
    gradient: Float[np.ndarray, " p"]
    """The gradient. Shape (p,)."""
    hessian: Float[np.ndarray, "p p"]
    """The Hessian. Shape (p, p)."""


@check_arguments
def derivatives(net: DAG, x: Float[np.ndarray, " d"] | Float[Array, " d"]) -> list[Derivatives]:
    """The value, gradient and Hessian of every output of the network, at its weights.

    Args:
        net: The network.
        x: Input. Shape (d,).
    """
    graph, x = net.graph(), np.asarray(x)
    weights = np.asarray(ravel_pytree(eqx.filter(net, eqx.is_inexact_array))[0], dtype=float)
    degrees = np.concatenate([np.zeros(len(x), int), *(np.asarray(degree) for degree in net.in_degrees)])
    nothing = np.zeros(len(weights)), np.zeros((len(weights), len(weights)))
    after = [Derivatives(float(value), *nothing) for value in x]
    before = list(after)
    for vertex in range(len(x), graph.vertices):
        scale, (gradient, hessian), value = 1 / np.sqrt(max(degrees[vertex], 1)), (part.copy() for part in nothing), 0.0
        for edge in np.flatnonzero(graph.target == vertex):
            source, number = after[graph.source[edge]], graph.parameter[edge]
            weight = weights[number]
            value += weight * source.value
            gradient += weight * source.gradient
            gradient[number] += source.value
            hessian += weight * source.hessian
            hessian[number] += source.gradient
            hessian[:, number] += source.gradient
        before.append(Derivatives(scale * value, scale * gradient, scale * hessian))
        activated = _compose(net.activation, before[-1])
        if graph.skip[vertex] >= 0:
            added = after[graph.skip[vertex]]
            activated = Derivatives(*(a + b for a, b in zip(activated, added, strict=True)))
        after.append(activated)
    first = np.cumsum([0, *net.sizes])
    ends = net.outputs or [(len(net.edges), place) for place in range(net.sizes[-1])]
    return [_compose(net.output, before[first[layer] + place]) for layer, place in ends]


def _compose(activation: str, inner: Derivatives) -> Derivatives:
    """sigma of a function: sigma' H + sigma'' g g^T. The second term, with a nonlinear output, is of order 1 at any
    width (Section 2.3)."""
    function = ACTIVATIONS[checks.one_of("activation", activation, ACTIVATIONS)]
    value = jnp.asarray(inner.value)
    slope, bend = float(jax.grad(function)(value)), float(jax.grad(jax.grad(function))(value))
    outer = np.outer(inner.gradient, inner.gradient)
    return Derivatives(float(function(value)), slope * inner.gradient, slope * inner.hessian + bend * outer)


@check_arguments
def blocks(hessian: Float[np.ndarray, "p p"], layers: Int[np.ndarray, " p"]) -> Float[np.ndarray, "l l"]:
    """The spectral norms of the blocks of a Hessian.

    Args:
        hessian: The Hessian. Shape (p, p).
        layers: The layer of each weight. Shape (p,).
    """
    groups = [np.flatnonzero(layers == layer) for layer in np.unique(layers)]
    return np.array([[np.linalg.norm(hessian[np.ix_(a, b)], 2) for b in groups] for a in groups])
