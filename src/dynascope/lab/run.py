"""One run of one experiment, carried out and stored.

A run that this code has stored before is returned as it is. Of one that other code has stored, the steps whose code has
not changed are taken over. The steps themselves are in `steps`.
"""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext

from dynascope import __version__
from dynascope.checks import InputError, whole
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
from dynascope.lab.experiment import ComposedExperiment, Experiment, OptionalExperiment
from dynascope.lab.files import write_atomically
from dynascope.lab.fingerprint import STEPS, fingerprints
from dynascope.lab.monitor import Progress, Watcher
from dynascope.lab.registry import check
from dynascope.lab.shared import SHARED, reserved
from dynascope.lab.steps import FILES, TIMINGS, Steps
from dynascope.lab.store import ReadOnlyError, Store, run_digest
from dynascope.lab.stored_run import StoredRun
from dynascope.tasks.data import catalog
from dynascope.tasks.data.files import DataNotFoundError

LARGEST_SEED = 2**32 - 1
"""`jax.random.key` drops higher bits, so larger seeds would repeat the runs of smaller ones."""


def run(
    experiment: Experiment,
    *,
    seed: int = 0,
    preset: str | None = None,
    store: Store | None = None,
    force: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    warn: Callable[[str], None] | None = None,
    keep_every: float = 10.0,
    draw: bool = True,
    of_sweep: bool = False,
    watcher: Watcher | None = None,
) -> StoredRun:
    """Run an experiment, or return its stored run where this version of its code has one already.

    `seed` is an integer from 0 to 2**32 - 1. `preset` is only recorded. `force` runs again what is stored; the old
    run stays until the new one is complete. `on_progress` and `warn` are called with progress and with warnings.
    `keep_every` is the number of seconds between two checkpoints. Without `draw` no figures are made, which are most of
    the cost of a small run; a later run with `draw` makes them from the stored measurement. A run `of_sweep` is marked
    so in its manifest, unless it was run by itself before; lists and cards leave it out. A `watcher` sees what is
    recorded while it is, and each step's files. An exception in the
    experiment's own code is raised as an `ExperimentCrash` whose cause it is. A store that cannot be written to gives
    the runs that it has.
    """
    seed = whole("seed", seed, at_least=0, at_most=LARGEST_SEED)
    check(type(experiment))
    store = store or Store()
    data = data_checksums(experiment)
    try:
        with store.draft(experiment, seed, data) as draft:
            code = fingerprints(type(experiment))
            stored = None if force else _current(store, draft, code, draw, warn)
            if stored:
                return stored if of_sweep else draft.released(stored)
            of_sweep = of_sweep and not draft.run_by_itself()
            _open(draft, code, force)
            work = Steps(experiment, draft, draw, data, store, of_sweep, watcher)
            try:
                shares = isinstance(experiment, ComposedExperiment)
                with reserved(experiment, seed, store, data) if shares else nullcontext():
                    return work.carried_out(preset, on_progress, warn, keep_every)
            except LabError:
                raise
            except Exception as error:
                if isinstance(error, OSError) and disk_full(error):
                    raise
                if isinstance(error, DataNotFoundError | InputError) and work.doing == "measure":
                    draft.discard_empty()
                    raise UsageError(f"{experiment.id}: {error}") from error
                log = draft.folder / "crash.log"
                write_atomically(log, traceback.format_exc())
                raise ExperimentCrash(
                    f"{experiment.id}: {work.doing} failed: {one_line(error)} (traceback in {log})"
                ) from error
    except ReadOnlyError as error:
        stored = None if force else store.find(experiment.id, run_digest(experiment, seed, data))
        if stored and _by_this_code(stored, fingerprints(type(experiment))):
            return stored
        has = f"its run is of other code ({stored.folder})" if stored else f"has no such run of {experiment.id}"
        raise ReadOnlyError(f"{error}, and {has}") from error
    except OSError as error:
        raise explain_os_error(error, f"running {experiment.id}") from error


def stored_run(experiment: Experiment, seed: int, store: Store, data: Mapping[str, str]) -> StoredRun | None:
    """The stored run that `run` would return without figures, its files not checked yet, or None. Nothing is locked."""
    folder = store.root / experiment.id / run_digest(experiment, seed, data)
    try:
        found = StoredRun.open(folder, reused=True)
    except StoreError:
        return None
    known = found.manifest.get("code")
    return found if found.manifest["dynascope"] == __version__ and known == fingerprints(type(experiment)) else None


def data_checksums(experiment: Experiment) -> dict[str, str]:
    """The checksums of the data sets that an experiment reads. A missing one, or whatever else it needs and is missing,
    ends the run before it begins."""
    if isinstance(experiment, OptionalExperiment) and (missing := experiment.missing()):
        raise UsageError(f"{experiment.id}: {missing}")
    try:
        return {name: catalog.checksum(name) for name in experiment.data_sets()}
    except FileNotFoundError as error:
        raise UsageError(f"{experiment.id}: {error}") from None


def _current(
    store: Store, draft: Draft, code: Mapping[str, str], draw: bool, warn: Callable[[str], None] | None
) -> StoredRun | None:
    """The stored run, if this code made it. Else the draft starts from those of its steps that have the same code."""
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
    """Keep what an earlier attempt left if the code that measures is the same; else start with an empty folder.

    Forced runs start with an empty folder too, except where a forced run was cut short in the middle of measuring.
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
