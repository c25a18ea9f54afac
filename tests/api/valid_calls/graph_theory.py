"""Valid calls of the theory of graph-augmented MLPs."""

from __future__ import annotations

import numpy as np

import dynascope as ds
from dynascope.theory.graphs import degree_codes, exact_gin
from valid_calls.shared import NOT_NEGATIVE, Calls

GRAPH = ds.graphs.from_edges([[0, 1], [1, 2], [2, 0], [2, 3]])


def calls() -> Calls:
    tree, bound, depth = {"depth": 2}, {"degree": 3, "depth": 2}, {"depth": "0"}
    numbers = np.linspace(0, 1, 40)
    return {
        "tree_counts.full_trees": (tree | {"children": 3}, depth),
        "tree_counts.aggregation_trees": (tree | {"degree": 3}, depth),
        "tree_counts.trees_repeating_features": (tree | {"degree": 3}, {}),
        "tree_counts.operator_classes_of_trees": (tree | {"children": 3}, depth),
        "tree_counts.operator_classes_of_balls": (tree | {"degree": 3}, depth),
        "class_bounds.log10_message_passing": (bound, {}),
        "class_bounds.walk_types": ({"degree": 3, "length": 2}, {}),
        "class_bounds.walk_types_bound": ({"degree": 3, "length": 2}, {}),
        "class_bounds.log10_operators": (bound, {}),
        "class_bounds.overtaking_depth": ({"degree": 3}, {}),
        "class_bounds.printed_choices": ({"degree": 3, "length": 2}, {}),
        "level_vectors.trees_by_levels": (tree | {"children": 2}, depth),
        "level_vectors.admissible_vectors": (tree | {"children": 3}, depth),
        "level_vectors.incomplete_choices": ({"children": 3, "depth": 2}, {}),
        "level_vectors.fewest_trees": (tree, {}),
        "walk_gap.level_totals": ({"children": 3, "length": 2}, {}),
        "walk_gap.confused_trees": ({"children": 3, "sequence": (0, 0), "zeros": 4}, {}),
        "walk_gap.walks_from_root": ({"tree": ds.graphs.tree_twins().one, "sequence": (1, 1)}, {}),
        "degree_codes.injective_above": ({"n": 5}, {}),
        "degree_codes.power_sums": ({"n": 3, "exponent": 3}, {}),
        "degree_codes.degree_codes": ({"graph": GRAPH}, {}),
        "degree_codes.top_degree_code": ({"graph": GRAPH}, {}),
        "degree_codes.log2_codes_and_classes": ({"n": 20}, {}),
        "degree_codes.switches": ({"graph": GRAPH}, {}),
        "degree_codes.switch_edges": (
            {"graph": ds.graphs.cycle(6), "switch": degree_codes.Switch(0, 1, 3, 4)},
            {},
        ),
        "exact_gin.exact_gin": ({"largest_degree": 3, "edges": 2}, {}),
        "exact_gin.apply_gin": (
            {"network": exact_gin.exact_gin(3, 2), "graph": GRAPH, "x": np.ones((4, 1))},
            {},
        ),
        "block_model.signal_to_noise": (
            {"within": 5.0, "across": 1.0},
            {"within": NOT_NEGATIVE, "across": NOT_NEGATIVE},
        ),
        "block_model.negative_eigenvalues": (
            {"within": 5.0, "across": 1.0},
            {"within": NOT_NEGATIVE, "across": NOT_NEGATIVE},
        ),
        "block_model.chance_overlap": ({"nodes": 20}, {}),
        "smooth_fit.quadratic_fit": (
            {"features": numbers[:, None], "values": numbers, "train": np.arange(20), "groups": np.zeros(40, int)},
            {},
        ),
        "walk_floors.walk_floor": ({"degree": 3, "edges": 2, "order": 1}, {}),
        "walk_floors.least_squares_error": (
            {"floor": 0.1, "parameters": 2, "examples": 20},
            {"floor": NOT_NEGATIVE},
        ),
    }
