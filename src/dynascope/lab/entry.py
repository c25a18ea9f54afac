"""An experiment's entry in the catalog, read from its source text, so that finding experiments imports none of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from dynascope.lab.errors import UsageError, one_line, plain
from dynascope.lab.sources import SourceFile, read_source, resolve

LONGEST_ID = 100
_WORD = "[a-z0-9]+(?:-[a-z0-9]+)*"
_ID = re.compile(rf"{_WORD}(?:\.{_WORD})*")
_LOOKS_LIKE_ONE = re.compile(r"^[ \t]+id\b[^=\n]*=\s*([\"'])([^\"'\n]*)\1", re.MULTILINE)
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Entry:
    """An experiment as its source text describes it."""

    id: str
    title: str
    path: Path
    class_name: str
    module: str | None
    """The dotted name of the module, or None for a user's own file."""
    document: str = ""
    place: str = ""
    cost: Mapping[str, float] = field(default_factory=dict)
    presets: tuple[str, ...] = ()
    origin: str = ""
    """The folder or installed package in which a user's experiment was found by its id; empty for those of dynascope
    and for a file that was given by its name."""

    @property
    def address(self) -> str:
        """The argument of `dynascope run` that names this experiment, in any process on this machine."""
        return self.id if self.module else f"{self.path}::{self.id}"


def wrong_id(name: str) -> str:
    """The problem with an id, which is also the name of a folder; "" if there is none."""
    if _ID.fullmatch(name) and len(name) <= LONGEST_ID:
        return ""
    return f"an id is lower-case words with dots and dashes, such as 'mine.two-layers'; got '{plain(name)}'"


def ids_in(text: str) -> list[str]:
    """The ids that a text seems to define: all that it does define, and perhaps more, at a hundredth of the cost of
    parsing it."""
    return [match[2] for match in _LOOKS_LIKE_ONE.finditer(text)]


def read_entries(path: Path, module: str | None, origin: str = "") -> list[Entry]:
    """The experiments that a file defines: its classes with a literal id."""
    try:
        file = read_source(path, module or "")
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"cannot read {path}: {one_line(error)}") from error
    entries = []
    for node in file.classes().values():
        values = _class_variables(node)
        id = _literal(values.get("id"), str)
        if id is None:
            continue
        title = (ast.get_docstring(node) or node.name).splitlines()[0]
        costs = _literal(values.get("cost"), dict) or {}
        cost = {str(key): float(value) for key, value in costs.items() if isinstance(value, int | float)}
        source, presets = _source(values.get("source"), file), _keys(values.get("presets"))
        entries.append(Entry(id, title, path, node.name, module, *source, cost, presets, origin))
    return entries


def _class_variables(node: ast.ClassDef) -> dict[str, ast.expr]:
    values: dict[str, ast.expr] = {}
    for line in node.body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            values[line.targets[0].id] = line.value
        elif isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.value:
            values[line.target.id] = line.value
    return values


def _source(node: ast.expr | None, file: SourceFile) -> tuple[str, str]:
    """The document and the place in it."""
    if not isinstance(node, ast.Call):
        return "", ""
    given = dict(zip(("document", "place"), node.args, strict=False)) | {word.arg: word.value for word in node.keywords}
    document = given.get("document")
    if isinstance(document, ast.Name):
        document = _constant(document.id, file)
    return _literal(document, str) or "", _literal(given.get("place"), str) or ""


def _constant(name: str, file: SourceFile) -> ast.expr | None:
    """The value of a name that is assigned in this file, or in the module of dynascope from which it is imported."""
    if name in file.imported and (there := resolve(file.imported[name])):
        file, (name, *_) = there[0], there[1] or [""]
    (*_, last) = file.defined.get(name) or (None,)
    return last.value if isinstance(last, ast.Assign) else None


def _literal(node: ast.expr | None, kind: type[_Value]) -> _Value | None:
    try:
        value = ast.literal_eval(node) if node else None
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, kind) else None


def _keys(node: ast.expr | None) -> tuple[str, ...]:
    if isinstance(node, ast.Call):
        return tuple(keyword.arg for keyword in node.keywords if keyword.arg)
    if not isinstance(node, ast.Dict):
        return ()
    return tuple(word for key in node.keys if (word := _literal(key, str)))
