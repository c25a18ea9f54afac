"""The run store: `runs/<experiment id>/<digest>/`, each folder complete and checked, or visibly unfinished.

A run is written into `<digest>.unfinished/` (with its checkpoints), and renamed when all of it is on disk. A run that
replaces another moves it to `<digest>.old` between two renames; readers look there too, so there is always a run to
read. A run that is being removed is `<digest>.removed` first, which nobody reads. Nothing is ever unpickled.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynascope import __version__
from dynascope.lab.errors import StoreError, UsageError
from dynascope.lab.files import checksum, sync, write_atomically
from dynascope.lab.json_text import digest_of, pretty
from dynascope.lab.locks import lock

if TYPE_CHECKING:  # listing must not wait for them
    import xarray as xr

    from dynascope.lab.claims import Claim
    from dynascope.lab.experiment import Experiment

FORMAT = 2
UNFINISHED, OLD, REMOVED = ".unfinished", ".old", ".removed"
SWEEPS = "sweeps"
OF_SWEEP = "sweep"
"""The entry of the manifest that marks a run which only a sweep has asked for."""


class OldRunError(StoreError):
    """A run that an earlier version stored in a form that this one does not read."""


class ReadOnlyError(StoreError):
    """The store cannot be written to. What it has can be read."""


@dataclass(frozen=True)
class StoredRun:
    """A complete run. Opening it reads the manifest only; each file is checked against its checksum when read."""

    folder: Path
    manifest: Mapping[str, Any]
    reused: bool = False
    """Whether it was stored already when it was asked for."""

    @classmethod
    def open(cls, folder: Path, reused: bool = False) -> StoredRun:
        """Read a run folder's manifest; a `StoreError` where it is not a complete run."""
        path = folder / "manifest.json"
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise StoreError(
                f"{path} is missing: not a complete run; remove the folder or run again with --force"
            ) from None
        except OSError as error:
            raise StoreError(f"{path} cannot be read ({error.strerror})") from error
        except ValueError as error:
            raise StoreError(f"{path} is damaged: run again with --force to replace the run") from error
        if isinstance(manifest, dict) and manifest.get("format") in range(1, FORMAT):
            raise OldRunError(f"{path} was written by an earlier version of dynascope: run it again, or remove it")
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT or manifest.get("status") != "complete":
            raise StoreError(f"{path} is not the manifest of a complete run: run again with --force to replace it")
        missing = {"id", "digest", "seed", "files", "figures", "claims", "command", "finished"} - manifest.keys()
        if missing:
            raise StoreError(f"{path} lacks {', '.join(sorted(missing))}: run again with --force to replace the run")
        if (manifest["id"], manifest["digest"]) != (folder.parent.name, folder.name.partition(".")[0]):
            raise StoreError(
                f"{path} belongs to another run ({manifest['id']}/{manifest['digest']}): remove the folder"
            )
        return cls(folder, manifest, reused)

    @property
    def id(self) -> str:
        return self.manifest["id"]

    @property
    def digest(self) -> str:
        return self.manifest["digest"]

    @property
    def seed(self) -> int:
        return self.manifest["seed"]

    @property
    def preset(self) -> str | None:
        return self.manifest.get("preset")

    @property
    def sweep(self) -> bool:
        """Whether only a sweep has asked for it."""
        return bool(self.manifest.get(OF_SWEEP))

    @cached_property
    def config(self) -> dict[str, Any]:
        """The experiment's fields."""
        return json.loads(self._checked("config.json").read_text(encoding="utf-8"))["fields"]

    @cached_property
    def claims(self) -> list[Claim]:
        """The claims, the main one first."""
        return read_claims(self._checked("claims.json"))

    @property
    def verdict(self) -> str:
        """`fails` where a verdict differs from the record; else the main claim's verdict."""
        counts = self.manifest["claims"]
        return "fails" if counts["news"] else counts["main"]

    @property
    def figures(self) -> dict[str, Path]:
        """The figures by name, in the experiment's order, as PNG; each has an SVG beside it."""
        return {name: self.folder / "figures" / f"{name}.png" for name in self.manifest["figures"]}

    def measured(self) -> xr.Dataset | xr.DataTree:
        """What was measured, of the type that `measure` returned."""
        return _load(self._checked("measured.nc"))

    def predicted(self) -> xr.Dataset | xr.DataTree | None:
        """What theory predicted, or None where there is no theory."""
        return _load(self._checked("predicted.nc")) if "predicted.nc" in self.manifest["files"] else None

    def reduced(self) -> xr.Dataset | xr.DataTree:
        """The few numbers that were judged and drawn."""
        return _load(self._checked("reduced.nc"))

    def verify(self) -> StoredRun:
        """Check every file of the run against the manifest."""
        for name in self.manifest["files"]:
            self._checked(name)
        return self

    def _checked(self, name: str) -> Path:
        path = self.folder / name
        try:
            found = checksum(path)
        except OSError as error:
            raise StoreError(f"{path} cannot be read ({error.strerror}): run again with --force") from error
        if found != self.manifest["files"].get(name):
            raise StoreError(f"{path} is damaged (its checksum differs): run again with --force to replace the run")
        return path


class Store:
    """The folder of runs."""

    def __init__(self, root: Path | str | None = None):
        """`root`, or $DYNASCOPE_RUNS, or `runs` in the current folder."""
        self.root = Path(root or os.environ.get("DYNASCOPE_RUNS") or "runs")
        if self.root.exists() and not self.root.is_dir():
            raise UsageError(f"the run store must be a folder; got the file {self.root}")

    def find(self, id: str, digest: str) -> StoredRun | None:
        """The stored run, every file checked, or None where there is none (or one of an earlier version)."""
        folder = self.readable(self.root / id / digest)
        try:
            return StoredRun.open(folder, reused=True).verify() if folder else None
        except OldRunError:
            return None

    def runs(self, id: str | None = None) -> tuple[list[StoredRun], list[str]]:
        """All complete runs (of one experiment), oldest first; and a line for each folder that is not one."""
        found: list[StoredRun] = []
        problems: list[str] = []
        for folder in self._run_folders(id):
            try:
                found.append(StoredRun.open(folder))
            except StoreError as error:
                problems.append(str(error))
        return sorted(found, key=lambda run: str(run.manifest["finished"])), problems

    def latest(self, id: str | None = None) -> tuple[dict[str, StoredRun], list[str]]:
        """For each experiment (or one) its latest run that is no point of a sweep; and a line for each folder that is
        not a run."""
        runs, problems = self.runs(id)
        return {run.id: run for run in runs if not run.sweep}, problems

    def ids(self) -> list[str]:
        """The experiments that have a folder."""
        try:
            return sorted(path.name for path in self.root.iterdir() if path.is_dir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"the run store {self.root} cannot be read ({error.strerror})") from error

    def folders(self, id: str) -> list[Path]:
        """Every folder of an experiment but its sweeps, by name: runs, and what is unfinished or left over."""
        try:
            return sorted(path for path in (self.root / id).iterdir() if path.is_dir() and path.name != SWEEPS)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StoreError(f"the run store {self.root} cannot be read ({error.strerror})") from error

    def _run_folders(self, id: str | None) -> Iterator[Path]:
        for path in (path for each in ([id] if id else self.ids()) for path in self.folders(each)):
            kept_aside = path.suffix == OLD and not path.with_suffix("").exists()
            if kept_aside or path.suffix not in (OLD, UNFINISHED, REMOVED):
                yield path

    @staticmethod
    def readable(folder: Path) -> Path | None:
        """The folder in which a run is found: its own, or the one that it is kept in while it is being replaced."""
        aside = folder.with_name(folder.name + OLD)
        return next((path for path in (folder, aside) if path.exists()), None)

    @contextmanager
    def draft(self, experiment: Experiment, seed: int, data: Mapping[str, str] | None = None) -> Iterator[Draft]:
        """The unfinished folder of a run, locked against other processes while the block lasts. `data` has the
        checksums of the data sets that it reads: a run on other data is another run. A `ReadOnlyError` where the store
        cannot be written to."""
        digest = run_digest(experiment, seed, data)
        final = self.root / experiment.id / digest
        busy = f"another process is working on {final}: wait for it, or choose another seed or setting"
        with ExitStack() as held:
            try:
                held.enter_context(lock(lock_path(final), busy))
                settle(final)
                draft = Draft(final, experiment.id, experiment.model_dump(mode="json"), seed)
                draft.recover()
            except OSError as error:
                if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                    raise
                raise ReadOnlyError(f"the run store {self.root} cannot be written to ({error.strerror})") from error
            yield draft


def run_digest(experiment: Experiment, seed: int, data: Mapping[str, str] | None = None) -> str:
    """The name of a run's folder: a digest of its fields, its seed and the checksums of the data sets that it reads."""
    facts = {"id": experiment.id, "fields": experiment.model_dump(mode="json"), "seed": seed}
    return digest_of(facts | ({"data": data} if data else {}))


def lock_path(folder: Path) -> Path:
    """The lock of a run, held while it is written, replaced or removed; also of its unfinished and old folders."""
    return folder.with_name(f"{folder.name.partition('.')[0]}.lock")


class Draft:
    """A run that is being made. `state` says which code makes it and which steps are done.

    Its small files are made safe from a power cut all at once, when it is finished: what one leaves of a draft is
    checked against the checksums in `state`.
    """

    def __init__(self, final: Path, id: str, fields: Mapping[str, Any], seed: int):
        self.final, self.id, self.fields, self.seed = final, id, fields, seed
        self.folder = final.with_name(final.name + UNFINISHED)
        self.checkpoints = self.folder / "checkpoints"

    @property
    def state(self) -> dict[str, Any]:
        """What `keep_state` last wrote, or nothing."""
        try:
            state = json.loads((self.folder / "draft.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    def keep_state(self, state: Mapping[str, Any]) -> None:
        write_atomically(self.folder / "draft.json", pretty(state), lasting=False)

    def run_by_itself(self) -> bool:
        """Whether there is such a run already that somebody asked for, and not only a sweep."""
        try:
            return not StoredRun.open(self.final).sweep
        except StoreError:
            return False

    def released(self, stored: StoredRun) -> StoredRun:
        """The stored run without the mark of a sweep, now that it is asked for by itself."""
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
        """Leave nothing of a run that could not begin: remove the folder if nothing was measured yet."""
        notes = (self.folder / "draft.json", self.folder / "crash.log")
        if not any(path.is_file() and path not in notes for path in self.folder.rglob("*")):
            shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, name: str, data: bytes | str, lasting: bool = False) -> None:
        """Put a file of the run in place."""
        write_atomically(self.folder / name, data, lasting=lasting)

    def drop(self, *names: str) -> None:
        """Remove what an earlier attempt left under these names."""
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


def publish(ready: Path, final: Path) -> None:
    """Give a finished folder its final name, replacing an earlier folder of that name."""
    sync(ready)
    old = final.with_name(final.name + OLD)
    if final.exists():
        final.rename(old)
    ready.rename(final)
    sync(final.parent)
    shutil.rmtree(old, ignore_errors=True)


def settle(final: Path) -> None:
    """Undo or complete a replacement that was cut short: the old folder comes back, or is removed."""
    old = final.with_name(final.name + OLD)
    if old.exists() and final.exists():
        shutil.rmtree(old, ignore_errors=True)
    elif old.exists():
        old.rename(final)


def read_claims(path: Path) -> list[Claim]:
    """The claims of a file that a run wrote."""
    from dynascope.lab.claims import Claim

    return [Claim.model_validate(claim) for claim in json.loads(path.read_text(encoding="utf-8"))]


def _load(path: Path) -> xr.Dataset | xr.DataTree:
    from dynascope.lab.netcdf import load

    return load(path)
