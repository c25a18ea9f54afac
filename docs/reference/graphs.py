"""Examples of the names of `dynascope.graphs`, one for each cell."""

import numpy as np

from dynascope import graphs

triangle = graphs.from_edges([[0, 1], [1, 2], [2, 0], [2, 3]])

# %% GraphBatch
graphs.batch([graphs.cycle(3), graphs.cycle(4)]).sizes

# %% batch
graphs.batch([graphs.cycle(3), graphs.cycle(4)]).graph_of_node

# %% from_networkx
import networkx

graphs.from_networkx(networkx.path_graph(3))

# %% from_pyg
from types import SimpleNamespace

data = SimpleNamespace(edge_index=np.array([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)  # as a Data of PyG
graphs.from_pyg(data)

# %% from_scipy
graphs.from_scipy(graphs.to_scipy(triangle))

# %% to_networkx
graphs.to_networkx(triangle).number_of_edges()

# %% to_pyg
from torch_geometric.data import Data  # needs PyTorch Geometric

isinstance(graphs.to_pyg(triangle), Data)

# %% to_scipy
graphs.to_scipy(triangle).toarray()

# %% Expressivity
found = graphs.expressivity(graphs.full_tree(2, 3), depth=2)
found.table.classes.to_pandas()

# %% expressivity
print(graphs.expressivity(triangle, depth=2))

# %% irreducible_error
graphs.irreducible_error([0, 0, 1], [1.0, 3.0, 5.0])

# %% irreducible_mistakes
graphs.irreducible_mistakes([0, 0, 0, 1], [1, 1, 2, 3])

# %% ball
graphs.ball(3, 2)

# %% barabasi_albert
graphs.barabasi_albert(20, 2, seed=0)

# %% block_model_batch
graphs.block_model_batch(3, 10, 6.0, 2.0, seed=0).sizes

# %% caveman
graphs.caveman(2, 3).degrees

# %% complete_bipartite
graphs.complete_bipartite(2, 3).degrees

# %% cycle
graphs.cycle(5).degrees

# %% disjoint_cycles
graphs.disjoint_cycles([3, 4])

# %% erdos_renyi
graphs.erdos_renyi(10, 0.3, seed=0)

# %% full_tree
graphs.full_tree(2, 2).degrees

# %% parity_colors
graphs.parity_colors(triangle)

# %% random_graph
graphs.random_graph(10, 15, seed=0)

# %% random_regular
graphs.random_regular(3, 8, seed=0).degrees

# %% stochastic_block_model
graphs.stochastic_block_model(20, 6.0, 2.0, seed=0).labels

# %% Graph
print(triangle.nodes, triangle.degrees, triangle.neighbors(2))

# %% from_edges
graphs.from_edges([[0, 1], [1, 2]], nodes=4).degrees

# %% isomorphic
graphs.isomorphic(triangle, triangle.reorder([3, 2, 1, 0]))

# %% isomorphism_classes
graphs.isomorphism_classes(graphs.batch([graphs.cycle(3), graphs.cycle(4), graphs.cycle(3)]))

# %% adjacency
graphs.adjacency(triangle).toarray()

# %% average_degree
graphs.average_degree(triangle)

# %% bethe_hessian
graphs.bethe_hessian(triangle, r=2.0).toarray()

# %% degree
graphs.degree(triangle).toarray()

# %% identity
graphs.identity(triangle).toarray()

# %% normalized_adjacency
graphs.normalized_adjacency(triangle).toarray().round(2)

# %% pagerank
graphs.pagerank(triangle) @ np.ones(4)

# %% power_graph
graphs.power_graph(triangle).toarray()

# %% shifted_bethe_hessian
graphs.shifted_bethe_hessian(triangle, r=2.0).toarray()

# %% triangles
graphs.triangles(triangle).toarray()

# %% two_step_graph
graphs.two_step_graph(triangle).toarray()

# %% with_self_loops
graphs.with_self_loops(triangle).toarray().round(2)

# %% Pair
pair = graphs.regular_twins()
print(pair.one.nodes, pair.other.nodes)

# %% cycle_twins
graphs.cycle_twins()

# %% regular_twins
pair = graphs.regular_twins()
graphs.isomorphic(pair.one, pair.other)

# %% same_tree_twins
graphs.same_tree_twins()

# %% tree_twins
graphs.tree_twins()

# %% walk_twins
graphs.walk_twins()

# %% classes_of
graphs.classes_of(np.array([[1.0], [2.0], [1.0]]))

# %% number_of_classes
graphs.number_of_classes([0, 1, 0])

# %% refines
graphs.refines([0, 1, 2], [0, 0, 1])

# %% SparseOperator
graphs.on_device(graphs.adjacency(triangle)).nodes

# %% normalized_powers
graphs.normalized_powers(graphs.adjacency(triangle), np.array([1.0, 0.0, 0.0, 0.0]), 2).round(2)

# %% on_device
import jax.numpy as jnp

graphs.on_device(graphs.adjacency(triangle)) @ jnp.ones((4, 1))

# %% powers
graphs.powers(graphs.adjacency(triangle), np.ones((4, 1)), 2)[..., 0]

# %% color_refinement
graphs.color_refinement(triangle, rounds=2)

# %% family_classes
graphs.family_classes(triangle, [graphs.adjacency, graphs.degree])

# %% graph_codes
pair = graphs.batch([graphs.cycle(3), graphs.cycle(4)])
graphs.graph_codes(pair, graphs.stable_colors(pair.joined))

# %% operator_classes
graphs.operator_classes(triangle, order=2)

# %% stable_colors
graphs.stable_colors(triangle)

# %% walk_counts
graphs.walk_counts(triangle, [0, 1, 0, 1], (0, 1))

# %% walks
list(graphs.walks(triangle, 3, 2))
