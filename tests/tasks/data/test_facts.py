"""Files of facts are read as prompts."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from dynascope.tasks.data import facts, files
from dynascope.tasks.prompts import Prompt


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DYNASCOPE_DATA", str(tmp_path))
    monkeypatch.setenv("DYNASCOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_a_fact_is_its_prompt_and_its_name(folder: Path):
    table = "known_id,subject,attribute,prompt\n0,Vinson Massif,Antarctica,Vinson Massif is in the continent of\n"
    (folder / "known_1000_facts.csv.gz").write_bytes(gzip.compress(table.encode()))
    assert facts.known_facts() == [Prompt("Vinson Massif is in the continent of", " Antarctica")]


def test_a_capital_is_a_city_in_its_country(folder: Path):
    (folder / "world_capitals.csv").write_text("iso2,country,capital\nES,Spain,Madrid\nAQ,Antarctica,\n")
    assert facts.capitals() == [Prompt("Madrid is a city in", " Spain")]


def test_missing_and_damaged_files_are_told_in_one_line(folder: Path):
    with pytest.raises(files.DataNotFoundError, match="no data set 'world_capitals'"):
        facts.capitals()
    (folder / "world_capitals.csv").write_text("town\nMadrid\n")
    with pytest.raises(ValueError, match="lacks capital or country"):
        facts.capitals()
