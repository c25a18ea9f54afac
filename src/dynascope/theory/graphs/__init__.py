"""Graph-augmented MLPs against message passing: exact counts of trees and classes, bounds, and constructions."""

from dynascope.theory.graphs import (
    block_model as block_model,
    class_bounds as class_bounds,
    degree_codes as degree_codes,
    errata as errata,
    exact_gin as exact_gin,
    level_vectors as level_vectors,
    smooth_fit as smooth_fit,
    tree_counts as tree_counts,
    walk_floors as walk_floors,
    walk_gap as walk_gap,
)
