"""Figure 8: three concepts, three descents of the test loss."""

from __future__ import annotations

from dynascope.experiments.concept.descent_stages import Reference
from dynascope.experiments.concept.multiple_descents import MultipleDescents, Occurrence
from dynascope.experiments.concept.sim_experiment import PAPER
from dynascope.lab.experiment import Source, Values


class TripleDescent(MultipleDescents):
    """Does the test loss of three concepts descend three times, and how often?"""

    id = "concept.triple-descent"
    source = Source(PAPER, "Figure 8")
    cost = {"quick": 9, "full": 24}
    presets = {"quick": {"starts": 2000, "grid_starts": 100}}
    control = {"scale": 0.001}
    notes = """The start drawn is chosen: about one Gaussian start in 500 has three descents. Nearly rank-one starts,
    U = τ (ε G + [1 0 0]), have them more often than not. Each concept is first learned as a shadow of the stronger ones
    (a minor entry), loses this again when the stronger one is learned, and is finally learned itself. Dashed curves are
    closed forms, computed from the start alone. In the control the start is so small that the shadows stay below what
    counts as a turn. The published figure comes from another equation: see concept.published-figures."""

    figure = "Figure 8"
    references = (
        Reference(62, 0.1, 0.0, ((0.251, 72), (0.281, 119), (0.041, 279), (0.066, 435))),
        Reference(62, 0.3, 0.0, ((0.711, 23), (0.996, 77), (0.024, 223), (0.140, 356))),
        Reference(62, 0.03, 0.0, ((0.318, None), (0.335, None), (0.075, None), (0.091, None))),
        Reference(0, 0.3, 0.1, ((0.095, 57), (0.265, 139), (0.125, 249), (0.159, 415))),
    )
    occurrences = (
        Occurrence(0.1, 0.0, 0.01, 1, 1000),
        Occurrence(0.03, 0.0, 0.01, 3, 1000),
        Occurrence(0.3, 0.0, 0.01, 3, 1000),
        Occurrence(0.5, 0.03, 0.005, 334, 500),
    )

    best_cells = ((0.5, 0.01), (0.5, 0.03))
    other_cells = (0.018, 0.664)

    mu: Values = (1.0, 1.5, 2.2)
    sigma: Values = (0.05, 0.05, 0.05)
    steps: int = 6000
    shown_seed: int = 62
    starts: int = 20_000
