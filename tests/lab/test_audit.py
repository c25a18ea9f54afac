"""An audit: how often each claim holds over seeds, and how often that is what is on record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dynascope.lab import registry
from dynascope.lab.audit import audit
from dynascope.lab.store import Store

SOMETIMES = """
import numpy as np
import xarray as xr
from dynascope.lab.criteria import above, below
from dynascope.lab.experiment import Experiment, Source

class Sometimes(Experiment):
    '''Is the number of the seed even?'''
    id = "toy.sometimes"
    source = Source("The book of toys", "Figure 3")
    presets = {"quick": {"shift": 0}}
    control = {"shift": 1}
    cost = {"quick": 0.1, "full": 0.1}
    known_failures = {"large": "Seeds are small here."}
    shift: int = 0

    def measure(self, seed): return xr.Dataset({"rest": seed % 2 + self.shift, "seed_number": seed})
    def reduce(self, measured, predicted): return measured
    def judge(self, reduced):
        yield below("even", "it is even", reduced.rest, 1)
        yield above("large", "it is large", reduced.seed_number, 100)
        if reduced.seed_number == 3:
            raise ValueError("three")
    def draw(self, measured, predicted, reduced): return {}
"""


@pytest.fixture
def sometimes(tmp_path: Path):
    (tmp_path / "mine.py").write_text(SOMETIMES)
    return registry.load(str(tmp_path / "mine.py"))


def test_shares_and_the_record(sometimes, store: Store):
    found = audit([sometimes], range(4, 10), store=store)
    assert found.errors == []
    even, large = found.rows
    assert (even.claim, even.main, even.holds, even.agrees, even.of) == ("even", True, 3, 3, 6)
    assert even.failing_seeds == (5, 7, 9)
    assert (large.holds, large.agrees, large.known) == (0, 6, "Seeds are small here.")
    assert found.agreement == 9 / 12
    kept = json.loads((store.root / "audit.json").read_text())
    assert kept["rows"][0]["share"] == 0.5
    assert kept["rows"][0]["interval"][0] < 0.5 < kept["rows"][0]["interval"][1]
    assert (store.root / "audit.csv").read_text().splitlines()[1].startswith("toy.sometimes,even,True,3,6,5 7 9,")
    assert store.runs()[1] == []


def test_a_run_that_crashes_is_a_line(sometimes, store: Store):
    found = audit([sometimes], range(2, 5), store=store)
    assert [row.of for row in found.rows] == [2, 2]
    (line,) = found.errors
    assert line.startswith("toy.sometimes, seed 3: ")


def test_an_audit_goes_on_where_it_stopped(sometimes, store: Store, monkeypatch):
    audit([sometimes], range(4, 6), store=store)
    measured = []
    real = sometimes.measure
    monkeypatch.setattr(sometimes, "measure", lambda self, seed: measured.append(seed) or real(self, seed))
    assert audit([sometimes], range(4, 7), store=store).rows[0].of == 3
    assert measured == [6]


@pytest.mark.slow
@pytest.mark.parametrize("id", [pytest.param("concept.one-layer-theory", marks=pytest.mark.long), "edge.product"])
def test_claims_hold_at_seeds_that_nobody_has_looked_at(id: str, store: Store):
    found = audit([id], [1_000_003, 4_294_967_295], store=store)
    assert found.errors == []
    assert [f"{row.claim} at {row.failing_seeds}" for row in found.rows if row.agrees < row.of] == []
