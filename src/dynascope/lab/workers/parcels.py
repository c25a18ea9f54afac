"""Runs that a worker sends back because it does not see the store.

The parent puts a token into its store and sends its name along. A worker that does not find the token is on a machine
with other disks: it runs in a temporary store and sends the files of the run back, and the parent stores them.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from dynascope.lab.draft import Draft
from dynascope.lab.errors import ExperimentCrash, StoreError, explain_os_error
from dynascope.lab.files import checksum, write_atomically
from dynascope.lab.locks import lock
from dynascope.lab.run_folders import UNFINISHED, publish, settle
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun

LOG = "crash.log"


@dataclass(frozen=True)
class Place:
    """The destination of runs: the folder of the store, and the name of a token in it. Without a token, all workers see
    it."""

    root: str
    token: str = ""

    @property
    def visible(self) -> bool:
        """Whether this process sees the folder."""
        return not self.token or (Path(self.root) / self.token).exists()


@contextmanager
def place_of(store: Store, far: bool) -> Iterator[Place]:
    """The place of a store, for workers on this machine or `far` ones; the token is there while the block lasts."""
    root = store.root.absolute()
    if not far:
        yield Place(str(root))
        return
    token = root / f".here-{secrets.token_hex(8)}"
    try:
        write_atomically(token, "")
    except OSError as error:
        raise StoreError(f"the run store {root} cannot be written to ({error.strerror})") from error
    try:
        yield Place(str(root), token.name)
    finally:
        token.unlink(missing_ok=True)


@dataclass(frozen=True, eq=False)
class Parcel:
    """The answer of a worker that does not see the store: the value, and the files of the run.

    An experiment that crashed there is a parcel too, with the error as its value and with its log.
    """

    value: object
    root: str
    id: str
    digest: str
    files: Mapping[str, bytes]

    @classmethod
    def of_run(cls, value: object, stored: StoredRun, place: Place) -> Parcel:
        """A run of a temporary store, to be moved to its place."""
        files = {name: (stored.folder / name).read_bytes() for name in ("manifest.json", *stored.manifest["files"])}
        return cls(value, place.root, stored.id, stored.digest, files)

    @classmethod
    def of_crash(cls, error: ExperimentCrash, temporary: Path, place: Place) -> Parcel:
        """A crash in a temporary store; its message names the log's future place."""
        (log,) = temporary.glob(f"*/*{UNFINISHED}/{LOG}")
        known = ExperimentCrash(str(error).replace(str(temporary), place.root))
        digest = log.parent.name.removesuffix(UNFINISHED)
        return cls(known, place.root, log.parent.parent.name, digest, {LOG: log.read_bytes()})

    def deliver(self) -> object:
        """Store the run, complete and checked, or not at all; return the value, or raise it."""
        self._check()
        final = Path(self.root) / self.id / self.digest
        try:
            with lock(final.with_name(f"{self.digest}.lock"), f"another process is working on {final}"):
                settle(final)
                draft = Draft(final, self.id, {}, 0)
                draft.clear()
                for name, data in self.files.items():
                    write_atomically(draft.folder / name, data)
                if isinstance(self.value, ExperimentCrash):
                    raise self.value
                publish(draft.folder, final)
        except OSError as error:
            raise explain_os_error(error, f"storing {self.id}") from error
        return self.value

    def _check(self) -> None:
        for name in self.files:
            if ".." in PurePosixPath(name).parts or PurePosixPath(name).is_absolute():
                raise StoreError(f"a worker sent a file with the name {name!r}, which is outside its run")
        manifest = json.loads(self.files.get("manifest.json", b"{}"))
        for name, known in manifest.get("files", {}).items():
            if checksum(self.files.get(name, b"")) != known:
                raise StoreError(f"{name} of {self.id}/{self.digest} arrived damaged from a worker: run it again")
