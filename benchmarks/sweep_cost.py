"""What a sweep costs beyond its science: points per second beside the plain loop that one would write.

The loop calls `measure` of the same experiment, with the same compiled program, and keeps nothing. A sweep also
predicts, reduces, judges and stores, each file with its checksum. The small setting shows what a point itself costs.
"""

from __future__ import annotations

import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from benchmarks.timing import tell

ID = "concept.signal-order"
SMALL = {"dim": 4, "samples": 64, "batch": 16, "epochs": 4, "seeds": 2}
QUICK: dict[str, Any] = {}


def spent(work: Callable[[], Any]) -> tuple[float, float]:
    """Wall seconds, and CPU seconds of this process and of its children that have ended."""

    def cpu() -> float:
        usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)

    wall, before = time.perf_counter(), cpu()
    work()
    return time.perf_counter() - wall, cpu() - before


def signals(start: int, count: int) -> list[float]:
    """Settings that no other part of the race has run, all with the same compiled program."""
    return [round(1.5 + 0.0001 * (start + k), 6) for k in range(count)]


class Race:
    """The loop and the sweep over settings of one size."""

    def __init__(self, fields: dict[str, Any], points: int, folder: str):
        from dynascope.lab import registry
        from dynascope.lab.store import Store

        self.kind, self.fields, self.points = registry.load(ID), fields, points
        self.store, self.used = Store(folder), 0

    def fresh(self) -> list[float]:
        self.used += self.points
        return signals(self.used, self.points)

    def loop(self, steps: bool = False) -> None:
        """The plain loop: `measure`, or with `steps` what follows it too, and nothing kept."""
        from dynascope.lab.fields import build
        from dynascope.lab.machine import compilation_cache, precision

        with compilation_cache():
            for value in self.fresh():
                experiment: Any = build(self.kind, {**self.fields, "second_signal": value}, "quick")
                with precision(False, "highest"):
                    measured = experiment.measure(0)
                if steps:
                    with precision(True, "highest"):
                        predicted = experiment.predict(measured)
                        list(experiment.judge(experiment.reduce(measured, predicted)))

    def sweep(self, executor: Executor | None = None, values: list[float] | None = None) -> None:
        """The same points as a sweep, without its summary."""
        from dynascope.lab.sweeps import carry_out
        from dynascope.lab.sweeps.plan import plan

        grid = {"second_signal": values or self.fresh()}
        carry_out(plan(ID, grid, base=self.fields, preset="quick", store=self.store).only((1, 1)), executor)


def small(folder: str) -> None:
    race = Race(SMALL, 20, folder)
    race.loop(steps=True)  # compiles
    race.sweep()
    turns = [(spent(lambda: race.loop(steps=True)), spent(race.sweep)) for _ in range(3)]
    steps, swept = (statistics.median(turn[k][1] for turn in turns) / race.points for k in (0, 1))
    known = race.fresh()
    race.sweep(values=known)
    stored = spent(lambda: race.sweep(values=known))[1] / race.points
    rows = [
        {"work": "measure, predict, reduce, judge", "CPU ms a point": round(1e3 * steps, 1)},
        {"work": "a point of a sweep", "CPU ms a point": round(1e3 * swept, 1)},
        {"work": "the sweep's own cost", "CPU ms a point": round(1e3 * (swept - steps), 1)},
        {"work": "a point that is stored already", "CPU ms a point": round(1e3 * stored, 1)},
    ]
    tell("sweep-point: small runs of concept.signal-order, compiled already", rows)


def quick(folder: str, points: int) -> None:
    from dynascope.lab.workers.executors import choose

    race = Race(QUICK, points, folder)
    race.loop()  # compiles, and takes the program's start
    wall, cpu = spent(race.loop)
    rows = [
        {
            "work": "plain loop of measure",
            "wall s": round(wall, 1),
            "CPU s": round(cpu, 1),
            "rate, wall": 1.0,
            "rate, CPU": 1.0,
        }
    ]

    def add(work: str, found: tuple[float, float]) -> None:
        rates = {"rate, wall": round(wall / found[0], 2), "rate, CPU": round(cpu / found[1], 2)}
        rows.append({"work": work, "wall s": round(found[0], 1), "CPU s": round(found[1], 1), **rates})

    add("sweep, one process", spent(race.sweep))

    def pooled() -> None:
        with choose("local", 2) as pool:
            race.sweep(pool)

    add("sweep, two processes, their start included", spent(pooled))
    tell(f"sweep-rate: {points} points of concept.signal-order, quick; rate is that of the loop = 1", rows)


def main() -> None:
    points = int(os.environ.get("SWEEP_POINTS", "20"))
    with tempfile.TemporaryDirectory() as folder:
        small(f"{folder}/small")
        quick(f"{folder}/quick", points)


if __name__ == "__main__":
    main()
