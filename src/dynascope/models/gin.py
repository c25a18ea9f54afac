"""Graph isomorphism networks: message passing by sums, as strong as color refinement."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from dynascope import checks
from dynascope.models.featured_graph import FeaturedGraph
from dynascope.models.ga_mlp import per_node
from dynascope.models.mlp import MLP


class GIN(eqx.Module):
    """A graph isomorphism network: h_i <- MLP_k((1 + epsilon_k) h_i + sum of h_j over the neighbors j), `depth` times.

    Xu et al., How Powerful are Graph Neural Networks?, 2019. Each MLP_k is Linear-ReLU-Linear-ReLU; epsilon_k is
    learned, from 0. `model(graph)` gives the outputs at all nodes, `model(graph, nodes)` at these nodes alone: then
    each layer is computed only at the nodes that the next one needs, which changes no value and is cheaper for a small
    batch of nodes.

    Args:
        features: Number of features of a node.
        depth: Number of layers.
        out: Number of outputs.
        key: Key of the weights.
        width: Width of each MLP_k.
        jumping: Jumping knowledge ("GIN-JK"): a network of two layers reads the input and the output of every layer.
            Otherwise the last MLP_k ends at `out` numbers without a ReLU.
    """

    layers: list[MLP]
    epsilons: Float[Array, " depth"]
    head: MLP | None

    def __init__(
        self, features: int, depth: int, out: int, *, key: PRNGKeyArray, width: int = 16, jumping: bool = True
    ) -> None:
        checks.sizes(features=features, depth=depth, out=out, width=width)
        checks.flags(jumping=jumping)
        keys = jax.random.split(checks.key("key", key), depth + 1)
        dims = [features, *[width] * (depth - 1)]
        ends = [*[width] * (depth - 1), width if jumping else out]
        self.layers = [
            MLP(dim, 2, width=width, out=end, activation="relu", bias=True, key=each)
            for dim, end, each in zip(dims, ends, keys[:-1], strict=True)
        ]
        self.epsilons = jnp.zeros(depth)
        seen = features + depth * width
        self.head = MLP(seen, 2, width=width, out=out, activation="relu", bias=True, key=keys[-1]) if jumping else None

    def __call__(self, graph: FeaturedGraph, nodes: Int[Array, " some"] | None = None) -> Float[Array, "some out"]:
        features = self.layers[0].weights[0].shape[1]
        if not isinstance(graph, FeaturedGraph) or graph.x.shape[1] != features:
            raise TypeError(f"graph must be a FeaturedGraph with {features} features; got {checks.shown(graph)}")
        h = self._apply(0, graph.own, graph.sums)  # one row for each kind of node
        fields = receptive_fields(graph, nodes, len(self.layers))
        seen = [graph.x, h[graph.kind]] if nodes is None else [graph.x[nodes], h[graph.kind[nodes]]]
        for k in range(1, len(self.layers)):
            wanted = fields[k + 1]
            h = self._apply(k, *_own_and_total(graph, h, "kinds" if k == 1 else fields[k], wanted))
            if wanted is None:
                seen.append(h if nodes is None else h[nodes])
            else:
                h = jnp.where((wanted < graph.nodes)[:, None], h, 0)  # padding stays 0
                seen.append(h[: len(seen[0])])
        return seen[-1] if self.head is None else per_node(self.head, jnp.concatenate(seen, axis=1))

    def _apply(self, k: int, own: Array, total: Array) -> Array:
        """Layer k, from each node's own input and the sum over its neighbors."""
        out = per_node(self.layers[k], (1 + self.epsilons[k]) * own + total)
        return out if self.head is None and k == len(self.layers) - 1 else jax.nn.relu(out)


def receptive_fields(graph: FeaturedGraph, nodes: Array | None, depth: int) -> list[Array | None]:
    """The nodes at which the input and the output of each layer are needed, for the last output at `nodes`.

    None stands for all nodes, also if a field would not be smaller. A field begins with the next one, followed by
    the neighbors of each of its nodes.
    """
    fields = [nodes]
    for _ in range(depth):
        wanted = fields[0]
        if wanted is None or len(wanted) * (1 + graph.table.shape[1]) >= graph.nodes:
            fields.insert(0, None)
        else:
            fields.insert(0, jnp.concatenate([wanted, graph.around(wanted).reshape(-1)]))
    return fields


def _own_and_total(graph: FeaturedGraph, h: Array, at: Any, wanted: Array | None) -> tuple[Array, Array]:
    """A layer's input at the nodes of its output, and the sum over the neighbors. The rows of h are kinds of nodes, all
    nodes (`at` is None), or those of a field."""
    if isinstance(at, str) and graph.counts is not None:
        if wanted is None:
            return h[graph.kind], graph.counts @ h
        own = h.at[_kinds(graph, wanted)].get(mode="fill", fill_value=0)
        return own, graph.counts.at[wanted].get(mode="fill", fill_value=0) @ h
    if wanted is None:
        every = h[graph.kind] if isinstance(at, str) else h
        return every, graph.totals(every)
    if isinstance(at, Array):
        own, rest = h[: len(wanted)], h[len(wanted) :]
    else:
        rows = graph.around(wanted).reshape(-1)
        if at is None:
            own = h.at[wanted].get(mode="fill", fill_value=0)
        else:
            own = h.at[_kinds(graph, wanted)].get(mode="fill", fill_value=0)
            rows = _kinds(graph, rows)
        rest = h.at[rows].get(mode="fill", fill_value=0)
    owner = jnp.repeat(jnp.arange(len(wanted)), len(rest) // len(wanted))
    return own, jax.ops.segment_sum(rest, owner, len(wanted), indices_are_sorted=True)


def _kinds(graph: FeaturedGraph, nodes: Array) -> Array:
    """The kinds of nodes; beyond the last for padding."""
    return graph.kind.at[nodes].get(mode="fill", fill_value=len(graph.own))
