"""In what share of seeds does each claim hold? Every experiment at several seeds, and a table of its claims."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import asdict, dataclass
from typing import Any

from dynascope.lab.claims import wilson_interval
from dynascope.lab.entry import Entry
from dynascope.lab.errors import LabError, WorkerLost, one_line
from dynascope.lab.fields import build
from dynascope.lab.files import write_atomically
from dynascope.lab.json_text import pretty
from dynascope.lab.monitor import Progress
from dynascope.lab.registry import load
from dynascope.lab.run import run
from dynascope.lab.store import Store
from dynascope.lab.workers.executors import InProcess

FILE = "audit"


@dataclass(frozen=True)
class Row:
    """One claim over the seeds: how often it held (an erratum holds too), and how often that is what is on record."""

    id: str
    claim: str
    main: bool
    holds: int
    agrees: int
    of: int
    failing_seeds: tuple[int, ...]
    known: str
    statement: str

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the share of seeds in which it holds."""
        return wilson_interval(self.holds, self.of)


@dataclass(frozen=True)
class Audit:
    """The claims of all experiments over the seeds, and a line for each run that crashed."""

    preset: str | None
    seeds: tuple[int, ...]
    rows: list[Row]
    errors: list[str]

    @property
    def agreement(self) -> float:
        """The share of all pairs of a claim and a seed in which the verdict is the one on record."""
        return sum(row.agrees for row in self.rows) / max(1, sum(row.of for row in self.rows))


def audit(
    entries: Sequence[Entry],
    seeds: Sequence[int],
    *,
    preset: str | None = "quick",
    store: Store | None = None,
    executor: Executor | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Audit:
    """Run each experiment at each seed, without figures, and count its verdicts.

    The runs are stored like any others, so that an audit that was cut short goes on where it stopped. An experiment's
    seeds run in one process, which compiles once. The table is kept in the store as `audit.json` and `audit.csv`.
    """
    store, executor = store or Store(), executor or InProcess()
    kinds = [load(entry) for entry in entries]
    for kind in kinds:
        build(kind, {}, _preset(kind, preset))
    done, began = 0, time.monotonic()

    def count(_: Future) -> None:
        nonlocal done
        done += 1
        if on_progress:
            rate = done / max(time.monotonic() - began, 1e-9)
            on_progress(Progress("experiments", done, len(kinds), rate, (len(kinds) - done) / rate))

    futures: list[Future] = []
    try:
        for entry, kind in zip(entries, kinds, strict=True):
            given = kind if isinstance(executor, InProcess) else entry.address
            future = executor.submit(_over_seeds, given, _preset(kind, preset), tuple(seeds), str(store.root))
            future.add_done_callback(count)
            futures.append(future)
        found = [_found(kind.id, future) for kind, future in zip(kinds, futures, strict=True)]
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    rows = [row for table, _ in found for row in table]
    errors = [line for _, lines in found for line in lines]
    result = Audit(preset, tuple(seeds), rows, errors)
    _keep(store, result)
    return result


def _preset(kind: Any, preset: str | None) -> str | None:
    """An experiment without the preset runs in its full setting."""
    return preset if preset in kind.presets else None


def _found(id: str, future: Future) -> tuple[list[Row], list[str]]:
    try:
        return future.result()
    except WorkerLost as error:
        return [], [f"{id}: {error}; finished runs are stored"]


def _over_seeds(given: Any, preset: str | None, seeds: Sequence[int], root: str) -> tuple[list[Row], list[str]]:
    kind = load(given) if isinstance(given, str) else given
    judged: dict[str, list[tuple[int, Any]]] = {}
    errors = []
    main = ""
    for seed in seeds:
        try:
            claims = run(build(kind, {}, preset), seed=seed, preset=preset, store=Store(root), draw=False).claims
        except LabError as error:
            errors.append(f"{kind.id}, seed {seed}: {one_line(error)}")
            continue
        main = main or claims[0].id
        for claim in claims:
            judged.setdefault(claim.id, []).append((seed, claim))
    rows = []
    for id, found in judged.items():
        failing = tuple(seed for seed, claim in found if claim.verdict == "fails")
        last = found[-1][1]
        agrees = sum(not claim.is_news for _, claim in found)
        rows.append(
            Row(
                kind.id,
                id,
                id == main,
                len(found) - len(failing),
                agrees,
                len(found),
                failing,
                last.known,
                last.statement,
            )
        )
    return rows, errors


def _keep(store: Store, audit: Audit) -> None:
    rows = [{**asdict(row), "share": row.holds / row.of, "interval": row.interval} for row in audit.rows]
    head = {"preset": audit.preset, "seeds": audit.seeds, "agreement": audit.agreement, "errors": audit.errors}
    write_atomically(store.root / f"{FILE}.json", pretty({**head, "rows": rows}))
    text = io.StringIO()
    columns = ("id", "claim", "main", "holds", "of", "failing_seeds", "known", "statement")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        row["failing_seeds"] = " ".join(map(str, row["failing_seeds"]))
        writer.writerow(row[name] for name in columns)
    write_atomically(store.root / f"{FILE}.csv", text.getvalue())
