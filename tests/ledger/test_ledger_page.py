"""The page of the ledger and the verdicts in the package are those that the evidence gives."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

from dynascope.ledger import statements
from dynascope.ledger.verdicts import RECORD

DOCS = Path(__file__).resolve().parents[2] / "docs"
MAKE = runpy.run_path(str(DOCS / "make_ledger.py"))


def test_the_verdicts_in_the_package_are_those_of_the_evidence():
    assert json.loads(RECORD.read_text(encoding="utf-8")) == MAKE["record"](), "run `make evidence`"


def test_the_page_is_what_the_script_writes():
    assert (DOCS / "ledger.md").read_text(encoding="utf-8") == MAKE["page"](), "run `make evidence`"


def test_the_counts_add_up_to_all_statements():
    page = MAKE["page"]().splitlines()
    counts = [int(cell) for cell in next(line for line in page if line.startswith("| all |")).split("|")[2:-1]]
    assert sum(counts[:-1]) == counts[-1] == len(statements())


def test_the_largest_size_is_last():
    sizes = {"full": (1, "a"), "quick": (9, "b"), "gpu": (2, "c"), "code": (1, "d")}
    assert list(MAKE["_by_size"](sizes)) == ["quick", "code", "gpu", "full"]
