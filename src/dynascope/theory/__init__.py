"""Theory: closed forms, recursions and bounds, with the names of what is measured."""

from dynascope.theory import assumptions as assumptions
from dynascope.theory import constraint_manifolds as constraint_manifolds
from dynascope.theory import edge_errata as edge_errata
from dynascope.theory import entries as entries
from dynascope.theory import factorization as factorization
from dynascope.theory import factorization_stability as factorization_stability
from dynascope.theory import jacobian_paths as jacobian_paths
from dynascope.theory import jacobian_recursion as jacobian_recursion
from dynascope.theory import lemmas as lemmas
from dynascope.theory import linear_loss as linear_loss
from dynascope.theory import minor_entries as minor_entries
from dynascope.theory import neuron_intervals as neuron_intervals
from dynascope.theory import one_layer as one_layer
from dynascope.theory import period_two as period_two
from dynascope.theory import product_orbit as product_orbit
from dynascope.theory import published_figures as published_figures
from dynascope.theory import quartic_orbit as quartic_orbit
from dynascope.theory import single_neuron as single_neuron
from dynascope.theory import squared_margins as squared_margins
from dynascope.theory import stage_times as stage_times
from dynascope.theory import starts as starts
