"""Every argument of every public name is described, and no section describes one that does not exist.

Public are the names that the packages re-export, the functions and classes of modules that they re-export, those of the
theory, and the names of the lab that the reference lists. A docstring names arguments in its section `Args:`, that of a
class those of `__init__`, and describes the result in `Returns:` (or `Yields:`). A field of a class without `__init__`
has a string below it (mkdocstrings looks for it there). The docstring of a class says how it is called. A method that
overrides another may leave both to that one.

A function that is named by the thing it returns needs no `Returns:` if its docstring begins with that thing: with
"The", "A" or a number word ("The largest eigenvalue of ..."), with "How", "Whether" or "Which" ("How far a curve falls
..."), with a plural ("Colors for ..."), or with a formula ("nu = eta f'' - 2"). A docstring that begins with a verb
("Train a model ...") says what the function does; it must say in `Returns:` what comes back.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import make_reference as listing

PACKAGE = listing.SOURCE / "dynascope"
ROOMS = (*listing.ROOMS, *(f"theory.{system}" for system in listing.SYSTEMS), "lab")
Function = ast.FunctionDef | ast.AsyncFunctionDef
NAMES_THE_RESULT = re.compile(
    r"(The|An?|One|Two|Three|Four|Both|All|Each|Every|No|How|Whether|Which|At which|By how much)\b"
    r"|[A-Z][a-z]+(?<!s)s\b"  # a plural noun; verbs such as "Pass" and "Process" end in a double s
    r"|[^A-Z\s]|[A-Z](?![a-z])"  # a formula
)


@pytest.mark.parametrize("room", ROOMS)
def test_every_argument_of_a_public_name_is_described(room: str):
    assert set(complaints(room)) == set()


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ('def f(x): "F.\\n\\nArgs:\\n    x: It."', []),
        ('def f(x, *more): "F.\\n\\nArgs:\\n    x: It."', ["f: *more is not described"]),
        ('def f(x): "F of x."', ["f: x is not described"]),
        ('def f(x): "F.\\n\\nArgs:\\n    x: It, with\\n        y: this.\\n    y: No."', ["f: there is no argument y"]),
        ('def f() -> int: "Do it."', ["f: Returns is missing"]),
        ('def f() -> int: "Do it.\\n\\nReturns:\\n    One."', []),
        ('def f() -> int: "The number of steps."', []),
        ('def f() -> int: "Steps between two recordings."', []),
        ("def f() -> int: \"nu = eta f'' - 2.\"", []),
        ('def f() -> int: "Count the steps."', ["f: Returns is missing"]),
        ('def f() -> int: "Process the steps."', ["f: Returns is missing"]),
        ("class F:\n    x: int\n    y: int\n    'That.'", ["F: x is not described"]),
        (
            'class F:\n    "F.\\n\\n    Args:\\n        x: It."\n    def __init__(self, x, *, y): ...',
            ["F: y is not described"],
        ),
        ("class F:\n    def g(self, x): 'G.'\n    def _h(self, x): 'H.'", ["F.g: x is not described"]),
        ("class F:\n    @property\n    def g(self) -> int: 'G.'", []),
    ],
)
def test_the_check_finds_what_is_missing(source: str, complaint: list[str]):
    (node,) = ast.parse(source).body
    assert isinstance(node, Function | ast.ClassDef)
    assert list(complaints_about(node, node.name)) == complaint


def complaints(room: str) -> Iterator[str]:
    """What the docstrings of a room leave out."""
    for file, name in public_names(room):
        for node in module(file).body:
            if isinstance(node, Function | ast.ClassDef) and (node.name == name or (not name and node.name[0] != "_")):
                yield from complaints_about(node, f"{file.relative_to(PACKAGE)}: {node.name}")


def public_names(room: str) -> Iterator[tuple[Path, str | None]]:
    """Files and the public name in each of them, or None where every name is public."""
    if room == "lab":
        for path, names in listing.LAB.items():
            yield from ((PACKAGE.joinpath("lab", *path.split(".")).with_suffix(".py"), name) for name in names)
    elif room.startswith("theory."):
        yield from ((file, None) for file in sorted(PACKAGE.joinpath(*room.split(".")).glob("[a-z]*.py")))
    else:
        for _, _, path in listing.exported(f"dynascope.{room}"):
            *home, name = path.split(".")
            whole = listing.SOURCE.joinpath(*home, f"{name}.py")
            yield (whole, None) if whole.is_file() else (listing.SOURCE.joinpath(*home).with_suffix(".py"), name)


def complaints_about(node: Function | ast.ClassDef, title: str) -> Iterator[str]:
    if isinstance(node, ast.ClassDef):
        yield from complaints_about_class(node, title)
        return
    yield from compare(arguments(node), described(node), title)
    text = ast.get_docstring(node) or ""
    nothing = node.returns is None or ast.unparse(node.returns) in ("None", "NoReturn", "Never")
    if not (nothing or NAMES_THE_RESULT.match(text) or re.search(r"^(Returns|Yields):\n", text, re.MULTILINE)):
        yield f"{title}: Returns is missing"


def complaints_about_class(node: ast.ClassDef, title: str) -> Iterator[str]:
    methods = {member.name: member for member in node.body if isinstance(member, Function)}
    if "__init__" in methods:
        yield from compare(arguments(methods["__init__"]), described(node) + described(methods["__init__"]), title)
    else:
        yield from compare([], described(node), title)
        yield from (f"{title}: {name} is not described" for name, text in fields(node).items() if not text)
    for name, method in methods.items():
        marks = {ast.unparse(mark).rpartition(".")[2] for mark in method.decorator_list}
        if not name.startswith("_") and not marks & {"property", "cached_property", "setter", "overload"}:
            overridden = any(
                isinstance(other, Function) and other.name == name for base in bases(node) for other in base.body
            )
            if not overridden or described(method):
                yield from complaints_about(method, f"{title}.{name}")


def compare(needed: list[str], known: list[str], title: str) -> Iterator[str]:
    yield from (f"{title}: {name} is not described" for name in needed if name not in known)
    yield from (f"{title}: there is no argument {name}" for name in known if name not in needed)


def arguments(node: Function) -> list[str]:
    """The names of a function's arguments, with stars, without those that begin with an underscore."""
    given = node.args
    names = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    names += [f"*{given.vararg.arg}"] if given.vararg else []
    names += [f"**{given.kwarg.arg}"] if given.kwarg else []
    return [name for name in names if name not in ("self", "cls") and not name.startswith("_")]


def fields(node: ast.ClassDef) -> dict[str, bool]:
    """The public fields of a class; True if a string below describes it."""
    body = [*node.body, None]
    return {
        member.target.id: isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        for member, after in zip(node.body, body[1:], strict=True)
        if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name)
        if not member.target.id.startswith("_") and "ClassVar" not in ast.unparse(member.annotation)
    }


def described(node: Function | ast.ClassDef) -> list[str]:
    """The names in the section `Args:` of a docstring."""
    section = re.search(r"^Args:\n((?:    .*\n|\n)*)", (ast.get_docstring(node) or "") + "\n", re.MULTILINE)
    return re.findall(r"^    (\**\w+):\s", section[1] if section else "", re.MULTILINE)


def bases(node: ast.ClassDef) -> list[ast.ClassDef]:
    """The classes of dynascope that a class is derived from, nearest first."""
    names = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
    parents = [classes()[name] for name in names if name in classes()]
    return parents + [more for parent in parents for more in bases(parent)]


@cache
def classes() -> dict[str, ast.ClassDef]:
    trees = [module(file) for file in PACKAGE.rglob("*.py") if "experiments" not in file.parts]
    return {node.name: node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}


@cache
def module(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))
