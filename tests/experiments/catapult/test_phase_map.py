"""The map of phases: where lines are read, dead networks, and a point on its own."""

from __future__ import annotations

import numpy as np

from dynascope.experiments.catapult.phase_map import DEAD, CatapultMap, first_change
from dynascope.experiments.catapult.two_layer_models import CATAPULT, MONOTONE
from dynascope.lab.run import run
from dynascope.lab.store import Store


def test_a_line_lies_before_the_first_rate_at_which_half_of_the_seeds_have_left():
    flags = np.array([[False, True, True], [False, False, False], [True, True, True]])
    np.testing.assert_array_equal(first_change(flags, np.array([1.5, 2.5])), [1.5, np.nan, np.nan])


def test_one_point_runs_alone_and_is_in_the_phase_of_the_map(store: Store):
    alone = CatapultMap(rates=(3.0,), widths=(64,), seeds=2, steps=60)
    claims = {claim.id: claim.verdict for claim in run(alone, store=store, draw=False).claims}
    assert claims == {"three-phases": "holds", "map-gives-phase": "holds"}


def test_a_network_whose_units_are_all_off_is_dead():
    from dynascope.lab.machine import precision

    point = CatapultMap(models=("network",), rates=(1.0, 3.0, 64.0), widths=(64,), seeds=2, steps=60)
    with precision(True, "highest"):
        measured = point.measure(0)
        reduced = point.reduce(measured, point.predict(measured))
    phase = reduced.phase.isel(model=0, width=0).transpose("rate", "seed").values
    assert phase.tolist() == [[MONOTONE] * 2, [CATAPULT] * 2, [DEAD] * 2]
