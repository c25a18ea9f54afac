"""A claim must be able to fail: on data that say nothing, each of them does."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from dynascope.lab import registry
from dynascope.lab.criteria import below, every
from dynascope.lab.netcdf import load

sys.path.append(str(Path(__file__).parent))

from corrupted import WITHOUT_DATA, cannot_fail

EVIDENCE = Path(__file__).parents[2] / "evidence"
PLACES = sorted(path.parent for path in EVIDENCE.glob("*/*/reduced.nc"))


SLOW = {"concept.transient-memorization"}
"""Experiments that are judged for minutes."""


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(
            place,
            id=f"{place.parent.name}-{place.name}",
            marks=pytest.mark.long if place.parent.name in SLOW else (),
        )
        for place in PLACES
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_every_claim_about_the_evidence_can_fail(place: Path):
    fields = json.loads((place / "config.json").read_text(encoding="utf-8"))["fields"]
    experiment = registry.load(place.parent.name)(**fields)
    try:
        found = cannot_fail(experiment, load(place / "reduced.nc"))
    except (AttributeError, KeyError):
        pytest.skip("it was measured before what is judged today was recorded")
    assert found == set()


def test_the_claims_without_data_are_claims():
    for id, claim in WITHOUT_DATA:
        on_record = json.loads((EVIDENCE / id / "full" / "claims.json").read_text(encoding="utf-8"))
        assert claim in {each["id"] for each in on_record}


class Vague:
    id = "vague"

    def judge(self, reduced: xr.Dataset):
        yield below("small", "It is small", reduced.x, 1)
        yield below("fails", "It is smaller", reduced.x, 0.01)
        yield every("named", "What is looked up is small", reduced.x[reduced.at.values.astype(int)] < 1)
        yield every("shape", "There are three", [reduced.x.size == 3])
        yield every("typed", "Two numbers that nobody measured differ", [1.5 < 2])


def test_a_claim_that_cannot_fail_is_found():
    data = xr.Dataset({"x": ("i", np.array([0.1, 0.2, 0.3])), "at": ("i", np.array([2, 1, 0]))})
    assert cannot_fail(Vague(), data) == {"shape", "typed"}
