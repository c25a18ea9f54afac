"""The page of instruments and the glossary name what exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

import dynascope
from dynascope.lab import registry

DOCS = Path(__file__).parents[2] / "docs"
ROOMS = "tasks|models|geometry|curves|probes|dynamics|theory|graphs|lm|torch|lab|figures"
IDS = {entry.id for entry in registry.entries()}


def names(page: str) -> list[str]:
    """The dotted names in code spans, without the package."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.findall(rf"`(?:ds\.|dynascope\.)?((?:{ROOMS})\.[\w.-]+|(?<=ds\.)\w+)`", text)
    return [name for name in found if name not in IDS]


def resolve(name: str) -> Any:
    """The object of a dotted name; modules are imported on the way."""
    here: Any = dynascope
    for part in name.split("."):
        if not hasattr(here, part):
            importlib.import_module(f"{here.__name__}.{part}")
        here = getattr(here, part)
    return here


@pytest.mark.parametrize("page", ["instruments.md", "glossary.md"])
def test_a_page_of_names_has_many(page: str):
    assert len(names(page)) > 30


@pytest.mark.parametrize(
    ("page", "name"), [(page, name) for page in ("instruments.md", "glossary.md") for name in sorted(set(names(page)))]
)
def test_a_name_on_a_page_exists(page: str, name: str):
    if name.startswith("torch."):
        pytest.importorskip("torch")
        pytest.importorskip(name.split(".")[1]) if name.split(".")[1] in ("lightning",) else None
    resolve(name)


def test_a_name_that_does_not_exist_is_found():
    with pytest.raises((AttributeError, ImportError)):
        resolve("geometry.no_such_name")
