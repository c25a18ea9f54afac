"""Every row of the ledger is judged by claims that exist, and every claim on record has a row."""

from __future__ import annotations

import json
import tomllib
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dynascope.lab import registry
from dynascope.lab.entry import Entry
from dynascope.lab.experiment import Experiment
from dynascope.ledger import statements
from dynascope.ledger.statements import HERE

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(HERE.glob("*.toml"))
ROWS = statements()


def test_every_row_is_of_a_document_that_experiments_cite():
    assert {row.document for row in ROWS} <= {entry.document for entry in entries().values()}


def test_no_row_is_there_twice():
    rows = [(row.document, row.part, row.place, row.printed) for row in ROWS]
    assert [row for row in rows if rows.count(row) > 1] == []


def test_every_judge_of_a_row_exists():
    assert [f"{row.place}: {name}" for row in ROWS for name in (*row.judges, *row.support) if not exists(name)] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_claim_on_record_has_a_row(path: Path):
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    covered = {id for glob in content.get("covers", []) for id in entries() if fnmatchcase(id, glob)}
    cited = {without_preset(name) for row in ROWS for name in (*row.judges, *row.support)}
    assert [name for name in sorted(recorded()) if name.split("/")[0] in covered and name not in cited] == []


def test_a_file_that_says_it_is_complete_covers_experiments_on_its_document():
    for path in FILES:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        for glob in content.get("covers", []):
            found = {entry.document for id, entry in entries().items() if fnmatchcase(id, glob)}
            assert content["document"] in found, f"{path.name}: no experiment of {glob} is on its document"


def test_a_row_whose_claim_is_known_to_fail_says_what_holds_instead_or_that_nothing_does():
    silent = [row for row in ROWS if not row.instead and not row.nothing_instead]
    assert [f"{row.place}: {name}" for row in silent for name in row.claims if known_to_fail(name)] == []


def test_an_erratum_is_cited_as_one_and_nothing_else_is():
    errata = {name for name, claim in recorded().items() if claim["kind"]}
    assert [name for row in ROWS for name in row.errata if name in recorded() and name not in errata] == []
    assert [name for row in ROWS for name in (*row.claims, *row.instead) if without_preset(name) in errata] == []


def test_a_claim_that_is_nowhere_is_seen():
    assert not exists("concept.signal-order/nowhere")
    assert not exists("concept.nowhere/theorem")
    assert exists("concept.signal-order/theorem")


@cache
def recorded() -> dict[str, dict[str, Any]]:
    """Every claim on record by its name, at any size."""
    evidence = json.loads((ROOT / "docs" / "evidence.json").read_text(encoding="utf-8"))
    runs = [*evidence["presets"].items(), *evidence["claims"].items()]
    return {f"{id.partition('@')[0]}/{claim['id']}": claim for id, claims in runs for claim in claims}


def exists(name: str) -> bool:
    """Whether the experiment exists and the claim is on record, or is made in the code of its system."""
    id, _, claim = without_preset(name).partition("/")
    return id in entries() and (f"{id}/{claim}" in recorded() or f'"{claim}"' in code(entries()[id].path.parent))


@cache
def entries() -> dict[str, Entry]:
    """The experiments by id."""
    return {entry.id: entry for entry in registry.entries()}


@cache
def code(folder: Path) -> str:
    """The source text of a system's experiments."""
    return "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py")))


def known_to_fail(name: str) -> bool:
    """Whether the claim is among the known failures of every setting, of the full one or of the one in the name."""
    experiment, _, claim = name.partition("/")
    id, _, preset = experiment.partition("@")
    failures = loaded(id).known_failures
    names = [key.rpartition("/") for key in failures]
    return any(there == claim and setting in ("", preset or "full") for setting, _, there in names)


@cache
def loaded(id: str) -> type[Experiment]:
    """The class of an experiment."""
    return registry.load(entries()[id])


def without_preset(name: str) -> str:
    """The name of a claim without the preset it is judged in."""
    experiment, _, claim = name.partition("/")
    return f"{experiment.partition('@')[0]}/{claim}"
