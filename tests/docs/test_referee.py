"""The page for a skeptical referee shows what the program prints."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import make_evidence
from dynascope.cli import app
from dynascope.lab.setting import Setting

PAGE = (Path(__file__).parents[2] / "docs" / "referee.md").read_text(encoding="utf-8")
ID = "concept.one-layer-theory"
CLAIMS = json.loads(make_evidence.EVIDENCE.read_text(encoding="utf-8"))["claims"][ID]


def shown() -> list[str]:
    """The claims that the page quotes from the evidence."""
    marks = re.findall(rf"<!-- claims: {ID} ([^>]*?) -->", PAGE)
    return [claim for mark in marks for claim in mark.split(", ")]


def test_the_page_shows_a_claim_a_late_threshold_a_known_failure_and_an_erratum():
    verdicts = {claim["id"]: claim for claim in CLAIMS}
    assert shown()[0] == CLAIMS[0]["id"]  # the main claim
    assert {verdicts[name]["verdict"] for name in shown()} == {"holds", "fails", "erratum"}
    assert any(verdicts[name]["post_hoc"] for name in shown())
    assert [name for name in shown() if verdicts[name]["verdict"] == "fails"] == [
        *Setting.parse(ID, preset="quick").known_failures
    ]


def words(text: str) -> str:
    """Without digits, which may differ in the last place elsewhere, and without the layout."""
    return " ".join(re.sub(r"[\d.,⁰¹²³⁴⁵⁶⁷⁸⁹⁻×]+", "#", text).split())


@pytest.mark.long
def test_the_control_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optimized):
    monkeypatch.setenv("COLUMNS", "120")
    command = f"run {ID} --preset quick --control --runs {tmp_path}".split()
    done = CliRunner().invoke(app, command)
    (block,) = re.findall(r"--control\n```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    assert done.exit_code == 0
    assert words(block) in words(done.stdout)
    assert CliRunner().invoke(app, [*command, "--strict"]).exit_code == 1
