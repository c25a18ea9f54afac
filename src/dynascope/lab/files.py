"""Files that are written completely or not at all, checksums, canonical JSON, locks between processes, and figures as
files: the same bytes for the same data."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import math
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dynascope.lab.errors import BusyError


def sync(path: Path) -> None:
    """Make a file's content, or a folder's entries, survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path: Path, data: bytes | memoryview | str, *, lasting: bool = True) -> None:
    """Write a file so that its name only ever shows the old content or all of the new.

    A file that is not `lasting` survives the end of its process, however sudden, but not a power cut.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            if lasting:
                os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if lasting:
        sync(path.parent)


def checksum(data: Path | bytes | memoryview) -> str:
    """The sha256 of bytes or of a file."""
    if not isinstance(data, Path):
        return hashlib.sha256(data).hexdigest()
    with data.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def plain_json(value: Any) -> Any:
    """`value` with infinities and NaN as words, which every JSON reader takes and pydantic reads as numbers."""
    if isinstance(value, dict):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def canonical(value: Any) -> str:
    """JSON that is the same text for the same value; digests are taken of it."""
    return json.dumps(plain_json(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def pretty(value: Any) -> str:
    """JSON for people."""
    return json.dumps(plain_json(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def digest_of(value: Any) -> str:
    """Twelve hex digits that identify a configuration."""
    return checksum(canonical(value).encode())[:12]


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold an exclusive lock; a `BusyError` with the text `busy` where another process holds it.

    The lock ends with its process, so a kill leaves nothing to clean up. The file is removed under the lock, hence the
    check that the file we locked is still the one of that name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.fstat(handle).st_ino == path.stat().st_ino:
                break
            os.close(handle)
        except BlockingIOError:
            os.close(handle)
            raise BusyError(busy) from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


_DRAWING = threading.Lock()  # matplotlib is not thread-safe
_KINDS = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
"""The formats, and the metadata to leave out of each file so that its bytes do not depend on the date."""


def drawn(draw: Callable[[], Mapping[str, Any]], card: Any = "") -> dict[str, bytes]:
    """The figures that `draw` makes, in the house style, as `figures/<name>.png` and `.svg`, in its order; and for the
    report in `figures/web/`, with the panel that goes on the `card`."""
    from matplotlib import pyplot

    from dynascope.figures.pictures import chosen_panel, keep_in_range

    files: dict[str, bytes] = {}
    with drawing():
        figures = draw()
        if not isinstance(figures, Mapping):
            raise TypeError(f"draw returned {type(figures).__name__}, not a dict of figures by name")
        try:
            chosen, panel = chosen_panel(card, figures) if figures else ("", 0)
            for name, figure in figures.items():
                if "/" in name or name.startswith("."):
                    raise ValueError(f"a figure's name is a file name without a leading dot; got {name!r}")
                keep_in_range(figure)
                for kind, metadata in _KINDS.items():
                    buffer = io.BytesIO()
                    figure.savefig(buffer, format=kind, dpi=150, bbox_inches="tight", metadata=metadata)
                    files[f"figures/{name}.{kind}"] = buffer.getvalue()
                web = _for_web(name, figure, name == next(iter(figures)), panel if name == chosen else None)
                files |= {f"figures/web/{file}": data for file, data in web.items()}
        finally:
            for figure in figures.values():
                pyplot.close(figure)
    return files


def _for_web(name: str, figure: Any, main: bool, panel: int | None) -> dict[str, bytes]:
    from dynascope.figures.pictures import web_files

    try:
        return web_files(name, figure, main=main, panel=panel)
    except Exception as error:  # a figure of a kind that we have not met must not cost the run
        warnings.warn(f"the figure {name!r} cannot be laid out for the report ({error}): its page shows the PNG")
        return {}


@contextmanager
def drawing() -> Iterator[None]:
    """While the block lasts, this thread draws in the house style, and no other thread draws."""
    with _DRAWING, house_style():
        yield


@contextmanager
def house_style() -> Iterator[None]:
    """The style of the figures, and what makes their bytes the same each time."""
    from matplotlib import rc_context

    from dynascope.figures import HOUSE_STYLE

    settings: dict[Any, Any] = {**HOUSE_STYLE, "svg.hashsalt": "dynascope", "svg.fonttype": "path"}
    with rc_context(settings):
        yield
