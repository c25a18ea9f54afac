"""Transition to linearity: Hessian norms of wide networks, and their consequences."""

from dynascope.theory.linearity import (
    bounds as bounds,
    errata as errata,
    gaussian_series as gaussian_series,
    hessian_recursion as hessian_recursion,
)
