"""What the source text of a file says of its experiments, so that finding them imports none of them."""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from dynascope.lab.errors import UsageError, one_line, plain

_PARSING = threading.Lock()
PACKAGE = Path(__file__).resolve().parent.parent
LONGEST_ID = 100
_WORD = "[a-z0-9]+(?:-[a-z0-9]+)*"
_ID = re.compile(rf"{_WORD}(?:\.{_WORD})*")
_LOOKS_LIKE_ONE = re.compile(r"^[ \t]+id\b[^=\n]*=\s*([\"'])([^\"'\n]*)\1", re.MULTILINE)
_FUNCTION = re.compile(r"^([ \t]*)(?:async )?def \w+\(.*\n(?:(?:\1[ \t]+.*|\1\).*|[ \t]*)\n)*", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """What the source text says about one experiment."""

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
    """Where an own experiment is found by its id: a folder, or an installed package. Empty for those of dynascope, and
    for a file that is found by its name only."""

    @property
    def address(self) -> str:
        """The argument of `dynascope run` that names this experiment, in any process on this machine."""
        return self.id if self.module else f"{self.path}::{self.id}"


def wrong_id(name: str) -> str:
    """What is wrong with an id, which is also the name of a folder; empty where nothing is."""
    if _ID.fullmatch(name) and len(name) <= LONGEST_ID:
        return ""
    return f"an id is lower-case words with dots and dashes, such as 'mine.two-layers'; got '{plain(name)}'"


def ids_in(text: str) -> list[str]:
    """The ids that a text seems to define: all of those that it does, at a hundredth of the cost of parsing it."""
    return [found[2] for found in _LOOKS_LIKE_ONE.finditer(text)]


def read(path: Path, module: str | None, origin: str = "") -> list[Entry]:
    """The experiments that a file defines: its classes with a literal id."""
    try:
        return list(_defined(path, module, origin, path.read_text(encoding="utf-8")))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"cannot read {path}: {one_line(error)}") from error


def parse(text: str) -> ast.Module:
    """The syntax tree, one thread at a time: Python 3.11's parser counts its recursion for all threads together."""
    with _PARSING:
        return ast.parse(text)


@lru_cache(maxsize=1024)
def _defined(path: Path, module: str | None, origin: str, text: str) -> tuple[Entry, ...]:
    """The experiments in the text of a file, which is parsed again only when it has changed."""
    tree = _without_functions(text) if path.is_relative_to(PACKAGE) else parse(text)
    found = []
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        said = _class_variables(node)
        name = _literal(said.get("id"), str)
        if name is None:
            continue
        document, place = _source(said.get("source"), tree)
        title = (ast.get_docstring(node) or node.name).splitlines()[0]
        costs = _literal(said.get("cost"), dict) or {}
        cost = {str(key): float(value) for key, value in costs.items() if isinstance(value, int | float)}
        presets = _keys(said.get("presets"))
        found.append(Entry(name, title, path, node.name, module, document, place, cost, presets, origin))
    return tuple(found)


def _without_functions(text: str) -> ast.Module:
    """The syntax tree without what functions do, which is most of a text and of the time that parsing it takes."""
    try:
        return parse(_FUNCTION.sub(r"\1def _(): pass\n", text))
    except SyntaxError:  # a string that looks like code
        return parse(text)


def _class_variables(node: ast.ClassDef) -> dict[str, ast.expr]:
    said: dict[str, ast.expr] = {}
    for line in node.body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            said[line.targets[0].id] = line.value
        elif isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.value:
            said[line.target.id] = line.value
    return said


def _source(node: ast.expr | None, tree: ast.Module) -> tuple[str, str]:
    if not isinstance(node, ast.Call):
        return "", ""
    given = dict(zip(("document", "place"), node.args, strict=False)) | {word.arg: word.value for word in node.keywords}
    document = given.get("document")
    if isinstance(document, ast.Name):
        document = _constant(document.id, tree)
    return _literal(document, str) or "", _literal(given.get("place"), str) or ""


def _constant(name: str, tree: ast.Module) -> ast.expr | None:
    """The value of a name: assigned in this module, or in the module of experiments it is imported from."""
    for line in tree.body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name) and line.targets[0].id == name:
            return line.value
        if isinstance(line, ast.ImportFrom) and name in (alias.name for alias in line.names):
            return _imported(name, PACKAGE.parent / Path(*(line.module or "").split(".")).with_suffix(".py"))
    return None


@lru_cache(maxsize=1024)
def _imported(name: str, path: Path) -> ast.expr | None:
    return _constant(name, parse(path.read_text(encoding="utf-8"))) if path.is_file() else None


def _literal(node: ast.expr | None, kind: type) -> Any:
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
