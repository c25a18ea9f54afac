"""The margin of a claim is the distance to its threshold, and has the sign of its verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings, strategies as st

from dynascope.lab import criteria
from dynascope.lab.claims import Claim, claim
from dynascope.lab.limit_search.margin import is_step, margin_of

EVIDENCE = Path(__file__).parents[2] / "evidence"
LABELED = xr.DataArray([1.0, 2.0, 4.0], {"x": [1.0, 2.0, 3.0]}, ("x",))


def margin(made: Claim) -> float | None:
    return margin_of(made.model_dump(mode="json"))


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (criteria.below("c", "s", 0.2, 0.3), 0.1),
        (criteria.below("c", "s", 0.5, 0.3), -0.2),
        (criteria.above("c", "s", [1.0, 2.0, 3.0], 0.5), 0.5),
        (criteria.above("c", "s", np.arange(20.0), -1, median=9.0), 0.5),
        (criteria.below("c", "s", np.arange(20.0), 30, median=9.0), -0.5),
        (criteria.below("c", "s", 0.2, 0.3, shown={"of": 7}), 0.1),
        (criteria.within("c", "s", 0.3, 0.0, 1.0), 0.3),
        (criteria.within("c", "s", [0.3, 1.25], 0.0, 1.0), -0.25),
        (criteria.agrees("c", "s", 1.5, 2.0, absolute=0.75), 0.25),
        (criteria.agrees("c", "s", [1.5, 3.0], 2.0, relative=0.25), -0.5),
        (criteria.agrees("c", "s", LABELED, LABELED + 0.5, absolute=0.25), -0.25),
        (criteria.every("c", "s", [True, True]), 0.25),
        (criteria.every("c", "s", [True, False]), -0.25),
        (criteria.share("c", "s", [1, 1, 1, 0], 0.5), 0.375),
        (criteria.share("c", "s", [1, 0, 0, 0], 0.3), -0.125),
        (criteria.rising("c", "s", LABELED), 1.0),
        (criteria.falling("c", "s", LABELED), -2.0),
        (criteria.slope("c", "s", LABELED, "x", low=0.0, high=5.0), None),
        (criteria.share("c", "s", [], 0.5), None),
        (criteria.below("c", "s", np.nan, 0.3), None),
        (claim("c", "s", measured=3, expected="three", holds=True), None),
        (claim("c", "s", measured=3, expected="> 5", holds=True), None),
    ],
)
def test_it_is_the_distance_to_the_threshold(made: Claim, expected: float | None):
    if made.expected == "0 to 5":  # a slope, which has no round number
        assert 0 < (margin(made) or 0) < 5
    else:
        assert margin(made) == (None if expected is None else pytest.approx(expected))


def test_shares_are_steps_and_other_numbers_are_not():
    assert is_step(criteria.every("c", "s", [True]).model_dump())
    assert not is_step(criteria.below("c", "s", 0.2, 0.3).model_dump())


NUMBER = st.floats(-1e3, 1e3, allow_nan=False).map(lambda x: float(f"{x:.5g}"))
MAKERS: list[Callable[[float, float], Claim]] = [
    lambda x, t: criteria.below("c", "s", x, t),
    lambda x, t: criteria.above("c", "s", [x, x + 1], t),
    lambda x, t: criteria.within("c", "s", x, min(0, t), max(0, t)),
    lambda x, t: criteria.agrees("c", "s", x, t, absolute=2.0),
]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(MAKERS), NUMBER, NUMBER)
def test_its_sign_is_the_verdict(make: Callable[[float, float], Claim], x: float, threshold: float):
    made = make(x, threshold)
    found = margin(made)
    assert found is None or (found > 0) == (made.verdict == "holds") or found == 0


def test_nearly_all_claims_on_record_have_one():
    """Of those in the evidence, nine in ten have a margin; none contradicts its verdict."""
    claims = [made for path in EVIDENCE.glob("*/*/claims.json") for made in json.loads(path.read_text())]
    margins = [margin_of(made) for made in claims]
    assert sum(found is not None for found in margins) > 0.9 * len(claims) > 500
    assert all(
        (found > 0) == (made["verdict"] != "fails") for found, made in zip(margins, claims, strict=True) if found
    )
