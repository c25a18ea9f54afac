"""A function that needs more than eight arguments is missing a noun; only public verbs may take more."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "dynascope"
PUBLIC = {"ensemble", "descend", "flow", "central_flow", "CentralFlow", "claim", "run", "sweep", "limits"}


def long_signatures(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    owners = {id(part): node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for part in node.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if len([each for each in given if each.arg not in ("self", "cls")]) > 8:
                yield owners.get(id(node), node.name) if node.name == "__init__" else node.name


def test_no_internal_function_of_the_engine_or_the_lab_takes_more_than_eight_arguments():
    files = [path for room in ("dynamics", "lab") for path in (SOURCE / room).rglob("*.py")]
    assert {name for path in files for name in long_signatures(path.read_text(encoding="utf-8"))} <= PUBLIC


def test_the_check_counts_arguments_of_every_kind():
    assert list(long_signatures("def f(self, a, b, c, d, /, e, f, g, *, h, i): ...")) == ["f"]
    assert list(long_signatures("def f(self, a, b, c, d, /, e, f, g, *, h): ...")) == []
