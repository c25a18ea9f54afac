"""A user's own experiments by their ids, in the folders of `$DYNASCOPE_EXPERIMENTS` and in installed packages.

A package names its experiments in the entry-point group `dynascope.experiments`: a module, a package of modules, or one
class (`"mypackage.plateau:Plateau"`). Nothing is imported to find them. An experiment that cannot be used is left out,
with a line that says why.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Iterator
from functools import lru_cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

from dynascope.lab.entry import Entry, read_entries, wrong_id
from dynascope.lab.errors import UsageError

FOLDERS = "DYNASCOPE_EXPERIMENTS"
GROUP = "dynascope.experiments"


def find(packaged: Container[str]) -> tuple[list[Entry], list[str]]:
    """The user's experiments whose ids are valid and not among the `packaged` ones; and a line for each that is left
    out."""
    problems: list[str] = []
    known: dict[str, Entry] = {}
    for entry in (*_in_folders(problems), *_in_packages(problems)):
        other = known[entry.id].path if entry.id in known else "an experiment of dynascope"
        taken = entry.id in known or entry.id in packaged
        why = wrong_id(entry.id) or (f"{entry.id} is already the id of {other}" if taken else "")
        if why:
            problems.append(f"{entry.class_name} in {entry.path} is left out: {why}")
        else:
            known[entry.id] = entry
    return list(known.values()), problems


def _in_folders(problems: list[str]) -> Iterator[Entry]:
    for name in filter(None, os.environ.get(FOLDERS, "").split(os.pathsep)):
        folder = Path(name).expanduser().resolve()
        if not folder.is_dir():
            problems.append(f"{name}, which ${FOLDERS} names, is not a folder")
            continue
        for path in sorted(folder.glob("*.py")):
            yield from _read(path, None, str(folder), problems)


def _in_packages(problems: list[str]) -> Iterator[Entry]:
    for name, value, origin in _entry_points(tuple(sys.path)):
        module, _, wanted = value.partition(":")
        files = _files(module)
        if not files:
            problems.append(f"the experiments {name!r} of {origin} are left out: {module} has no source file")
        for dotted, path in files:
            for entry in _read(path, dotted, origin, problems):
                if wanted in ("", entry.class_name):
                    yield entry


def _read(path: Path, module: str | None, origin: str, problems: list[str]) -> list[Entry]:
    try:
        return read_entries(path, module, origin)
    except UsageError as error:
        problems.append(f"{error}; its experiments are left out")
        return []


@lru_cache(maxsize=8)
def _entry_points(path: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """The entry points of the group: name, value, and the distribution. Searching the installed packages takes a while,
    so it is done once for each value of `sys.path`."""
    from importlib.metadata import entry_points

    return [
        (point.name, point.value.replace(" ", ""), f"{point.dist.name} {point.dist.version}" if point.dist else "")
        for point in sorted(entry_points(group=GROUP))
    ]


def _files(module: str) -> list[tuple[str, Path]]:
    """The source files of a module, or of all modules of a package, with their dotted names; nothing is imported, not
    even the enclosing packages."""
    top, *rest = module.split(".")
    try:
        spec = find_spec(top)
        for number in range(len(rest)):
            if spec is None or spec.submodule_search_locations is None:
                return []
            spec = PathFinder.find_spec(f"{top}.{'.'.join(rest[: number + 1])}", spec.submodule_search_locations)
    except (ImportError, ValueError, AttributeError):
        return []
    if spec is None:
        return []
    if spec.submodule_search_locations is None:
        return [(module, Path(spec.origin))] if spec.origin and spec.origin.endswith(".py") else []
    inside = [(Path(folder), path) for folder in spec.submodule_search_locations for path in Path(folder).rglob("*.py")]
    return sorted((_module_name(module, path.relative_to(folder)), path) for folder, path in inside)


def _module_name(package: str, path: Path) -> str:
    parts = [part for part in path.with_suffix("").parts if part != "__init__"]
    return ".".join((package, *parts))
