"""An experiment's class without its methods, so that its fields are known without importing what it computes with.

The statements that define the fields and class variables are taken from the source text and run, with what they name:
constants and base classes of the same file and of dynascope's, and names of the light modules below. Where they need
more, there is no outline, and the class has to be loaded.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from dynascope.lab.reading import PACKAGE, Entry, parse

if TYPE_CHECKING:
    from dynascope.lab.experiment import Experiment

LIGHT = {"abc", "collections", "collections.abc", "dataclasses", "enum", "math", "pathlib", "typing", "pydantic"} | {
    "dynascope.lab.experiment",
    "dynascope.lab.claims",
}
"""The modules that are imported as they are."""
PLAIN = (ast.ClassDef, ast.FunctionDef, ast.Assign, ast.AnnAssign, ast.AugAssign)
"""The statements that are understood. A name that any other may change, such as a call or a loop, has no outline."""


class NoOutlineError(Exception):
    """The class cannot be had without its methods, or without modules that take a while to import."""


def outline(entry: Entry) -> type[Experiment] | None:
    """The class as far as `dynascope show` needs it, or None where it has to be loaded."""
    from dynascope.lab.experiment import Experiment

    try:
        kind: Any = _Module(entry.path, {}).value(entry.class_name)
    except Exception:  # whatever is wrong with it is said when it is loaded
        return None
    if not (inspect.isclass(kind) and issubclass(kind, Experiment) and kind.id == entry.id):
        return None
    return kind if hasattr(kind, "source") and hasattr(kind, "control") else None


class _Module:
    """A file, of which only those definitions are run whose values are asked for."""

    def __init__(self, path: Path, others: dict[Path, _Module]):
        self.others = others
        others[path] = self
        self.names: dict[str, Any] = {"__name__": f"outline of {path.stem}"}
        self.lines: dict[str, list[ast.stmt]] = {}
        """For each name the statements that define it or may change it."""
        for line in parse(path.read_text(encoding="utf-8")).body:
            for name in _names_defined(line):
                self.lines.setdefault(name, []).append(line)

    def value(self, name: str) -> Any:
        """The value of a name at the end of the file."""
        if name not in self.names:
            if name not in self.lines:
                raise NoOutlineError(name)
            for line in self.lines[name]:
                if isinstance(line, ast.ImportFrom):
                    self.names[name] = self._imported(line, name)
                elif isinstance(line, PLAIN):
                    self._run(line, name)
                else:
                    raise NoOutlineError(name)
        return self.names[name]

    def _imported(self, line: ast.ImportFrom, name: str) -> Any:
        original = next(alias.name for alias in line.names if (alias.asname or alias.name) == name)
        if line.module in LIGHT and not line.level:
            return getattr(importlib.import_module(line.module), original)
        path = PACKAGE.parent / Path(*(line.module or "").split("."))
        if line.level or not path.is_relative_to(PACKAGE):
            raise NoOutlineError(name)
        if path.is_dir():
            return _Names(self._other(path / f"{original}.py"))
        return self._other(path.with_suffix(".py")).value(original)

    def _other(self, path: Path) -> _Module:
        return self.others.get(path) or _Module(path, self.others)

    def _run(self, line: ast.stmt, name: str) -> None:
        if isinstance(line, ast.ClassDef):
            line = _without_methods(line)
        elif isinstance(line, ast.FunctionDef):
            line = _without_body(line)
        for needed in _names_needed(line):
            if needed not in self.names and not hasattr(builtins, needed):
                self.value(needed)
        if isinstance(line, ast.ClassDef) and self._has_fields(line):
            # or pydantic looks for the strings below the fields in every file that is imported
            line.keywords = [*line.keywords, ast.keyword("use_attribute_docstrings", ast.Constant(False))]
            ast.fix_missing_locations(line)
        # compiled without `from __future__ import annotations`: annotations are values, of the names found above
        exec(compile(ast.Module([line], []), "<outline>", "exec", dont_inherit=True), self.names)
        if isinstance(line, ast.ClassDef):
            fields = getattr(self.names[name], "model_fields", {})
            for field, words in _described(line):
                if field in fields and fields[field].description is None:
                    fields[field].description = words

    def _has_fields(self, line: ast.ClassDef) -> bool:
        """Whether it is a model of pydantic's."""
        bases = [self.names.get(base.id) for base in line.bases if isinstance(base, ast.Name)]
        return any(inspect.isclass(base) and issubclass(base, BaseModel) for base in bases)


class _Names:
    """A module of dynascope, as the statements of another name its contents."""

    def __init__(self, module: _Module):
        self.__module = module

    def __getattr__(self, name: str) -> Any:
        return self.__module.value(name)


def _names_needed(line: ast.stmt) -> set[str]:
    names = [node for node in ast.walk(line) if isinstance(node, ast.Name)]
    inside = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    inside |= {node.arg for node in ast.walk(line) if isinstance(node, ast.arg)}
    return {node.id for node in names if isinstance(node.ctx, ast.Load)} - inside


def _names_defined(line: ast.stmt) -> list[str]:
    if isinstance(line, ast.ClassDef | ast.FunctionDef):
        return [line.name]
    if isinstance(line, ast.ImportFrom):
        return [alias.asname or alias.name for alias in line.names]
    changed = line.target if isinstance(line, ast.AnnAssign | ast.AugAssign) else line
    targets = line.targets if isinstance(line, ast.Assign) else [changed]
    return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]


def _without_body(line: ast.FunctionDef) -> ast.FunctionDef:
    """A function that may be named, as a validator is, and fails where it is called."""
    return ast.parse(f"def {line.name}(_): raise NotImplementedError").body[0]  # pyright: ignore[reportReturnType]


def _without_methods(line: ast.ClassDef) -> ast.ClassDef:
    kept = [part for part in line.body if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
    if not all(isinstance(part, ast.Assign | ast.AnnAssign | ast.Expr | ast.Pass) for part in kept):
        raise NoOutlineError(line.name)
    bare = ast.ClassDef(line.name, line.bases, line.keywords, kept or [ast.Pass()], line.decorator_list)
    return ast.fix_missing_locations(ast.copy_location(bare, line))


def _described(line: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """The fields with a string below them, which describes them."""
    for part, below in zip(line.body, line.body[1:], strict=False):
        words = below.value if isinstance(below, ast.Expr) else None
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name) and isinstance(words, ast.Constant):
            yield part.target.id, inspect.cleandoc(str(words.value))
