"""Observations in the store: the trace of a training that was run elsewhere, with a manifest like that of a run.

An observation is kept in `runs/observed.NAME/<digest>/`, complete or visibly unfinished. It has no claims.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import xarray as xr

from dynascope import checks
from dynascope.figures import plot_trace
from dynascope.figures.trace import recorded_variables
from dynascope.lab.arguments import by_field, check_text, store_of
from dynascope.lab.drawing import render_figures
from dynascope.lab.entry import wrong_id
from dynascope.lab.errors import LabError as LabError, UsageError, explain_os_error, one_line, plain
from dynascope.lab.fields import shown
from dynascope.lab.files import checksum
from dynascope.lab.formatting import count, number
from dynascope.lab.json_text import canonical, digest_of, plain_json
from dynascope.lab.machine import device_name, package_versions
from dynascope.lab.netcdf import pack
from dynascope.lab.store import Store
from dynascope.lab.stored_run import OBSERVED, StoredRun

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from matplotlib.figure import Figure

    from dynascope.dynamics.trajectory import Trajectory

TIMINGS = ("compile_seconds", "run_seconds")


class Observation(NamedTuple):
    """Ids of observations in the store."""

    id: str
    digest: str
    fields: Mapping[str, object]
    seed: int = 0


def save_observation(
    trace: xr.Dataset | Trajectory,
    name: str,
    *,
    learning_rate: float | None = None,
    settings: Mapping[str, object] | None = None,
    store: Store | Path | str | None = None,
    replaces: StoredRun | None = None,
    device: str = "",
    command: str = "",
) -> StoredRun:
    """Put a trace into the store, where `runs`, `compare`, the report and the explorer show it.

    Args:
        trace: A trace, as returned by `ds.observe`, `dynascope.torch` and `ds.descend`, or a trajectory.
        name: Its name: lower-case words with dots and dashes. The observation is `observed.NAME`.
        learning_rate: The learning rate η of the training; the sharpness is compared with 2/η. Default: that of the
            trace, from the variable or the attribute `learning_rate`.
        settings: Further facts of the training, for the reader and for comparison: anything that JSON can hold.
        store: The store or its folder. Default: $DYNASCOPE_RUNS, or `runs` in the current folder.
        replaces: An observation of this name that the new one replaces, as this function has returned it.
        device: The device that measured, in words. Default: that of JAX.
        command: The command that measured.

    Returns:
        The observation: `.measured()` is the trace, `.folder` its folder.

    Raises:
        UsageError: If the name or the trace is invalid. StoreError: If the store cannot be written, in one line.
    """
    trace = trace if isinstance(trace, xr.Dataset) else getattr(trace, "trace", trace)
    if not isinstance(trace, xr.Dataset) or not recorded_variables(trace):
        got = checks.shown(trace) if not isinstance(trace, xr.Dataset) else "one in which nothing was recorded"
        raise UsageError(f"trace must have a variable recorded along step or time; got {got}")
    if learning_rate is not None:
        trace = trace.assign_attrs(learning_rate=float(checks.real("learning_rate", learning_rate, above=0)))
    store = store_of(store)
    settings = _settings(settings)
    check_text(device=device, command=command)
    if replaces is not None and not isinstance(replaces, StoredRun):
        raise UsageError(f"replaces must be an observation, as this function has returned it; got {shown(replaces)}")
    trace, timings = _take_timings(trace)
    data = pack(trace)
    rate = trace.attrs.get("learning_rate")
    fields = plain_json({**settings, **({} if rate is None else {"learning_rate": rate})})
    id = observed_id(name)
    digest = digest_of({"id": id, "fields": fields, "trace": checksum(data)})
    if replaces is not None and replaces.id == id and replaces.folder.parent.parent == store.root:
        digest = replaces.digest
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    manifest = {
        "title": f"Observed: {name}",
        "kind": "observation",
        "recordings": recordings(trace),
        "claims": {"holds": 0, "fails": 0, "erratum": 0, "main": None, "news": []},
        "command": command,
        "device": device or device_name(),
        "versions": package_versions(),
        **timings,
        "finished": now,
    }
    figures = _draw(trace)
    manifest["figures"] = [path[len("figures/") : -len(".png")] for path in figures if path.endswith(".png")]
    try:
        with store.draft(Observation(id, digest, fields)) as draft:
            draft.clear()
            try:
                for path, content in {"measured.nc": data, "claims.json": "[]\n", **figures}.items():
                    draft.write(path, content)
                return draft.finish(manifest)
            except OSError:
                shutil.rmtree(draft.folder, ignore_errors=True)
                raise
    except OSError as error:
        raise explain_os_error(error, f"storing {id}") from error


def _settings(settings: Mapping[str, object] | None) -> dict[str, object]:
    """The facts of the training, checked to be what JSON can hold."""
    found = by_field("settings", settings, "a value")
    for key, value in found.items():
        try:
            canonical(value)
        except (TypeError, ValueError, RecursionError):
            raise UsageError(f"settings must hold what JSON can hold; got {key}={shown(value)}") from None
    return found


def observed_id(name: str) -> str:
    """The id of the observation of this name; a `UsageError` if the name is invalid."""
    name = name.removeprefix(OBSERVED) if isinstance(name, str) else name
    if not isinstance(name, str) or wrong_id(f"{OBSERVED}{name}"):
        raise UsageError(f"name must be lower-case words with dots and dashes, such as digits-cnn; got {plain(name)!r}")
    return f"{OBSERVED}{name}"


def recordings(trace: xr.Dataset) -> str:
    """The number of measured models and the range of their steps: 11 recordings, steps 0 to 1000."""
    clocks = {axis: trace[axis].values for axis in recorded_variables(trace).values()}
    longest = max(clocks.values(), key=len)
    name = "times" if any(axis.endswith("time") for axis in clocks) else "steps"
    first, last = (number(float(values)) for values in (longest[0], longest[-1]))
    return f"{count(len(longest), 'recording')}, {name} {first} to {last}"


def observed_figures(trace: xr.Dataset) -> Mapping[str, Figure]:
    """The figures of an observation, with one panel for every probe."""
    return {"trace": plot_trace(trace)}


def _draw(trace: xr.Dataset) -> dict[str, bytes]:
    """The figures as files; none, with a warning, if they cannot be drawn: the trace is stored all the same."""
    try:
        return render_figures(lambda: observed_figures(trace))
    except Exception as error:
        warnings.warn(f"the observation is stored without a figure ({one_line(error)})", stacklevel=3)
        return {}


def _take_timings(trace: xr.Dataset) -> tuple[xr.Dataset, dict[str, float]]:
    """The trace without the attributes that differ from one measurement to the next, and those attributes."""
    kept = {name: value for name, value in trace.attrs.items() if name not in (*TIMINGS, "loop")}
    timings = {name: round(float(trace.attrs[name]), 3) for name in TIMINGS if name in trace.attrs}
    trace = trace.copy()
    trace.attrs = kept
    return trace, timings
