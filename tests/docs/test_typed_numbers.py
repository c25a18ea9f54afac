"""Numbers of runs are filled in from the evidence. What is typed by hand on a page about experiments is something else,
and says what: `typed_numbers.toml` lists it, page by page."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import make_evidence
from dynascope.lab import registry
from dynascope.lab.formatting import SYSTEMS

ALLOWED = tomllib.loads(Path(__file__).with_name("typed_numbers.toml").read_text(encoding="utf-8"))
KINDS = {"settings", "printed", "theory", "benchmarks", "examples"}
HIDDEN = re.compile(r"<!-- \w+(?:: [^>]*?)? -->.*?<!-- end -->|```.*?```|\]\([^)]*\)", re.DOTALL)
"""What is filled in, code, and addresses."""
NAMES = "Fig|Figure|Thm|Theorem|Prop|Proposition|Sec|Section|Table|Eq|eq|Ex|Ass|Assumption|Lemma|Cor|App|Chapter"
NUMBER = r"\(?(?:[A-Z]\.)?\d[\d.]*[a-e]?\)?"
PLACES = re.compile(
    rf"\b(?:{NAMES})s?\.?\s+{NUMBER}(?:(?:-|, | and | to ){NUMBER})*|^\| \d\.\d+a?(?: to d)?[;,]? ", re.MULTILINE
)
"""Figures 4.8a and 4.9, Thm. 2.3.6, and the first column of a table of panels."""
NUMERAL = re.compile(
    r"(?<![\w.])\d[\d,]*\.\d+(?: × 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?|\d+ %|\d+ × 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+|\d+ times\b|\b\d+ of \d+\b"
)
"""What a measured number looks like: decimals, shares, powers of ten, factors."""
IDS = [entry.id for entry in registry.entries()]


def numerals(text: str, of_system: bool) -> Iterator[str]:
    """The numerals in a text outside of marks, code and places in documents; if it is not the page of a system, only
    those of paragraphs that name an experiment."""
    for block in HIDDEN.sub(" ", text).split("\n\n"):
        if of_system or any(f"`{id}`" in block for id in IDS):
            yield from NUMERAL.findall(PLACES.sub(" ", re.sub(r"`[^`]*`", " ", block)))


def test_a_number_beside_an_experiment_is_found_and_one_from_the_evidence_is_not():
    text = "Figure 4.2: it is 0.25.\n\n`edge.product` has <!-- number: a b -->0.5<!-- end --> and 13 %."
    assert [*numerals(text, of_system=True)] == ["0.25", "13 %"]
    assert [*numerals(text, of_system=False)] == ["13 %"]


@pytest.mark.parametrize("page", make_evidence.pages(), ids=lambda page: page.stem)
def test_no_number_of_a_run_is_typed_by_hand(page: Path):
    given = ALLOWED.get(page.stem, {})
    assert given.keys() <= KINDS
    found = set(numerals(page.read_text(encoding="utf-8"), page.stem in SYSTEMS))
    assert found == {number for numbers in given.values() for number in numbers}
