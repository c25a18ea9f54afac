"""Fingerprints of the code that a step of an experiment depends on: a checksum of everything that its method reaches.

A stored step is reused only while that code is the same, so that no verdict outlives the code that reached it. The code
is followed definition by definition: the method, the members of the experiment and the functions, classes and constants
of dynascope that it names, and what those name in turn. Comments, layout, docstrings, annotations, descriptions and the
wording of errors do not count. The lab does not count either, except for its claims and criteria: it executes
experiments and affects no number.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from dynascope.lab import sources
from dynascope.lab.experiment import Experiment, Fields, Measurement
from dynascope.lab.files import checksum
from dynascope.lab.sources import (
    SourceFile,
    defined_names,
    file_age,
    local_imports,
    name_chains,
    parse,
    read_source,
    resolve,
)

STEPS = {
    "measure": (),
    "predict": ("measure",),
    "reduce": ("measure", "predict"),
    "judge": ("reduce",),
    "draw": ("reduce",),
}
"""The steps in their order, each with the steps whose results it uses."""
ALONGSIDE = {
    "measure": ("matmul_precision", "data_sets", "measurements"),
    "judge": ("known_failures",),
    "draw": ("card",),
}
"""Other members of an experiment that affect the result of a step."""
STYLE = {"draw": ("dynascope.figures.HOUSE_STYLE",)}
"""The style that the lab itself adds to a step."""
DESCRIBING = ("describe_probe", "describe_trace")
"""Functions that attach words, and return their first argument."""
JUDGING = ("dynascope.lab.claims", "dynascope.lab.criteria")

Kind = type[Experiment] | type[Measurement]

_known: dict[Kind, tuple[dict[Path, tuple[int, int]], dict[str, str]]] = {}


def fingerprints(kind: Kind) -> dict[str, str]:
    """For each step, a checksum of its code and of the steps before it. All are empty for an experiment that is not in
    a file (a notebook, a shell). A measurement has the first step only."""
    ages, sums = _known.get(kind, ({}, {}))
    if sums and all(path.exists() and file_age(path) == age for path, age in ages.items()):
        return dict(sums)
    homes = [_home(base) for base in _bases(kind)]
    if not homes or homes[0] is None:
        return dict.fromkeys(STEPS, "")
    sums, files = {}, set[Path]()
    for step, before in STEPS.items():
        reached = _reach(kind, (step, *ALONGSIDE.get(step, ())), STYLE.get(step, ()))
        files |= {each.file.path for each in reached.values()}
        code = [f"{key}: {_as_text(node)}" for key, each in sorted(reached.items()) for node in each.statements]
        sums[step] = checksum("\n".join([*code, *(sums[name] for name in before)]).encode())
    _known[kind] = ({path: file_age(path) for path in files}, sums)
    return dict(sums)


def code_of(kind: Kind, step: str) -> Iterator[ast.stmt]:
    """The statements that a step of an experiment depends on; none for an experiment that is not in a file."""
    homes = [_home(base) for base in _bases(kind)]
    if homes and homes[0] is not None:
        for reached in _reach(kind, (step, *ALONGSIDE.get(step, ()))).values():
            yield from reached.statements


def _as_text(part: object) -> str:
    """A syntax tree as text, the same in every version of Python: empty fields and empty pieces of f-strings are left
    out, since versions differ in them."""
    if isinstance(part, ast.JoinedStr):
        part = ast.JoinedStr([piece for piece in part.values if getattr(piece, "value", None) != ""])
    if isinstance(part, ast.AST):
        fields = [f"{name}={_as_text(value)}" for name, value in ast.iter_fields(part) if value not in (None, [])]
        return f"{type(part).__name__}({', '.join(fields)})"
    return f"[{', '.join(map(_as_text, part))}]" if isinstance(part, list) else repr(part)


class Definition(NamedTuple):
    """All statements that define a name, in a file or in a class of it."""

    file: SourceFile
    name: str
    statements: tuple[ast.stmt, ...]

    @property
    def key(self) -> str:
        return f"{self.file.name or self.file.path.name}:{self.name}"


def _reach(kind: Kind, members: tuple[str, ...], further: tuple[str, ...] = ()) -> dict[str, Definition]:
    """Every definition that these members of the experiment (and dotted names) lead to, by its key."""
    own, classes = _members(kind), {(_home(base), base.__name__) for base in _bases(kind)}
    waiting = [part for member in members for part in own.get(member, ())]
    waiting += [part for name in further for part in _definitions(name)]
    reached: dict[str, Definition] = {}
    while waiting:
        each = waiting.pop()
        if each.key in reached or (each.file, each.name) in classes:  # a class of its own counts by its used members
            continue
        reached[each.key] = each
        waiting += [Definition(each.file, f"statement {k}", (node,)) for k, node in enumerate(each.file.loose)]
        for node in each.statements:
            waiting += _definitions_named(each.file, node)
            if each.file.name.startswith("dynascope.experiments") or not each.file.name:
                waiting += [part for member in _used_members(node, own) for part in own[member]]
    return reached


def _members(kind: Kind) -> dict[str, list[Definition]]:
    """The methods and constants of the experiment and of its bases, each with all of its definitions (one may call
    another). Fields are left out: their values are in the run's configuration."""
    members: dict[str, list[Definition]] = {}
    for base in _bases(kind):
        file = _home(base)
        if file is None or base.__name__ not in file.classes():
            continue
        statements: dict[str, tuple[ast.stmt, ...]] = {}
        for part in file.classes()[base.__name__].body:
            names = [] if isinstance(part, ast.AnnAssign) else defined_names(part)
            statements |= {name: (*statements.get(name, ()), part) for name in names}
        for name, parts in statements.items():
            members.setdefault(name, []).append(Definition(file, f"{base.__name__}.{name}", parts))
    return members


def _used_members(node: ast.stmt, own: Mapping[str, object]) -> Iterator[str]:
    """Members whose names occur as attributes. A step counts only if it is called on the experiment itself."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and part.attr in own:
            itself = isinstance(part.value, ast.Name) and part.value.id in ("self", "cls")
            itself |= isinstance(part.value, ast.Call) and ast.unparse(part.value.func) == "super"
            if itself or part.attr not in STEPS:
                yield part.attr


def _definitions_named(file: SourceFile, node: ast.stmt) -> Iterator[Definition]:
    """The definitions that the code names."""
    local, chains = _names(node, file.name)
    for first, *rest in chains:
        if first in local or first in file.imported:
            yield from _definitions(".".join([local.get(first) or file.imported[first], *rest]))
        elif first in file.defined:
            yield Definition(file, first, file.defined[first])


@cache  # most of what one step or one experiment reaches, another reaches too
def _names(node: ast.stmt, package: str) -> tuple[dict[str, str], list[tuple[str, ...]]]:
    """The names that the code imports by itself, and its chains of names, each once."""
    return local_imports(node, package), list(dict.fromkeys(name_chains(node)))


def _definitions(dotted: str) -> Iterator[Definition]:
    """The definition of a dotted name of dynascope; all definitions of a module that is named by itself."""
    place = None if _is_of_lab(dotted) else resolve(dotted, _parse)
    if place is None or _is_of_lab(place[0].name):
        return
    file, rest = place
    names = rest[:1] if rest and rest[0] in file.defined else file.defined if file.name != "dynascope" else ()
    yield from (Definition(file, name, file.defined[name]) for name in names)


def _is_of_lab(dotted: str) -> bool:
    """Whether it belongs to the lab and does not judge."""
    return dotted.startswith("dynascope.lab.") and not dotted.startswith(JUDGING)


def _bases(kind: Kind) -> list[type]:
    """The class and its bases, without the lab's own."""
    known = [base for base in kind.__mro__ if issubclass(base, Fields)]
    return [base for base in known if base.__module__ != Experiment.__module__]


def _home(base: type) -> SourceFile | None:
    """The file of a class, or None if it is in none."""
    file = getattr(sys.modules.get(base.__module__), "__file__", None)
    if file is None:
        return None
    path = Path(file).resolve()
    return read_source(path, base.__module__ if path.is_relative_to(sources.PACKAGE) else "", _parse)


def _parse(path: Path, text: str) -> ast.Module:
    return _Wordless().visit(parse(text))


class _Wordless(ast.NodeTransformer):
    """Drops the parts that affect no number: docstrings, annotations of functions, the wording of errors, and the
    descriptions of probes and traces."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        describes = isinstance(node.func, ast.Name) and node.func.id in DESCRIBING and node.args
        return self.visit(node.args[0]) if describes else self.generic_visit(node)

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
