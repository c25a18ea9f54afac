"""Figure 9: four concepts, four descents of the test loss."""

from __future__ import annotations

from dynascope.experiments.concept.descent_stages import Reference
from dynascope.experiments.concept.multiple_descents import MultipleDescents, Occurrence
from dynascope.experiments.concept.sim_experiment import PAPER
from dynascope.lab.experiment import Source, Values


class QuadrupleDescent(MultipleDescents):
    """Does the test loss of four concepts descend four times, and how often?"""

    id = "concept.quadruple-descent"
    source = Source(PAPER, "Figure 9")
    cost = {"quick": 11, "full": 90}
    presets = {"quick": {"starts": 1000, "aligned_starts": 250, "grid_starts": 50}}
    control = {"scale": 0.001}
    notes = """The start drawn is chosen: about one Gaussian start in 40,000 has four descents (counted with a tolerance
    of 0.2 %); of nearly rank-one starts, U = τ (ε G + [1 0 0 0]), a third. The dashed curves are closed forms, computed
    from the start alone. In the control the start is so small that the shadows that stronger concepts cast stay
    below what counts as a turn. The published figure comes from another equation: see concept.published-figures."""

    figure = "Figure 9"
    references = (
        Reference(
            10440, 0.2, 0.0, ((0.767, 13), (0.862, 39), (0.849, 59), (0.920, 110), (0.271, 291), (0.397, 540))
        ),
        Reference(
            34138, 0.1, 0.0, ((0.190, 50), (0.232, 86), (0.223, 115), (0.237, 163), (0.089, 362), (0.097, 658))
        ),
        Reference(
            0, 0.5, 0.03, ((0.072, 47), (0.838, 121), (0.601, 173), (0.633, 211), (0.337, 360), (0.410, 639))
        ),
    )  # fmt: skip
    occurrences = (
        Occurrence(0.2, 0.0, 0.002, 1, 40_000),
        Occurrence(0.1, 0.0, 0.002, 1, 40_000),
        Occurrence(0.3, 0.0, 0.002, 0, 40_000),
        Occurrence(0.3, 0.0, 0.002, 0, 40_000, width=5),
        Occurrence(0.5, 0.03, 0.005, 165, 500),
    )

    best_cells = ((0.5, 0.01), (0.5, 0.03))
    other_cells = (0.0, 0.16)

    mu: Values = (1.0, 1.5, 2.2, 2.7)
    sigma: Values = (0.05, 0.05, 0.05, 0.5)
    scale: float = 0.2
    steps: int = 9000
    shown_seed: int = 10440
    starts: int = 40_000
    reference_tolerance: float = 0.002
