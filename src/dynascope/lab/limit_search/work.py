"""The search for the limits of a claim. Points are placed where its verdict changes, and run as those of a sweep are.

Each point and seed is a stored run. Points are chosen in rounds, from the verdicts and margins of all rounds before:
the same question places the same points, whichever executor carries them out. So one that was cut short continues with
the same call, and reads what is stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from dynascope.lab.arguments import check_calls
from dynascope.lab.errors import LabError, StoreError, one_line
from dynascope.lab.execute import stored_run
from dynascope.lab.experiment import Experiment
from dynascope.lab.limit_search.answer import Answer
from dynascope.lab.limit_search.claim_names import MAIN, is_named, missing_claim
from dynascope.lab.limit_search.points import GAP, Outcome, Point, outcome_of
from dynascope.lab.limit_search.question import Effort, Question, Values, ask
from dynascope.lab.limit_search.ranges import Span
from dynascope.lab.limit_search.search import Place, Search
from dynascope.lab.limit_search.summary import write_summary
from dynascope.lab.monitor import Progress
from dynascope.lab.store import Store
from dynascope.lab.sweeps.points import results_of, run_points
from dynascope.lab.workers.executors import InProcess

FIRST_SEEDS = 2
"""The seeds of every point; the others are run if these disagree."""
MOST_REPEATS = 50
"""How often a round may be sent to places that are known already, as happens with integers."""
Job = tuple[Values, int]


@dataclass(frozen=True)
class Limits:
    """The finished search: the answer, its dataset, a line for each run that is a gap in it, and its folder."""

    answer: Answer
    data: xr.Dataset
    gaps: Sequence[str]
    folder: Path


def limits(
    kind: type[Experiment] | str,
    over: Mapping[str, Span],
    *,
    claim: str = MAIN,
    base: Mapping[str, object] | None = None,
    preset: str | None = None,
    control: bool = False,
    points: int = 300,
    seeds: int = 3,
    resolution: float = 0.01,
    at_once: int = 4,
    store: Store | Path | str | None = None,
    executor: Executor | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> xr.Dataset:
    """Find the limits of a claim: the region of settings in which it holds, and the smallest change that breaks it.

    The first run is the default setting, the next are the corners of the ranges. From then on points are placed where
    the verdict changes, by the library `adaptive`. A run that crashes is a gap, not the end of the search. The result
    is stored with a figure, and stored runs are not repeated.

    Args:
        kind: The experiment, its class or its id.
        over: The range of each field: `(low, high)`, `(low, high, "log")`, or as text, `"1e-3:1:log"`. `name.0` is the
            first item of a field that is a list. The ends of an integer field are integers.
        claim: The id of a claim, or `main`, the first one.
        base: Values of other fields.
        preset: A preset of the experiment; its defaults if None.
        control: Whether to apply the control on top of the preset.
        points: Maximum number of runs, all seeds counted.
        seeds: Maximum number of seeds per point. Each point runs two, and the others if these disagree.
        resolution: The search ends when each limit is known to this fraction of its range.
        at_once: Number of points that are chosen and run side by side.
        store: The store or its folder. Default: $DYNASCOPE_RUNS, or `runs` in the current folder.
        executor: Anything with the interface of `concurrent.futures`. Default: this process.
        on_progress: Called after each run.

    Returns:
        A dataset over `point` (the values of the fields, `verdict`, `margin`, `share` of seeds with its interval `low`
        to `high`, `seeds`), over `limit` (the values between which the verdict changes and the estimate between them)
        and over `theory` (where the experiment's theory has the limit). The attribute `text` has the answer in lines.
    """
    check_calls(executor, on_progress)
    effort = Effort(points, seeds, resolution, at_once)
    question = ask(kind, over, claim=claim, base=base, preset=preset, control=control, effort=effort, store=store)
    done = carry_out(question, executor, on_progress=on_progress)
    return done.data.assign_attrs(gaps=list(done.gaps), folder=str(done.folder), text=done.answer.lines)


def carry_out(
    question: Question,
    executor: Executor | None = None,
    *,
    on_progress: Callable[[Progress], None] | None = None,
    on_gap: Callable[[str, BaseException], None] | None = None,
) -> Limits:
    """Carry out a search. `on_gap` is called with the line and the exception of each run that did not finish.

    A cluster that is lost and a store that cannot be written end it with their error; finished runs stay stored.
    """
    work = _Work(question, executor or InProcess(), on_progress, on_gap)
    work.search()
    answer = Answer.of(question, work.name, work.origin, list(work.points.values()))
    gaps = [line for _, line in sorted(work.gaps.items())]
    data = answer.dataset().assign_attrs(experiment=question.kind.id, title=question.kind.title(), claim=work.name)
    return Limits(answer, data, gaps, write_summary(question, answer, data, gaps))


class _Work:
    """The points of a search on their way to an answer."""

    def __init__(
        self,
        question: Question,
        executor: Executor,
        on_progress: Callable[[Progress], None] | None,
        on_gap: Callable[[str, BaseException], None] | None,
    ):
        self.question, self.executor, self.on_progress, self.on_gap = question, executor, on_progress, on_gap
        self.points: dict[Values, Point] = {}
        self.gaps: dict[Job, str] = {}
        self.name, self.ids = question.claim, list[str]()
        self.spent = self.done = self.ran = 0
        self.began = time.monotonic()
        start = question.start
        self.origin = Point(start or (), question.place(start) if start else ())

    def search(self) -> None:
        """The default setting, then round after round."""
        question = self.question
        self._evaluate([self.origin])
        self._check_claim()
        search = Search([span.step for span in question.ranges], question.effort.resolution)
        if self.origin.values:
            self.points[self.origin.values] = self.origin
            if all(0 <= at <= 1 for at in self.origin.place):
                search.tell(self.origin.place, self.origin.value)
        while self.spent < question.effort.runs:
            asked, fresh = self._choose(search)
            if not asked:
                return
            self._evaluate(list(fresh.values()))
            for place, values in asked:
                if self.points[values].outcomes:
                    search.tell(place, self.points[values].value)

    def _choose(self, search: Search) -> tuple[list[tuple[Place, Values]], dict[Values, Point]]:
        """The places of a round, and the points among them that are new."""
        asked: list[tuple[Place, Values]] = []
        fresh: dict[Values, Point] = {}
        while len(fresh) < self.question.effort.round and len(asked) < self.question.effort.round + MOST_REPEATS:
            place = search.ask()
            if place is None:
                break
            values = self.question.values(place)
            asked.append((place, values))
            if values not in self.points:
                fresh[values] = self.points[values] = Point(values, self.question.place(values))
        return asked, fresh

    def _evaluate(self, points: Sequence[Point]) -> None:
        """Run the first seeds of each point, and the others if these disagree, while runs are left."""
        effort = self.question.effort
        first = min(FIRST_SEEDS, effort.seeds)
        self._run([(point, seed) for point in points for seed in range(first)])
        self._run([(point, seed) for point in points if point.disagree for seed in range(first, effort.seeds)])

    def _run(self, wanted: Sequence[tuple[Point, int]]) -> None:
        jobs = wanted[: self.question.effort.runs - self.spent]
        self.spent += len(jobs)
        found: dict[int, Outcome] = {}
        for number, (point, seed) in enumerate(jobs):
            stored = stored_run(self._setting(point, seed), self.question.store)
            try:
                if stored:
                    found[number] = self._read(results_of(stored.verify())[0])
            except StoreError:
                continue
        self.done += len(found)
        missing = [number for number in range(len(jobs)) if number not in found]
        settings = {number: self._setting(*jobs[number]) for number in missing}
        for number, result in run_points(missing, settings.__getitem__, self.question.store, self.executor):
            if isinstance(result, Exception):
                found[number] = Outcome(GAP)
                self._note_gap(jobs[number], result)
            else:
                found[number] = self._read(result[0])
            self.done, self.ran = self.done + 1, self.ran + 1
            self._report()
        for number in sorted(found):
            jobs[number][0].outcomes.append(found[number])

    def _setting(self, point: Point, seed: int):
        return self.question.setting(point.values, seed)

    def _read(self, claims: Sequence[Mapping[str, object]]) -> Outcome:
        self.ids = self.ids or [str(claim["id"]) for claim in claims]
        return outcome_of(claims, self.question.claim)

    def _check_claim(self) -> None:
        """Refuse a claim that the default setting does not make, if the code does not name it either."""
        claim = self.question.claim
        if claim == MAIN:
            self.name = self.ids[0] if self.ids else MAIN
        elif self.ids and claim not in self.ids and not is_named(self.question.kind, claim):
            raise missing_claim(self.question.kind, claim, self.ids)

    def _note_gap(self, job: tuple[Point, int], error: Exception) -> None:
        point, seed = job
        pairs = zip(self.question.ranges, point.values, strict=False)
        name = ", ".join([*(f"{span.name}={value}" for span, value in pairs), f"seed {seed}"])
        self.gaps[point.values, seed] = f"{name}: {error if isinstance(error, LabError) else one_line(error)}"
        if self.on_gap:
            self.on_gap(self.gaps[point.values, seed], error)

    def _report(self) -> None:
        if self.on_progress:
            total = self.question.effort.runs
            rate = self.ran / max(time.monotonic() - self.began, 1e-9)
            self.on_progress(Progress("runs", self.done, total, rate, (total - self.done) / rate))
