"""Graphs: what operators and message passing can tell apart, and what labels cost under each, before any training."""

import numpy as np

from dynascope import graphs
from dynascope.tasks.data import citation_graphs
from dynascope.theory.graphs import tree_counts

# a graph is arrays; make one from edges, networkx, scipy or PyTorch Geometric, or load one
graph = graphs.from_edges([[0, 1], [1, 2], [2, 0], [2, 3]])
cora = citation_graphs.structure("cora")
print(graph, cora, cora.degrees.max())

# what could a network tell apart, and how often must it be wrong?
found = graphs.expressivity(cora, depth=3)
print(found)
print("largest class that A and A² confuse:", found.confused_classes("powers of A", 2)[0][:5])

# any operator: a function of the graph that returns something to multiply features with
mine = {"triangles": graphs.triangles, "mean": lambda graph: graphs.normalized_adjacency(graph, alpha=1, beta=0)}
print(graphs.expressivity(cora, operators=mine, depth=2).table.classes.to_pandas())

# the pieces: exact colors, classes of powers, and the least error of any function of the classes
colors = graphs.color_refinement(cora, rounds=2)[-1]
powers = graphs.operator_classes(cora, order=2)[-1]
print(
    "colors determine powers:", graphs.refines(colors, powers), "and not the other way:", graphs.refines(powers, colors)
)
blue = np.arange(cora.nodes) % 2
walks = graphs.walk_counts(cora, blue, (0, 0, 0))
colored = graphs.parity_colors(cora)
print("walks from powers:", graphs.irreducible_error(graphs.operator_classes(colored, order=2)[-1], walks))
print("walks from colors:", graphs.irreducible_error(graphs.color_refinement(colored, rounds=2)[-1], walks))

# how many aggregation trees of degree 3 there are, and how many of them powers of A see
for depth in (1, 2, 3, 4):
    print(depth, tree_counts.aggregation_trees(3, depth), tree_counts.operator_classes_of_balls(3, depth))
