"""One run of one experiment: measure, predict, judge, draw, and store.

The measurement is written to disk first, and everything after works on what is read back from there. A crash while
judging, a Ctrl-C or a kill loses nothing, and a resumed run has the same bits as one that was never interrupted.
"""

from __future__ import annotations

import shutil
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import xarray as xr

from dynascope import __version__
from dynascope.checks import whole
from dynascope.dynamics.monitor import monitored_by
from dynascope.lab.claims import Claim
from dynascope.lab.drawing import draw_into
from dynascope.lab.errors import ExperimentCrash, LabError, disk_full, explain_os_error, one_line
from dynascope.lab.experiment import Experiment
from dynascope.lab.files import checksum, pretty, write_whole
from dynascope.lab.monitor import LabMonitor, Progress, remembered_interrupts
from dynascope.lab.netcdf import load, pack
from dynascope.lab.provenance import command_of, device_name, fingerprint, package_versions
from dynascope.lab.settings import compilation_cache, make_room, precision
from dynascope.lab.store import Draft, Store, StoredRun

TIMINGS = ("compile_seconds", "run_seconds")
"""Attributes of a trace that belong in the manifest: with them in the data, no two runs would have the same bits."""
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
) -> StoredRun:
    """Run an experiment, or return its stored run where this version of its code has one already.

    `seed` is an integer from 0 to 2**32 - 1. `preset` is only recorded. `force` runs again what is stored; the old
    run stays until the new one is complete. `on_progress` and `warn` are called with progress and with warnings.
    `keep_every` is the number of seconds between two checkpoints. Without `draw` no figures are made, which are most of
    the cost of a small run; a later run with `draw` makes them from the stored measurement. An exception in the
    experiment's own code is raised as an `ExperimentCrash` whose cause it is.
    """
    seed = whole("seed", seed, at_least=0, at_most=LARGEST_SEED)
    store = store or Store()
    try:
        with store.draft(experiment, seed) as draft:
            code = fingerprint(type(experiment))
            stored = None if force else _current(store, draft, code, draw, warn)
            if stored:
                return stored
            _open(draft, code, force)
            try:
                return _carry_out(experiment, draft, preset, on_progress, warn, keep_every, draw)
            except LabError:
                raise
            except Exception as error:
                if isinstance(error, OSError) and disk_full(error):
                    raise
                log = draft.folder / "crash.log"
                write_whole(log, traceback.format_exc())
                raise ExperimentCrash(f"{experiment.id}: {one_line(error)} (traceback in {log})") from error
    except OSError as error:
        raise explain_os_error(error, f"running {experiment.id}") from error


def _current(
    store: Store, draft: Draft, code: Mapping[str, str], draw: bool, warn: Callable[[str], None] | None
) -> StoredRun | None:
    """The stored run, if this code made it. If only judging or drawing changed, or it was never drawn, the draft starts
    from its measurement."""
    stored = store.find(draft.id, draft.final.name)
    if stored is None:
        return None
    same_version = stored.manifest["dynascope"] == __version__
    same_code = same_version and stored.manifest.get("code") == code
    if same_code and (stored.figures or not draw):
        return stored
    if warn and not same_code:
        warn(f"{draft.id}: the code has changed since this was stored, so it runs again")
    if same_version and stored.manifest["code"].get("measure") == code["measure"] and not draft.state:
        draft.clear()
        shutil.copyfile(stored.folder / "measured.nc", draft.folder / "measured.nc")
        known = {key: stored.manifest.get(key) for key in ("device", "started", "resumed", *TIMINGS)}
        known["sha256"] = stored.manifest["files"]["measured.nc"]
        draft.keep_state({"dynascope": __version__, "code": code, "forced": False, "measured": known})
    return None


def _open(draft: Draft, code: Mapping[str, str], force: bool) -> None:
    """Keep what an earlier attempt left if the code that measures is the same; else start with an empty folder.

    Forced runs start with an empty folder too, except where a forced run was cut short in the middle of measuring.
    """
    state = draft.state
    same = state.get("dynascope") == __version__ and (state.get("code") or {}).get("measure") == code["measure"]
    if not same or (force and (not state.get("forced") or state.get("measured"))):
        draft.clear()
        state = {"measured": None}
    draft.keep_state({"dynascope": __version__, "code": code, "forced": force, "measured": state.get("measured")})


def _carry_out(
    experiment: Experiment,
    draft: Draft,
    preset: str | None,
    on_progress: Callable[[Progress], None] | None,
    warn: Callable[[str], None] | None,
    keep_every: float,
    draw: bool,
) -> StoredRun:
    clock = time.perf_counter()
    make_room()
    with compilation_cache():
        known = _measured_before(draft)
        if known is None:
            with remembered_interrupts() as interrupted:
                monitor = LabMonitor(draft.checkpoints, on_progress, warn, keep_every, interrupted)
                known = _measure(experiment, draft, monitor)
                interrupted()
            clock = time.perf_counter()
        measured = load(draft.folder / "measured.nc")
        draft.drop("predicted.nc", "claims.json", "figures")
        with precision(True, "highest"):
            predicted = experiment.predict(measured)
            if predicted is not None:
                _take_timings(predicted, "predict")
                draft.write("predicted.nc", pack(predicted))
            claims = _checked_claims(experiment.judge(measured, predicted))
            draft.write("claims.json", pretty([claim.model_dump(mode="json") for claim in claims]))
            figures = draw_into(draft, experiment, measured, predicted) if draw else []
    verdicts = [claim.verdict for claim in claims]
    return draft.finish(
        {
            "title": experiment.title(),
            "preset": preset,
            "command": command_of(experiment, preset, draft.seed),
            "claims": {verdict: verdicts.count(verdict) for verdict in ("holds", "fails", "erratum")}
            | {"main": verdicts[0]},
            "figures": figures,
            **{key: value for key, value in known.items() if key != "sha256"},
            "judge_seconds": round(time.perf_counter() - clock, 3),
            "finished": _now(),
            "versions": package_versions(),
            "code": fingerprint(type(experiment)),
        }
    )


def _measured_before(draft: Draft) -> dict[str, Any] | None:
    """The facts of a measurement that an earlier attempt finished, if its file is intact."""
    known = draft.state.get("measured")
    path = draft.folder / "measured.nc"
    return known if known and path.exists() and checksum(path) == known["sha256"] else None


def _measure(experiment: Experiment, draft: Draft, monitor: LabMonitor) -> dict[str, Any]:
    """Measure, write the data to disk, and return its facts for the manifest."""
    started, clock = _now(), time.perf_counter()
    with precision(experiment.precision == "float64", experiment.matmul_precision), monitored_by(monitor):
        measured = experiment.measure(draft.seed)
    seconds = time.perf_counter() - clock
    compiling = _take_timings(measured, "measure").get("compile_seconds")
    data = pack(measured)
    draft.write("measured.nc", data)
    known = {
        "started": started,
        "device": device_name(),
        "compile_seconds": None if compiling is None else round(float(compiling), 3),
        "run_seconds": round(seconds, 3),
        "resumed": monitor.restored,
        "sha256": checksum(data),
    }
    draft.keep_state({**draft.state, "measured": known})
    shutil.rmtree(draft.checkpoints, ignore_errors=True)
    return known


def _take_timings(data: Any, method: str) -> dict[str, float]:
    """Take the timings out of the attributes of what `method` returned; those of a tree's nodes are summed."""
    if not isinstance(data, xr.Dataset | xr.DataTree):
        raise TypeError(f"{method} returned {type(data).__name__}, not an xarray.Dataset or xarray.DataTree")
    timings: dict[str, float] = {}
    for node in [data] if isinstance(data, xr.Dataset) else data.subtree:
        for name in TIMINGS:
            if name in node.attrs:
                timings[name] = timings.get(name, 0.0) + float(node.attrs.pop(name))
    return timings


def _checked_claims(judged: Any) -> list[Claim]:
    """The claims that `judge` gave, where they are claims and each has an id of its own."""
    if not isinstance(judged, Iterable) or isinstance(judged, Claim):
        raise TypeError(f"judge returned {type(judged).__name__}, not an iterable of Claims")
    claims = list(judged)
    for item in claims:
        if not isinstance(item, Claim):
            raise TypeError(f"judge yielded {type(item).__name__}, not a Claim: use claim(...) or erratum(...)")
    ids = [item.id for item in claims]
    if repeated := sorted({id for id in ids if ids.count(id) > 1}):
        raise ValueError(f"judge yielded two claims with the id {repeated[0]!r}: each claim needs an id of its own")
    if not claims:
        raise ValueError("judge yielded no claim: an experiment needs at least one")
    return claims


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
