"""Numbers on the pages are those of the stored evidence."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from dynascope.lab import registry

DOCS = Path(__file__).parents[2] / "docs"
EVIDENCE = json.loads((DOCS / "evidence.json").read_text(encoding="utf-8"))
MAKE = runpy.run_path(str(DOCS / "make_evidence.py"))
PAGES = [
    page for page in (*sorted(DOCS.glob("*.md")), DOCS.parent / "README.md") if MAKE["MARKED"].search(page.read_text())
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_says_what_the_evidence_says(page: Path):
    text = page.read_text(encoding="utf-8")
    assert MAKE["written"](text, EVIDENCE) == text, "run `make evidence`"


@pytest.mark.parametrize("system", ["concept", "edge", "linearity", "catapult", "features", "rank", "graphs"])
def test_the_page_of_a_system_has_the_parts_of_all(system: str):
    text = (DOCS / f"{system}.md").read_text(encoding="utf-8")
    parts = ("What happens", "Run it", "Vary it", "What holds and what does not", "Errata", "References")
    places = [text.find(f"\n## {part}\n") for part in parts]
    assert -1 not in places, dict(zip(parts, places, strict=True))
    assert places == sorted(places)
    for mark in ("results", "failures", "errata", "references"):
        assert f"<!-- {mark}: {system} -->" in text


def test_a_number_comes_from_its_claim():
    evidence = {"claims": {"a.b": [{"id": "c", "measured": {"largest": 0.0625}}, {"id": "d", "measured": 3}]}}
    page = "It is <!-- number: a.b c: largest -->?<!-- end --> and <!-- number: a.b d --><!-- end -->."
    wanted = "It is <!-- number: a.b c: largest -->0.0625<!-- end --> and <!-- number: a.b d -->3<!-- end -->."
    assert MAKE["written"](page, evidence) == wanted


def test_a_number_may_be_of_a_run_with_another_preset():
    claims = [{"id": "c", "measured": {"of": 0.25}}]
    evidence = {"claims": {"a.b": [{"id": "c", "measured": {"of": 1}}]}, "presets": {"a.b@gpu": claims}}
    page = "<!-- number: a.b@gpu c: of --><!-- end -->"
    assert MAKE["written"](page, evidence) == "<!-- number: a.b@gpu c: of -->0.25<!-- end -->"


def test_numbers_of_a_run_that_the_store_lacks_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    collect = MAKE["collect"]
    evidence, page = tmp_path / "evidence.json", tmp_path / "page.md"
    kept = {"a.b@gpu": [{"id": "c", "measured": 1}], "a.b@gone": []}
    evidence.write_text(json.dumps({"presets": kept}), encoding="utf-8")
    page.write_text("<!-- number: a.b@gpu c --><!-- end -->", encoding="utf-8")
    monkeypatch.setitem(collect.__globals__, "EVIDENCE", evidence)
    monkeypatch.setitem(collect.__globals__, "pages", lambda: [page])
    monkeypatch.setattr(registry, "entries", lambda *_: [])
    assert collect(tmp_path / "runs")["presets"] == {"a.b@gpu": kept["a.b@gpu"]}
