"""Which code a run depends on: checksums of an experiment's file and of every module of dynascope it leads to.

A stored run answers again only while that code is the same, so that no verdict outlives the code that reached it.
Comments and layout do not count. The lab itself does not count either: it carries experiments out, it shapes no number.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from dynascope.lab.experiment import Experiment
from dynascope.lab.files import checksum
from dynascope.lab.registry import parse

PACKAGE = Path(__file__).resolve().parent.parent
SCIENCE = ("tasks", "models", "geometry", "probes", "curves", "dynamics", "theory")
AFTERWARDS = ("predict", "judge", "draw")


def fingerprint(experiment: type[Experiment]) -> dict[str, str]:
    """`all`: the code of the whole run. `measure`: the same without the experiment's own predict, judge and draw.

    While `measure` stays the same a measurement serves again, so one may work on a claim or a figure without
    measuring anew. Both are empty for an experiment that lies in no file (a notebook, a shell).
    """
    file = getattr(sys.modules.get(experiment.__module__), "__file__", None)
    if file is None:
        return {"all": "", "measure": ""}
    here = Path(file).resolve()
    reached, waiting = {here}, [here]
    while waiting:
        new = set(_leads_to(waiting.pop())) - reached
        reached |= new
        waiting += new
    others = "".join(_code(path, _age(path)) for path in sorted(reached - {here}))
    tree = parse(here.read_text(encoding="utf-8"))
    whole = ast.dump(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            node.body = [part for part in node.body if getattr(part, "name", None) not in AFTERWARDS]
    return {name: checksum((text + others).encode()) for name, text in (("all", whole), ("measure", ast.dump(tree)))}


def _leads_to(path: Path) -> Iterator[Path]:
    """The files of dynascope that a file imports. The bare package stands for all of its science."""
    for name in _imports(path, _age(path)):
        parts = name.split(".")[1:]
        if parts[:1] == ["lab"]:
            continue
        target = PACKAGE.joinpath(*parts)
        if parts and target.with_suffix(".py").is_file():
            yield target.with_suffix(".py")
        elif parts and (target / "__init__.py").is_file():
            yield target / "__init__.py"
        elif not parts:
            yield from (file for room in SCIENCE for file in (PACKAGE / room).rglob("*.py"))


@cache
def _imports(path: Path, age: int) -> tuple[str, ...]:
    """The dotted names under `dynascope` that a file imports, absolutely or relatively."""
    found: set[str] = set()
    package = ("dynascope", *path.relative_to(PACKAGE).parts[:-1]) if path.is_relative_to(PACKAGE) else ()
    for node in ast.walk(parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join((*above, *([node.module] if node.module else [])))
            below = {f"{base}.{alias.name}" for alias in node.names}
            found |= below if base == "dynascope" else below | {base}
    return tuple(sorted(name for name in found if name.partition(".")[0] == "dynascope"))


@cache
def _code(path: Path, age: int) -> str:
    return checksum(ast.dump(parse(path.read_text(encoding="utf-8"))).encode())


def _age(path: Path) -> int:
    """What changes when the file does: the key under which things read from it are remembered."""
    return path.stat().st_mtime_ns
