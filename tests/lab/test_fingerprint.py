"""A step's fingerprint covers the code that its method reaches, and nothing else."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dynascope.lab import fingerprint as module, registry, sources
from dynascope.lab.fingerprint import STEPS, fingerprints

MINE = """
import dynascope as ds
from dynascope.lab.criteria import below
from dynascope.theory import closed_form
import dynascope.probes.order as order
from dynascope.figures import panels

RATE, BOUND = 2, 3
COLOR = "red"

class Mine:
    '''A question?'''
    notes = "a note"
    card = "a figure"
    presets = {"quick": {"rate": 1}}
    rate: float = 0.5

    def measure(self, seed):
        '''It runs.'''
        if seed < 0:
            raise ValueError("negative")
        return order.first(RATE) + self.helper()
    def helper(self): return ds.theory.deep.slope()
    def predict(self, measured): return closed_form.solve(measured)
    def reduce(self, measured, predicted): return measured
    def judge(self, reduced):
        yield below("a", "It is small", reduced, BOUND)
    def draw(self, measured, predicted, reduced): return panels(COLOR)
"""
PACKAGE = {
    "__init__.py": "from dynascope import theory as theory",
    "lab/criteria.py": "def below(id, statement, value, limit): return value < limit",
    "lab/other.py": "x = 1",
    "probes/__init__.py": "",
    "probes/order.py": "LIMIT = 4\nTABLE = {1: 2}\nTABLE[0] = 4\n"
    "def first(x):\n    return x + LIMIT + TABLE[0]\ndef second(x):\n    return x",
    "theory/__init__.py": "from dynascope.theory import deep as deep",
    "theory/closed_form.py": "from .deep import factor\ndef solve(x): return factor() * x",
    "theory/deep.py": "def slope(): return 1\ndef factor(): return 2\ndef unused(): return 3",
    "figures/__init__.py": "from dynascope.figures.forms import panels\nHOUSE_STYLE = {}",
    "figures/forms.py": "def panels(color): return color",
}


@pytest.fixture
def mine(tmp_path: Path, walk, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An experiment's file beside a package of its own; `edit` changes a file and returns the steps that changed."""
    package = tmp_path / "dynascope"
    monkeypatch.setattr(sources, "PACKAGE", package)
    holder = ModuleType("mine")
    holder.__file__ = str(tmp_path / "mine.py")
    monkeypatch.setitem(sys.modules, "mine", holder)
    experiment = type("Mine", (walk,), {"id": "mine", "__module__": "mine"})
    monkeypatch.setattr(module, "_bases", lambda kind: [kind])
    ages = iter(range(1, 1000))
    last: dict[str, str] = {}

    def edit(name: str, old: str, new: str) -> list[str]:
        path = tmp_path / name
        text = path.read_text()
        assert old in text, old
        path.write_text(text.replace(old, new))
        os.utime(path, ns=(0, next(ages)))
        now = fingerprints(experiment)
        changed = [step for step in STEPS if now[step] != last[step]]
        last.update(now)
        return changed

    for name, text in PACKAGE.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    (tmp_path / "mine.py").write_text(MINE)
    last.update(fingerprints(experiment))
    return edit


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("A question?", "Another?"),
        ("a note", "another note"),
        ("It runs.", "It runs well."),
        ('"negative"', '"below zero"'),
        ("RATE, BOUND", "# a comment\nRATE, BOUND"),
        ('{"rate": 1}', '{"rate": 2}'),
        ("rate: float = 0.5", "rate: float = 0.7"),
        ("def measure(self, seed):", "def measure(self, seed: int) -> float:"),
    ],
)
def test_words_notes_annotations_and_presets_do_not_count(mine, old: str, new: str):
    assert mine("mine.py", old, new) == []


def test_descriptions_count_as_what_they_describe():
    plain = module._parse(Path("plain.py"), "trace = label(records).assign_attrs(seconds=1)")
    described = module._parse(
        Path("described.py"),
        'trace = describe_trace(label(describe_probe(records, "loss")), {}).assign_attrs(seconds=1)',
    )
    assert module._as_text(plain) == module._as_text(described)


@pytest.mark.parametrize(
    ("file", "old", "new", "steps"),
    [
        ("mine.py", "RATE, BOUND = 2", "RATE, BOUND = 5", [*STEPS]),
        ("mine.py", "BOUND)", "BOUND + 1)", ["judge"]),
        ("mine.py", "It is small", "It is tiny", ["judge"]),
        ("mine.py", '"red"', '"blue"', ["draw"]),
        ("mine.py", '"a figure"', '("a figure", 1)', ["draw"]),
        ("mine.py", "return measured\n", "return 2 * measured\n", ["reduce", "judge", "draw"]),
        ("dynascope/probes/order.py", "LIMIT = 4", "LIMIT = 5", [*STEPS]),
        ("dynascope/probes/order.py", "{1: 2}", "{1: 3}", [*STEPS]),
        ("dynascope/probes/order.py", "TABLE[0] = 4", "TABLE[0] = 5", [*STEPS]),
        ("dynascope/probes/order.py", "def second(x):", "def third(x):", []),
        ("dynascope/theory/deep.py", "return 1", "return 4", [*STEPS]),
        ("dynascope/theory/deep.py", "return 2", "return 4", ["predict", "reduce", "judge", "draw"]),
        ("dynascope/theory/deep.py", "return 3", "return 4", []),
        ("dynascope/figures/forms.py", "return color", "return [color]", ["draw"]),
        ("dynascope/figures/__init__.py", "{}", '{"grid": True}', ["draw"]),
        ("dynascope/lab/criteria.py", "<", "<=", ["judge"]),
        ("dynascope/lab/other.py", "x = 1", "x = 2", []),
    ],
)
def test_what_a_step_reaches_counts_for_it_and_for_the_steps_after_it(mine, file: str, old: str, new: str, steps):
    assert mine(file, old, new) == steps


@pytest.mark.parametrize("entry", registry.entries(), ids=lambda entry: entry.id)
def test_no_experiment_measures_again_for_a_claim_a_figure_or_a_word(entry):
    """What judging and drawing reach is not part of the measurement, in any experiment; nor are words and notes."""
    kind = registry.load(entry)
    reached = {step: module._reach(kind, (step, *module.ALONGSIDE.get(step, ()))) for step in STEPS}
    measured = reached["measure"]
    assert any(key.endswith((".measure", ".measurements")) for key in measured)
    for key, each in measured.items():
        assert not key.startswith(("dynascope.figures", "dynascope.lab")), key
        assert not key.endswith((".judge", ".draw", ".notes", ".known_failures", ".presets", ".reduce")), key
        parts = [part for node in each.statements for part in ast.walk(node)]
        words = [part for part in parts if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)]
        assert not words, key
    assert not any(key.startswith("dynascope.figures") for key in reached["reduce"] | reached["judge"])
    assert not any(key.startswith("dynascope.dynamics") for key in reached["judge"]), "judging trains nothing"


def test_it_is_the_same_in_every_version_of_python():
    """Versions differ in the empty fields and the empty pieces of f-strings that their trees have."""
    code = "@f\ndef g(x, *, y=None) -> int:\n    return f'{x:<{y}}' + 'a' f'b{x}'\n"
    (tree,) = ast.parse(code).body
    assert module._as_text(tree) == (
        "FunctionDef(name='g', args=arguments(args=[arg(arg='x')], kwonlyargs=[arg(arg='y')], "
        "kw_defaults=[Constant()]), body=[Return(value=BinOp(left=JoinedStr(values=[FormattedValue("
        "value=Name(id='x', ctx=Load()), conversion=-1, format_spec=JoinedStr(values=[Constant(value='<'), "
        "FormattedValue(value=Name(id='y', ctx=Load()), conversion=-1)]))]), op=Add(), right=JoinedStr(values=["
        "Constant(value='ab'), FormattedValue(value=Name(id='x', ctx=Load()), conversion=-1)])))], "
        "decorator_list=[Name(id='f', ctx=Load())], returns=Name(id='int', ctx=Load()))"
    )
    spec = tree.body[0].value.left.values[0].format_spec  # pyright: ignore[reportAttributeAccessIssue]
    short, spec.values = module._as_text(tree), [*spec.values, ast.Constant("")]
    assert module._as_text(tree) == short
