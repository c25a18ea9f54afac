"""The store for the page: experiments with their last verdicts, runs, one run, its files.

A run is named by its id and digest. Both are looked up among the existing folders, never joined to a path as received,
and only the files that its manifest lists can be read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dynascope.lab import formatting, registry
from dynascope.lab.claims import Claim
from dynascope.lab.errors import LabError, StoreError, UsageError
from dynascope.lab.inventory import inventory
from dynascope.lab.listing import rows
from dynascope.lab.report.prose import plain, prose
from dynascope.lab.setting import Setting
from dynascope.lab.store import Store
from dynascope.lab.stored_run import StoredRun
from dynascope.live.headline import headline

MOST_RUNS = 300
"""The most runs of an experiment that are listed."""
TRACES = ("measured", "predicted", "reduced")


class NotThere(StoreError):
    """The store has no entry of this name."""


def experiments(store: Store) -> list[dict[str, Any]]:
    """Every experiment: its question, source, cost and last verdict."""
    last = store.latest()[0]
    return [
        {
            "id": entry.id,
            "title": plain(entry.title),
            "system": formatting.system(entry.id),
            "place": entry.place,
            "document": entry.document,
            "cost": {name: formatting.duration(seconds) for name, seconds in entry.cost.items()},
            "verdict": last[entry.id].verdict if entry.id in last else None,
        }
        for entry in registry.survey()[0]
    ]


def runs(store: Store, id: str) -> list[dict[str, Any]]:
    """The runs of an experiment, the latest first, with the settings in which they differ."""
    if id not in store.ids():
        return []
    found = rows(inventory(store, id, sweeps=False)[:MOST_RUNS])
    for row in found:
        row["differs"] = {name: formatting.text(value) for name, value in row.get("settings", {}).items()}
        row["age"] = formatting.age(row["age_seconds"])
    return [{key: value for key, value in row.items() if key not in ("folder", "settings")} for row in found]


def opening(store: Store, setting: Setting) -> str:
    """The digest of the run on which a setting opens: its own; for the usual setting else the latest; "" if there is
    none."""
    try:
        return opened(store, setting.id, setting.digest).digest
    except (LabError, StoreError):
        latest = store.latest(setting.id)[0] if is_usual(setting) and setting.id in store.ids() else {}
        return latest[setting.id].digest if setting.id in latest else ""


def is_usual(setting: Setting) -> bool:
    """Whether it is what a page shows first: the quick preset, if there is one, as it stands."""
    usual = "quick" if "quick" in type(setting.experiment).presets else None
    return setting.preset == usual and not (setting.control or setting.changes or setting.seed)


def opened(store: Store, id: str, digest: str) -> StoredRun:
    """A complete run; `NotThere` if there is none of this name."""
    folders = {path.name: path for path in store.folders(id)} if id in store.ids() else {}
    folder = folders.get(digest) or folders.get(f"{digest}.old")
    if folder is None or "." in digest:
        raise NotThere(f"the store has no run {id[:100]}/{digest[:100]}")
    return StoredRun.open(folder)


def describe(run: StoredRun) -> dict[str, Any]:
    """A run in the form that its page shows."""
    return {
        "id": run.id,
        "digest": run.digest,
        "title": run.manifest.get("title", run.id),
        "preset": run.preset,
        "seed": run.seed,
        "command": run.manifest["command"],
        "python": f'import dynascope as ds\n\nstored = ds.lab.load("{run.id}/{run.digest}")\nstored.measured()\n',
        "finished": formatting.timestamp(run.manifest["finished"]),
        "settings": {name: formatting.text(value) for name, value in run.config.items()},
        "claims": [claim_row(claim) for claim in run.claims],
        "figures": list(run.manifest["figures"]),
        "traces": [name for name in TRACES if f"{name}.nc" in run.manifest["files"]],
    }


def claim_row(claim: Claim) -> dict[str, Any]:
    """A claim for display: its numbers as text, its sentences as HTML."""
    row = claim.model_dump(mode="json")
    sentences = ("statement", "known", "printed", "post_hoc")
    texts = {name: format_value(row[name]) for name in ("measured", "expected")}
    texts["headline"] = headline(row["measured"], row["expected"])
    return {**row, "mark": claim.mark, **texts, **{name: prose(row[name]) for name in sentences if row.get(name)}}


def format_value(value: Any) -> Any:
    """A number of a claim as text; pairs of label and text if it has labels (an object would lose their order)."""
    if not formatting.is_table(value):
        return formatting.text(value)
    if isinstance(value, dict):
        return {"pairs": [(formatting.label(key), format_value(item)) for key, item in value.items()]}
    return [format_value(item) for item in value]


def figure(run: StoredRun, name: str, kind: str) -> Path:
    """A figure's file."""
    if name not in run.manifest["figures"] or kind not in ("png", "svg"):
        raise NotThere(f"{run.id}/{run.digest} has no figure '{name[:100]}.{kind[:10]}'")
    return run.folder / "figures" / f"{name}.{kind}"


def trace(run: StoredRun, name: str) -> Any:
    """A stored trace: `measured`, `predicted` or `reduced`."""
    if name not in TRACES:
        raise UsageError(f"a trace is one of {', '.join(TRACES)}; got '{name[:100]}'")
    found = getattr(run, name)()
    if found is None:
        raise NotThere(f"{run.id}/{run.digest} has no {name} trace")
    return found
