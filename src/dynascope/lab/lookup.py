"""The names of runs, and finding a run by its name.

| name | the run |
|---|---|
| `3fa9c1d2` | with this digest; its first four digits are enough if no other begins with them |
| `edge.product/3fa9c1d2` | the same, of this experiment |
| `edge.product` | the latest of this experiment |
| `edge.product@quick`, `edge.product@full` | the latest in exactly this setting: a preset, or the full one |
| `edge.product:3`, `edge.product@quick:3` | the latest with this seed |
| `mine.py::my.thing@quick` | the same for an experiment in a file |
| a folder | the run in it |
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dynascope.lab import registry
from dynascope.lab.arguments import check_flags, check_seed, check_text, experiment_class, store_of
from dynascope.lab.errors import LabError, StoreError, UsageError, plain
from dynascope.lab.inventory import matching_ids
from dynascope.lab.run_folders import UNFINISHED
from dynascope.lab.setting import Setting
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun

if TYPE_CHECKING:
    from dynascope.lab.experiment import Experiment

_NAME = re.compile(r"(?P<address>.+?)(@(?P<preset>[^@:/]+))?((?<!:):(?P<seed>[0-9]{1,10}))?")
_DIGEST = re.compile(r"((?P<id>[^/]+)/)?(?P<start>[0-9a-f]{4,12})")


@dataclass(frozen=True)
class Wanted:
    """The properties that a run must have, as options of `dynascope run`. If a preset, the control or changes are
    given, it must be in exactly that setting."""

    preset: str | None = None
    seed: int | None = None
    control: bool = False
    changes: Mapping[str, object] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        return bool(self.preset or self.control or self.changes)


ANY = Wanted()


def load(
    name: str | type[Experiment],
    *,
    preset: str | None = None,
    seed: int | None = None,
    control: bool = False,
    store: Store | Path | str | None = None,
    **fields: object,
) -> StoredRun:
    """The latest stored run of this name. Nothing runs.

    Args:
        name: The class or id of an experiment, or any name that `dynascope where` takes: `"edge.product@quick:3"`.
        preset: Only runs in this preset. With `preset`, `control` or `fields`, only runs in exactly that setting.
        seed: Only runs with this seed.
        control: Only runs of the control.
        store: The store or its folder. Default: $DYNASCOPE_RUNS, or `runs` in the current folder.
        **fields: Only runs with these fields of the experiment.

    Raises:
        StoreError: If there is no such run; the message gives the command that makes it.
    """
    store, wanted = store_of(store), Wanted(preset, seed, control, fields)
    check_text(preset="" if preset is None else preset)
    check_flags(control=control)
    check_seed(seed)
    if not isinstance(name, str):
        name = experiment_class(name, "name")
    return find(store, name, wanted) if isinstance(name, str) else _latest(store, name, wanted)


def find(store: Store, name: str, wanted: Wanted = ANY) -> StoredRun:
    """The run of this name with the properties that are wanted; a `StoreError` if there is none."""
    folder = locate(store, name, wanted)
    there = store.readable(folder)
    if folder.suffix == UNFINISHED or (there is None and folder.with_name(folder.name + UNFINISHED).exists()):
        raise StoreError(f"{folder} is unfinished: repeat the command that began it to continue")
    return StoredRun.open(there or folder)


def locate(store: Store, name: str, wanted: Wanted = ANY) -> Path:
    """The folder of the run of this name. A digest or a folder may also name a damaged or unfinished run."""
    folder = _folder(store, name) or _by_digest(store, name)
    if folder:
        if wanted != ANY:
            raise UsageError(
                f"{name} already names one run: give a preset, a seed or settings with an experiment's id only"
            )
        return folder
    said = _NAME.fullmatch(name)
    if said is None:
        raise UsageError(f"a run is named by an id, a digest or a folder; got '{plain(name)}'")
    for what, here, other in (("preset", said["preset"], wanted.preset), ("seed", said["seed"], wanted.seed)):
        if here is not None and other is not None:
            raise UsageError(f"the {what} is given twice: {here} and {other}")
    preset, seed = said["preset"] or wanted.preset, wanted.seed if said["seed"] is None else int(said["seed"])
    return _latest(store, said["address"], Wanted(preset, seed, wanted.control, wanted.changes)).folder


def _folder(store: Store, name: str) -> Path | None:
    """The folder that a path names, from here or from the store."""
    for path in (Path(name), store.root / name):
        if os.path.isdir(path) and ("/" in name or os.path.exists(path / "manifest.json")):
            return path if len(path.parts) > 1 and ".." not in path.parts else Path(os.path.abspath(path))
    return None


def _by_digest(store: Store, name: str) -> Path | None:
    said = _DIGEST.fullmatch(name)
    if said is None or name in store.ids():
        return None
    digests = {
        (id, folder.name.partition(".")[0])
        for id in (matching_ids(store, said["id"]) if said["id"] else store.ids())
        for folder in store.folders(id)
        if folder.name.startswith(said["start"])
    }
    if not digests:
        raise StoreError(
            f"{store.root} has no run whose digest begins with {said['start']}: `dynascope runs` lists them"
        )
    if len(digests) > 1:
        first, second, *_ = ("/".join(pair) for pair in sorted(digests))
        raise UsageError(f"{name} is short for {len(digests)} runs: {first}, {second}, ...; give more digits")
    return store.root.joinpath(*digests.pop())


def _latest(store: Store, address: str | type[Experiment], wanted: Wanted) -> StoredRun:
    """The latest run of an experiment with the properties that are wanted; points of sweeps only for an exact
    setting."""
    if wanted.exact:
        kind = _experiment(store, address) if isinstance(address, str) else address
        options = {"preset": wanted.preset, "control": wanted.control, "changes": wanted.changes}
        setting = Setting.parse(kind, **options, seed=wanted.seed or 0)
        id, fields, command = setting.id, setting.fields, setting.command
    else:
        address = address if isinstance(address, str) else address.id
        ids = matching_ids(store, address)
        if len(ids) > 1:
            raise UsageError(
                f"'{plain(address)}' matches {len(ids)} experiments, but one is needed: {ids[0]}, {ids[1]}, ..."
            )
        id, fields = ids[0] if ids else address, None
        command = f"dynascope run {address}" + (f" --seed {wanted.seed}" if wanted.seed else "")
    for run in reversed(store.runs(id)[0]):
        right_seed = wanted.seed is None or run.seed == wanted.seed
        if right_seed and (_config(run) == fields if fields is not None else not run.sweep):
            return run
    raise StoreError(f"{store.root} has no such run of {id}: create it with `{command}`")


def _experiment(store: Store, address: str) -> type[Experiment]:
    try:
        return registry.load(address)
    except LabError:
        if address not in store.ids():
            raise
        raise UsageError(
            f"{address} is stored, but its experiment is not found, so its presets and fields are not known: "
            "give its file (mine.py::id), or the digest of a run"
        ) from None


def _config(run: StoredRun) -> Mapping[str, object] | None:
    """Its fields, or None if they cannot be read."""
    try:
        return run.config
    except (StoreError, ValueError, KeyError, TypeError):
        return None
