"""Every row of the ledger is judged by claims that exist, and every claim on record has a row."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dynascope.lab import registry
from dynascope.ledger import Statement, statements
from dynascope.ledger.statements import HERE

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(HERE.glob("*.toml"))
ROWS = statements()


def test_every_row_is_of_a_document_that_experiments_cite():
    assert {row.document for row in ROWS} <= {entry.document for entry in registry.entries()}


def test_no_row_is_there_twice():
    rows = [(row.document, row.part, row.place, row.printed) for row in ROWS]
    assert [row for row in rows if rows.count(row) > 1] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.part or row.document[:12]}-{row.place}")
def test_every_judge_of_a_row_exists(row: Statement):
    assert [name for name in (*row.judges, *row.support) if not exists(name)] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_claim_on_record_has_a_row(path: Path):
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    covered = {entry.id for glob in content.get("covers", []) for entry in registry.entries(glob)}
    cited = {without_preset(name) for row in ROWS for name in (*row.judges, *row.support)}
    assert [name for name in sorted(recorded()) if name.split("/")[0] in covered and name not in cited] == []


def test_a_file_that_says_it_is_complete_covers_experiments_on_its_document():
    for path in FILES:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        for glob in content.get("covers", []):
            found = registry.entries(glob)
            assert found, f"{path.name}: no experiment is called {glob}"
            assert {entry.document for entry in found} >= {content["document"]}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.part or row.document[:12]}-{row.place}")
def test_a_row_whose_claim_is_known_to_fail_says_what_holds_instead_or_that_nothing_does(row: Statement):
    fails = [name for name in row.claims if known_to_fail(name)]
    assert not fails or row.instead or row.nothing_instead, fails


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
    """Every claim on record by its name: those of quick runs, of runs that pages cite, and of the kept evidence."""
    evidence = json.loads((ROOT / "docs" / "evidence.json").read_text(encoding="utf-8"))
    runs = [*evidence["presets"].items(), *evidence["claims"].items()]
    kept = sorted((ROOT / "evidence").glob("*/*/claims.json"))
    runs += [(path.parts[-3], json.loads(path.read_text(encoding="utf-8"))) for path in kept]
    return {f"{id.partition('@')[0]}/{claim['id']}": claim for id, claims in runs for claim in claims}


def exists(name: str) -> bool:
    """Whether the experiment exists and the claim is on record, or is made in the code of its system."""
    id, _, claim = without_preset(name).partition("/")
    systems = {entry.id: entry.path.parent for entry in registry.entries() if entry.id == id}
    if not systems:
        return False
    made = any(f'"{claim}"' in path.read_text(encoding="utf-8") for path in systems[id].glob("*.py"))
    return f"{id}/{claim}" in recorded() or made


def known_to_fail(name: str) -> bool:
    """Whether the claim is among the experiment's known failures, in any setting or in the one that the name gives."""
    experiment, _, claim = name.partition("/")
    id, _, preset = experiment.partition("@")
    failures = registry.load(id).known_failures
    names = [key.rpartition("/") for key in failures]
    return any(there == claim and (not preset or setting in ("", preset)) for setting, _, there in names)


def without_preset(name: str) -> str:
    """The name of a claim without the preset it is judged in."""
    experiment, _, claim = name.partition("/")
    return f"{experiment.partition('@')[0]}/{claim}"
