"""The process that executes runs: it keeps JAX and compiled programs, and reports events as they happen.

To stop a run, the process interrupts it as by Ctrl-C, so that it keeps a checkpoint. A paused run waits between two
slices of its loop. The process ends with that of the server.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynascope.dynamics.schema import Schema
    from dynascope.dynamics.watching import Rows, Wanted
    from dynascope.lab.monitor import Progress, Watcher

Tell = Callable[..., None]
PREPARE = 0
"""The number of a request that is no run: get ready for one of this setting."""
GRACE_SECONDS = 10.0
"""The time that a run has to keep its checkpoint after the server is gone."""


def work(pipe: Connection, going: Any) -> None:
    """The main function of the process: it takes requests from the pipe, and sends (number of the run, kind of event,
    JSON).

    `going` is an event between the processes; while it is not set, runs wait.
    """
    busy = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if busy.is_set():
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, args=(busy,), daemon=True).start()
    os.environ.setdefault("MPLBACKEND", "Agg")
    import dynascope.lab.execute  # noqa: F401  the imports of a run take seconds: done before the first request

    told: SimpleQueue[tuple[int, str, Mapping[str, Any]]] = SimpleQueue()
    threading.Thread(target=_send, args=(pipe, told), daemon=True).start()
    told.put((0, "ready", {}))
    while True:
        try:
            number, setting, root = pipe.recv()
        except (EOFError, OSError):
            return
        if number == PREPARE:
            _prepare(setting)
            continue
        ended: dict[str, Any] = {}
        try:
            busy.set()
            ended = _execute(setting, root, lambda kind, n=number, **facts: told.put((n, kind, facts)), going)
        except KeyboardInterrupt:
            ended = {"how": "stopped", "message": "Stopped. Run the same setting again to continue from here."}
        finally:
            busy.clear()
            told.put((number, "ended", ended or {"how": "failed", "message": "The run ended without a result."}))


def _prepare(sent: bytes) -> None:
    """Load the experiment, the device and what watching needs: most of the time until a first run has a panel."""
    import jax

    with suppress(Exception):  # the run itself will report it
        pickle.loads(sent)
        jax.devices()
        _watcher(lambda kind, **facts: None)


def _execute(sent: bytes, root: str, tell: Tell, going: Any) -> dict[str, Any]:
    """Execute a pickled setting, which loads its experiment."""
    from dynascope.lab.errors import LabError
    from dynascope.lab.execute import execute
    from dynascope.lab.store import Store

    def on_progress(progress: Progress) -> None:
        facts = {name: value for name, value in progress._asdict().items() if value != float("inf")}
        tell("progress", **facts)
        if not going.is_set():
            tell("paused")
            while not going.wait(0.2):  # short waits, so that an interrupt ends them
                pass
            tell("resumed")

    try:
        stored = execute(
            pickle.loads(sent),
            Store(root),
            on_progress=on_progress,
            warn=lambda line: tell("warning", message=line),
            watcher=_watcher(tell),
        )
    except LabError as error:
        return {"how": "failed", "message": str(error)}
    facts = {"id": stored.id, "digest": stored.digest, "reused": stored.reused}
    return {"how": "done", "message": "", **facts}


def _watcher(tell: Tell) -> Watcher:
    from dynascope.dynamics.watching import Wanted
    from dynascope.lab.monitor import Watcher
    from dynascope.lab.netcdf import load
    from dynascope.lab.stored_run import read_claims
    from dynascope.live.stored import claim_row
    from dynascope.live.views import drawn_variables, recorded_layouts

    class Teller(Watcher):
        """Reports records as they are made, and each step when it is done."""

        def __init__(self) -> None:
            self.part = 0

        def watch(self, schema: Schema) -> Mapping[str, Wanted]:
            self.part += 1
            self.layouts = recorded_layouts(schema)
            self.wanted = {name: Wanted(layout.members, layout.rows) for name, layout in self.layouts.items()}
            tell("part", part=self.part, variables=[layout.header() for layout in self.layouts.values()])
            return self.wanted

        def watched(self, found: Sequence[Rows]) -> None:
            tell("rows", part=self.part, rows=[self._told(rows) for rows in found])

        def _told(self, rows: Rows) -> dict[str, Any]:
            layout, wanted = self.layouts[rows.variable], self.wanted[rows.variable]
            member, row = (int(all.searchsorted(some[0])) for all, some in zip(wanted, rows[1:3], strict=True))
            values = layout.narrow(rows.values)
            at = {"member": member, "members": values.shape[0], "row": row, "rows": values.shape[1]}
            return {"name": rows.variable, **at, "values": values}

        def finished(self, step: str, folder: Path) -> None:
            traces = {"measure": "measured", "predict": "predicted"}
            if step in traces and (path := folder / f"{traces[step]}.nc").exists():
                tell("trace", file=traces[step], variables=drawn_variables(load(path)))
            elif step == "judge":
                tell("claims", claims=[claim_row(claim) for claim in read_claims(folder / "claims.json")])
            tell("step", step=step)

    return Teller()


def _send(pipe: Connection, told: SimpleQueue[tuple[int, str, Mapping[str, Any]]]) -> None:
    """Events are turned into text in a thread of their own: the run does not wait for it."""
    from dynascope.lab.json_text import plain_json
    from dynascope.live.views import encode

    while True:
        number, kind, facts = told.get()
        if kind == "rows":
            rows = [{**row, "values": encode(row["values"])} for row in facts["rows"]]
            facts = {**facts, "rows": rows}
        try:
            pipe.send((number, kind, json.dumps(plain_json(dict(facts)), default=str)))
        except OSError:  # the server is gone
            return


def _end_with_parent(busy: threading.Event) -> None:
    """End the worker when the server is gone: a killed server cannot do it. The run keeps a checkpoint first."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    deadline = time.monotonic() + GRACE_SECONDS
    if busy.is_set():
        os.kill(os.getpid(), signal.SIGINT)
    while busy.is_set() and time.monotonic() < deadline:
        time.sleep(0.05)
    os._exit(1)
