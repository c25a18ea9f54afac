"""A user's own graph from a file: edge lists, arrays, GraphML, GML, JSON of networkx, tensors of PyTorch. Nothing is
unpickled."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dynascope.checks import InputError
from dynascope.graphs import Graph, from_edges, from_networkx, from_scipy
from dynascope.tasks.data import catalog, citation_graphs, files, packed
from dynascope.tasks.data.known import KNOWN

LABELS = ("label", "labels", "y")
"""Node attributes, or arrays in a file, that hold labels."""


def load(graph: str) -> Graph:
    """The citation graph of this name, or the graph in the file of this path.

    Text (`.txt .csv .tsv .edges`, also `.gz`) holds two node numbers in each line; lines that begin with # or % are
    left out. `.npz` holds `edges` with shape (edges, 2) and, if there are any, `label`; or a sparse matrix of scipy.
    `.graphml`, `.gml` and `.json` (node-link) are those of networkx, with an attribute `label` or `y` of the nodes.
    `.pt` holds the dict that `Data.to_dict()` of PyTorch Geometric gives: `edge_index`, and `y` if there is one.
    """
    path = Path(check_source(graph)).expanduser()
    if not path.exists():
        return citation_graphs.structure(graph)
    files.record(graph)
    name = path.name.removesuffix(".gz").lower()
    readers: dict[str, Callable[[Path], Graph]] = {
        ".npz": _arrays,
        ".graphml": _networkx("read_graphml"),
        ".gml": _networkx("read_gml"),
        ".json": _json,
        ".pt": _tensors,
    }
    suffix = Path(name).suffix
    if suffix in (".pkl", ".pickle", ".gpickle"):
        raise InputError(f"graph must not be a pickle, which could run any program; write {path.name} as an edge list")
    try:
        found = readers.get(suffix, _edge_list)(path)
    except InputError:
        raise
    except UnicodeDecodeError:
        raise InputError(f"graph must be a file with a graph; {path.name} is not text, nor of a known form") from None
    except (ValueError, TypeError) as error:  # of `from_edges`, which does not know the file
        raise InputError(f"graph must be a file with a graph; in {path.name} {error}") from None
    if found.nodes == 0:
        raise InputError(f"graph must have one node or more; {path.name} holds none")
    return found


def check_source(graph: str) -> str:
    """The name or path itself if there is a graph; otherwise an error that names the valid inputs."""
    path = Path(graph).expanduser()
    by_name = len(path.parts) == 1 and not path.suffix and not path.exists()
    if path.is_file() or (by_name and (graph in KNOWN or files.find(f"{graph}.npz"))):
        return graph
    told = f"there is {'a folder' if path.is_dir() else 'none'} at {graph!r}{catalog.nearest(graph) if by_name else ''}"
    raise files.DataNotFoundError(f"graph must be the path of a file, or the name of a citation graph; {told}")


def load_labels(labels: str, nodes: int) -> np.ndarray:
    """Labels from a text file, (nodes,): one in each line, or a node number and its label. They are whole numbers, or
    numbers with a point; nodes that are not named have none (-1, or NaN)."""
    path = Path(labels).expanduser()
    if not path.is_file():
        raise files.DataNotFoundError(f"labels must be the path of a file; there is none at {labels}")
    files.record(labels)
    rows = _rows(path, "labels")
    if not rows or len({len(row) for _, row in rows}) > 1 or len(rows[0][1]) > 2:
        raise InputError(f"labels must hold one or two numbers in each line; {path.name} does not")
    try:
        values = np.array([float(row[-1]) for _, row in rows])
    except ValueError:
        raise InputError(f"labels must be numbers; {path.name} holds others") from None
    whole = not any(mark in row[-1] for _, row in rows for mark in ".eEnN")
    if len(rows[0][1]) == 1:
        if len(values) != nodes:
            raise InputError(f"labels must be one for each of the {nodes} nodes; {path.name} holds {len(values)}")
        return _some(path, values.astype(np.int64) if whole else values)
    named = [_node(path, line, row[0], "labels") for line, row in rows]
    if max(named) >= nodes:
        raise InputError(f"labels must name nodes below {nodes}; {path.name} names {max(named)}")
    if len(set(named)) < len(named):
        raise InputError(f"labels must name each node once; {path.name} names some twice")
    found = np.full(nodes, -1, np.int64) if whole else np.full(nodes, np.nan)
    found[named] = values
    return _some(path, found)


def _some(path: Path, labels: np.ndarray) -> np.ndarray:
    if not np.any(labels != -1 if labels.dtype.kind == "i" else np.isfinite(labels)):
        raise InputError(f"labels must hold a label for at least one node; {path.name} holds only -1 or nan")
    return labels


def _edge_list(path: Path) -> Graph:
    rows = _rows(path, "graph")
    pairs = []
    for line, row in rows:
        if len(row) < 2:
            raise InputError(f"graph must hold two node numbers in each line; line {line} of {path.name} holds one")
        pairs.append((_node(path, line, row[0], "graph"), _node(path, line, row[1], "graph")))
    if not pairs:
        raise InputError(f"graph must hold edges; {path.name} holds none")
    return from_edges(np.array(pairs))


def _rows(path: Path, what: str) -> list[tuple[int, list[str]]]:
    try:
        text = packed.read_bytes(path).decode("utf-8")
    except ValueError:
        form = "gzipped text" if path.suffix == ".gz" else "text, nor of a known form"
        raise InputError(f"{what} must be a file with numbers in lines; {path.name} is not {form}") from None
    found = []
    for number, line in enumerate(map(str.strip, io.StringIO(text, newline=None)), start=1):
        if line and line[0] not in "#%":
            found.append((number, line.replace(",", " ").replace(";", " ").split()))
    return found


def _node(path: Path, line: int, word: str, what: str) -> int:
    try:
        number = int(word)
    except ValueError:
        told = f"line {line} of {path.name} has {word[:20]!r}"
        raise InputError(f"{what} must hold node numbers, which are integers; {told}") from None
    if number < 0:
        raise InputError(f"{what} must hold node numbers from 0 on; line {line} of {path.name} has {number}")
    return number


def _arrays(path: Path) -> Graph:
    try:
        arrays = packed.read_arrays(path)
    except (ValueError, OSError):
        raise InputError(f"graph must be a file of plain arrays; {path.name} is damaged, or is not") from None
    if "edges" in arrays:
        edges, loops = arrays["edges"], arrays.get("self_loops", np.zeros(0, int))
        if edges.dtype.kind not in "iu" or edges.ndim != 2 or edges.shape[1] != 2:
            shown = f"{edges.dtype} of shape {edges.shape}"
            raise InputError(f"graph must hold edges, integers of shape (edges, 2); those of {path.name} are {shown}")
        edges = np.concatenate([edges.astype(np.int64), np.stack([loops, loops], axis=1)])
        labels = next((arrays[key] for key in LABELS if key in arrays), None)
        return _with_labels(path, edges, labels)
    if {"indptr", "indices", "shape"} <= arrays.keys():
        return from_scipy(sp.load_npz(path))
    raise InputError(f"graph must hold the array edges, or a sparse matrix of scipy; {path.name} holds neither")


def _networkx(reader: str) -> Callable[[Path], Graph]:
    def read(path: Path) -> Graph:
        import networkx as nx

        try:
            return _labeled(getattr(nx, reader)(path))
        except (UnicodeDecodeError, KeyboardInterrupt):
            raise
        except Exception as error:  # parsers of XML and GML have errors of their own
            told = str(error).partition("\n")[0][:80]
            raise InputError(f"graph must be a file that networkx.{reader} reads; {path.name}: {told}") from None

    return read


def _json(path: Path) -> Graph:
    import networkx as nx

    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return _labeled(nx.node_link_graph(stored, edges="links" if "links" in stored else "edges"))
    except UnicodeDecodeError:
        raise
    except Exception as error:
        told = str(error).partition("\n")[0][:80]
        raise InputError(f"graph must be node-link JSON of networkx; {path.name}: {told}") from None


def _labeled(graph: Any) -> Graph:
    """The graph with the labels of its nodes, if every node has a number under one of the usual names."""
    for name in LABELS:
        values = [data.get(name) for _, data in graph.nodes(data=True)]
        if values and all(isinstance(value, int | float) for value in values):
            return from_networkx(graph, labels=name)
    return from_networkx(graph)


def _tensors(path: Path) -> Graph:
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError("graph needs PyTorch to be read from a .pt file; install dynascope[torch]") from None
    try:
        stored = torch.load(path, weights_only=True)  # tensors and plain containers only
    except Exception:
        how = "torch.save(data.to_dict(), ...)"
        raise InputError(f"graph must be tensors alone, as {how} writes them; {path.name} is not") from None
    if not isinstance(stored, dict) or "edge_index" not in stored:
        raise InputError(f"graph must be a dict with edge_index; {path.name} is not")
    edges = stored["edge_index"].numpy().T
    values = next((stored[key].numpy() for key in LABELS if key in stored), None)
    whole = values is not None and len(values) == 1  # a label of the graph, not of its nodes
    return _with_labels(path, edges, None if whole else values, stored.get("num_nodes"))


def _with_labels(path: Path, edges: np.ndarray, labels: np.ndarray | None, nodes: int | None = None) -> Graph:
    """The graph with these labels, one for each node; they set the number of nodes if that is not given."""
    if labels is None:
        return from_edges(edges, nodes)
    least = 1 + int(edges.max()) if edges.size else 0
    if len(labels) < least or (nodes is not None and len(labels) != nodes):
        told = f"{path.name} holds {len(labels)}"
        raise InputError(f"labels must be one for each of the {nodes or least} nodes; {told}")
    return from_edges(edges, len(labels), labels=labels)
