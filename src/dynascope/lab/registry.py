"""The catalog: experiments found by reading source text, so that listing them imports none of them."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynascope.lab.errors import UsageError, nearest, one_line
from dynascope.lab.files import digest_of

if TYPE_CHECKING:  # importing it would cost `dynascope list` its quick answer
    from dynascope.lab.experiment import Experiment

_PARSING = threading.Lock()
EXPERIMENTS = Path(__file__).resolve().parent.parent / "experiments"


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

    @property
    def address(self) -> str:
        """The argument of `dynascope run` that names this experiment."""
        return self.id if self.module else f"{self.path}::{self.id}"


def entries(pattern: str = "*") -> list[Entry]:
    """The experiments of the package whose id matches the glob, by id."""
    found: dict[str, Entry] = {}
    for path in sorted(EXPERIMENTS.rglob("*.py")):
        parts = path.relative_to(EXPERIMENTS).with_suffix("").parts
        for entry in _read(path, ".".join(("dynascope", "experiments", *parts))):
            if entry.id in found:
                raise UsageError(f"two experiments are called {entry.id}: {found[entry.id].path} and {path}")
            found[entry.id] = entry
    return sorted((entry for entry in found.values() if fnmatchcase(entry.id, pattern)), key=lambda entry: entry.id)


def match(patterns: Iterable[str]) -> list[Entry]:
    """The experiments that ids, globs and a user's own files (`mine.py`, or `mine.py::id`) name, in that order."""
    everything = entries()
    chosen: dict[str, Entry] = {}
    for pattern in patterns:
        name, is_file, within = _split(pattern)
        pool = _own(Path(name)) if is_file else everything
        glob = within if is_file else name
        hits = [entry for entry in pool if fnmatchcase(entry.id, glob)]
        if not hits:
            ids = [entry.id for entry in pool]
            place = f" in {name}" if is_file else ""
            hint = nearest(glob, ids) or "; `dynascope list` shows them all"
            if any(name.startswith(f"{glob}.") for name in ids):
                hint = f": it is a system, whose experiments are '{glob}.*'"
            raise UsageError(f"no experiment {glob!r}{place}{hint}")
        chosen.update((entry.id, entry) for entry in hits)
    return list(chosen.values())


def of_place(found: Iterable[Entry], place: str) -> list[Entry]:
    """Those whose source names a place such as "Figure 5" (also as part of "Figures 4-6", or by its panel 5a)."""
    wanted = named_places(place if re.match(r"[A-Za-z]+\.? *[A-Z]?[.\d]", place) else f"Figure {place}")
    if not wanted:
        raise UsageError(f"--figure must be a place in a document, such as 'Figure 5' or 'Theorem 4.1'; got {place!r}")
    hits = []
    for entry in found:
        named = named_places(entry.place)
        if any(
            kind == other and re.fullmatch(re.escape(label) + "[a-z]?", name)
            for kind, label in wanted
            for other, name in named
        ):
            hits.append(entry)
    if not hits:
        raise UsageError(f"no experiment is on {place!r}; `dynascope list` shows the source of each")
    return hits


_LABEL = r"(?:[A-Z]?\.?\d+(?:\.\d+)*[a-z]?|[A-Z]\b)"
_JOINED = re.compile(rf"([A-Za-z]+?)s? ((?:{_LABEL})(?:(?:, | and |, and |-|–| to )(?:{_LABEL}))*)")


def named_places(text: str) -> set[tuple[str, str]]:
    """The places a text names, as (kind, label): "Figures 4.2, C.2-C.4" names four figures."""
    found: set[tuple[str, str]] = set()
    for word, labels in _JOINED.findall(text):
        kind, last = word.lower().replace("appendice", "appendix"), ""
        for join, label in re.findall(rf"(, and |, | and |-|–| to |^)({_LABEL})", labels):
            found.add((kind, label))
            head, low = _numbered(last)
            other, high = _numbered(label)
            if join in ("-", "–", " to ") and head == other and low is not None and high is not None:
                found |= {(kind, f"{head}{number}") for number in range(low, high)}
            last = label
    return found


def _numbered(label: str) -> tuple[str, int | None]:
    """A label as its beginning and its last number: C.12 is ("C.", 12)."""
    parts = re.fullmatch(r"(.*?)(\d+)[a-z]?", label)
    return (parts[1], int(parts[2])) if parts else (label, None)


def load(address: str | Entry) -> type[Experiment]:
    """The experiment's class, importing its module."""
    entry = address if isinstance(address, Entry) else _single(address)
    try:
        module = importlib.import_module(entry.module) if entry.module else _import_file(entry.path)
    except Exception as error:  # anything may happen while a user's own file is imported
        raise UsageError(f"cannot import {entry.path}: {one_line(error)}") from error
    return getattr(module, entry.class_name)


def entry_of(experiment: type[Experiment]) -> Entry | None:
    """The catalog's entry of a class, or None where its source is not a file (a notebook, a shell)."""
    file = getattr(sys.modules.get(experiment.__module__), "__file__", None)
    if file is None:
        return None
    path = Path(file).resolve()
    module = experiment.__module__ if path.is_relative_to(EXPERIMENTS) else None
    return next((entry for entry in _read(path, module) if entry.id == experiment.id), None)


def parse(text: str) -> ast.Module:
    """The syntax tree, one thread at a time: Python 3.11's parser counts its recursion for all threads together."""
    with _PARSING:
        return ast.parse(text)


def _single(address: str) -> Entry:
    hits = match([address])
    if len(hits) > 1:
        raise UsageError(
            f"{address!r} matches {len(hits)} experiments, but one is needed: {hits[0].id}, {hits[1].id}, ..."
        )
    return hits[0]


def _split(pattern: str) -> tuple[str, bool, str]:
    name, _, within = pattern.partition("::")
    return name, name.endswith(".py"), within or "*"


def _own(path: Path) -> list[Entry]:
    if not path.is_file():
        raise UsageError(f"no such file: {path}")
    found = _read(path.resolve(), None)
    if not found:
        raise UsageError(f'{path} holds no experiment: a class with a literal id = "..."')
    return found


def _import_file(path: Path) -> Any:
    name = f"dynascope_own_{digest_of(str(path))}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def _read(path: Path, module: str | None) -> list[Entry]:
    """The experiments a file defines: its classes with a literal id."""
    try:
        return list(_defined(path, module, path.read_text(encoding="utf-8")))
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {one_line(error)}") from error


@lru_cache(maxsize=1024)
def _defined(path: Path, module: str | None, text: str) -> tuple[Entry, ...]:
    """The experiments in the text of a file, which is parsed again only when it has changed."""
    tree = parse(text)
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
        found.append(Entry(name, title, path, node.name, module, document, place, cost, _keys(said.get("presets"))))
    return tuple(found)


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
            path = EXPERIMENTS.parent.parent / Path(*(line.module or "").split(".")).with_suffix(".py")
            return _constant(name, parse(path.read_text(encoding="utf-8"))) if path.is_file() else None
    return None


def _literal(node: ast.expr | None, kind: type) -> Any:
    try:
        value = ast.literal_eval(node) if node else None
    except ValueError:
        return None
    return value if isinstance(value, kind) else None


def _keys(node: ast.expr | None) -> tuple[str, ...]:
    if isinstance(node, ast.Call):
        return tuple(keyword.arg for keyword in node.keywords if keyword.arg)
    if not isinstance(node, ast.Dict):
        return ()
    return tuple(word for key in node.keys if (word := _literal(key, str)))
