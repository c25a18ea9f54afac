"""Places in documents, as readers and documents write them."""

from __future__ import annotations

import pytest

from dynascope.lab.places import is_on, places_in, statements_on
from dynascope.ledger import statements


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("Figures 4.2, C.2-C.4", {("figure", label) for label in ("4.2", "C.2", "C.3", "C.4")}),
        ("Fig. 2 (b)", {("figure", "2b")}),
        ("Figures 6a-c", {("figure", "6a"), ("figure", "6b"), ("figure", "6c")}),
        ("Figure 5a and b", {("figure", "5a"), ("figure", "5b")}),
        ("Theorem 4.1, eq. (4.2)", {("theorem", "4.1"), ("equation", "4.2")}),
        ("Lemmas D.1 to D.3", {("lemma", "D.1"), ("lemma", "D.2"), ("lemma", "D.3")}),
        ("Theorem 4.2, (4.3)", {("theorem", "4.2"), ("equation", "4.3")}),
        ("Section 4.4.4.3, (4.6)", {("section", "4.4.4.3"), ("equation", "4.6")}),
        ("eqs. (C.1) and (C.2)", {("equation", "C.1"), ("equation", "C.2")}),
        ("App. C.1", {("section", "C.1")}),
        ("the remark on failure modes", set()),
    ],
)
def test_the_places_of_a_text(text: str, places: set[tuple[str, str]]):
    assert places_in(text) == places


@pytest.mark.parametrize(
    ("wanted", "place"),
    [
        ("6", "Figure 6b"),
        ("Fig. 6b", "Figure 6"),
        ("(4.2)", "Equation 4.2"),
        ("App. D", "Appendix D.1"),
        ("§4.2", "Section 4.2"),
        ("Equation 2.10", "(2.10), (2.11)"),
    ],
)
def test_a_place_is_found(wanted: str, place: str):
    assert is_on(wanted, place)


@pytest.mark.parametrize(
    ("wanted", "place"),
    [("6b", "Figure 6c"), ("Figure 1", "Figure 11"), ("Section 4", "Section 42"), ("Table 1", "Figure 1")],
)
def test_another_place_is_not(wanted: str, place: str):
    assert not is_on(wanted, place)


def test_every_statement_is_found_by_its_own_place(as_a_user):
    found = {place: statements_on(place) for place in {row.place for row in statements()}}
    assert [row.place for row in statements() if row not in found[row.place]] == []


def test_a_section_without_a_row_has_what_is_numbered_within_it():
    assert "Proposition B.5.1" in {row.place for row in statements_on("Appendix B.5")}
    assert {"Appendix A.2", "Lemma A.2.1"} <= {row.place for row in statements_on("Appendix A.2")}
    assert "Lemma 3.3.2" not in {row.place for row in statements_on("Section 3.3")}, "it has rows of its own there"


def test_a_remark_is_found_by_its_words():
    assert any("failure" in row.place.casefold() for row in statements_on("failure modes"))
