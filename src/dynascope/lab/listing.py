"""Stored runs as rows: the fields in which runs of one experiment differ, verdicts, age and size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynascope.lab.arguments import check_flags, check_text, store_of
from dynascope.lab.inventory import Item, inventory
from dynascope.lab.json_text import canonical
from dynascope.lab.store import Store

if TYPE_CHECKING:
    import pandas as pd


def fields_that_differ(items: Iterable[Item]) -> dict[str, list[str]]:
    """For each experiment the fields in which its runs differ, in the order of the configuration."""
    configs: dict[str, list[Mapping[str, Any]]] = {}
    for item in items:
        if item.run:
            configs.setdefault(item.id, []).append(item.run.config)
    found = {}
    for id, fields in configs.items():
        names = dict.fromkeys(name for each in fields for name in each)
        values = {name: {canonical(each[name]) if name in each else None for each in fields} for name in names}
        found[id] = [name for name in names if len(values[name]) > 1]
    return found


def rows(items: Sequence[Item]) -> list[dict[str, Any]]:
    """The items as plain values: the output of `dynascope runs --json`."""
    names = fields_that_differ(items)
    return [_row(item, names.get(item.id, ())) for item in items]


def _row(item: Item, names: Iterable[str]) -> dict[str, Any]:
    run = item.run
    row: dict[str, Any] = {"id": item.id, "digest": item.digest, "state": item.state}
    if run:
        counts = run.manifest["claims"]
        row |= {"preset": run.preset, "seed": run.seed, "sweep": run.sweep}
        row["settings"] = {name: run.config[name] for name in names if name in run.config}
        row |= {"holds": counts.get("holds"), "errata": counts.get("erratum"), "fails": counts.get("fails")}
        row |= {"news": list(counts.get("news") or ()), "finished": run.manifest["finished"]}
    row |= {"age_seconds": round(item.age), "bytes": item.size, "folder": str(item.folder)}
    return {**row, "problem": item.problem} if item.problem else row


def runs(pattern: str = "*", *, sweeps: bool = False, store: Store | Path | str | None = None) -> pd.DataFrame:
    """The complete runs of the store as a table, the latest first.

    Args:
        pattern: An id or a glob such as `"edge.*"`. Default: all experiments.
        sweeps: Whether to include the points of sweeps.
        store: The store or its folder. Default: $DYNASCOPE_RUNS, or `runs` in the current folder.

    Returns:
        A data frame with a row for each run: `id`, `digest` (a name for `load`), `preset`, `seed`, a column for each
        field that differs between the runs of one experiment, the numbers of claims that are `holds`, `errata` and
        `fails`, `finished`, `bytes` and `folder`.
    """
    import pandas as pd

    check_text(pattern=pattern)
    check_flags(sweeps=sweeps)
    found = rows([item for item in inventory(store_of(store), pattern, sweeps=sweeps) if item.run])
    head, tail = ("id", "digest", "preset", "seed"), ("holds", "errata", "fails", "finished", "bytes", "folder")
    settings = list(dict.fromkeys(name for row in found for name in row["settings"]))
    columns: dict[str, Any] = {name: [row[name] for row in found] for name in (*head, *tail)}
    columns |= {name: [row["settings"].get(name) for row in found] for name in settings if name not in columns}
    columns["finished"] = pd.to_datetime(columns["finished"], utc=True, format="ISO8601", errors="coerce")
    order = [*head, *(name for name in settings if name not in (*head, *tail)), *tail]
    return pd.DataFrame({name: columns[name] for name in order})
