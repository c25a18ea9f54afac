"""The run store: `runs/<experiment id>/<digest>/`, each folder complete and checked, or visibly unfinished.

Nothing is ever unpickled.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dynascope.lab.draft import Draft
from dynascope.lab.errors import StoreError, UsageError
from dynascope.lab.locks import lock
from dynascope.lab.run_folders import LIMITS, OLD, REMOVED, SWEEPS, UNFINISHED, lock_path, settle
from dynascope.lab.stored_run import OldRunError, StoredRun

if TYPE_CHECKING:  # listing must not wait for them
    from dynascope.lab.observations import Observation
    from dynascope.lab.setting import Setting


class ReadOnlyError(StoreError):
    """The store cannot be written to. Its runs can be read."""


class Store:
    """The folder of runs.

    Args:
        root: The folder. Default: $DYNASCOPE_RUNS, or `runs` in the current folder.
    """

    def __init__(self, root: Path | str | None = None):
        self.root = Path(root or os.environ.get("DYNASCOPE_RUNS") or "runs")
        if self.root.exists() and not self.root.is_dir():
            raise UsageError(f"the run store must be a folder; got the file {self.root}")

    def find(self, id: str, digest: str) -> StoredRun | None:
        """The run, with all files checked; None if there is none, or if an earlier version wrote it.

        Args:
            id: The id of the experiment.
            digest: The digest of the run.
        """
        folder = self.readable(self.root / id / digest)
        try:
            return StoredRun.open(folder, reused=True).verify() if folder else None
        except OldRunError:
            return None

    def runs(self, id: str | None = None) -> tuple[list[StoredRun], list[str]]:
        """The complete runs, oldest first, and a line for each folder that is damaged.

        Args:
            id: Only runs of this experiment.
        """
        found: list[StoredRun] = []
        problems: list[str] = []
        for folder in self._run_folders(id):
            try:
                found.append(StoredRun.open(folder))
            except StoreError as error:
                problems.append(str(error))
        return sorted(found, key=lambda run: str(run.manifest["finished"])), problems

    def latest(self, id: str | None = None) -> tuple[dict[str, StoredRun], list[str]]:
        """The latest run of each experiment that is not a point of a sweep, and a line for each folder that is damaged.

        Args:
            id: Only the run of this experiment.
        """
        runs, problems = self.runs(id)
        return {run.id: run for run in runs if not run.sweep}, problems

    def ids(self) -> list[str]:
        """The ids of the experiments that have a folder, sorted."""
        try:
            return sorted(path.name for path in self.root.iterdir() if path.is_dir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"the run store {self.root} cannot be read ({error.strerror})") from error

    def folders(self, id: str) -> list[Path]:
        """The folders of an experiment's complete, unfinished and leftover runs, sorted by name; not that of its
        sweeps.

        Args:
            id: The id of the experiment.
        """
        try:
            return sorted(
                path for path in (self.root / id).iterdir() if path.is_dir() and path.name not in (SWEEPS, LIMITS)
            )
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
        """The folder from which a run can be read: itself, the one in which it is kept while it is being replaced, or
        None.

        Args:
            folder: The folder of the run.
        """
        aside = folder.with_name(folder.name + OLD)
        return next((path for path in (folder, aside) if path.exists()), None)

    @contextmanager
    def draft(self, setting: Setting | Observation) -> Iterator[Draft]:
        """The unfinished folder of a run, locked against other processes while the block lasts.

        Args:
            setting: The setting of the run, or an observation.

        Raises:
            ReadOnlyError: If the store cannot be written to.
        """
        final = self.root / setting.id / setting.digest
        busy = f"another process is working on {final}: wait for it, or choose another seed or setting"
        with ExitStack() as held:
            try:
                held.enter_context(lock(lock_path(final), busy))
                settle(final)
                draft = Draft(final, setting.id, setting.fields, setting.seed)
                draft.recover()
            except OSError as error:
                if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                    raise
                raise ReadOnlyError(f"the run store {self.root} cannot be written to ({error.strerror})") from error
            yield draft
