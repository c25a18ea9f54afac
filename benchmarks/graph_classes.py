"""Exact classes of nodes, against networkx's hashes of neighborhoods; and a graph of a million nodes.

Citation graphs are read where they are at hand ($DYNASCOPE_DATA); else a random graph of Pubmed's size takes their
place. The hashes start from degrees that count a self-loop twice, and neighborhoods that differ may share one; the
number of classes they find is shown beside the exact one.
"""

from __future__ import annotations

import resource
import time
from typing import Any

import networkx as nx

import dynascope as ds
from benchmarks.timing import cpu_seconds, tell
from dynascope.graphs import Graph, color_refinement, number_of_classes, operator_classes
from dynascope.tasks.data import citation_graphs
from dynascope.tasks.data.files import DataNotFoundError

DEPTH = 5
NODES, EDGES = 1_000_000, 10_000_000


def table() -> None:
    """K = 1 to 5 of message passing and of powers of A on all graphs; networkx's hashes, of message passing alone."""
    graphs = _citations()
    drawn = {name: ds.graphs.to_networkx(graph) for name, graph in graphs.items()}
    exact = cpu_seconds(lambda: [_both(graph) for graph in graphs.values()])
    colors = cpu_seconds(lambda: [color_refinement(graph, DEPTH) for graph in graphs.values()])
    hashes = cpu_seconds(lambda: [_hashes(graph) for graph in drawn.values()])
    found = {name: [number_of_classes(row) for row in color_refinement(graph, 2)[1:]] for name, graph in graphs.items()}
    missed = {name: len({row[1] for row in _hashes(drawn[name]).values()}) for name in graphs}
    rows = [
        {"contender": "dynascope, colors and powers of A", "CPU s": round(exact, 3), "times": round(hashes / exact, 1)},
        {"contender": "dynascope, colors alone", "CPU s": round(colors, 3), "times": round(hashes / colors, 1)},
        {"contender": "networkx, hashes of colors", "CPU s": round(hashes, 3), "times": 1.0},
    ]
    tell(f"graph-classes: {', '.join(graphs)}, K = 1 to {DEPTH}, one thread", rows)
    counts = [{"graph": name, "exact, K = 2": found[name][1], "hashes, K = 2": missed[name]} for name in graphs]
    tell("graph-class-counts: classes of message passing", counts)


def million() -> None:
    """Three rounds of refinement and powers up to A³ on a random graph of a million nodes."""
    start = time.process_time()
    graph = ds.graphs.random_graph(NODES, EDGES, seed=0)
    made = time.process_time()
    colors = color_refinement(graph, 3)
    refined = time.process_time()
    powers = operator_classes(graph, 3)
    done = time.process_time()
    rows = [
        {"what": "the graph", "CPU s": round(made - start, 1), "classes": ""},
        {"what": "refinement, 3 rounds", "CPU s": round(refined - made, 1), "classes": number_of_classes(colors[-1])},
        {"what": "powers up to A³", "CPU s": round(done - refined, 1), "classes": number_of_classes(powers[-1])},
    ]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    tell(f"million-nodes: {graph.nodes} nodes, {len(graph.edges)} edges, one thread, {peak:.1f} GiB at most", rows)


def _citations() -> dict[str, Graph]:
    found = {}
    for name in ("cora", "citeseer", "pubmed"):
        try:
            found[name] = citation_graphs.structure(name)
        except DataNotFoundError:
            found[f"random in place of {name}"] = ds.graphs.random_graph(19717, 44324, seed=0)
    return found


def _both(graph: Graph) -> Any:
    return color_refinement(graph, DEPTH), operator_classes(graph, DEPTH)


def _hashes(graph: Any) -> Any:
    return nx.weisfeiler_lehman_subgraph_hashes(graph, iterations=DEPTH)


def main() -> None:
    table()
    million()


if __name__ == "__main__":
    main()
