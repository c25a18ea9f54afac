"""Sets of graphs for graph classification: the TU collection's, in one file each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from dynascope.graphs import GraphBatch, from_edges
from dynascope.tasks.data import catalog, files, packed


class GraphSet(NamedTuple):
    """Graphs, and the class of each."""

    graphs: GraphBatch
    labels: Int[np.ndarray, " graphs"]


def load(name: str) -> GraphSet:
    """The graphs of the file `<name>.npz`, such as tu_IMDBBINARY, without node tags. It holds `node_offset`, `edges`
    (i <= j, in the numbering of all nodes together) and `graph_label`."""
    (file,) = catalog.find(name)
    files.record(name)
    stored = packed.read_arrays(file)
    missing = [key for key in ("node_offset", "edges", "graph_label") if key not in stored]
    if missing:
        raise ValueError(f"{file} lacks {', '.join(missing)}; it is no set of graphs")
    offsets = stored["node_offset"].astype(np.int64)
    joined = from_edges(stored["edges"], int(offsets[-1]))
    return GraphSet(GraphBatch(joined, offsets), stored["graph_label"].astype(np.int64))
