"""Citation graphs: papers, the words they use, their links, and the field of each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from dynascope.checks import InputError
from dynascope.graphs import Graph, from_edges
from dynascope.tasks.data import catalog, files, packed


class CitationGraph(NamedTuple):
    """Nodes with features and labels (-1: none), undirected edges i < j, and the public split."""

    x: Float[np.ndarray, "nodes words"]
    y: Int[np.ndarray, " nodes"]
    edges: Int[np.ndarray, "links 2"]
    train: Int[np.ndarray, " train"]
    validation: Int[np.ndarray, " validation"]
    test: Int[np.ndarray, " test"]
    self_loops: Int[np.ndarray, " loops"]
    """The nodes with a link to themselves, which `edges` leaves out."""


def load(name: str = "cora") -> CitationGraph:
    """The graph "cora", which the package carries, or another with a file `<name>.npz` in the same form."""
    (file,) = catalog.find(name)
    files.record(name)
    stored = packed.read_arrays(file)
    missing = [key for key in ("feat_data", "edges", "label") if key not in stored]
    if missing:
        raise InputError(f"{file} lacks {', '.join(missing)}; it is no citation graph")
    x = np.zeros(stored["feat_shape"], stored["feat_data"].dtype)
    rows = np.repeat(np.arange(len(x)), np.diff(stored["feat_indptr"]))
    x[rows, stored["feat_indices"]] = stored["feat_data"]
    split = (stored[key] for key in ("train_idx", "val_idx", "test_idx", "self_loops"))
    return CitationGraph(x, stored["label"].astype(np.int32), stored["edges"], *split)


def structure(name: str = "cora") -> Graph:
    """The links of a citation graph as a `Graph`, with the fields as labels and without the words. A link of a paper to
    itself is a self-loop."""
    data = load(name)
    loops = np.stack([data.self_loops, data.self_loops], axis=1)
    return from_edges(np.concatenate([data.edges, loops]), len(data.y), labels=data.y)
