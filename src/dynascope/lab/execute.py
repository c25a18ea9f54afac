"""Execution of a setting: the single way in which the command, sweeps, audits and the live page run experiments.

A run that the same code has stored is returned unchanged. If different code stored the run, the steps whose code is
unchanged are reused. The steps themselves are in `steps`.
"""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace

from dynascope import __version__
from dynascope.checks import InputError
from dynascope.lab.draft import Draft
from dynascope.lab.errors import (
    ExperimentCrash,
    LabError,
    StoreError,
    UsageError,
    disk_full,
    explain_os_error,
    one_line,
)
from dynascope.lab.files import write_atomically
from dynascope.lab.fingerprint import STEPS, fingerprints
from dynascope.lab.monitor import Progress, Watcher
from dynascope.lab.setting import Setting
from dynascope.lab.shared import SHARED, reserved
from dynascope.lab.steps import FILES, TIMINGS, Steps
from dynascope.lab.store import ReadOnlyError, Store
from dynascope.lab.stored_run import StoredRun
from dynascope.tasks.data.files import DataNotFoundError


def execute(
    setting: Setting,
    store: Store | None = None,
    *,
    force: bool = False,
    draw: bool = True,
    on_progress: Callable[[Progress], None] | None = None,
    warn: Callable[[str], None] | None = None,
    keep_every: float = 10.0,
    watcher: Watcher | None = None,
) -> StoredRun:
    """Run a setting, or return its stored run if this version of the code has made one already.

    From a store that cannot be written to, stored runs are still returned. No measurement is discarded because a later
    step fails: the next call resumes from there.

    Args:
        setting: The setting to run.
        store: The folder of runs. Default: $DYNASCOPE_RUNS, or `runs` in the current folder.
        force: Whether to repeat a stored run. The old run stays until the new one is complete.
        draw: Whether to make figures, which are most of a small run's cost. A later call makes them from the stored
            measurement.
        on_progress: Called with the progress of the work.
        warn: Called with warnings, each a line.
        keep_every: Seconds between two checkpoints.
        watcher: Receives the record while it is made, and each step's files.

    Returns:
        The stored run; `reused` if nothing had to be done.

    Raises:
        UsageError: If the experiment refuses the setting before it has measured anything, or data are missing.
        ExperimentCrash: If the experiment's own code raises an exception, which is the cause.
        StoreError: If the store cannot be read or written, or another process is working on the run.
    """
    store = store or Store()
    try:
        with store.draft(setting) as draft:
            code = fingerprints(type(setting.experiment))
            stored = None if force else _current(store, draft, code, draw, warn)
            if stored:
                return stored if setting.sweep else draft.released(stored)
            if setting.sweep and draft.run_by_itself():
                setting = replace(setting, sweep=False)
            _open(draft, code, force)
            steps = Steps(setting, draft, store, draw=draw, watcher=watcher)
            try:
                with reserved(setting, store):
                    return steps.take(on_progress, warn, keep_every)
            except LabError:
                raise
            except Exception as error:
                if isinstance(error, OSError) and disk_full(error):
                    raise
                raise _explain(error, steps) from error
    except ReadOnlyError as error:
        stored = None if force else store.find(setting.id, setting.digest)
        if stored and _by_this_code(stored, fingerprints(type(setting.experiment))):
            return stored
        has = f"has no such run of {setting.id}"
        has = f"its stored run was made by different code ({stored.folder})" if stored else has
        raise ReadOnlyError(f"{error}, and {has}") from error
    except OSError as error:
        raise explain_os_error(error, f"running {setting.id}") from error


def _explain(error: Exception, steps: Steps) -> LabError:
    """The error to raise for an exception in the experiment's code. If the experiment refuses its setting before
    anything was measured, nothing is left behind; after any other exception the draft stays, with the traceback."""
    id, draft = steps.setting.id, steps.draft
    if isinstance(error, DataNotFoundError | InputError) and steps.doing == "measure":
        draft.discard_empty()
        return UsageError(f"{id}: {error}")
    log = draft.folder / "crash.log"
    write_atomically(log, "".join(traceback.format_exception(error)))
    return ExperimentCrash(f"{id}: {steps.doing} failed: {one_line(error)} (traceback in {log})")


def stored_run(setting: Setting, store: Store) -> StoredRun | None:
    """The stored run that `execute` would return without figures, its files not checked yet, or None. Nothing is
    locked."""
    try:
        found = StoredRun.open(store.root / setting.id / setting.digest, reused=True)
    except StoreError:
        return None
    return found if _by_this_code(found, fingerprints(type(setting.experiment))) else None


def _current(
    store: Store, draft: Draft, code: Mapping[str, str], draw: bool, warn: Callable[[str], None] | None
) -> StoredRun | None:
    """The stored run, if the current code made it. Otherwise the draft starts from those of its steps that have the
    same code."""
    stored = store.find(draft.id, draft.final.name)
    if stored is None:
        return None
    same_version = stored.manifest["dynascope"] == __version__
    known = stored.manifest.get("code") or {}
    if _by_this_code(stored, code) and (stored.figures or not draw):
        return stored
    same = [step for step in STEPS if same_version and known.get(step) == code[step]]
    if warn and len(same) < len(STEPS):
        again = next(step for step in STEPS if step not in same)
        warn(f"{draft.id}: the code has changed since this was stored, so it runs again from the step {again!r}")
    if "measure" in same and not draft.state:
        draft.clear()
        done = {}
        for step in same:
            names = [name for name in stored.manifest["files"] if name.startswith(FILES[step])]
            if step == "draw" and not names:
                continue
            for name in names:
                (draft.folder / name).parent.mkdir(parents=True, exist_ok=True)  # figures
                shutil.copyfile(stored.folder / name, draft.folder / name)
            done[step] = {name: stored.manifest["files"][name] for name in names}
        known_facts = ("device", "versions", "started", "resumed", SHARED, *TIMINGS)
        facts = {key: stored.manifest[key] for key in known_facts if key in stored.manifest}
        draft.keep_state({"dynascope": __version__, "code": code, "forced": False, "facts": facts, "done": done})
    return None


def _by_this_code(stored: StoredRun, code: Mapping[str, str]) -> bool:
    return stored.manifest["dynascope"] == __version__ and stored.manifest.get("code") == code


def _open(draft: Draft, code: Mapping[str, str], force: bool) -> None:
    """Keep the files of an earlier attempt if the code that measures is the same; else start with an empty folder.

    Forced runs start with an empty folder too, unless a forced run was cut short in the middle of measuring.
    """
    state = draft.state
    before = state.get("code") or {}
    same = state.get("dynascope") == __version__ and before.get("measure") == code["measure"]
    if not same or (force and (not state.get("forced") or state.get("done"))):
        draft.clear()
        state = {}
    done = {step: files for step, files in (state.get("done") or {}).items() if before.get(step) == code[step]}
    facts = state.get("facts") or {}
    draft.keep_state({"dynascope": __version__, "code": code, "forced": force, "facts": facts, "done": done})
