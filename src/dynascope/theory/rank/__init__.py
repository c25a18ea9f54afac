"""Gradual rank increase: gradient flows of diagonal networks from small starts, and the stages they pass through."""

from dynascope.theory.rank import (
    assumptions as assumptions,
    diagonal_flow as diagonal_flow,
    errata as errata,
    greedy_ranks as greedy_ranks,
    stage_transition as stage_transition,
)
