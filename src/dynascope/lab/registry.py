"""The catalog: experiments by their ids, those of dynascope and a user's own, and how one is loaded."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynascope.lab import user_experiments
from dynascope.lab.errors import UsageError, nearest, one_line, plain
from dynascope.lab.json_text import digest_of
from dynascope.lab.reading import PACKAGE, Entry, ids_in, read, wrong_id

if TYPE_CHECKING:  # importing it would cost `dynascope list` its quick answer
    from dynascope.lab.experiment import Experiment

EXPERIMENTS = PACKAGE / "experiments"


def survey() -> tuple[list[Entry], list[str]]:
    """All experiments by id, those of dynascope and the user's own, and a line for each own one that is left out."""
    packaged: dict[str, Entry] = {}
    for path in _files(EXPERIMENTS):
        for entry in read(path, _module(path)) if ids_in(path.read_text(encoding="utf-8")) else ():
            if entry.id in packaged:
                raise UsageError(f"two experiments are called {entry.id}: {packaged[entry.id].path} and {path}")
            packaged[entry.id] = entry
    problems: list[str] = []
    extra = user_experiments.find(lambda id: "an experiment of dynascope" if id in packaged else "", problems.append)
    return sorted([*packaged.values(), *extra], key=lambda entry: entry.id), problems


def entries(pattern: str = "*") -> list[Entry]:
    """The experiments whose id matches the glob, by id."""
    return [entry for entry in survey()[0] if fnmatchcase(entry.id, pattern)]


def ids() -> list[str]:
    """The ids alone, of dynascope's experiments and of the user's own: quick enough to complete a word."""
    return sorted({*_packaged(EXPERIMENTS), *(entry.id for entry in _own_entries())})


def match(patterns: Iterable[str]) -> list[Entry]:
    """The experiments that ids, globs and a user's own files (`mine.py`, or `mine.py::id`) name, in that order."""
    chosen: dict[str, Entry] = {}
    for pattern in patterns:
        name, is_file, within = _split(pattern)
        if not is_file and "::" in pattern:
            raise UsageError(f"'::' follows the name of a file, as in mine.py::{plain(name)}; got '{plain(pattern)}'")
        hits = _in_file(Path(name), within) if is_file else _by_id(name)
        chosen.update((entry.id, entry) for entry in hits)
    return list(chosen.values())


def _by_id(name: str) -> list[Entry]:
    if name in (known := _packaged(EXPERIMENTS)):  # without reading all the others
        hits = [entry for entry in read(known[name], _module(known[name])) if entry.id == name]
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
    found = read(path.resolve(), None)
    if not found:
        raise UsageError(f'{path} holds no experiment: a class with a literal id = "..."')
    hits = [entry for entry in found if fnmatchcase(entry.id, glob)]
    if not hits:
        raise UsageError(f"no experiment '{plain(glob)}' in {path}{nearest(glob, [entry.id for entry in found])}")
    for entry in hits:
        if why := wrong_id(entry.id) or _is_packaged(entry.id, entry.path):
            raise UsageError(f"{entry.class_name} in {path}: {why}")
    return hits


def check(kind: type[Experiment]) -> None:
    """Refuse a class whose id will not do as the name of a folder, or is that of another experiment of dynascope."""
    id = getattr(kind, "id", None)
    if not isinstance(id, str):
        raise UsageError(f"{kind.__name__} has no id")
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if why := wrong_id(id) or _is_packaged(id, Path(file).resolve() if file else None):
        raise UsageError(f"{kind.__name__}: {why}")


def _is_packaged(id: str, path: Path | None) -> str:
    """Words for an id that an experiment of dynascope has, where that is not the one at `path`."""
    home = _packaged(EXPERIMENTS).get(id)
    return f"{id} is the id of an experiment of dynascope; choose another" if home not in (None, path) else ""


@lru_cache(maxsize=8)
def _packaged(folder: Path) -> dict[str, Path]:
    """The files of dynascope's experiments by id, read once."""
    return {id: path for path in _files(folder) for id in ids_in(path.read_text(encoding="utf-8"))}


def _own_entries() -> list[Entry]:
    known = _packaged(EXPERIMENTS)
    return list(user_experiments.find(lambda id: "an experiment of dynascope" if id in known else "", lambda _: None))


def _files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def _module(path: Path) -> str:
    return ".".join(("dynascope", "experiments", *path.relative_to(EXPERIMENTS).with_suffix("").parts))


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
    """The experiment's class, importing its module. A class that is no complete experiment is refused."""
    entry = address if isinstance(address, Entry) else _single(address)
    try:
        module = importlib.import_module(entry.module) if entry.module else _import_file(entry.path)
    except (Exception, SystemExit) as error:  # anything may happen while a user's own file is imported
        raise UsageError(f"cannot import {entry.path}: {one_line(error)}") from error
    kind: Any = getattr(module, entry.class_name, None)
    if why := _incomplete(kind, entry.id):
        raise UsageError(f"{entry.class_name} in {entry.path} {why}")
    return kind


def _incomplete(kind: Any, id: str) -> str:
    from dynascope.lab.experiment import Experiment

    if not inspect.isclass(kind) or not issubclass(kind, Experiment):
        return "is not an Experiment"
    if kind.id != id:
        return f"says id = {id!r}, but its id is {kind.id!r}"
    missing = [name for name in ("source", "control") if not hasattr(kind, name)]
    if missing or inspect.isabstract(kind):
        return f"lacks {', '.join([*missing, *sorted(kind.__abstractmethods__)])}"
    return ""


def entry_of(experiment: type[Experiment]) -> Entry | None:
    """The catalog's entry of a class, or None where its source is not a file (a notebook, a shell)."""
    file = getattr(sys.modules.get(experiment.__module__), "__file__", None)
    if file is None:
        return None
    path = Path(file).resolve()
    if path.is_relative_to(EXPERIMENTS):
        found = read(path, experiment.__module__)
    else:
        found = [entry for entry in _own_entries() if entry.path == path] or read(path, None)
    return next((entry for entry in found if entry.id == experiment.id), None)


def _single(address: str) -> Entry:
    hits = match([address])
    if len(hits) > 1:
        raise UsageError(
            f"'{plain(address)}' matches {len(hits)} experiments, but one is needed: {hits[0].id}, {hits[1].id}, ..."
        )
    return hits[0]


def _split(pattern: str) -> tuple[str, bool, str]:
    name, _, within = pattern.partition("::")
    return name, name.endswith(".py"), within or "*"


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
