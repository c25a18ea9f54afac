"""A claim in one number: the one that its expectation speaks of."""

from __future__ import annotations

import json
import operator
import re
from pathlib import Path

import pytest

from dynascope.live.headline import headline

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence.json"
COMPARISONS = {"<": operator.lt, ">": operator.gt, "≤": operator.le, "≥": operator.ge}


@pytest.mark.parametrize(
    ("measured", "expected", "text"),
    [
        (0.02344, "< 0.1", "0.02344"),
        ({"share": 0.95, "interval": [0.7, 1.0], "of": 20, "left": [1, 2]}, "share ≥ 0.9", "95 % of 20"),
        ({"largest": 0.02, "median": 0.006}, "largest < 0.1, median < 0.03", "0.02"),
        ([4.5, 1.2, 4.6], "smallest > 1", "1.2"),
        ([1.0, 3.0, 2.0], "median > 1", "2"),
        ({"0.5": 0.75, "1": 0.4, "3": -0.3}, "falling", "0.75 → −0.3"),
        ([[3.0, 2.0, 1.0]], "falling", "3 → 1"),
        ({"smallest": 0.9, "largest": 1.1, "median": 1.0}, "0.8 to 1.2", "0.9 to 1.1"),
        ({"measured": 0.5, "gap": [0.1, 0.2]}, "> 0.4", "0.5"),
        ({"largest difference": 0.04, "steps": [9.0, 9.0]}, "difference ≤ 0.1", "0.04"),
        ({"3": 1e-14, "4": 2e-14, "at another rate": {"3": 0.2}}, "largest < 1e-9", "2 × 10⁻¹⁴"),
        ({"0.1": 0.0, "1": 0.0, "diverged": 92}, "largest < 1", "0"),
        ("inf", "> 0.5", "∞"),
        (True, "yes", "yes"),
    ],
)
def test_it_is_the_number_of_which_the_expectation_speaks(measured, expected, text):
    assert headline(measured, expected) == text


def test_it_agrees_with_the_verdict_of_every_claim_on_record_that_has_one_threshold():
    checked = 0
    for claims in json.loads(EVIDENCE.read_text(encoding="utf-8"))["claims"].values():
        for claim in claims:
            said = re.fullmatch(
                r"(?:largest |smallest |median |difference )?([<>≤≥]) (-?[\d.e+-]+)", str(claim["expected"])
            )
            shown = re.fullmatch(r"(−?[\d.]+)", headline(claim["measured"], claim["expected"]))
            if not said or not shown or claim["verdict"] == "erratum":
                continue
            value, threshold = float(shown[1].replace("−", "-")), float(said[2])
            if abs(value - threshold) <= 1e-3 * max(1, abs(threshold)):
                continue  # four digits do not tell
            assert COMPARISONS[said[1]](value, threshold) == (claim["verdict"] == "holds"), claim["id"]
            checked += 1
    assert checked > 100
