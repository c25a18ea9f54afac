"""The list of breaks is in step with the code; `make mutate` makes them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from dynascope.lab import registry

HERE = Path(__file__).parent
spec = importlib.util.spec_from_file_location("mutate", HERE / "mutate.py")
assert spec is not None
assert spec.loader is not None
mutate = sys.modules["mutate"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mutate)
LISTED = mutate.mutations([])


@pytest.mark.parametrize("mutation", LISTED, ids=lambda mutation: mutation.name)
def test_a_break_fits_its_file(mutation):
    text = (mutate.ROOT / mutation.file).read_text(encoding="utf-8")
    assert mutate.broken(text, mutation) != text
    assert bool(mutation.seen_by) != bool(mutation.unseen), "it is seen by something, or says why it is not"
    for name in mutation.tests:
        assert (mutate.ROOT / name).exists(), name


def test_there_are_breaks_in_every_system():
    ids = [entry.id for entry in registry.entries()]
    used = {id for mutation in LISTED for id in mutation.experiments}
    assert used <= set(ids)
    assert {id.partition(".")[0] for id in ids} <= {Path(file).stem.partition("-")[0] for file in HERE.glob("*.toml")}
    assert len(LISTED) >= 40


def test_a_break_must_fit_exactly_once():
    one = mutate.Mutation("twice", "a.py", "x", "y", ("tests/a.py",))
    with pytest.raises(ValueError, match=r"twice: `old` occurs 2 times in a.py, not once"):
        mutate.broken("x x", one)
