"""An experiment's class without its methods, so that its fields are known without importing heavy libraries.

The statements that define the fields and class variables are executed, with those of the constants and base classes
that they name, in the same file and in other files of dynascope. If they need any module besides the light ones below,
there is no outline, and the class has to be loaded.
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

from dynascope.lab.entry import Entry
from dynascope.lab.sources import SourceFile, name_chains, read_source, resolve

if TYPE_CHECKING:
    from dynascope.lab.experiment import Experiment

LIGHT = {"abc", "collections", "collections.abc", "dataclasses", "enum", "math", "pathlib", "typing", "pydantic"} | {
    "dynascope.lab.experiment",
    "dynascope.lab.claims",
}
"""The light modules, which are really imported."""


class NoOutlineError(Exception):
    """The class needs its methods, or modules that are slow to import."""


def outline(entry: Entry) -> type[Experiment] | None:
    """The class without its methods, as `dynascope show` needs it, or None if it has to be loaded."""
    from dynascope.lab.experiment import Experiment

    try:
        kind: Any = _Module(read_source(entry.path), {}).value(entry.class_name)
    except Exception:  # loading the class will report the error
        return None
    if not (inspect.isclass(kind) and issubclass(kind, Experiment) and kind.id == entry.id):
        return None
    return kind if hasattr(kind, "source") and hasattr(kind, "control") else None


class _Module:
    """A file whose definitions are executed when their values are requested."""

    def __init__(self, file: SourceFile, others: dict[Path, _Module]):
        self.file, self.others = file, others
        others[file.path] = self
        self.names: dict[str, Any] = {"__name__": f"outline of {file.path.stem}"}
        self.uncertain = {chain[0] for line in file.loose for chain in name_chains(line)}
        """Names that other statements, such as calls or loops, may change."""

    def value(self, name: str) -> Any:
        """The value of a name at the end of the file."""
        if name not in self.names:
            if name in self.uncertain:
                raise NoOutlineError(name)
            if name in self.file.imported:
                self.names[name] = self._import(self.file.imported[name])
            for line in self.file.defined.get(name, ()):
                self._execute(line, name)
        if name not in self.names:
            raise NoOutlineError(name)
        return self.names[name]

    def _import(self, dotted: str) -> Any:
        module, _, name = dotted.rpartition(".")
        if dotted in LIGHT or module in LIGHT:
            light = importlib.import_module(module if module in LIGHT else dotted)
            return getattr(light, name) if module in LIGHT else light
        place = resolve(dotted)
        if place is None:
            raise NoOutlineError(dotted)
        file, rest = place
        other = self.others.get(file.path) or _Module(file, self.others)
        return other.value(rest[0]) if rest else _Names(other)

    def _execute(self, line: ast.stmt, name: str) -> None:
        if isinstance(line, ast.ClassDef):
            line = _without_methods(line)
        elif isinstance(line, ast.FunctionDef):
            line = _without_body(line)
        stored = {node.id for node in ast.walk(line) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        for needed in {chain[0] for chain in name_chains(line)} - stored:
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
            for field, words in _descriptions(line):
                if field in fields and fields[field].description is None:
                    fields[field].description = words

    def _has_fields(self, line: ast.ClassDef) -> bool:
        """Whether it is a pydantic model."""
        bases = [self.names.get(base.id) for base in line.bases if isinstance(base, ast.Name)]
        return any(inspect.isclass(base) and issubclass(base, BaseModel) for base in bases)


class _Names:
    """A module of dynascope, whose attributes are evaluated when they are requested."""

    def __init__(self, module: _Module):
        self.__module = module

    def __getattr__(self, name: str) -> Any:
        return self.__module.value(name)


def _without_body(line: ast.FunctionDef) -> ast.stmt:
    """A function that may be named, as a validator is, and fails if it is called."""
    return ast.parse(f"def {line.name}(_): raise NotImplementedError").body[0]


def _without_methods(line: ast.ClassDef) -> ast.ClassDef:
    kept = [part for part in line.body if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
    if not all(isinstance(part, ast.Assign | ast.AnnAssign | ast.Expr | ast.Pass) for part in kept):
        raise NoOutlineError(line.name)
    bare = ast.ClassDef(line.name, line.bases, line.keywords, kept or [ast.Pass()], line.decorator_list)
    return ast.fix_missing_locations(ast.copy_location(bare, line))


def _descriptions(line: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """The fields with a string below them, which describes them."""
    for part, below in zip(line.body, line.body[1:], strict=False):
        words = below.value if isinstance(below, ast.Expr) else None
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name) and isinstance(words, ast.Constant):
            yield part.target.id, inspect.cleandoc(str(words.value))
