"""The compiled loop: a batch of processes advances from one recording time to the next, probes writing as they go.

One program serves a whole run: it is entered with the number of recordings to do, so the host regains control every
second or so (to show progress, to keep a checkpoint, to be interrupted) without a second compilation, and the result
does not depend on where it was cut.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jaxtyping import PyTree

from dynascope.checks import shown
from dynascope.dynamics import on_chip
from dynascope.dynamics.checkpoint import Checkpoint
from dynascope.dynamics.convolutions import channels_last
from dynascope.dynamics.devices import on_each_device
from dynascope.dynamics.on_chip import Chip
from dynascope.dynamics.process import Process, SteppedProcess
from dynascope.probes.probe import Probe, Snapshot

Member = Callable[..., Process]

SLICE_SECONDS = 1.0
"""How long one entry of the compiled loop should last."""


class Plan(NamedTuple):
    """When to stop, and which row of its record each probe writes there."""

    times: np.ndarray
    """Increasing; from a start they begin at 0, for what goes on after `since`."""
    rows: dict[str, np.ndarray]
    """For each probe and time the row to write; one past the last row where it does not record."""
    last_rows: dict[str, np.ndarray]
    """The row to write if the run stops at this time: the next one, unless the probe's steps were listed."""
    sizes: dict[str, int]
    """For each probe the number of rows."""
    tested: np.ndarray
    """For each time whether the stopping condition is tested there."""
    since: np.ndarray
    """The time at which the run begins."""

    def schedule(self) -> PyTree:
        """What the compiled loop takes of it, on the device."""
        return jax.tree.map(jnp.asarray, (self.times, self.rows, self.last_rows, self.tested, self.since))


class Progress(NamedTuple):
    """Everything that changes during a run, for a batch of members."""

    state: PyTree
    probe_states: PyTree
    """For each probe what it carries from one recording to the next."""
    stopped_at: jax.Array
    """The time at which the stopping condition was met; -1 while it is not."""
    records: PyTree
    """For each probe its values, with one spare row at the end into which a probe that does not record writes."""


def _per_member(function: Callable, batched: bool, mesh: Mesh | None) -> Callable:
    """For all members side by side, on each device of the mesh its share; a single one without the batch axis, which
    would cost large networks time. Convolutions are written channels-last, as loops on CPUs need them."""
    if not batched:
        return channels_last(function)

    def run(*members: PyTree) -> PyTree:
        if jax.tree.leaves(members)[0].shape[0] > 1:
            return jax.vmap(function)(*members)
        alone = jax.tree.map(lambda leaf: leaf[0], members)
        return jax.tree.map(lambda leaf: leaf[None], function(*alone))

    return on_each_device(channels_last(run), mesh)


@eqx.filter_jit
def _begin(
    member: Member,
    settings: PyTree,
    fixed: PyTree,
    sizes: dict[str, int],
    since: jax.Array,
    batched: bool,
    mesh: Mesh | None,
) -> tuple[PyTree, Progress]:
    """The start of every member, and the arrays it is made of (its data above all), so that they are made once."""

    def one(setting: PyTree) -> tuple[PyTree, Progress]:
        process = member(**setting, **fixed)
        state = process.start()
        snapshot = process.snapshot(state, since)
        states = {name: probe.initial_state(snapshot) for name, probe in process.probes.items()}
        records = {}
        for name, probe in process.probes.items():
            value, _ = jax.eval_shape(lambda own, probe=probe: probe.measure(snapshot, own), states[name])
            records[name] = jax.tree.map(
                lambda leaf, rows=sizes[name]: jnp.zeros((rows + 1, *leaf.shape), leaf.dtype), value
            )
        return eqx.filter(process, eqx.is_array), Progress(state, states, jnp.full_like(since, -1), records)

    return _per_member(one, batched, mesh)(settings)


@eqx.filter_jit
def _advance(
    member: Member,
    settings: PyTree,
    fixed: PyTree,
    arrays: PyTree,
    schedule: PyTree,
    sizes: dict[str, int],
    stop: Probe | None,
    progress: Progress,
    first: jax.Array,
    end: jax.Array,
    batched: bool,
    mesh: Mesh | None,
    chip: Chip | None = None,
) -> tuple[Progress, jax.Array]:
    """Recordings `first` to `end` (not included), for every member that has not stopped; and when each diverged."""
    times, rows, last_rows, tested, since = schedule

    def one(setting: PyTree, arrays: PyTree, progress: Progress) -> tuple[Progress, jax.Array]:
        process = eqx.combine(arrays, member(**setting, **fixed))  # the compiler drops what is not used of the latter

        def recording(k: jax.Array, progress: Progress) -> Progress:
            before = jnp.where(k > 0, times[jnp.maximum(k - 1, 0)], since)
            state = _moved(process, progress.state, before, times[k], chip)
            snapshot = process.snapshot(state, times[k])
            states, records = dict(progress.probe_states), dict(progress.records)
            ends, stopped_at = False, progress.stopped_at
            if stop is not None:
                ends = lax.cond(tested[k], lambda condition=stop: met(condition, snapshot), lambda: False)
                stopped_at = jnp.where(ends, times[k], stopped_at)
            for name, probe in process.probes.items():
                row = rows[name][k] if stop is None else jnp.where(ends, last_rows[name][k], rows[name][k])

                def measure(own: PyTree, probe=probe) -> tuple[PyTree, PyTree]:
                    return probe.measure(snapshot, own)

                if sizes[name] == times.shape[0]:
                    value, states[name] = measure(states[name])
                else:
                    blank, _ = jax.eval_shape(measure, states[name])
                    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), blank)
                    value, states[name] = lax.cond(
                        row < sizes[name], measure, lambda own, zeros=zeros: (zeros, own), states[name]
                    )
                records[name] = jax.tree.map(
                    lambda record, new, row=row: lax.dynamic_update_index_in_dim(record, new, row, 0),
                    records[name],
                    value,
                )
            return Progress(state, states, stopped_at, records)

        if stop is None:
            progress = lax.fori_loop(first, end, recording, progress)
        else:
            going = lambda carry: (carry[0] < end) & (carry[1].stopped_at < 0)  # noqa: E731
            following = lambda carry: (carry[0] + 1, recording(*carry))  # noqa: E731
            _, progress = lax.while_loop(going, following, (first, progress))
        return progress, process.diverged_at(progress.state)

    return _per_member(one, batched, mesh)(settings, arrays, progress)


@eqx.filter_jit
def _some_steps(
    member: Member,
    settings: PyTree,
    fixed: PyTree,
    arrays: PyTree,
    state: PyTree,
    steps: jax.Array,
    mesh: Mesh | None,
    chip: Chip | None,
) -> PyTree:
    """Steps from the start, to be timed."""

    def one(setting: PyTree, arrays: PyTree, state: PyTree) -> PyTree:
        process = eqx.combine(arrays, member(**setting, **fixed))
        return _moved(process, state, jnp.zeros_like(steps), steps, chip)

    return _per_member(one, True, mesh)(settings, arrays, state)


def _moved(process: Process, state: PyTree, now: jax.Array, until: jax.Array, chip: Chip | None) -> PyTree:
    """The state at `until`, from the one at `now`, on the chip or by the process itself."""
    if chip is None:
        return process.advance(state, now, until)
    assert isinstance(process, SteppedProcess)  # a chip is chosen for no others
    return on_chip.advance(process, state, now, until, chip)


@eqx.filter_jit
def _whole(
    member: Member, setting: PyTree, fixed: PyTree, schedule: PyTree, sizes: dict[str, int], stop: Probe | None
) -> tuple[Progress, jax.Array]:
    """The program of one member, to be looked at."""
    arrays, progress = _begin(member, setting, fixed, sizes, schedule[-1], False, None)
    none = jnp.asarray(0, jnp.int32)
    return _advance(member, setting, fixed, arrays, schedule, sizes, stop, progress, none, none, False, None)


def uses_lapack(
    member: Member, setting: PyTree, fixed: PyTree, schedule: PyTree, sizes: dict[str, int], stop: Probe | None
) -> bool:
    """Whether a member calls LAPACK, on a CPU: eigenvalues and factorizations do."""
    lowered = _whole.lower(member, setting, fixed, schedule, sizes, stop)  # pyright: ignore[reportFunctionMemberAccess]
    return "lapack_" in lowered.as_text()


def met(stop: Probe, snapshot: Snapshot) -> jax.Array:
    """Whether the condition to stop is met."""
    wanted = "stop must return one JAX boolean, such as snapshot.loss() < 1e-6"
    try:
        found = stop.measure(snapshot, None)[0]
    except jax.errors.ConcretizationTypeError:
        raise TypeError(f"{wanted}; it turns an array into a Python value") from None
    except (AttributeError, TypeError) as error:
        reason = str(error).partition("\n")[0][:80]
        raise TypeError(
            f"stop is called with a snapshot, whose model is snapshot.model; it failed ({reason})"
        ) from error
    if not isinstance(found, jax.Array) or found.shape != () or found.dtype != bool:
        raise TypeError(f"{wanted}; got {shown(found)}")
    return found


class Outcome(NamedTuple):
    """What a batch of members leaves (member axis first, if batched)."""

    records: PyTree
    diverged_at: np.ndarray
    stopped_at: np.ndarray
    state: PyTree
    """The end states, with the states of the probes: what it takes to go on."""
    devices: int
    loop: str
    """How it was advanced: on the chip, or by the ordinary loop."""
    compile_seconds: float
    run_seconds: float


def run_batch(
    member: Member,
    settings: PyTree,
    fixed: PyTree,
    plan: Plan,
    schedule: PyTree,
    *,
    stop: Probe | None,
    state: PyTree,
    batched: bool,
    mesh: Mesh | None,
    chip: Chip | None,
    checkpoint: Checkpoint,
    on_progress: Callable[[float, Progress], None],
) -> Outcome | None:
    """Run one batch to its end, in slices of a second at most; `on_progress(time, progress)` is called after each.

    `schedule` is `plan.schedule()`, made once for all batches. It begins at `state` (an earlier outcome's), or at the
    start where that is None. After a kill it goes on from the checkpoint: to the same bits, on the same number of
    devices. None where there was none, although the batch was cut for it. Where `mesh` is given, settings and state
    are laid out on it.
    """
    clock, monitor = time.perf_counter(), checkpoint.monitor
    arrays, progress = _begin(member, settings, fixed, plan.sizes, schedule[-1], batched, mesh)
    if state is not None:
        progress = progress._replace(state=state[0], probe_states=state[1])
    begun = progress.state, progress.probe_states
    why = ""
    if chip is not None and not chip.interpret:
        steps = jnp.asarray(chip.steps, jnp.int32)

        def trial(chip: Chip | None) -> tuple[Callable[[], str], Callable[[], PyTree]]:
            given = member, settings, fixed, arrays, progress.state, steps, mesh, chip
            return lambda: _some_steps.lower(*given).as_text(), lambda: _some_steps(*given)  # pyright: ignore[reportFunctionMemberAccess]

        chip, why = on_chip.fastest(chip, trial)

    def advance(progress: Progress, first: int, end: int) -> tuple[Progress, jax.Array]:
        limits = jnp.asarray(first, jnp.int32), jnp.asarray(end, jnp.int32)
        given = member, settings, fixed, arrays, schedule, plan.sizes, stop, progress, *limits, batched, mesh
        result = _advance(*given, chip)
        return jax.block_until_ready(result)

    advance(progress, 0, 0)  # nothing to do yet: this compiles
    compile_seconds, clock = time.perf_counter() - clock, time.perf_counter()

    @functools.cache
    def label() -> np.ndarray:  # only when it is asked for: the data may be large
        return checkpoint.label((settings, arrays, begun), (fixed, plan))

    found = checkpoint.restore(label, progress)
    if found is None and not checkpoint.usual:
        return None
    reached = found or (0, progress)  # what a checkpoint holds: both change at once, wherever an interrupt comes
    _, diverged_at = advance(reached[1], reached[0], reached[0])
    kept_at, recordings, since = time.perf_counter(), len(plan.times), float(plan.since)
    budget = 64.0 if plan.times.dtype.kind == "i" else (float(plan.times[-1]) - since) / 64  # of the first slice
    try:
        while reached[0] < recordings:
            done, progress = reached
            before, began = float(plan.times[done - 1]) if done else since, time.perf_counter()
            end = max(done + 1, int(np.searchsorted(plan.times, before + budget, side="right")))
            progress, diverged_at = advance(progress, done, end)
            rate = (float(plan.times[end - 1]) - before) / max(time.perf_counter() - began, 1e-6)
            budget = min(16 * budget, max(rate * min(SLICE_SECONDS, monitor.watch_every), 1e-12))
            done = recordings if stop is not None and np.all(np.asarray(progress.stopped_at) >= 0) else end
            reached = done, progress
            on_progress(float(plan.times[done - 1]), progress)
            last = done == recordings
            interval = monitor.keep_every / 10 if last else monitor.keep_every  # a finished batch: keep sooner
            if time.perf_counter() - kept_at > interval:
                checkpoint.keep(progress, done, label)
                kept_at = time.perf_counter()
    except KeyboardInterrupt:
        done, progress = reached
        checkpoint.keep(progress, done, label)
        raise
    progress = reached[1]
    used = (slice(None), slice(-1)) if batched else slice(-1)  # without the spare row
    records = jax.tree.map(lambda leaf: np.asarray(leaf)[used], progress.records)
    ends = np.asarray(diverged_at), np.asarray(progress.stopped_at)
    state = progress.state, progress.probe_states
    devices = 1 if mesh is None else mesh.size
    loop = f"ordinary: {why}" if chip is None else str(chip)
    return Outcome(records, *ends, state, devices, loop, compile_seconds, time.perf_counter() - clock)
