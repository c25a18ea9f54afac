"""The compiled program: a batch of processes advances from one recording to the next, and probes write their values.

One program serves a whole run: it is called with the recordings to do, so the host regains control every second or so
(to show progress, to keep a checkpoint, to be interrupted) without a second compilation, and the result does not depend
on where it was cut.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree

from dynascope.dynamics.backends.ordinary import Backend, Ordinary
from dynascope.dynamics.convolutions import channels_last
from dynascope.dynamics.process import Process
from dynascope.dynamics.schedule import Ticks
from dynascope.dynamics.schema import MemberLike
from dynascope.dynamics.stopping import condition_met
from dynascope.probes.probe import Probe, Value

TRITON_FROM = 16_000_000
"""The size of a member's state, including the optimizer's, from which Triton's matrix products are worth the time to
tune them. On an H200 they save a ViT (28 million numbers) 1.2 % of a step in float32 and nothing in bfloat16, and cost
a recall transformer (3 million) 3 %; programs of up to 6 million compile thirteen times faster without."""

ALONG_MEMBERS = PartitionSpec("member")
Options = tuple[tuple[str, bool | int], ...]
STEPS_ON_CPU: Options = (("xla_backend_optimization_level", 1),)
"""XLA options with which steps compile a quarter faster and run as fast."""
SELDOM_ON_CPU: Options = (*STEPS_ON_CPU, ("xla_cpu_use_fusion_emitters", False))
"""XLA options with which a program that runs a dozen times compiles another quarter faster."""
ONCE_ON_CPU: Options = (("xla_backend_optimization_level", 0), ("xla_cpu_use_fusion_emitters", False))
"""XLA options with which a program that runs once compiles five times faster."""
P = ParamSpec("P")
Out = TypeVar("Out")


class Members(NamedTuple):
    """A batch of members, along the first axis if batched."""

    settings: PyTree
    arrays: PyTree
    """The arrays that their processes are made of, the data above all, so that these are made once."""


class Progress(NamedTuple):
    """Everything that changes during a run, for a batch of members."""

    state: PyTree
    probe_states: PyTree
    """For each probe the state that it carries from one recording to the next."""
    stopped_at: Array
    """The time at which the stopping condition was met; -1 while it is not."""
    records: Mapping[str, PyTree]
    """For each probe its values, with a spare row at the end for writes of a probe that does not record."""


class Program(eqx.Module):
    """A run as compiled functions, which depend only on its static fields and the shapes of its arrays."""

    member: MemberLike
    fixed: PyTree
    """Settings that all members share."""
    ticks: Ticks
    """When to stop, on the device."""
    sizes: Mapping[str, int]
    """For each probe the number of its recordings."""
    values: Mapping[str, PyTree]
    """For each probe the shapes of its values."""
    stop: Probe | None
    batched: bool = eqx.field(static=True)
    devices: tuple[jax.Device, ...] = eqx.field(static=True)
    """The devices over which the members are spread."""
    size: int = eqx.field(static=True)
    """Numbers in one member's state."""
    backend: Backend = eqx.field(static=True, default=Ordinary())

    def begin(self, settings: PyTree, rows: np.ndarray, state: PyTree = None) -> tuple[Members, Progress]:
        """Make members, at their start or in a given state.

        Args:
            settings: The settings of all members; none for a single one.
            rows: The numbers of the members to make.
            state: The states of all members and of their probes at the end of an earlier run, if they go on from there.
        """
        members, progress = _compiled(_begin, self.options_once)(self, self._place(settings, rows))
        if state is not None:
            own, probes = self._place(state, rows)
            progress = progress._replace(state=own, probe_states=probes)
        return members, progress

    def advance(self, members: Members, progress: Progress, first: int, end: int) -> tuple[Progress, Array]:
        """Carry out recordings `first` to `end` (not included) for members that have not stopped.

        Returns:
            The progress, and when each member diverged (-1: it did not), once they are computed.
        """
        limits = jax.device_put((np.int32(first), np.int32(end)))
        return jax.block_until_ready(_compiled(_advance, self.options)(self, members, progress, *limits))

    def take_steps(self, members: Members, state: PyTree, steps: int) -> PyTree:
        """Take steps without recording, to be timed."""
        count = jnp.asarray(steps, jnp.int32)
        return jax.block_until_ready(_compiled(_take_steps, self.options)(self, members, state, count))

    def steps_text(self, members: Members, state: PyTree, steps: int) -> str:
        """The program of `take_steps` before compilation."""
        count = jnp.asarray(steps, jnp.int32)
        return _compiled(_take_steps, self.options).lower(self, members, state, count).as_text()

    def uses_lapack(self, settings: PyTree) -> bool:
        """Whether a member calls LAPACK, on a CPU: eigenvalues and factorizations do."""
        alone = dataclasses.replace(self, batched=False, devices=self.devices[:1])
        setting = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), settings)
        return "lapack_" in _compiled(_whole, ()).lower(alone, setting).as_text()

    def with_backend(self, backend: Backend) -> Program:
        """The same program with another backend."""
        return dataclasses.replace(self, backend=backend)

    @property
    def options(self) -> Options:
        """XLA's options."""
        if self.devices[0].platform == "cpu":  # a user who turns off JAX's optimization gets none
            asked_for_none = jax.config.values.get("jax_disable_most_optimizations")
            return () if asked_for_none else STEPS_ON_CPU
        without_triton = self.devices[0].platform == "gpu" and self.size < TRITON_FROM
        return (("xla_gpu_enable_triton_gemm", False),) if without_triton else ()

    @property
    def options_once(self) -> Options:
        """XLA's options for a function that runs once."""
        return ONCE_ON_CPU if self.devices[0].platform == "cpu" else self.options

    @property
    def mesh(self) -> Mesh | None:
        """The devices, if they are several: then members are sharded."""
        return Mesh(np.array(self.devices), tuple(ALONG_MEMBERS)) if len(self.devices) > 1 else None

    def _place(self, tree: PyTree, rows: np.ndarray) -> PyTree:
        """These rows of a tree on the devices; all of it for a single member."""
        if not self.batched:
            return tree
        chosen = jax.tree.map(lambda leaf: leaf[rows], tree)
        return jax.device_put(chosen, None if self.mesh is None else NamedSharding(self.mesh, ALONG_MEMBERS))


def jit_once(function: Callable[P, Out]) -> Callable[P, Out]:
    """Compile a function that is called once or twice: without optimization, in a fifth of the time on a CPU.

    Args:
        function: A function of pytrees, as for `equinox.filter_jit`.

    Returns:
        The compiled function.
    """
    return _jit(function, ONCE_ON_CPU if jax.default_backend() == "cpu" else ())


def jit_cached(function: Callable[P, Out], *, once: bool = False, seldom: bool = False) -> Callable[P, Out]:
    """The compiled function, the same one at every call; on a CPU with the options for steps, or for what runs less.

    Args:
        function: A function of pytrees, as for `equinox.filter_jit`.
        once: Whether a program runs once or twice.
        seldom: Whether it runs a dozen times or so.

    Returns:
        The compiled function.
    """
    as_asked = jax.default_backend() != "cpu" or jax.config.values.get("jax_disable_most_optimizations")
    return _compiled(function, () if as_asked else ONCE_ON_CPU if once else SELDOM_ON_CPU if seldom else STEPS_ON_CPU)


def _jit(function: Callable, options: Options) -> Any:
    jit: Callable = eqx.filter_jit  # it hands further options to jax.jit
    known = {name: value for name, value in options if _is_known(name, value)}
    return jit(function, compiler_options=known) if known else jit(function)


_compiled = functools.cache(_jit)


@functools.cache
def _is_known(name: str, value: bool | int) -> bool:
    """Whether this version of XLA has an option: it refuses programs with options that it does not know."""
    try:
        jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def _begin(program: Program, settings: PyTree) -> tuple[Members, Progress]:
    since = jnp.asarray(program.ticks.since)

    def one(setting: PyTree) -> tuple[PyTree, Progress]:
        process = program.member(**setting, **program.fixed)
        state = process.start()
        snapshot = process.snapshot(state, since)
        states = {name: probe.initial_state(snapshot) for name, probe in process.probes.items()}
        records = {name: _zeros(value, program.sizes[name] + 1) for name, value in program.values.items()}
        return eqx.filter(process, eqx.is_array), Progress(state, states, jnp.full_like(since, -1), records)

    arrays, progress = _per_member(one, program)(settings)
    return Members(settings, arrays), progress


def _advance(
    program: Program, members: Members, progress: Progress, first: Array, end: Array
) -> tuple[Progress, Array]:
    def one(members: Members, progress: Progress) -> tuple[Progress, Array]:
        process = _process(program, members)
        record = functools.partial(_record, program, process)
        if program.stop is None:
            progress = lax.fori_loop(first, end, record, progress)
        else:
            going = lambda carry: (carry[0] < end) & (carry[1].stopped_at < 0)  # noqa: E731
            following = lambda carry: (carry[0] + 1, record(*carry))  # noqa: E731
            _, progress = lax.while_loop(going, following, (first, progress))
        return progress, process.diverged_at(progress.state)

    return _per_member(one, program)(members, progress)


def _record(program: Program, process: Process, k: Array, progress: Progress) -> Progress:
    """Advance one member to stop number k, and record there."""
    times, rows, last_rows, tested, since = program.ticks
    before = jnp.where(k > 0, times[jnp.maximum(k - 1, 0)], since)
    state = program.backend.advance(process, progress.state, before, times[k])
    snapshot = process.snapshot(state, times[k])
    states, records = dict(progress.probe_states), dict(progress.records)
    ends, stopped_at = False, progress.stopped_at
    if program.stop is not None:
        ends = lax.cond(
            tested[k], lambda condition=program.stop: condition_met(condition, snapshot), lambda: jnp.asarray(False)
        )
        stopped_at = jnp.where(ends, times[k], stopped_at)
    for name, probe in process.probes.items():
        row = rows[name][k] if program.stop is None else jnp.where(ends, last_rows[name][k], rows[name][k])

        def measure(own: PyTree, probe=probe) -> tuple[Value, PyTree]:
            return probe.measure(snapshot, own)

        if program.sizes[name] == times.shape[0]:
            value, states[name] = measure(states[name])
        else:
            zeros = _zeros(program.values[name])
            value, states[name] = lax.cond(
                row < program.sizes[name], measure, lambda own, zeros=zeros: (zeros, own), states[name]
            )
        records[name] = jax.tree.map(
            lambda record, new, row=row: lax.dynamic_update_index_in_dim(record, new, row, 0), records[name], value
        )
    return Progress(state, states, stopped_at, records)


def _zeros(shapes: PyTree, *rows: int) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.zeros((*rows, *leaf.shape), leaf.dtype), shapes)


def _take_steps(program: Program, members: Members, state: PyTree, steps: Array) -> PyTree:
    def one(members: Members, state: PyTree) -> PyTree:
        return program.backend.advance(_process(program, members), state, jnp.zeros_like(steps), steps)

    return _per_member(one, program)(members, state)


def _whole(program: Program, setting: PyTree) -> tuple[Progress, Array]:
    """One member's program, for inspection only."""
    members, progress = _begin(program, setting)
    none = jnp.asarray(0, jnp.int32)
    return _advance(program, members, progress, none, none)


def _process(program: Program, member: Members) -> Process:
    """The process of one member; the compiler drops code that its arrays replace."""
    return eqx.combine(member.arrays, program.member(**member.settings, **program.fixed))


def _per_member(function: Callable, program: Program) -> Callable:
    """For all members side by side; a single one without the batch axis, which would cost large networks time.

    Members are independent, so each device runs the program of one device on its share of them, at its own pace.
    Convolutions are written channels-last, as loops on CPUs need them.
    """
    if not program.batched:
        return channels_last(function)

    def run(*members: PyTree) -> PyTree:
        if jax.tree.leaves(members)[0].shape[0] > 1:
            return jax.vmap(function)(*members)
        alone = jax.tree.map(lambda leaf: leaf[0], members)
        return jax.tree.map(lambda leaf: leaf[None], function(*alone))

    if program.mesh is None:
        return channels_last(run)
    along = {"in_specs": ALONG_MEMBERS, "out_specs": ALONG_MEMBERS, "check_vma": False}
    return jax.shard_map(channels_last(run), mesh=program.mesh, **along)
