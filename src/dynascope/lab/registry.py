"""The catalog: experiments by their ids, those of dynascope and a user's own."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from dynascope.lab import user_experiments
from dynascope.lab.entry import Entry, ids_in, read_entries, wrong_id
from dynascope.lab.errors import UsageError, nearest, plain
from dynascope.lab.importing import import_experiment
from dynascope.lab.sources import PACKAGE

if TYPE_CHECKING:  # importing it would cost `dynascope list` its quick answer
    from dynascope.lab.experiment import Experiment

EXPERIMENTS = PACKAGE / "experiments"


def survey() -> tuple[list[Entry], list[str]]:
    """All experiments by id, those of dynascope and the user's own, and a line for each that is left out."""
    packaged: dict[str, Entry] = {}
    for path in _files(EXPERIMENTS):
        for entry in _read_packaged(path) if ids_in(path.read_text(encoding="utf-8")) else ():
            if entry.id in packaged:
                raise UsageError(f"two experiments are called {entry.id}: {packaged[entry.id].path} and {path}")
            packaged[entry.id] = entry
    users, problems = user_experiments.find(packaged)
    return sorted([*packaged.values(), *users], key=lambda entry: entry.id), problems


def entries(pattern: str = "*") -> list[Entry]:
    """The experiments whose id matches a glob, sorted by id. Nothing is imported.

    Args:
        pattern: A glob such as `"edge.*"`. Default: all experiments.
    """
    return [entry for entry in survey()[0] if fnmatchcase(entry.id, pattern)]


def ids() -> list[str]:
    """The ids alone, of dynascope's experiments and of the user's own: fast enough to complete a word."""
    packaged = _packaged_files(EXPERIMENTS)
    return sorted({*packaged, *(entry.id for entry in user_experiments.find(packaged)[0])})


def match(patterns: Iterable[str]) -> list[Entry]:
    """The experiments that ids, globs and files name, each once, in the order of the patterns. Nothing is imported.

    Args:
        patterns: Ids, globs such as `"edge.*"`, and a user's own files (`"mine.py"`, or `"mine.py::id"`).

    Raises:
        UsageError: If a pattern names no experiment; the message suggests the nearest id.
    """
    chosen: dict[str, Entry] = {}
    for pattern in patterns:
        name, inside, within = pattern.partition("::")
        if inside and not name.endswith(".py"):
            raise UsageError(f"'::' follows the name of a file, as in mine.py::{plain(name)}; got '{plain(pattern)}'")
        hits = _in_file(Path(name), within or "*") if name.endswith(".py") else _by_id(name)
        chosen.update((entry.id, entry) for entry in hits)
    return list(chosen.values())


def load(address: str | Entry) -> type[Experiment]:
    """The class of one experiment; its module is imported.

    Args:
        address: An id, a user's own file with one experiment, `"mine.py::id"`, or an entry of the catalog.

    Raises:
        UsageError: If the address names no experiment or several, or if the class is not a complete experiment.
    """
    if isinstance(address, Entry):
        return import_experiment(address)
    hits = match([address])
    if len(hits) > 1:
        raise UsageError(
            f"'{plain(address)}' matches {len(hits)} experiments, but one is needed: {hits[0].id}, {hits[1].id}, ..."
        )
    return import_experiment(hits[0])


def _by_id(name: str) -> list[Entry]:
    if name in (known := _packaged_files(EXPERIMENTS)):  # without reading all the others
        hits = [entry for entry in _read_packaged(known[name]) if entry.id == name]
        if len(hits) == 1:
            return hits
    everything, problems = survey()
    hits = [entry for entry in everything if fnmatchcase(entry.id, name)]
    if hits:
        return hits
    ids = [entry.id for entry in everything]
    hint = nearest(name, ids) or "; `dynascope list` shows them all"
    if any(id.startswith(f"{name}.") for id in ids):
        hint = f": it is a system, whose experiments are '{name}.*'"
    raise UsageError(f"no experiment '{plain(name)}'{hint}" + (f" ({problems[0]})" if problems else ""))


def _in_file(path: Path, glob: str) -> list[Entry]:
    try:
        there = path.is_file()
    except OSError:  # a name that is too long
        there = False
    if not there:
        raise UsageError(f"no such file: {plain(path)}")
    entries = read_entries(path.resolve(), None)
    if not entries:
        raise UsageError(f'{path} holds no experiment: a class with a literal id = "..."')
    hits = [entry for entry in entries if fnmatchcase(entry.id, glob)]
    if not hits:
        raise UsageError(f"no experiment '{plain(glob)}' in {path}{nearest(glob, [entry.id for entry in entries])}")
    for entry in hits:
        if why := wrong_id(entry.id) or _conflict(entry.id, entry.path):
            raise UsageError(f"{entry.class_name} in {path}: {why}")
    return hits


def check(kind: type[Experiment]) -> None:
    """Refuse a class whose id cannot name a folder or is taken by another experiment of dynascope."""
    id = getattr(kind, "id", None)
    if not isinstance(id, str):
        raise UsageError(f"{kind.__name__} has no id")
    if why := wrong_id(id) or _conflict(id, _source_file(kind)):
        raise UsageError(f"{kind.__name__}: {why}")


def _conflict(id: str, path: Path | None) -> str:
    """A message if an experiment of dynascope has this id and is not the one at `path`; else ""."""
    home = _packaged_files(EXPERIMENTS).get(id)
    return f"{id} is the id of an experiment of dynascope; choose another" if home not in (None, path) else ""


@lru_cache(maxsize=8)
def _packaged_files(folder: Path) -> dict[str, Path]:
    """The files of dynascope's experiments by id, read once."""
    return {id: path for path in _files(folder) for id in ids_in(path.read_text(encoding="utf-8"))}


def _files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def _read_packaged(path: Path) -> list[Entry]:
    parts = path.relative_to(EXPERIMENTS).with_suffix("").parts
    return read_entries(path, ".".join(("dynascope", "experiments", *parts)))


def entry_of(experiment: type[Experiment]) -> Entry | None:
    """The catalog's entry of a class, or None if its source is not a file (a notebook, a shell)."""
    path = _source_file(experiment)
    if path is None:
        return None
    if path.is_relative_to(EXPERIMENTS):
        entries = read_entries(path, experiment.__module__)
    else:
        users, _ = user_experiments.find(_packaged_files(EXPERIMENTS))
        entries = [entry for entry in users if entry.path == path] or read_entries(path, None)
    return next((entry for entry in entries if entry.id == experiment.id), None)


def _source_file(kind: type) -> Path | None:
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return Path(file).resolve() if file else None
