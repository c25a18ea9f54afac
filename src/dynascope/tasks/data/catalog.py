"""The data sets on this machine, their checksums, and instructions for those that are missing.

A name stands for one or more files, which lie in $DYNASCOPE_DATA, in the user's cache or in the package. Any other
`<name>.npz`, `<name>.txt` or `<name>.txt.gz` in those folders is a data set too.
"""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from dynascope.tasks.data import files
from dynascope.tasks.data.files import DataNotFoundError
from dynascope.tasks.data.known import ARRAYS, KNOWN, PIP

PAIRS = {"digit-pairs": "digits"}
"""Tasks that are made from a data set of another name."""


@dataclass(frozen=True)
class Entry:
    """A data set and its files on this machine."""

    name: str
    what: str
    license: str
    source: str
    """The official address, "in the package", or "by hand: ..."."""
    sums: Mapping[str, str] = field(repr=False)
    """The published checksums of the official files, or the SHA-256 of the file in the package."""
    paths: tuple[Path, ...]
    """The files or folders that are read; none if one is missing."""

    @property
    def where(self) -> str:
        """package, $DYNASCOPE_DATA, cache, or missing."""
        return _place(self.paths[0]) if self.paths else "missing"

    @property
    def size(self) -> int:
        """Bytes on this machine."""
        return sum(file.stat().st_size for path in self.paths for file in _files(path))

    @property
    def sha256(self) -> str:
        """The checksum of its files on this machine; "" if they are missing."""
        return _sum_of(self.paths) if self.paths else ""


def entries() -> list[Entry]:
    """Every data set that is known, then the user's own files."""
    known = [
        Entry(name, kind.what, kind.license, _source(name), _sums(name), _paths(name)) for name, kind in KNOWN.items()
    ]
    taken = {path for entry in known for path in entry.paths}
    own = {name: path for name, path in _own() if name not in KNOWN and path not in taken}
    what = {".npz": "your own arrays"}
    return known + [
        Entry(name, what.get(path.suffix, "your own text"), "", "your own", {}, (path,)) for name, path in own.items()
    ]


def find(name: str) -> tuple[Path, ...]:
    """The files of a data set: a known one, or the user's own `<name>.npz`. If one is missing, the error says where to
    put which file."""
    if name in KNOWN:
        found = _paths(name)
        if not found:
            raise DataNotFoundError(_missing(name))
        return found
    own = files.find(f"{name}.npz")
    if own is None:
        close = nearest(name)
        there = f"put {name}.npz ({ARRAYS}) into {files.folders()[0]}"
        raise DataNotFoundError(f"no data set '{name}' on this machine{close}; {there}")
    return (own,)


def find_text(text: str | Path) -> Path:
    """The file of a text: a name in one of the folders, or a path."""
    path = Path(text).expanduser()
    is_name = len(path.parts) == 1
    named = (files.find(f"{text}.txt.gz") or files.find(f"{text}.txt")) if is_name else None
    if named is not None:
        return named
    if path.is_file():
        return path
    if str(text) in KNOWN:
        raise DataNotFoundError(_missing(str(text)))
    if path.suffix:
        raise DataNotFoundError(f"no file at '{text}'; give the path of one that exists")
    there = f"put {path.stem}.txt.gz into {files.folders()[0]}, or give the path of a text file"
    raise DataNotFoundError(f"no text '{text}' on this machine; {there}")


def checksum(name: str) -> str:
    """The SHA-256 sum of the files that loading the data set `name` would read. The name may also be that of the user's
    own arrays or text, or the path of a text or of a folder of pictures. Several files have the sum of their sums."""
    name = PAIRS.get(name, name)
    if name in KNOWN or files.find(f"{name}.npz"):
        return _sum_of(find(name))
    path = Path(name).expanduser()
    if path.is_dir():
        return _sum_of((path,))
    try:
        return _sum_of((find_text(name),))
    except DataNotFoundError:
        if len(path.parts) > 1 or path.suffix:
            raise
        return _sum_of(find(name))  # whose error names arrays


def nearest(name: str) -> str:
    """` (did you mean 'x'?)`, or nothing if no known name is close."""
    close = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.5)
    return f" (did you mean '{close[0]}'?)" if close else ""


def where() -> list[tuple[str, Path]]:
    """The folders in the order of search, each with its description."""
    return [(_place(folder), folder) for folder in files.folders()]


def advice(name: str) -> str:
    """Instructions to get a missing data set: the command, or the steps by hand."""
    known = KNOWN[name]
    if known.source is None:
        return f"get it by hand ({known.by_hand})" if known.by_hand else ""
    if known.source.base.startswith(("https://", PIP)):
        return f"run `dynascope data fetch {name}`"
    official, folder = " and ".join(known.source.sums), files.folders()[0] / name
    return f"download {official} from {known.source.base} into {folder} and run `dynascope data fetch {name}`"


def by_hand(name: str) -> str:
    """The places of the files of a known data set."""
    wanted = " and ".join(names[0] for names in KNOWN[name].parts)
    return f"put {wanted} ({KNOWN[name].contents}) into {files.folders()[0]}"


def _missing(name: str) -> str:
    first = advice(name)
    how = f"{first}, {'and' if first.startswith('get') else 'or'} " if first else ""
    return f"no data set '{name}' on this machine; {how}{by_hand(name)}"


def _paths(name: str) -> tuple[Path, ...]:
    found = [next(filter(None, map(files.find, names)), None) for names in KNOWN[name].parts]
    there = tuple(path for path in found if path is not None)
    return there if len(there) == len(found) else ()


def _own() -> Iterator[tuple[str, Path]]:
    for folder in files.folders()[:-1]:
        for path in sorted(folder.glob("*")) if folder.is_dir() else ():
            name = path.name.removesuffix(".gz").removesuffix(".txt").removesuffix(".npz")
            if path.name.endswith((".npz", ".txt", ".txt.gz")):
                yield name, path


def _source(name: str) -> str:
    known = KNOWN[name]
    if known.sha256:
        return "in the package"
    return known.source.base if known.source else f"by hand: {known.by_hand}"


def _sums(name: str) -> Mapping[str, str]:
    known = KNOWN[name]
    if known.sha256:
        return {known.parts[0][0]: known.sha256}
    return known.source.sums if known.source else {}


def _place(path: Path) -> str:
    names = {files.PACKAGE: "package", files.cache(): "cache"}
    for folder, name in names.items():
        if path == folder or folder in path.parents:
            return name
    return "$DYNASCOPE_DATA"


def _files(path: Path) -> list[Path]:
    """The file, or the files of a folder in the order of their names."""
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def _sum_of(paths: tuple[Path, ...]) -> str:
    if len(paths) == 1 and not paths[0].is_dir():
        return _sha256(*files.stamp(paths[0]))
    total = hashlib.sha256()
    for number, path in enumerate(paths):
        for file in _files(path):
            relative = os.path.relpath(file, path) if path.is_dir() else str(number)
            total.update(f"{_sha256(*files.stamp(file))}  {relative}\n".encode())
    return total.hexdigest()


@cache
def _sha256(path: Path, written: int, size: int) -> str:
    """The checksum of a file, computed once for each state of it."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
