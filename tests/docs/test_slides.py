"""The slides from the evidence: everything is in one page, and each experiment has its own."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import make_slides


def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    file = tmp_path / "slides.html"
    monkeypatch.setattr(sys, "argv", ["make_slides.py", *arguments, "--to", str(file)])
    make_slides.main()
    return file.read_text(encoding="utf-8")


def test_every_system_has_a_slide_with_its_picture_and_nothing_is_loaded(tmp_path, monkeypatch):
    html = written(tmp_path, monkeypatch)
    assert html.count("<section") == 8 + 2
    assert html.count("data:image/") == 8
    assert not re.search(r'(?:src|href)="(?!data:)', html)


def test_slides_of_chosen_experiments_are_in_the_given_order(tmp_path, monkeypatch):
    html = written(tmp_path, monkeypatch, "graphs.pairs", "concept.signal-order")
    assert re.findall(r"dynascope run (\S+)", html) == ["graphs.pairs", "concept.signal-order"]


def test_an_unknown_experiment_is_a_message_with_the_nearest_name(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        written(tmp_path, monkeypatch, "graphs.pair")
    assert ended.value.code == 2
    assert "graphs.pairs" in capsys.readouterr().err
