"""The page of the ledger and the verdicts in the package are those that the evidence gives."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from dynascope.ledger import Judgment, Statement, statements, verdicts
from dynascope.ledger.verdicts import RECORD

DOCS = Path(__file__).resolve().parents[2] / "docs"
MAKE = runpy.run_path(str(DOCS / "make_ledger.py"))


def test_the_verdicts_in_the_package_are_those_of_the_evidence():
    assert json.loads(RECORD.read_text(encoding="utf-8")) == MAKE["record"](), "run `make evidence`"


def test_the_page_is_what_the_script_writes():
    assert (DOCS / "ledger.md").read_text(encoding="utf-8") == MAKE["page"](), "run `make evidence`"


def test_the_counts_add_up_to_all_statements():
    page = (DOCS / "ledger.md").read_text(encoding="utf-8").splitlines()
    counts = [int(cell) for cell in next(line for line in page if line.startswith("| all |")).split("|")[2:-1]]
    assert sum(counts[:-1]) == counts[-1] == len(statements())


def test_the_largest_size_is_last():
    sizes = {"full": (1, "a"), "quick": (9, "b"), "gpu": (2, "c"), "code": (1, "d")}
    assert list(MAKE["_by_size"](sizes)) == ["quick", "code", "gpu", "full"]


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        (("a.b/own",), "as printed"),
        (("a.b@panel/own",), "as printed"),
        (("a.b/small",), "as printed, in a smaller setting"),
        (("a.b/own", "a.b/small"), "as printed, in a smaller setting"),
        (("a.b/bad",), "does not hold"),
        (("a.b/new",), "not run"),
        ((), "no claim"),
    ],
    ids=str,
)
def test_the_first_table_counts_a_statement_by_its_verdict_and_size(
    claims: tuple[str, ...], expected: str, monkeypatch: pytest.MonkeyPatch
):
    record = {
        "a.b/own": {"quick": "holds", "panel": "holds", "full": "holds"},
        "a.b/small": {"quick": "holds"},
        "a.b/bad": {"full": "fails"},
    }
    monkeypatch.setattr(verdicts, "record", lambda: record)
    why = "" if claims else "a diagram"
    row = Statement(document="d", place="Figure 1", kind="figure", printed="p", claims=claims, not_judged=why)
    assert MAKE["_kind"](row) == expected


def test_a_row_that_waits_for_a_run_says_what_it_takes():
    (line,) = MAKE["not_run"]({"catapult.top-eigenspace": ["svhn", "svhn-cnn"]})
    assert line.startswith("Not run: the full setting takes ")
    assert line.endswith(" on one H200; data: svhn")
    assert MAKE["not_run"]({"rank.vision": ["cifar100"]}) == ["Not run: it needs a GPU; data: cifar100"]


def test_a_smaller_setting_names_its_data():
    def size(preset: str, claim: str = "rank.vision/gradual-key-query") -> str:
        return MAKE["_size"](Judgment(claim, "as printed", {preset: "holds"}))

    assert size("small") == "small (data: digits)"
    assert size("full") == "full"
    assert size("quick", "edge.product/balanced") == "quick"
