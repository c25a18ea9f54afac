"""Graph-augmented MLPs: fixed linear operators propagate the features of the nodes, then a network reads each node.

Z = rho([w_1(A) X, ..., w_K(A) X]) (Chen, Chen, Villar and Bruna, On Graph Neural Networks versus Graph-Augmented MLPs,
2021). The propagated features depend on no parameter, so they are computed once, before training. This file has rho,
which learns. The named models are pairs of operators and a rho: `sgc`, `gfnn`, `gfn` and `SIGN` describe theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks
from dynascope.models.mlp import MLP


class GAMLP(eqx.Module):
    """The network of a graph-augmented MLP: affine maps with ReLU between them, node by node.

    It takes the features of one node, or of all nodes of a graph as (nodes, features), and returns `out` numbers for
    each.

    Args:
        features: Number of propagated features of a node.
        out: Number of outputs.
        key: Key of the weights.
        width: Number of hidden neurons.
        depth: Number of affine maps; 1 makes it linear.
        bias: Whether the maps have biases.
    """

    network: MLP

    def __init__(
        self, features: int, out: int, *, key: PRNGKeyArray, width: int = 32, depth: int = 2, bias: bool = True
    ) -> None:
        checks.sizes(features=features, out=out, width=width, depth=depth)
        self.network = MLP(features, depth, width=width, out=out, activation="relu", bias=bias, key=key)

    def __call__(self, x: Float[Array, "*nodes features"]) -> Float[Array, "*nodes out"]:
        return per_node(self.network, x)


class SIGN(eqx.Module):
    """SIGN's network: a linear map for the features of each operator, ReLU, one linear map.

    rho(X) = relu([X_1 W_1, ..., X_K W_K]) W (Rossi et al., SIGN: Scalable Inception Graph Neural Networks, 2020). The
    features of a node are those of the first operator, then those of the second, and so on: operators x `features`
    numbers. SIGN's operators are I, powers of an adjacency, of a PageRank and of a triangle-weighted adjacency.

    Args:
        operators: Number K of operators.
        features: Number of features that each of them propagates.
        out: Number of outputs.
        key: Key of the weights.
        width: Number of hidden neurons of each operator.
    """

    branches: Float[Array, "operators width features"]
    offsets: Float[Array, "operators width"]
    readout: MLP

    def __init__(self, operators: int, features: int, out: int, *, key: PRNGKeyArray, width: int = 32) -> None:
        checks.sizes(operators=operators, features=features, out=out, width=width)
        for_branches, for_offsets, for_readout = jax.random.split(checks.key("key", key), 3)
        bound = 1 / math.sqrt(features)
        shape = (operators, width, features)
        self.branches = jax.random.uniform(for_branches, shape, minval=-bound, maxval=bound)
        self.offsets = jax.random.uniform(for_offsets, shape[:2], minval=-bound, maxval=bound)
        self.readout = MLP(operators * width, 1, out=out, bias=True, key=for_readout)

    def __call__(self, x: Float[Array, "*nodes features"]) -> Float[Array, "*nodes out"]:
        operators, _, features = self.branches.shape

        def node(x: Array) -> Array:
            checks.example(self, x, (operators * features,))
            parts = jnp.einsum("kwf,kf->kw", self.branches, x.reshape(operators, features)) + self.offsets
            return self.readout(jax.nn.relu(parts).reshape(-1))

        return per_node(node, x)


def sgc(features: int, out: int, *, key: PRNGKeyArray) -> GAMLP:
    """SGC: one linear map of features propagated by the normalized adjacency with self-loops.

    Wu et al., Simplifying Graph Convolutional Networks, 2019. A softmax makes probabilities of the outputs.

    Args:
        features: Number of features of a node.
        out: Number of outputs.
        key: Key of the weights.
    """
    return GAMLP(features, out, depth=1, bias=False, key=key)


def gfnn(features: int, out: int, *, key: PRNGKeyArray, width: int = 32) -> GAMLP:
    """A network of two layers on the features of `sgc`: gfNN (Hoang and Maehara, Revisiting Graph Neural Networks,
    2019).

    Args:
        features: Number of features of a node.
        out: Number of outputs.
        key: Key of the weights.
        width: Number of hidden neurons.
    """
    return GAMLP(features, out, width=width, key=key)


def gfn(features: int, order: int, out: int, *, key: PRNGKeyArray, width: int = 32) -> GAMLP:
    """GFN: two layers on the degree, the features, and the features propagated 1 to `order` times.

    Chen, Bian and Sun, Are Powerful Graph Neural Nets Necessary?, 2019: 1 + features (order + 1) numbers at each node.

    Args:
        features: Number of features of a node.
        order: The largest number of propagations.
        out: Number of outputs.
        key: Key of the weights.
        width: Number of hidden neurons.
    """
    checks.sizes(features=features, order=order)
    return GAMLP(1 + features * (order + 1), out, width=width, key=key)


def per_node(network: Callable[[Array], Array], x: Array) -> Array:
    """The output of a network at one node or at many.

    Args:
        network: From the features of one node to its outputs.
        x: Features, (features,) or (..., features).
    """
    for _ in range(x.ndim - 1):
        network = jax.vmap(network)
    return network(x)
