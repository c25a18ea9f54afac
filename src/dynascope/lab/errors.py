"""Errors that a user can correct: one line that says what to do, and an exit status."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable


class LabError(Exception):
    """An error that a user can correct. Its text is one line; `exit_status` is that of the command."""

    exit_status = 1


class UsageError(LabError):
    """A wrong name or value was given."""

    exit_status = 2


class StoreError(LabError):
    """A run folder cannot be read, written or used."""


class BusyError(StoreError):
    """Another process is working on the same folder."""


class DiskError(StoreError):
    """The store cannot be written: it is full, or read-only. The next run would fail in the same way."""


class ExperimentCrash(LabError):
    """An experiment raised an exception; the traceback is in `crash.log`, beside the data measured so far."""


class WorkerLost(LabError):
    """The process that executed a run died, and died again when the run was retried."""


class ClusterLost(LabError):
    """The connection to the cluster that executes runs was lost. Finished runs are stored."""


class Interrupted(LabError):
    """Ctrl-C was pressed; the text names the results that are kept."""

    exit_status = 130

    def __init__(self, text: str = "interrupted; finished runs are stored and the same command continues from here"):
        super().__init__(text)


LONGEST_WORD = 100
"""The most characters of a name that a message repeats."""


def plain(text: object) -> str:
    """A name or a path, safe to repeat in a message: on one line, of bounded length, without control characters."""
    given = str(text)
    cut = given if len(given) <= LONGEST_WORD else f"{given[:LONGEST_WORD]}..."
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in cut)


def nearest(name: str, allowed: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or "" if no allowed name is close."""
    close = difflib.get_close_matches(name[:LONGEST_WORD], list(allowed), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def one_line(error: BaseException) -> str:
    """The error as one line: its kind and the first line of its text."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def disk_full(error: OSError) -> bool:
    """Whether there was no space left, on the disk or in the user's quota."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def explain_os_error(error: OSError, doing: str) -> StoreError:
    """One line for an error of the file system, such as a full disk or a missing permission. Runs stored before are not
    affected."""
    file = f" ({error.filename})" if error.filename else ""
    if disk_full(error):
        return DiskError(f"disk full while {doing}{file}: free some space and run again; stored runs are intact")
    kind = DiskError if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM) else StoreError
    return kind(f"{error.strerror or error} while {doing}{file}")
