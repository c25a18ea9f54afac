"""Valid calls of what makes graphs and looks at them."""

from __future__ import annotations

from types import SimpleNamespace

import networkx as nx
import numpy as np

import dynascope as ds
from valid_calls.shared import NOT_NEGATIVE, POSITIVE, REAL, Calls

EDGES = np.array([[0, 1], [1, 2], [2, 0], [2, 3]])
GRAPH = ds.graphs.from_edges(EDGES)
MATRIX = ds.graphs.adjacency(GRAPH)
BATCH = ds.graphs.batch([GRAPH, ds.graphs.cycle(4)])


def calls() -> Calls:
    seed, near = {"seed": "0 2**62"}, {"tolerance": NOT_NEGATIVE}
    graph = {"graph": GRAPH}
    x = np.ones(4)
    operators = ("identity", "adjacency", "degree", "power_graph", "two_step_graph", "average_degree")
    pairs = ("walk_twins", "regular_twins", "cycle_twins", "same_tree_twins", "tree_twins")
    return {
        "from_edges": ({"edges": EDGES, "nodes": 4}, {"edges": "[] empty"}),
        "batch": ({"graphs": [GRAPH, GRAPH]}, {}),
        "from_networkx": ({"graph": nx.path_graph(3)}, {}),
        "to_networkx": (graph, {}),
        "from_scipy": ({"matrix": MATRIX}, {}),
        "to_scipy": (graph, {}),
        "from_pyg": ({"data": SimpleNamespace(edge_index=EDGES.T, num_nodes=4)}, {}),
        "random_regular": ({"degree": 2, "nodes": 6, "seed": 0}, seed | {"degree": "0"}),
        "barabasi_albert": ({"nodes": 6, "attached": 2, "seed": 0}, seed),
        "erdos_renyi": ({"nodes": 6, "probability": 0.5, "seed": 0}, seed | {"probability": "0"}),
        "random_graph": ({"nodes": 6, "edges": 5, "seed": 0}, seed | {"edges": "0"}),
        "stochastic_block_model": (
            {"nodes": 6, "within": 3.0, "across": 1.0, "seed": 0},
            seed | {"within": "0 2.5", "across": "0 2.5"},
        ),
        "block_model_batch": (
            {"graphs": 2, "nodes": 6, "within": 3.0, "across": 1.0, "seed": 0},
            seed | {"within": "0 2.5", "across": "0 2.5"},
        ),
        "caveman": ({"cliques": 2, "size": 3}, {}),
        "cycle": ({"nodes": 5}, {}),
        "disjoint_cycles": ({"lengths": [3, 4]}, {}),
        "complete_bipartite": ({"left": 2, "right": 3}, {}),
        "full_tree": ({"children": 2, "depth": 2}, {"depth": "0"}),
        "ball": ({"degree": 3, "depth": 2}, {"depth": "0"}),
        "parity_colors": (graph, {}),
        **{name: (graph, {}) for name in operators},
        "normalized_adjacency": (graph, {"alpha": REAL, "beta": REAL}),
        "with_self_loops": (graph, {"epsilon": POSITIVE}),
        "bethe_hessian": (graph, {"r": REAL}),
        "shifted_bethe_hessian": (graph, {"kappa": REAL, "r": REAL}),
        "triangles": (graph, {}),
        "pagerank": (graph, {}),
        **{name: ({}, {}) for name in pairs},
        "powers": ({"matrix": MATRIX, "x": x, "order": 2}, {"order": "0"}),
        "normalized_powers": ({"matrix": MATRIX, "x": x, "order": 2}, {"order": "0", "epsilon": NOT_NEGATIVE}),
        "on_device": ({"matrix": MATRIX}, {}),
        "classes_of": ({"values": x}, near | {"values": "[] empty nested"}),
        "number_of_classes": ({"classes": np.arange(4)}, {}),
        "refines": ({"finer": np.arange(4), "coarser": np.zeros(4, int)}, {}),
        "color_refinement": (graph | {"rounds": 2}, {"rounds": "0"}),
        "stable_colors": (graph, {}),
        "operator_classes": (graph | {"order": 2}, near | {"order": "0"}),
        "family_classes": (graph | {"operators": [ds.graphs.adjacency]}, near | {"operators": "[] empty"}),
        "graph_codes": ({"graphs": BATCH, "classes": np.zeros(8, int)}, {}),
        "isomorphism_classes": ({"graphs": BATCH}, {}),
        "isomorphic": ({"one": GRAPH, "other": GRAPH}, {}),
        "walk_counts": (graph | {"colors": np.array([0, 1, 0, 1]), "sequence": (0, 1)}, {}),
        "walks": (graph | {"node": 0, "length": 2}, {"node": "0", "length": "0"}),
        "irreducible_error": ({"classes": np.array([0, 0, 1, 1]), "values": x}, {}),
        "irreducible_mistakes": ({"classes": np.array([0, 0, 1, 1]), "values": np.array([0, 1, 1, 1])}, {}),
        "expressivity": (
            graph | {"labels": np.array([0, 1, 1, 0]), "depth": 2},
            near | {"depth": "0", "operators": "{}"},
        ),
    }
