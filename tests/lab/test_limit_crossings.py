"""Where between two points a claim stops being true."""

from __future__ import annotations

import pytest

from dynascope.lab.limit_search.crossings import crossings
from dynascope.lab.limit_search.points import Outcome, Point
from dynascope.lab.limit_search.ranges import Range

UNIT = [Range("x", None, 0.0, 1.0, False, False)]


def point(at: float, margin: float) -> Point:
    return Point((at,), (at,), [Outcome("holds" if margin > 0 else "fails", margin, True)])


@pytest.mark.parametrize(
    ("margins", "place"),
    [
        ((0.1, -0.1), 0.5),
        ((0.1, -0.3), 0.25),
        ((0.1, 0.0), 1.0),  # the limit is on the point
        ((1e-6, -0.4), 0.5),  # a jump
        ((0.4, -1e-6), 0.5),
    ],
)
def test_a_limit_is_the_zero_of_a_line_through_the_margins_unless_they_jump(margins, place):
    (found,) = crossings([point(0.0, margins[0]), point(1.0, margins[1])], UNIT)
    assert found.place == pytest.approx((place,))
    assert found.uncertainty == pytest.approx(max(place, 1 - place))
