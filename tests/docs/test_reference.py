"""The reference lists every public name, and says something about each."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_reference_is_up_to_date():
    written = (DOCS / "reference.md").read_text(encoding="utf-8")
    assert written == runpy.run_path(str(DOCS / "make_reference.py"))["reference"](), "run `make reference`"


def test_every_public_name_has_a_docstring():
    page = runpy.run_path(str(DOCS / "make_reference.py"))["reference"]()
    assert re.findall(r"^- `(.*)`: *$", page, re.MULTILINE) == []
