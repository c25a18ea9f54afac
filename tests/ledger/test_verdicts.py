"""The verdict of a statement follows from the claims on record."""

from __future__ import annotations

import pytest

from dynascope.ledger import Statement, judgments, verdict, verdicts

RECORD = {
    "a.b/good": {"quick": "holds", "full": "holds"},
    "a.b/bad": {"quick": "fails"},
    "a.b/only-small": {"quick": "holds", "full": "fails"},
    "a.b/only-large": {"quick": "fails", "code": "fails", "full": "holds"},
    "a.b/wrong": {"full": "erratum"},
    "a.b/not-wrong": {"full": "fails"},
}


@pytest.fixture(autouse=True)
def _record(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(verdicts, "record", lambda: RECORD)


def row(**judges: str) -> Statement:
    lists = {key: tuple(f"a.b/{name}" for name in names.split()) for key, names in judges.items()}
    return Statement(document="d", place="Figure 1", kind="figure", printed="p", **lists)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("judges", "expected"),
    [
        ({"claims": "good"}, "holds as printed"),
        ({"claims": "good", "support": "bad"}, "holds as printed"),
        ({"claims": "good only-large"}, "holds as printed"),
        ({"claims": "only-small"}, "does not hold"),
        ({"claims": "good bad"}, "does not hold"),
        ({"claims": "bad", "instead": "good"}, "holds in a weaker form"),
        ({"claims": "bad", "instead": "good only-small"}, "does not hold"),
        ({"errata": "wrong"}, "does not hold"),
        ({"errata": "wrong", "instead": "good"}, "holds in a weaker form"),
        ({"claims": "good", "errata": "wrong"}, "does not hold"),
        ({"errata": "not-wrong"}, "not tried"),
        ({"instead": "good"}, "holds in a weaker form"),
        ({"instead": "bad"}, "not tried"),
        ({"claims": "new"}, "not tried"),
        ({"claims": "good new"}, "not tried"),
        ({"claims": "new", "instead": "good"}, "not tried"),
    ],
    ids=str,
)
def test_a_verdict(judges: dict[str, str], expected: str):
    assert verdict(row(**judges)) == expected


def test_a_preset_in_a_name_asks_for_its_verdict_alone():
    name = "a.b@code/only-large"
    found = Statement(document="d", place="Figure 1", kind="figure", printed="p", claims=(name,))
    (judgment,) = judgments(found)
    assert (judgment.verdict, judgment.size, judgment.is_divided) == ("fails", "code", False)
    assert verdict(found) == "does not hold"


def test_sizes_that_disagree_are_seen():
    assert [claim.is_divided for claim in judgments(row(claims="good only-small"))] == [False, True]
