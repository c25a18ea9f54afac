"""Networks for block-model graphs: a GA-MLP on propagated features, and a spectral network."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.linalg
from jaxtyping import Array, Integer

from dynascope import graphs
from dynascope.dynamics import Descent, Member
from dynascope.models import GAMLP, SpectralGNN
from dynascope.probes import probe
from dynascope.tasks import Supervised
from dynascope.tasks.community_graphs import CommunityGraphs, adjacency_of, overlap, unnamed_cross_entropy

LARGEST_GRADIENT = 40.0
"""Gradients are cut to this norm."""


class Head(Member):
    """A member: the network of a GA-MLP on the features of one operator."""

    features: int
    width: int
    steps: int
    learning_rate: float

    def __call__(self, operator: Array, train: Array, test: Array, labels: Array, number: Array) -> Descent:
        key = jax.random.fold_in(jax.random.key(1), number)
        model = GAMLP(self.features, 2, width=self.width, key=key)
        chosen = {"train": train[operator], "test": test[operator]}
        return _descent(self, model, Supervised(unnamed_cross_entropy), chosen, labels, key)


class Spectral(Member):
    """A member: the spectral network on the graphs themselves."""

    nodes: int
    layers: int
    width: int
    steps: int
    learning_rate: float

    def __call__(self, run: Any, labels: Array) -> Descent:
        key = jax.random.fold_in(jax.random.key(2), run["number"])
        model = SpectralGNN(self.layers, 2, width=self.width, key=key)
        task = Supervised(
            unnamed_cross_entropy, apply=lambda model, ends: model(adjacency_of(ends[0], ends[1], self.nodes))
        )
        return _descent(self, model, task, run, labels, key)


def _descent(member: Any, model: Any, task: Supervised, run: Any, labels: Array, key: Any) -> Descent:
    """One pass over the training graphs, one at a time; at the end the overlap with each test graph."""
    count = len(jax.tree.leaves(run["test"])[0])

    def score(snapshot: Any) -> Any:
        found = jax.lax.map(lambda x: jnp.argmax(task.outputs(snapshot.model, x), axis=-1), _alone(run["test"]))
        return overlap(found[:, 0].astype(labels.dtype), jnp.tile(labels, (count, 1)))

    optimizer = optax.chain(optax.clip_by_global_norm(LARGEST_GRADIENT), optax.adam(member.learning_rate))
    data = run["train"], jnp.tile(labels, (len(jax.tree.leaves(run["train"])[0]), 1))
    probes = {"overlap": probe(score, dims=("graph",), every=[member.steps])}
    return Descent(model, task, optimizer, data=data, batch=1, key=jax.random.fold_in(key, 1), probes=probes)


def _alone(batch: Any) -> Any:
    """A batch of graphs as batches of one."""
    return jax.tree.map(lambda leaf: leaf[:, None], batch)


def stacked(draws: list[CommunityGraphs]) -> tuple[Integer[np.ndarray, "draws graphs entries"], ...]:
    """Senders and receivers of several draws of equally many graphs, as long as the longest."""
    entries = max(draw.senders.shape[1] for draw in draws)

    def longer(part: np.ndarray, nodes: int) -> np.ndarray:
        return np.pad(part, ((0, 0), (0, entries - part.shape[1])), constant_values=nodes)

    return tuple(
        np.stack([longer(getattr(draw, end), draw.nodes) for draw in draws]) for end in ("senders", "receivers")
    )


def spectrum(draw: CommunityGraphs, kappa: float) -> dict[str, list[float]]:
    """For each graph the number of negative eigenvalues of the Bethe Hessian, its extreme ones, and the overlap of
    three eigenvectors' signs with the communities: the second of the Bethe Hessian, the leading one of the centered
    κI - H, and the second of A."""
    nodes = draw.nodes
    centering = np.eye(nodes) - 1 / nodes
    found: dict[str, list[float]] = {}
    for senders, receivers in zip(draw.senders, draw.receivers, strict=True):
        real = receivers < nodes
        graph = graphs.from_edges(np.stack([senders[real], receivers[real]], axis=1).astype(np.int64), nodes)
        bethe = graphs.bethe_hessian(graph).toarray()
        values, split = np.linalg.eigvalsh(bethe), _eigenvector(bethe, 1)
        shifted = centering @ (kappa * np.eye(nodes) - bethe) @ centering
        ends = np.array([_eigenvector(shifted, end) for end in (0, nodes - 1)])
        lead = ends[np.argmax(np.linalg.norm(ends @ shifted, axis=1))]
        second = _eigenvector(graphs.adjacency(graph).toarray().astype(float), nodes - 2)
        row = {
            "negative": float(np.sum(values < -1e-9)),
            "smallest": values[0],
            "largest": values[-1],
            "bethe_overlap": _sign_overlap(split, draw.labels),
            "centered_overlap": _sign_overlap(lead, draw.labels),
            "adjacency_overlap": _sign_overlap(second, draw.labels),
        }
        for name, value in row.items():
            found.setdefault(name, []).append(value)
    return found


def _eigenvector(matrix: np.ndarray, place: int) -> np.ndarray:
    """The eigenvector of one eigenvalue of a symmetric matrix, counted from the smallest."""
    return scipy.linalg.eigh(matrix, subset_by_index=(place, place))[1][:, 0]


def _sign_overlap(vector: np.ndarray, labels: np.ndarray) -> float:
    return float(abs(np.mean(np.where(vector > 0, 1, -1) * (2 * labels - 1))))
