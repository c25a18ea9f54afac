"""The audit: every experiment at several seeds, and the share of seeds in which each claim holds."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass

from dynascope.lab.batch import outcomes
from dynascope.lab.claims import Claim, wilson_interval
from dynascope.lab.errors import LabError, one_line
from dynascope.lab.experiment import Experiment
from dynascope.lab.files import write_atomically
from dynascope.lab.json_text import pretty
from dynascope.lab.monitor import Progress
from dynascope.lab.registry import load
from dynascope.lab.setting import Setting
from dynascope.lab.store import Store
from dynascope.lab.workers.executors import InProcess

FILE = "audit"


@dataclass(frozen=True)
class Row:
    """One claim over the seeds: the number of seeds in which it held (an erratum holds too) and in which the verdict is
    that on record."""

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
    experiments: Sequence[str | type[Experiment]],
    seeds: Sequence[int],
    *,
    preset: str | None = "quick",
    store: Store | None = None,
    executor: Executor | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Audit:
    """Run each experiment at each seed, without figures, and count its verdicts.

    The runs are stored like any others, so an audit that was cut short resumes where it stopped. The table is kept in
    the store as `audit.json` and `audit.csv`.

    Args:
        experiments: Ids, files or classes.
        seeds: The seeds.
        preset: The preset to run; an experiment without it runs in its full setting.
        store: The folder of runs.
        executor: Anything with the interface of `concurrent.futures`. Default: this process.
        on_progress: Called when an experiment is done.

    Returns:
        A row for each claim, and a line for each run that did not finish.
    """
    store, executor = store or Store(), executor or InProcess()
    settings = [setting for each in experiments for setting in settings_over(each, seeds, preset)]
    judged: dict[tuple[str, str], list[tuple[int, Claim]]] = {}
    main: dict[str, str] = {}
    errors = []
    results = outcomes(settings, store, executor, draw=False, on_progress=on_progress)
    for setting, (result, _) in zip(settings, results, strict=True):
        if isinstance(result, LabError):
            errors.append(f"{setting.id}, seed {setting.seed}: {one_line(result)}")
            continue
        main.setdefault(setting.id, result.claims[0].id)
        for claim in result.claims:
            judged.setdefault((setting.id, claim.id), []).append((setting.seed, claim))
    rows = [_row(id, found, main[id] == found[0][1].id) for (id, _), found in judged.items()]
    result = Audit(preset, tuple(seeds), rows, errors)
    _keep(store, result)
    return result


def settings_over(experiment: str | type[Experiment], seeds: Iterable[int], preset: str | None) -> list[Setting]:
    """An experiment at each seed, in the preset if it has one of this name, else in its full setting."""
    kind = load(experiment) if isinstance(experiment, str) else experiment
    named = preset if preset in kind.presets else None
    return [Setting.parse(kind, preset=named, seed=seed) for seed in seeds]


def _row(id: str, found: Sequence[tuple[int, Claim]], main: bool) -> Row:
    """One claim, as it was judged at each seed."""
    failing, last = tuple(seed for seed, claim in found if claim.verdict == "fails"), found[-1][1]
    agrees = sum(not claim.is_news for _, claim in found)
    counts = {"holds": len(found) - len(failing), "agrees": agrees, "of": len(found)}
    return Row(id, last.id, main, **counts, failing_seeds=failing, known=last.known, statement=last.statement)


def _keep(store: Store, audit: Audit) -> None:
    rows = [{**asdict(row), "share": row.holds / row.of, "interval": row.interval} for row in audit.rows]
    head = {"preset": audit.preset, "seeds": audit.seeds, "agreement": audit.agreement, "errors": audit.errors}
    write_atomically(store.root / f"{FILE}.json", pretty({**head, "rows": rows}))
    text = io.StringIO()
    columns = ["id", "claim", "main", "holds", "of", "failing_seeds", "known", "statement"]
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "failing_seeds": " ".join(map(str, row["failing_seeds"]))} for row in rows)
    write_atomically(store.root / f"{FILE}.csv", text.getvalue())
