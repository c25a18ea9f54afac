"""Edge of stability: orbits of gradient descent above 2/sharpness, and their effect on the imbalance of layers."""

from dynascope.theory.edge import (
    axis_teacher as axis_teacher,
    constraint_manifolds as constraint_manifolds,
    errata as errata,
    factorization as factorization,
    factorization_stability as factorization_stability,
    neuron_intervals as neuron_intervals,
    optimizer_edges as optimizer_edges,
    period_two as period_two,
    product_orbit as product_orbit,
    quartic_orbit as quartic_orbit,
    quartic_proof as quartic_proof,
    single_neuron as single_neuron,
    squared_margins as squared_margins,
)
