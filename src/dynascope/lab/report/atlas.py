"""The atlas of a store: every experiment with its runs, the one for the card first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dynascope.lab import formatting
from dynascope.lab.errors import StoreError, one_line
from dynascope.lab.report.about import About, Find, about
from dynascope.lab.report.limits import LimitsPage, read_limits
from dynascope.lab.report.pages import RunPage
from dynascope.lab.report.sweeps import SweepPage, read_sweeps
from dynascope.lab.store import Store

PREFERENCE = ("full", "quick")
"""The order of preference for the card: these kinds of runs, then any other, and last a control, which shows the
absence of the phenomenon."""

MOST_OF_A_KIND = 30
"""The number of runs of one kind that get a page."""


@dataclass(frozen=True)
class ExperimentPages:
    """An experiment, its runs (never empty, the card's first), the number of further runs, its sweeps and limits."""

    id: str
    runs: Sequence[RunPage]
    left_out: int
    sweeps: Sequence[SweepPage]
    limits: Sequence[LimitsPage]

    @property
    def chosen(self) -> RunPage:
        return self.runs[0]

    @property
    def system(self) -> str:
        return formatting.system(self.id)


@dataclass(frozen=True)
class Atlas:
    """All that the site shows, and a line for each run folder that cannot be read."""

    experiments: Sequence[ExperimentPages]
    sweeps: Sequence[SweepPage]
    limits: Sequence[LimitsPage]
    problems: Sequence[str]
    root: Path

    @property
    def broken(self) -> list[str]:
        """The problems in the page's words: a reader of a copy of the site does not have the store."""
        return [line.removeprefix(f"{self.root}/") for line in self.problems]

    @property
    def counts(self) -> str:
        """The amount of data that the site shows."""
        return counted(self.experiments)

    @property
    def tally(self) -> Counter[str]:
        """The verdicts over all cards."""
        return sum((experiment.chosen.tally for experiment in self.experiments), Counter())

    @property
    def systems(self) -> dict[str, list[ExperimentPages]]:
        """The experiments by system, in the order of their ids."""
        found: dict[str, list[ExperimentPages]] = {}
        for experiment in self.experiments:
            found.setdefault(experiment.system, []).append(experiment)
        return found


def counted(pages: Sequence[ExperimentPages]) -> str:
    """The numbers of experiments and observations, in words."""
    observed = sum(page.chosen.observed for page in pages)
    parts = [(len(pages) - observed, "experiment"), (observed, "observation")]
    return ", ".join(formatting.count(number, name) for number, name in parts if number)


def gather(store: Store, find: Find, data: bool = False) -> Atlas:
    """The atlas of the store's complete runs, with every file checked; with `data` for the arrays among their files."""
    runs, problems = store.runs()
    pages: dict[str, list[RunPage]] = {}
    facts: dict[str, About] = {}
    for run in (run for run in runs if not run.sweep):
        try:
            run.verify()
            facts.setdefault(run.id, about(run.id, find, run.manifest))
            pages.setdefault(run.id, []).append(RunPage(run, facts[run.id], data))
        except StoreError as error:
            problems.append(str(error))
        except (ValueError, KeyError, TypeError) as error:  # checksums agree, but the content is not in our format
            problems.append(f"{run.folder} cannot be shown ({one_line(error)})")
    read = [one for id in store.ids() for one in read_sweeps(store.root / id, data)]
    sweeps = [one for one in read if isinstance(one, SweepPage)]
    problems += [one for one in read if isinstance(one, str)]
    looked = [one for id in store.ids() for one in read_limits(store.root / id, data)]
    limits = [one for one in looked if isinstance(one, LimitsPage)]
    problems += [one for one in looked if isinstance(one, str)]
    experiments = []
    for id, found in sorted(pages.items()):
        shown = kept(preferred(found))
        own = [sweep for sweep in sweeps if sweep.id == id], [one for one in limits if one.id == id]
        experiments.append(ExperimentPages(id, shown, len(found) - len(shown), *own))
    return Atlas(experiments, sweeps, limits, problems, store.root)


def preferred(pages: Iterable[RunPage]) -> list[RunPage]:
    """The runs in order of preference for the card; among equals the latest first."""
    latest = sorted(pages, key=lambda page: str(page.manifest.get("finished") or ""), reverse=True)
    return sorted(latest, key=lambda page: (page.control, [*PREFERENCE, page.kind].index(page.kind)))


def kept(pages: list[RunPage]) -> list[RunPage]:
    """The runs that get a page: the first ones of each kind."""
    seen: Counter[str] = Counter()
    shown = []
    for page in pages:
        seen[page.kind] += 1
        if seen[page.kind] <= MOST_OF_A_KIND:
            shown.append(page)
    return shown
