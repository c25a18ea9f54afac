"""A class without its methods says of its fields what the class itself says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic_core import to_jsonable_python

from dynascope.lab import registry, sources
from dynascope.lab.entry import read_entries
from dynascope.lab.field_types import describe_type
from dynascope.lab.outline import outline

HEAD = "from pydantic import Field\nfrom dynascope.lab.experiment import Experiment, Source\n"
CLASS = """
class Mine(Experiment):
    '''What is it?'''

    id = "mine.it"
    source = Source("A book", "Figure 1")
    control = {}
    presets = {"quick": SIZES}
    sizes: tuple[int, ...] = (1,)
    '''How large.'''
"""


def said(kind) -> dict:
    """What `dynascope show` says of a class."""
    fields = {
        name: (describe_type(field), field.default, field.description) for name, field in kind.model_fields.items()
    }
    texts = (kind.id, kind.__doc__, str(kind.source), kind.notes)
    return to_jsonable_python([texts, kind.cost, kind.presets, kind.control, fields], fallback=str)


@pytest.mark.slow
@pytest.mark.parametrize("entry", registry.entries(), ids=lambda entry: entry.id)
def test_an_outline_says_what_the_class_says(entry):
    found = outline(entry)
    assert found is not None, "it has to be loaded, which takes a while"
    assert said(found) == said(registry.load(entry))


@pytest.mark.parametrize("entry", registry.entries()[::10], ids=lambda entry: entry.id)
def test_a_text_is_read_the_same_without_its_functions(entry, monkeypatch: pytest.MonkeyPatch):
    short = read_entries(entry.path, entry.module)
    monkeypatch.setattr(sources, "_FUNCTION", re.compile("(no function)(is shortened)"))
    sources._read.cache_clear()
    assert read_entries(entry.path, entry.module) == short


@pytest.fixture
def outlined(tmp_path: Path):
    def outlined(text: str):
        path = tmp_path / "mine.py"
        path.write_text(HEAD + text)
        (entry,) = read_entries(path, None)
        return outline(entry)

    return outlined


def test_constants_that_are_changed_have_their_last_value(outlined):
    text = 'SIZES = {"sizes": (2,)}\nSIZES["sizes"] = (3,)\nSIZES |= {"precision": "float64"}\n'
    kind = outlined(text + CLASS)
    assert kind.presets == {"quick": {"sizes": (3,), "precision": "float64"}}
    assert kind.model_fields["sizes"].description == "How large."


def test_methods_and_what_they_need_are_left_out(outlined):
    text = "import nowhere\n\n\ndef helper(x):\n    return nowhere.y\n\n\nSIZES = {}\n"
    assert outlined(text + CLASS + "\n    def measure(self, seed):\n        return helper(seed)\n").id == "mine.it"


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\nSIZES = {'sizes': np.arange(3)}\n",
        "from numpy import arange\nSIZES = {'sizes': arange(3)}\n",
        "SIZES = {}\nSIZES.update(sizes=(3,))\n",
        "SIZES = {}\nfor size in (1, 2):\n    SIZES['sizes'] = (size,)\n",
        "def made():\n    return {}\n\n\nSIZES = made()\n",
        "from .near import SIZES\n",
        "",
    ],
)
def test_there_is_no_outline_where_a_value_is_not_known(outlined, text):
    assert outlined(text + CLASS) is None
