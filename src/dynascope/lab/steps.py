"""The steps of a run: measure, predict, reduce, judge, draw. Each one is written to disk before the next begins.

Later steps use the files that it wrote. A crash while judging, a Ctrl-C or a kill loses nothing, and a resumed run has
the same bits as one that was never interrupted.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import xarray as xr

from dynascope.dynamics.monitor import monitored_by
from dynascope.lab.claims import Claim
from dynascope.lab.draft import Draft
from dynascope.lab.drawing import render_figures
from dynascope.lab.experiment import ComposedExperiment
from dynascope.lab.files import checksum
from dynascope.lab.json_text import pretty
from dynascope.lab.machine import compilation_cache, device_name, make_room, package_versions, precision
from dynascope.lab.monitor import LabMonitor, Progress, Watcher, remembered_interrupts
from dynascope.lab.netcdf import load, pack
from dynascope.lab.setting import Setting
from dynascope.lab.shared import SHARED, compose
from dynascope.lab.store import Store
from dynascope.lab.stored_run import OF_SWEEP, StoredRun, read_claims
from dynascope.tasks.data import catalog
from dynascope.tasks.data.files import record_reads

TIMINGS = ("compile_seconds", "run_seconds")
"""Attributes of a trace that belong in the manifest: if they were in the data, no two runs would have the same bits."""
FILES = {
    "measure": "measured.nc",
    "predict": "predicted.nc",
    "reduce": "reduced.nc",
    "judge": "claims.json",
    "draw": "figures",
}
"""The file or folder that each step writes."""
DOING = {"predict": "predicting", "reduce": "reducing", "judge": "judging", "draw": "drawing"}
SLOW_SECONDS = 1.0
"""Measurements that took longer than this are synced to disk at once."""


class Steps:
    """The steps of one run, each executed unless its files exist."""

    def __init__(self, setting: Setting, draft: Draft, store: Store, *, draw: bool, watcher: Watcher | None):
        self.setting, self.draft, self.store, self.draw, self.watcher = setting, draft, store, draw, watcher
        self.experiment = setting.experiment
        self.doing = "measure"
        """The current step."""
        self.read = cache(lambda name: load(draft.folder / name) if (draft.folder / name).exists() else None)

    def take(
        self, on_progress: Callable[[Progress], None] | None, warn: Callable[[str], None] | None, keep_every: float
    ) -> StoredRun:
        """Execute the remaining steps in order, and give the folder its final name."""
        clock = time.perf_counter()
        make_room()
        with compilation_cache():
            if not self._done("measure"):
                with remembered_interrupts() as interrupted:
                    given = (on_progress, warn, keep_every, interrupted, self.watcher)
                    self._measure(LabMonitor(self.draft.checkpoints, *given))
                    interrupted()
                clock = time.perf_counter()
            with precision(True, "highest"):
                for step in ("predict", "reduce", "judge", *(["draw"] if self.draw else [])):
                    if not self._done(step):
                        if on_progress:
                            on_progress(Progress(DOING[step], 0.0, 0.0, 0.0, float("inf")))
                        self.doing = step
                        self.draft.drop(FILES[step])
                        self._keep(step, getattr(self, f"_{step}")())
        return self._finish(round(time.perf_counter() - clock, 3))

    def _done(self, step: str) -> bool:
        """Whether an earlier attempt has completed the step, and its files are intact."""
        files = (self.draft.state.get("done") or {}).get(step)
        paths = {self.draft.folder / name: sha256 for name, sha256 in (files or {}).items()}
        return files is not None and all(path.exists() and checksum(path) == sum for path, sum in paths.items())

    def _keep(self, step: str, files: Mapping[str, bytes], lasting: bool = False, **facts: Any) -> None:
        for name, data in files.items():
            self.draft.write(name, data, lasting)
        state = self.draft.state
        done = {**state["done"], step: {name: checksum(data) for name, data in files.items()}}
        self.draft.keep_state({**state, "facts": {**state["facts"], **facts}, "done": done})
        if self.watcher is not None:
            self.watcher.finished(step, self.draft.folder)

    def _measure(self, monitor: LabMonitor) -> None:
        experiment, started, clock = self.experiment, _now(), time.perf_counter()
        x64, matmul = experiment.precision == "float64", experiment.matmul_precision
        with precision(x64, matmul), monitored_by(monitor), record_reads() as read:
            if isinstance(experiment, ComposedExperiment):
                measured = compose(experiment, self.setting, self.draft, self.store, monitor)
            else:
                measured = experiment.measure(self.draft.seed)
        seconds = time.perf_counter() - clock
        if undeclared := read - {catalog.PAIRS.get(name, name) for name in self.setting.data}:
            raise RuntimeError(f"measure read the data set {sorted(undeclared)[0]!r}, which data_sets does not name")
        compiling = _take_timings(measured, "measure").get("compile_seconds")
        self._keep(
            "measure",
            {"measured.nc": pack(measured)},
            lasting=seconds > SLOW_SECONDS,
            started=started,
            device=device_name(),
            versions=package_versions(),
            compile_seconds=None if compiling is None else round(float(compiling), 3),
            run_seconds=round(seconds, 3),
            resumed=monitor.restored,
        )
        self.draft.drop("checkpoints", SHARED)

    def _predict(self) -> dict[str, bytes]:
        predicted = self.experiment.predict(self.read("measured.nc"))
        if predicted is None:
            return {}
        _take_timings(predicted, "predict")
        return {"predicted.nc": pack(predicted)}

    def _reduce(self) -> dict[str, bytes]:
        reduced = self.experiment.reduce(self.read("measured.nc"), self.read("predicted.nc"))
        _take_timings(reduced, "reduce")
        return {"reduced.nc": pack(reduced)}

    def _judge(self) -> dict[str, bytes]:
        rows = [item.model_dump(mode="json") for item in judge(self.setting, self.read("reduced.nc"))]
        return {"claims.json": pretty(rows).encode()}

    def _draw(self) -> dict[str, bytes]:
        parts = (self.read(name) for name in ("measured.nc", "predicted.nc", "reduced.nc"))
        return render_figures(lambda: self.experiment.draw(*parts), self.experiment.card)

    def _finish(self, seconds: float) -> StoredRun:
        state = self.draft.state
        claims = read_claims(self.draft.folder / "claims.json")
        verdicts = Counter(item.verdict for item in claims)
        kinds = Counter(item.kind for item in claims if item.verdict == "erratum")
        figures = [name for name in state["done"].get("draw", {}) if name.endswith(".png")]
        return self.draft.finish(
            {
                "title": self.experiment.title(),
                "preset": self.setting.preset,
                "kind": self.setting.kind,
                **({OF_SWEEP: True} if self.setting.sweep else {}),
                "command": self.setting.command,
                "data": dict(self.setting.data),
                "claims": {verdict: verdicts[verdict] for verdict in ("holds", "fails", "erratum")}
                | {
                    "main": claims[0].verdict,
                    "news": [item.id for item in claims if item.is_news],
                    "errata": dict(kinds),
                },
                "figures": [name.removeprefix("figures/").removesuffix(".png") for name in figures],
                "versions": package_versions(),
                **state["facts"],
                "judge_seconds": seconds,
                "finished": _now(),
                "code": state["code"],
            }
        )


def judge(setting: Setting, reduced: Any) -> list[Claim]:
    """The claims of a run, with their places, seeds and reasons on record."""
    experiment = setting.experiment
    claims = _checked_claims(experiment.judge(reduced))
    known = setting.on_record(claims)
    place, seeds = experiment.source.place, getattr(experiment, "seeds", 1)
    given = [{"source": c.source or place, "seeds": c.seeds or seeds, "known": known.get(c.id, "")} for c in claims]
    return [item.model_copy(update=facts) for item, facts in zip(claims, given, strict=True)]


def _take_timings(data: Any, method: str) -> dict[str, float]:
    """Remove the timings from the attributes of the value of `method`; those of a tree's nodes are summed. The loop
    that advanced an ensemble is, like them, a fact of the machine, and is removed too."""
    if not isinstance(data, xr.Dataset | xr.DataTree):
        raise TypeError(f"{method} returned {type(data).__name__}, not an xarray.Dataset or xarray.DataTree")
    timings: dict[str, float] = {}
    for node in [data] if isinstance(data, xr.Dataset) else data.subtree:
        node.attrs.pop("loop", None)
        for name in TIMINGS:
            if name in node.attrs:
                timings[name] = timings.get(name, 0.0) + float(node.attrs.pop(name))
    return timings


def _checked_claims(judged: Any) -> list[Claim]:
    """The claims that `judge` yielded, checked to be claims with distinct ids."""
    if not isinstance(judged, Iterable) or isinstance(judged, Claim):
        raise TypeError(f"judge returned {type(judged).__name__}, not an iterable of Claims")
    claims = list(judged)
    for item in claims:
        if not isinstance(item, Claim):
            raise TypeError(
                f"judge yielded {type(item).__name__}, not a Claim: use a function of lab.criteria, or claim(...)"
            )
    ids = [item.id for item in claims]
    if repeated := sorted({id for id in ids if ids.count(id) > 1}):
        raise ValueError(f"judge yielded two claims with the id {repeated[0]!r}: each claim needs an id of its own")
    if not claims:
        raise ValueError("judge yielded no claim: an experiment needs at least one")
    return claims


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
