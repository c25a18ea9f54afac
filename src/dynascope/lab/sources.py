"""The reader of Python source files: the names that a file defines and imports, without importing it.

The catalog (`entry`), the fields of an experiment (`outline`) and the code that a step depends on (`fingerprint`) are
all found by it.
"""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
_FUNCTION = re.compile(r"^([ \t]*)(?:async )?def (\w+)\(.*\n(?:(?:\1[ \t]+.*|\1\).*|[ \t]*)\n)*", re.MULTILINE)
_PARSING = threading.Lock()


@dataclass(frozen=True, eq=False)
class SourceFile:
    """A file's names: the statements that define each, the dotted name that each import stands for, and the
    statements that do neither."""

    name: str
    """The dotted name of the module, or "" outside of dynascope."""
    path: Path
    defined: Mapping[str, tuple[ast.stmt, ...]]
    imported: Mapping[str, str]
    loose: tuple[ast.stmt, ...]

    @classmethod
    def of_tree(cls, tree: ast.Module, path: Path, name: str) -> SourceFile:
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        defined: dict[str, tuple[ast.stmt, ...]] = {}
        imported: dict[str, str] = {}
        loose: list[ast.stmt] = []
        for node in tree.body:
            is_import = isinstance(node, ast.Import | ast.ImportFrom | ast.If)
            if is_import and (imports := local_imports(node, package)):
                imported |= imports
            elif names := defined_names(node):
                defined |= {each: (*defined.get(each, ()), node) for each in names}
            elif not isinstance(node, ast.Pass):
                loose.append(node)
        return cls(name, path, defined, imported, tuple(loose))

    def classes(self) -> dict[str, ast.ClassDef]:
        """The classes that the file defines."""
        nodes = [node for statements in self.defined.values() for node in statements]
        return {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}


def parse(text: str) -> ast.Module:
    """The syntax tree, one thread at a time: Python 3.11's parser counts its recursion for all threads together."""
    with _PARSING:
        return ast.parse(text)


def parse_definitions(path: Path, text: str) -> ast.Module:
    """The syntax tree of a file's text. For files of dynascope, function bodies are replaced by a raise: they are most
    of the text and of the parsing time."""
    try:
        short = _FUNCTION.sub(r"\1def \2(*_): raise NotImplementedError\n", text)
        return parse(short if path.is_relative_to(PACKAGE) else text)
    except SyntaxError:  # a string that looks like code
        return parse(text)


def file_age(path: Path) -> tuple[int, int]:
    """The time of the file's last change and its size: part of the key under which its names are cached."""
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size


Parser = Callable[[Path, str], ast.Module]


def read_source(path: Path, name: str = "", parser: Parser = parse_definitions) -> SourceFile:
    """The names of a file, which is parsed again only when it has changed."""
    return _read(path, name, parser, file_age(path))


@lru_cache(maxsize=4096)
def _read(path: Path, name: str, parser: Parser, age: tuple[int, int]) -> SourceFile:
    return SourceFile.of_tree(parser(path, path.read_text(encoding="utf-8")), path, name)


def module_path(dotted: str) -> Path | None:
    """The file of a module of dynascope."""
    place = PACKAGE.joinpath(*dotted.split(".")[1:])
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def resolve(dotted: str, parser: Parser = parse_definitions) -> tuple[SourceFile, list[str]] | None:
    """The file of dynascope that a dotted name leads to, through re-exports, and the names that remain: none for a
    module, else first the one that the file defines."""
    parts = dotted.split(".")
    if parts[0] != "dynascope":
        return None
    for length in range(len(parts), 0, -1):
        name, rest = ".".join(parts[:length]), parts[length:]
        path = module_path(name)
        if path is None:
            continue
        file = read_source(path, name, parser)
        if rest and rest[0] not in file.defined and rest[0] in file.imported:
            return resolve(".".join([file.imported[rest[0]], *rest[1:]]), parser)
        return file, rest
    return None


def defined_names(node: ast.stmt) -> list[str]:
    """The names that a statement defines or changes."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]


def local_imports(node: ast.AST, package: str) -> dict[str, str]:
    """The names that the imports in a piece of code bind, and the dotted names that they stand for."""
    bound: dict[str, str] = {}
    for part in ast.walk(node):
        if isinstance(part, ast.Import):
            for alias in part.names:
                top = alias.name.partition(".")[0]
                bound[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(part, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - part.level + 1] if part.level else []
            base = ".".join([*above, *([part.module] if part.module else [])])
            bound |= {alias.asname or alias.name: f"{base}.{alias.name}" for alias in part.names}
    return bound


def name_chains(node: ast.AST, local: frozenset[str] = frozenset()) -> Iterator[tuple[str, ...]]:
    """Every name with the attributes taken of it: `ds.probes.loss` gives ds, probes, loss. Names that are local to a
    function are left out."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        local |= {part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)}
        local |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    if isinstance(node, ast.Name | ast.Attribute):
        attributes, root = [], node
        while isinstance(root, ast.Attribute):
            attributes.append(root.attr)
            root = root.value
        if not isinstance(root, ast.Name):
            yield from name_chains(root, local)
        elif root.id not in local:
            yield root.id, *reversed(attributes)
        return
    for part in ast.iter_child_nodes(node):
        yield from name_chains(part, local)
