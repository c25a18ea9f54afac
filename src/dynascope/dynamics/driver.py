"""The host's work while members run: batches, slices of a second, progress, checkpoints, interrupts, watching."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from dynascope.dynamics.backends.choice import choose
from dynascope.dynamics.backends.kernel import Kernel
from dynascope.dynamics.backends.ordinary import Ordinary
from dynascope.dynamics.backends.tuning import tune
from dynascope.dynamics.checkpoint import Checkpoint, as_jax, as_numpy, kept_rows
from dynascope.dynamics.monitor import Session
from dynascope.dynamics.program import Program, Progress
from dynascope.dynamics.schedule import Record, Schedule
from dynascope.dynamics.schema import MemberLike, Outline, Schema
from dynascope.probes.probe import Probe

SLICE_SECONDS = 1.0
"""The time that one entry of the compiled loop should take."""
VMAP_UP_TO = 1500
"""On a CPU, the work per step up to which members are cheaper side by side (vmap) than one after another: a step of
less is dominated by the overhead of its many small operations (see docs/ensembles.md for the measurement)."""
CPU_WIDTH = 512
"""On a CPU, the number of members side by side: enough to fill the vector units, few enough to stay in cache."""
LAPACK_WAITS_FOR_ITSELF_UNTIL = (0, 11, 2)
"""Before this version of jaxlib, batched LAPACK calls can deadlock on a CPU with several devices."""


class Run(NamedTuple):
    """A request: everything needed to run it, or to resume it."""

    member: MemberLike
    settings: Mapping[str, PyTree]
    """One row for each member; empty for a single run."""
    fixed: Mapping[str, PyTree]
    dims: Mapping[str, np.ndarray]
    """The dimensions of an ensemble with their labels; none for a single run."""
    outline: Outline
    record: Record
    stop: Probe | None
    keep: bool
    width: int | None
    on_chip: bool | None

    @property
    def members(self) -> int:
        return math.prod(map(len, self.dims.values()))


class Outcome(NamedTuple):
    """The results of members (member axis first, in an ensemble)."""

    records: Mapping[str, PyTree]
    diverged_at: np.ndarray
    stopped_at: np.ndarray
    state: PyTree
    """The end states, with the states of the probes, from which a run can be resumed. None if they were not kept."""
    compile_seconds: float
    run_seconds: float
    devices: int
    """The number of devices over which the members were spread."""
    loop: str
    """The backend of the first batch: on the chip, or the ordinary loop."""


class Layout(NamedTuple):
    """The layout of a batch of members on the devices."""

    width: int
    """Members side by side on each device."""
    devices: tuple[jax.Device, ...]

    @property
    def size(self) -> int:
        """Members side by side on all devices."""
        return self.width * len(self.devices)


class Batch(NamedTuple):
    """Members that run at the same time."""

    first: int
    size: int
    """The number of members, without repeats that only fill it up."""
    layout: Layout
    checkpoint: Checkpoint

    @property
    def rows(self) -> np.ndarray:
        """The members' numbers; the last one is repeated to fill up the devices."""
        return self.first + np.minimum(np.arange(self.layout.size), self.size - 1)


def run_members(run: Run, schedule: Schedule, schema: Schema, state: PyTree = None) -> Outcome:
    """Run all members to the end of the schedule, in as few batches as fit.

    Args:
        run: The members.
        schedule: When they stop to record.
        schema: The variables that they record.
        state: The state of an earlier outcome, from which they go on; None for their start.
    """
    batched = bool(run.dims)
    devices = usable_devices((run.member, run.fixed, run.stop))[: None if batched else 1]
    ticks = jax.device_put(schedule.ticks)
    recorded, backend = (schedule.sizes, run.outline.values), Ordinary("ordinary: a single run")
    given = run.member, run.fixed, ticks, *recorded, run.stop
    program = Program(*given, batched, devices, run.outline.size, backend)
    if devices[1:] and devices[0].platform == "cpu" and jax.__version_info__ < LAPACK_WAITS_FOR_ITSELF_UNTIL:
        devices = devices[:1] if program.uses_lapack(run.settings) else devices
    width = run.width or _choose_width(run.outline, schedule, devices)
    if batched:
        most = spread(run.members, width, devices).width
        given = run.member, run.settings, run.fixed, schedule
        backend = choose(*given, device=devices[0], width=most, on_chip=run.on_chip)
    session, outcomes, first = Session(schema, schedule), [], 0
    while first < run.members:
        batch = _next_batch(session, first, run, spread(run.members, width, devices))
        part = dataclasses.replace(program, devices=batch.layout.devices, backend=backend)
        try:
            outcome = _run_batch(part, batch, run, schedule, session, state)
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error) or batch.layout.width == 1:
                raise
            width = math.ceil(batch.layout.width / 2)
            continue
        if outcome is None:  # it was cut to fit a checkpoint that belongs to another run
            session.kept_names.remove(batch.checkpoint.source)
            continue
        outcomes.append(outcome)
        first += batch.size
    return _join(outcomes) if batched else outcomes[0]


def _run_batch(
    program: Program, batch: Batch, run: Run, schedule: Schedule, session: Session, state: PyTree
) -> Outcome | None:
    """Run one batch to its end; None if the batch was cut to fit a checkpoint that is missing.

    After a kill it resumes from the checkpoint, to the same bits on the same number of devices.
    """
    clock, checkpoint, monitor = time.perf_counter(), batch.checkpoint, session.monitor
    members, progress = program.begin(run.settings, batch.rows, state)
    if isinstance(program.backend, Kernel):
        batches = math.ceil((run.members - batch.first) / batch.size)
        program = tune(program, members, progress, schedule, batches)
    _, diverged_at = program.advance(members, progress, 0, 0)  # nothing to do yet: this compiles
    compile_seconds, clock = time.perf_counter() - clock, time.perf_counter()
    begun = progress.state, progress.probe_states

    @functools.cache
    def label() -> np.ndarray:  # only on request: the data may be large
        return checkpoint.label((*members, begun), (run.fixed, schedule.ticks, schedule.sizes))

    def keep(done: int, progress: Progress) -> None:
        if not math.isinf(monitor.keep_every):
            monitor.keep(checkpoint.name, checkpoint.write(progress, done, label()))

    kept = monitor.restore(checkpoint.source)
    restored = None if kept is None else checkpoint.read(kept, label, progress)
    if restored is None and not checkpoint.usual:
        return None
    reached = restored or (0, progress)  # both change at once: an interrupt may come at any time
    if restored is not None:
        _, diverged_at = program.advance(members, restored[1], restored[0], restored[0])  # perhaps all is done
    kept_at = time.perf_counter()
    slices = _Slices(schedule, min(SLICE_SECONDS, monitor.watch_every))
    try:
        while reached[0] < slices.count:
            done, progress = reached
            end = slices.next_end(done)
            progress, diverged_at = program.advance(members, progress, done, end)
            slices.took(done, end)
            if run.stop is not None and np.all(np.asarray(progress.stopped_at) >= 0):
                end = slices.count
            reached = end, progress
            session.report(progress, float(schedule.ticks.times[end - 1]), batch.first, batch.size)
            interval = monitor.keep_every / 10 if end == slices.count else monitor.keep_every  # finished: keep sooner
            if time.perf_counter() - kept_at > interval:
                keep(*reached)
                kept_at = time.perf_counter()
    except KeyboardInterrupt:
        keep(*reached)
        raise
    seconds = compile_seconds, time.perf_counter() - clock
    return _outcome(program, batch, run, reached[1], np.asarray(diverged_at), seconds)


class _Slices:
    """Cuts a schedule into slices of about this many seconds each."""

    def __init__(self, schedule: Schedule, seconds: float):
        self._times, self._since, self._seconds = schedule.ticks.times, float(schedule.ticks.since), seconds
        self._budget = 64.0 if self._times.dtype.kind == "i" else schedule.span / 64
        """Steps, or units of time, of the next slice."""
        self._clock = 0.0
        self.count = len(self._times)

    def next_end(self, done: int) -> int:
        """The stop up to which the next slice goes, after `done` of them."""
        self._clock = time.perf_counter()
        return max(done + 1, int(np.searchsorted(self._times, self._before(done) + self._budget, side="right")))

    def took(self, done: int, end: int) -> None:
        """Record that the slice from `done` to `end` is over: its rate sets the length of the next one."""
        rate = (float(self._times[end - 1]) - self._before(done)) / max(time.perf_counter() - self._clock, 1e-6)
        self._budget = min(16 * self._budget, max(rate * self._seconds, 1e-12))

    def _before(self, done: int) -> float:
        return float(self._times[done - 1]) if done else self._since


def _outcome(
    program: Program, batch: Batch, run: Run, progress: Progress, diverged_at: np.ndarray, seconds: tuple[float, float]
) -> Outcome:
    """The results of a batch, without the spare row of each record and the members that only filled it up."""
    batched = bool(run.dims)
    rows = (slice(batch.size), slice(-1)) if batched else slice(-1)
    records = jax.tree.map(lambda leaf: np.asarray(leaf)[rows], progress.records)
    ends = diverged_at, np.asarray(progress.stopped_at)
    state = progress.state, progress.probe_states
    if batched:
        ends = ends[0][: batch.size], ends[1][: batch.size]
        state = jax.tree.map(lambda leaf: _on_host(leaf)[: batch.size], state) if run.keep else None
    devices = len(batch.layout.devices)
    return Outcome(records, *ends, state if run.keep else None, *seconds, devices, program.backend.description)


def _join(outcomes: list[Outcome]) -> Outcome:
    """All batches as one."""
    if len(outcomes) == 1:
        return outcomes[0]

    def concatenate(*leaves: PyTree) -> PyTree:
        return np.concatenate(leaves) if isinstance(leaves[0], np.ndarray) else jnp.concatenate(leaves)

    parts = [(each.records, each.diverged_at, each.stopped_at, each.state) for each in outcomes]
    records, diverged_at, stopped_at, state = jax.tree.map(concatenate, *parts)
    return outcomes[0]._replace(
        records=records,
        diverged_at=diverged_at,
        stopped_at=stopped_at,
        state=state,
        compile_seconds=sum(each.compile_seconds for each in outcomes),
        run_seconds=sum(each.run_seconds for each in outcomes),
        devices=max(each.devices for each in outcomes),
    )


def _next_batch(session: Session, first: int, run: Run, usual: Layout) -> Batch:
    """The members from `first` on that run next: as many as possible, or those in one checkpoint.

    Batches have the same size, so that one program serves all; the last one may have to be filled up.
    """
    name = session.name
    table = kept_rows(session.kept_names, name, first) if session.kept_names else None
    end = first + usual.size if table is None else table.end
    layout = usual if table is None else spread(end - first, usual.width, usual.devices)
    count = min(layout.size, end - first, run.members - first)
    size = layout.size if first + count == run.members else count
    source, row = (f"{name}-{first}-{usual.size}", 0) if table is None else (table.name, first - table.first)
    place = Checkpoint(f"{name}-{first}-{size}", count, bool(run.dims), source, row, layout == usual)
    return Batch(first, count, layout, place)


def usable_devices(held: PyTree) -> tuple[jax.Device, ...]:
    """The devices of this machine, all of the first one's kind, on which an ensemble may run.

    The user's placement is respected: `jax.default_device` names the one device, arrays in `held` that are committed to
    a device stay there, and a mesh that was set determines the sharding.
    """
    default = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(default, jax.Device):
        return (default,)
    first, *others = jax.local_devices(backend=default)
    committed = any(isinstance(leaf, jax.Array) and leaf.committed for leaf in jax.tree.leaves(held))
    if committed or not jax.sharding.get_abstract_mesh().empty:
        return (first,)
    return (first, *(other for other in others if other.device_kind == first.device_kind))


def spread(members: int, width: int, devices: tuple[jax.Device, ...]) -> Layout:
    """The fewest members per device, at most `width`, that fit all of them; and the fewest devices that hold them
    so."""
    width = min(width, math.ceil(members / len(devices)))
    return Layout(width, devices[: math.ceil(members / width)])


def _choose_width(outline: Outline, schedule: Schedule, devices: tuple[jax.Device, ...]) -> int:
    """The number of members to run side by side on each device."""
    if devices[0].platform == "cpu":
        return CPU_WIDTH if outline.work <= VMAP_UP_TO else 1
    memory = min((device.memory_stats() or {}).get("bytes_limit", 8 * 2**30) for device in devices)
    return max(1, int(memory // (4 * (outline.nbytes + outline.record_bytes(schedule.sizes)))))


def _on_host(leaf: jax.Array) -> jax.Array | np.ndarray:
    """Move many members' states to the host's memory, and random keys to one device."""
    if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(leaf)
    return leaf if len(leaf.sharding.device_set) == 1 else as_jax(as_numpy(leaf), leaf)
