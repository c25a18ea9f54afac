"""Graphs: immutable arrays, ways to make them, fixed operators on them, and the nodes that these can tell apart."""

from dynascope.graphs.batch import GraphBatch as GraphBatch, batch as batch
from dynascope.graphs.convert import (
    from_networkx as from_networkx,
    from_pyg as from_pyg,
    from_scipy as from_scipy,
    to_networkx as to_networkx,
    to_pyg as to_pyg,
    to_scipy as to_scipy,
)
from dynascope.graphs.expressivity import Expressivity as Expressivity, expressivity as expressivity
from dynascope.graphs.floors import irreducible_error as irreducible_error, irreducible_mistakes as irreducible_mistakes
from dynascope.graphs.generators import (
    ball as ball,
    barabasi_albert as barabasi_albert,
    block_model_batch as block_model_batch,
    caveman as caveman,
    complete_bipartite as complete_bipartite,
    cycle as cycle,
    disjoint_cycles as disjoint_cycles,
    erdos_renyi as erdos_renyi,
    full_tree as full_tree,
    parity_colors as parity_colors,
    random_graph as random_graph,
    random_regular as random_regular,
    stochastic_block_model as stochastic_block_model,
)
from dynascope.graphs.graph import Graph as Graph, from_edges as from_edges
from dynascope.graphs.isomorphism import isomorphic as isomorphic, isomorphism_classes as isomorphism_classes
from dynascope.graphs.operators import (
    adjacency as adjacency,
    average_degree as average_degree,
    bethe_hessian as bethe_hessian,
    degree as degree,
    identity as identity,
    normalized_adjacency as normalized_adjacency,
    pagerank as pagerank,
    power_graph as power_graph,
    shifted_bethe_hessian as shifted_bethe_hessian,
    triangles as triangles,
    two_step_graph as two_step_graph,
    with_self_loops as with_self_loops,
)
from dynascope.graphs.pairs import (
    Pair as Pair,
    cycle_twins as cycle_twins,
    regular_twins as regular_twins,
    same_tree_twins as same_tree_twins,
    tree_twins as tree_twins,
    walk_twins as walk_twins,
)
from dynascope.graphs.partitions import (
    classes_of as classes_of,
    number_of_classes as number_of_classes,
    refines as refines,
)
from dynascope.graphs.propagation import (
    SparseOperator as SparseOperator,
    normalized_powers as normalized_powers,
    on_device as on_device,
    powers as powers,
)
from dynascope.graphs.refinement import (
    color_refinement as color_refinement,
    family_classes as family_classes,
    graph_codes as graph_codes,
    operator_classes as operator_classes,
    stable_colors as stable_colors,
)
from dynascope.graphs.walks import walk_counts as walk_counts, walks as walks
