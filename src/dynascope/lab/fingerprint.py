"""Which code a step of an experiment depends on: a checksum of everything that its method reaches.

A stored step is used again only while that code is the same, so that no verdict outlives the code that reached it.
The code is followed definition by definition: the method, the members of the experiment and the functions, classes and
constants of dynascope that it names, and what those name in turn. Comments, layout, docstrings, annotations and the
wording of errors do not count. The lab does not count either, except for its claims and criteria: it carries
experiments out and shapes no number.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dynascope.lab.experiment import Experiment, Measurement
from dynascope.lab.files import checksum
from dynascope.lab.reading import parse

PACKAGE = Path(__file__).resolve().parent.parent
STEPS = {
    "measure": (),
    "predict": ("measure",),
    "reduce": ("measure", "predict"),
    "judge": ("reduce",),
    "draw": ("reduce",),
}
"""The steps in their order, and those whose results each one works on."""
ALONGSIDE = {
    "measure": ("matmul_precision", "data_sets", "measurements"),
    "judge": ("known_failures",),
    "draw": ("card",),
}
"""Other members of an experiment that shape what a step gives."""
STYLE = {"draw": ("dynascope.figures.HOUSE_STYLE",)}
"""What the lab itself adds to a step."""
JUDGING = ("dynascope.lab.claims", "dynascope.lab.criteria")

Kind = type[Experiment] | type[Measurement]

_known: dict[Kind, tuple[dict[Path, int], dict[str, str]]] = {}


def fingerprints(kind: Kind) -> dict[str, str]:
    """For each step, a checksum of its code and of the steps before it. All are empty for an experiment that is not in
    a file (a notebook, a shell). A measurement has the first step only."""
    ages, found = _known.get(kind, ({}, {}))
    if found and all(path.exists() and _age(path) == age for path, age in ages.items()):
        return dict(found)
    homes = [_home(base) for base in _bases(kind)]
    if not homes or homes[0] is None:
        return dict.fromkeys(STEPS, "")
    found, files = {}, set[Path]()
    for step, before in STEPS.items():
        reached = _reached(kind, (step, *ALONGSIDE.get(step, ())), STYLE.get(step, ()))
        files |= {module.path for module, _, _ in reached.values()}
        code = [f"{name}: {written(node)}" for name, (_, _, node) in sorted(reached.items())]
        found[step] = checksum("\n".join([*code, *(found[name] for name in before)]).encode())
    _known[kind] = ({path: _age(path) for path in files}, found)
    return dict(found)


def written(part: object) -> str:
    """A syntax tree as text, the same in every version of Python: what is empty is left out, since versions differ in
    which empty fields, and which empty pieces of f-strings, there are."""
    if isinstance(part, ast.JoinedStr):
        part = ast.JoinedStr([piece for piece in part.values if getattr(piece, "value", None) != ""])
    if isinstance(part, ast.AST):
        fields = [f"{name}={written(value)}" for name, value in ast.iter_fields(part) if value not in (None, [])]
        return f"{type(part).__name__}({', '.join(fields)})"
    return f"[{', '.join(map(written, part))}]" if isinstance(part, list) else repr(part)


@dataclass(frozen=True, eq=False)
class Module:
    """A file: what it defines and what it imports, by name, and the statements that do neither."""

    name: str
    path: Path
    defined: Mapping[str, ast.stmt]
    imported: Mapping[str, str]
    loose: tuple[ast.stmt, ...]


Reached = dict[str, tuple[Module, str, ast.stmt]]


def _reached(kind: Kind, members: tuple[str, ...], further: tuple[str, ...] = ()) -> Reached:
    """Every definition that these members of the experiment (and dotted names) lead to, without its wording."""
    own, classes = _members(kind), {(_home(base), base.__name__) for base in _bases(kind)}
    waiting = [
        *(place for member in members for place in own.get(member, ())),
        *(place for name in further for place in _resolve(name)),
    ]
    reached: Reached = {}
    while waiting:
        module, name, node = waiting.pop()
        key = f"{module.name or module.path.name}:{name}"
        if key in reached or (module, name) in classes:  # of its own classes only the members that are used
            continue
        reached[key] = (module, name, node)
        waiting += _loose(module)
        waiting += _named(module, node)
        if module.name.startswith("dynascope.experiments") or not module.name:
            waiting += [place for member in _used_members(node, own) for place in own[member]]
    return reached


def _members(kind: Kind) -> dict[str, list[tuple[Module, str, ast.stmt]]]:
    """The methods and constants of the experiment and of its bases, each with all of its definitions (one may call
    another). Fields are left out: their values are in the run's configuration."""
    found: dict[str, list[tuple[Module, str, ast.stmt]]] = {}
    for base in _bases(kind):
        module = _home(base)
        node = module.defined.get(base.__name__) if module else None
        if module is None or not isinstance(node, ast.ClassDef):
            continue
        for part in node.body:
            for name in () if isinstance(part, ast.AnnAssign) else _bound(part):
                found.setdefault(name, []).append((module, f"{base.__name__}.{name}", part))
    return found


def _used_members(node: ast.stmt, own: Mapping[str, object]) -> Iterator[str]:
    """Members whose names occur as attributes. A step counts only where it is called on the experiment itself."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and part.attr in own:
            itself = isinstance(part.value, ast.Name) and part.value.id in ("self", "cls")
            itself |= isinstance(part.value, ast.Call) and ast.unparse(part.value.func) == "super"
            if itself or part.attr not in STEPS:
                yield part.attr


def _named(module: Module, node: ast.stmt) -> Iterator[tuple[Module, str, ast.stmt]]:
    """The definitions that the code names."""
    local, chains = _names(node, module.name)
    for first, *rest in chains:
        if first in local or first in module.imported:
            yield from _resolve(".".join([local.get(first) or module.imported[first], *rest]))
        elif first in module.defined:
            yield module, first, module.defined[first]


@cache  # most of what one step or one experiment reaches, another reaches too
def _names(node: ast.stmt, package: str) -> tuple[dict[str, str], list[tuple[str, ...]]]:
    """What the code imports by itself, by name, and its chains of names, each once."""
    local: dict[str, str] = {}
    for part in ast.walk(node):
        if isinstance(part, ast.Import | ast.ImportFrom):
            local |= _imports(part, package)
    return local, list(dict.fromkeys(map(tuple, _chains(node))))


def _chains(node: ast.AST, local: frozenset[str] = frozenset()) -> Iterator[list[str]]:
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
            yield from _chains(root, local)
        elif root.id not in local:
            yield [root.id, *reversed(attributes)]
        return
    for part in ast.iter_child_nodes(node):
        yield from _chains(part, local)


def _resolve(dotted: str) -> Iterator[tuple[Module, str, ast.stmt]]:
    """The definition of a dotted name, through re-exports; all definitions of a module that is named by itself."""
    if dotted.partition(".")[0] != "dynascope" or (dotted.startswith("dynascope.lab.") and not _judges(dotted)):
        return
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        module = _module(".".join(parts[:length]))
        if module is None:
            continue
        rest = parts[length:]
        if rest and rest[0] in module.defined:
            yield module, rest[0], module.defined[rest[0]]
        elif rest and rest[0] in module.imported:
            yield from _resolve(".".join([module.imported[rest[0]], *rest[1:]]))
        elif module.name != "dynascope":
            yield from ((module, name, node) for name, node in module.defined.items())
        return


def _judges(dotted: str) -> bool:
    return dotted.startswith(JUDGING)


def _loose(module: Module) -> Iterator[tuple[Module, str, ast.stmt]]:
    """What a module does when it is imported."""
    for number, node in enumerate(module.loose):
        yield module, f"statement {number}", node


def _bases(kind: Kind) -> list[type]:
    """The class and those it is made of, without the lab's own."""
    known = [base for base in kind.__mro__ if issubclass(base, (Experiment, Measurement))]
    return [base for base in known if base.__module__ != Experiment.__module__]


def _home(base: type) -> Module | None:
    """The module of a class, or None where that is not a file."""
    file = getattr(sys.modules.get(base.__module__), "__file__", None)
    if file is None:
        return None
    path = Path(file).resolve()
    return _read(path, base.__module__ if path.is_relative_to(PACKAGE) else "", _age(path))


def _module(dotted: str) -> Module | None:
    place = PACKAGE.joinpath(*dotted.split(".")[1:])
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file():
            return _read(path, dotted, _age(path))
    return None


@cache
def _read(path: Path, name: str, age: int) -> Module:
    tree = _Wordless().visit(parse(path.read_text(encoding="utf-8")))
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    defined: dict[str, ast.stmt] = {}
    imported: dict[str, str] = {}
    loose: list[ast.stmt] = []
    for node in tree.body:
        imports = [part for part in ast.walk(node) if isinstance(part, ast.Import | ast.ImportFrom)]
        if isinstance(node, ast.Import | ast.ImportFrom | ast.If) and imports:
            for part in imports:
                imported |= _imports(part, package)
        elif bound := list(_bound(node)):
            defined |= dict.fromkeys(bound, node)
        elif not isinstance(node, ast.Pass):
            loose.append(node)
    return Module(name, path, defined, imported, tuple(loose))


def _imports(node: ast.Import | ast.ImportFrom, package: str) -> dict[str, str]:
    """The names that an import binds, and what they stand for."""
    if isinstance(node, ast.Import):
        return {
            alias.asname or alias.name.partition(".")[0]: alias.name if alias.asname else alias.name.partition(".")[0]
            for alias in node.names
        }
    above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    base = ".".join([*above, *([node.module] if node.module else [])])
    return {alias.asname or alias.name: f"{base}.{alias.name}" for alias in node.names}


def _bound(node: ast.stmt) -> Iterator[str]:
    """The names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))


class _Wordless(ast.NodeTransformer):
    """Drops what shapes no number: docstrings, annotations of functions, and the wording of errors."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        self.generic_visit(node)
        node.body = node.body or [ast.Pass()]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.generic_visit(node)
        node.body = node.body or [ast.Pass()]
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return ast.Raise(raised, None)


def _age(path: Path) -> int:
    """What changes when the file does: the key under which things read from it are remembered."""
    return path.stat().st_mtime_ns
