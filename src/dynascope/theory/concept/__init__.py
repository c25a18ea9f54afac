"""Concept learning: the structured identity task in one layer (closed form) and two (a recursion of the Jacobian)."""

from dynascope.theory.concept import (
    assumptions as assumptions,
    entries as entries,
    jacobian_paths as jacobian_paths,
    jacobian_recursion as jacobian_recursion,
    lemmas as lemmas,
    linear_loss as linear_loss,
    minor_entries as minor_entries,
    nearest_point as nearest_point,
    one_layer as one_layer,
    published_figures as published_figures,
    stage_times as stage_times,
    staged_path as staged_path,
    starts as starts,
    terminal_rates as terminal_rates,
)
