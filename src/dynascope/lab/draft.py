"""A run in progress: its unfinished folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dynascope import __version__
from dynascope.lab.errors import StoreError
from dynascope.lab.files import checksum, sync, write_atomically
from dynascope.lab.json_text import pretty
from dynascope.lab.run_folders import UNFINISHED, publish
from dynascope.lab.stored_run import FORMAT, OF_SWEEP, StoredRun


class Draft:
    """A run in progress. `state` records the code that makes it and the steps that are done.

    Its small files are synced to disk all at once, when it is finished: after a power cut, the files of a draft are
    checked against the checksums in `state`.
    """

    def __init__(self, final: Path, id: str, fields: Mapping[str, object], seed: int):
        self.final, self.id, self.fields, self.seed = final, id, fields, seed
        self.folder = final.with_name(final.name + UNFINISHED)
        self.checkpoints = self.folder / "checkpoints"

    @property
    def state(self) -> dict[str, Any]:
        """The state that `keep_state` last wrote, or an empty dict."""
        try:
            state = json.loads((self.folder / "draft.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    def keep_state(self, state: Mapping[str, object]) -> None:
        write_atomically(self.folder / "draft.json", pretty(state), lasting=False)

    def run_by_itself(self) -> bool:
        """Whether the run exists already, and not only as a point of a sweep."""
        try:
            return not StoredRun.open(self.final).sweep
        except StoreError:
            return False

    def released(self, stored: StoredRun) -> StoredRun:
        """The stored run without the mark of a sweep, now that it is requested by itself."""
        if not stored.sweep:
            return stored
        manifest = {key: value for key, value in stored.manifest.items() if key != OF_SWEEP}
        write_atomically(stored.folder / "manifest.json", pretty(manifest))
        return StoredRun.open(stored.folder, reused=True)

    def clear(self) -> None:
        """Start with an empty folder."""
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)

    def discard_empty(self) -> None:
        """Discard a run that could not begin: remove the folder if nothing was measured yet."""
        notes = (self.folder / "draft.json", self.folder / "crash.log")
        if not any(path.is_file() and path not in notes for path in self.folder.rglob("*")):
            shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, name: str, data: bytes | str, lasting: bool = False) -> None:
        """Put a file of the run in place."""
        write_atomically(self.folder / name, data, lasting=lasting)

    def drop(self, *names: str) -> None:
        """Remove files and folders that an earlier attempt left."""
        for name in names:
            shutil.rmtree(self.folder / name, ignore_errors=True)
            (self.folder / name).unlink(missing_ok=True)

    def finish(self, manifest: Mapping[str, Any]) -> StoredRun:
        """Write the manifest and give the folder its final name."""
        self.write("config.json", pretty({"id": self.id, "seed": self.seed, "fields": self.fields}))
        names = ["config.json", "measured.nc", "predicted.nc", "reduced.nc", "claims.json"]
        names += [f"figures/{name}.{kind}" for name in manifest["figures"] for kind in ("png", "svg")]
        files = {name: checksum(path) for name in names if (path := self.folder / name).exists()}
        head = {"format": FORMAT, "status": "complete", "id": self.id, "digest": self.final.name, "seed": self.seed}
        self.write("manifest.json", pretty({**head, "dynascope": __version__, **manifest, "files": files}))
        for name in (*files, "manifest.json", *(["figures"] if manifest["figures"] else [])):
            sync(self.folder / name)
        (self.folder / "crash.log").unlink(missing_ok=True)
        (self.folder / "draft.json").unlink(missing_ok=True)  # from now on the folder is a whole run: see `recover`
        publish(self.folder, self.final)
        return StoredRun.open(self.final)

    def recover(self) -> None:
        """Publish a run that was cut short after its last file was written: with its manifest, without `draft.json`."""
        if (self.folder / "manifest.json").exists() and not (self.folder / "draft.json").exists():
            with suppress(StoreError):
                StoredRun.open(self.folder).verify()
                publish(self.folder, self.final)
