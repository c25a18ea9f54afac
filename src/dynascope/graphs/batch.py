"""Several graphs as one: the blocks of a block-diagonal adjacency matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from dynascope import checks
from dynascope.graphs.graph import Graph


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """Graphs side by side, without edges between them; `batch[g]` is graph g."""

    joined: Graph
    """The graph of all their nodes."""
    offsets: Int[np.ndarray, " bounds"]
    """The nodes of graph g are `offsets[g]` to `offsets[g + 1] - 1` of `joined`."""

    def __post_init__(self) -> None:
        self.offsets.setflags(write=False)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> Graph:
        checks.whole("number", number, at_least=-len(self), at_most=len(self) - 1)
        at = number % len(self)
        start, stop = self.offsets[at], self.offsets[at + 1]
        indptr = self.joined.indptr[start : stop + 1]
        inside = self.joined.indices[indptr[0] : indptr[-1]] - start.astype(self.joined.indices.dtype)
        features, labels = self.joined.features, self.joined.labels
        return Graph(
            indptr - indptr[0],
            inside,
            None if features is None else features[start:stop],
            None if labels is None else labels[start:stop],
        )

    def __iter__(self) -> Iterator[Graph]:
        return (self[number] for number in range(len(self)))

    @property
    def sizes(self) -> Int[np.ndarray, " graphs"]:
        """The number of nodes of each graph."""
        return np.diff(self.offsets)

    @property
    def graph_of_node(self) -> Int[np.ndarray, " nodes"]:
        """The graph to which each node of `joined` belongs."""
        return np.repeat(np.arange(len(self)), self.sizes)


def batch(graphs: Sequence[Graph]) -> GraphBatch:
    """Graphs side by side, as one.

    Args:
        graphs: One graph or more. Features and labels are kept if every graph has them.
    """
    if not isinstance(graphs, Sequence) or not graphs or not all(isinstance(graph, Graph) for graph in graphs):
        raise TypeError(f"graphs must be a list with one Graph or more; got {checks.shown(graphs)}")
    widths = {graph.features.shape[1] for graph in graphs if graph.features is not None}
    if len(widths) > 1:
        raise ValueError(f"graphs must have equally many feature channels; got {sorted(widths)}")
    offsets = np.cumsum([0] + [graph.nodes for graph in graphs])
    entries = np.cumsum([0] + [len(graph.indices) for graph in graphs])
    indptr = np.concatenate([[0], *(graph.indptr[1:] + at for graph, at in zip(graphs, entries[:-1], strict=True))])
    shifted = [graph.indices + graph.indices.dtype.type(at) for graph, at in zip(graphs, offsets[:-1], strict=True)]
    features, labels = ([getattr(graph, name) for graph in graphs] for name in ("features", "labels"))
    joined = Graph(
        indptr,
        np.concatenate(shifted),
        features=None if any(one is None for one in features) else np.concatenate(features),
        labels=None if any(one is None for one in labels) else np.concatenate(labels),
        collapsed=sum(graph.collapsed for graph in graphs),
    )
    return GraphBatch(joined, offsets)
