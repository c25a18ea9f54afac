"""Many small trainings on the chip: the loop over steps as one GPU kernel, with one instance per member.

The weights of a small network fit on one multiprocessor of a GPU. In the ordinary loop every operation of every step
reads them from memory and writes them back. Here one kernel (Pallas, Triton) loads a member's state and the draws for
the next steps (numbers of rows, or samples), takes the steps without leaving the chip, and writes the state back. Rows
of the data are read from memory as a step needs them. Probes run between kernels, as they do in the ordinary loop. The
kernel's body is the process's own `step`, traced and evaluated on padded arrays (see `padded`). JAX has deprecated
Pallas's Triton backend (0.11); a later JAX without it uses the ordinary loop.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PyTree

from dynascope.dynamics.backends.ordinary import Backend
from dynascope.dynamics.backends.padded import (
    NotInKernel,
    Numbers,
    Precision,
    Product,
    Shaped,
    before_and_inside,
    cut,
    evaluate,
    pad,
    padded_shape,
)
from dynascope.dynamics.process import Process, State, SteppedProcess
from dynascope.dynamics.schedule import Schedule

LARGEST = 160 * 2**10
"""Bytes of a member's state, batch and constants up to which a kernel is tried."""
DRAWN = 2**30
"""Bytes of the draws for all members before a kernel starts."""
MOST_STEPS = 1024
"""Steps in one kernel."""
WARPS = (1, 2, 4, 8, 16)
"""Numbers of warps that can be used."""
REGISTERS = 1024 * 32
"""Bytes that a warp's registers hold: with too few warps, a member's numbers are spilled to memory."""


Arrays = Sequence[Array]
Ref = Any
"""A reference of Pallas, which has no public type."""


class Footprint(NamedTuple):
    """Bytes that a member takes on the chip."""

    size: int
    """Bytes of its state, batch and constants."""
    drawn: int
    """Bytes of the draws for a step."""


@dataclass(frozen=True)
class Kernel(Backend):
    """The options of a kernel."""

    steps: int
    """Steps in one kernel, at most."""
    whole: bool = False
    """Whether one kernel takes all steps from one recording to the next."""
    warps: int = 4
    split: bool = False
    """Whether the factors of matrix products are split into numbers of bfloat16."""
    required: bool = False
    """Whether the ordinary loop is forbidden as a fallback."""
    interpret: bool = False
    """Run it as ordinary operations, for tests without a GPU."""
    description: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        text = f"on chip, {self.warps} warp{'s' * (self.warps > 1)}{', split products' * self.split}"
        object.__setattr__(self, "description", text)

    def advance(self, process: Process[State], state: State, now: Array, until: Array) -> State:
        assert isinstance(process, SteppedProcess)  # a kernel is chosen for no others

        def some(carry: tuple[Array, State]) -> tuple[Array, State]:
            t, state = carry
            count = jnp.minimum(until - t, self.steps)
            drawn = jax.vmap(process.draw)(t + jnp.arange(self.steps, dtype=jnp.int32))
            one = jax.tree.map(lambda leaf: leaf[0], drawn)
            state = _Step(process, state, one).run(t, count, drawn, self)
            return t + count, process.settle(state, t + count - 1)

        if self.whole:
            return some((now, state))[1]
        return lax.while_loop(lambda carry: carry[0] < until, some, (now, state))[1]


def footprint(process: SteppedProcess[State], state: State) -> Footprint:
    """The memory that a member takes on the chip, from abstract values. Raises `NotInKernel` if the kernel lacks an
    operation of its step."""
    at = jnp.asarray(0, jnp.int32)
    step = _Step(process, state, process.draw(at))
    blank = [[jnp.zeros(padded_shape(leaf.shape), leaf.dtype) for leaf in each] for each in step.arrays()]
    step.after(at, blank, _product(Kernel(1)))
    return Footprint(sum(_bytes(leaf) for each in step.arrays() for leaf in each), sum(map(_bytes, step.drawn)))


def first_kernel(member: Footprint, schedule: Schedule, width: int, *, required: bool, interpret: bool) -> Kernel:
    """The kernel for this many members side by side, chosen by rules of thumb before anything is measured.

    On an H200, for networks of 16 and 64 dimensions, the fastest were twice as many warps as hold a member in their
    registers, and split products at `highest`.
    """
    intervals = schedule.intervals
    longest, usual = int(intervals.max()), math.ceil(intervals.mean())
    most = DRAWN // max(1, member.drawn * width)
    steps = max(1, min(longest if longest <= 2 * usual else usual, MOST_STEPS, most))
    warps = min(2 * next(each for each in WARPS if member.size <= each * REGISTERS), WARPS[-1])
    split = matmul_precision() == "highest"
    return Kernel(steps, steps >= longest, warps, split, required, interpret)


class _Step:
    """One step of a process as a traced function of flat arrays."""

    def __init__(self, process: SteppedProcess, state: PyTree, drawn: PyTree):
        self.leaves, self.structure = jax.tree.flatten(state)
        self.source = jax.tree.leaves(process.source())
        self.drawn, batch = jax.tree.flatten(drawn)
        self.rows, rows = jax.tree.flatten(jax.eval_shape(process.read, drawn))
        """The inputs of a step: its draw and the rows of the source."""

        def flat(t: Array, leaves: Arrays, drawn: Arrays, read: Arrays) -> list[Array]:
            state = jax.tree.unflatten(self.structure, leaves)
            after = process.step(t, state, jax.tree.unflatten(batch, drawn), jax.tree.unflatten(rows, read))
            return jax.tree.leaves(after)

        traced = jax.make_jaxpr(flat)(jnp.asarray(0, jnp.int32), self.leaves, self.drawn, self.rows)
        self.program, known = before_and_inside(traced)
        self.known = list(map(jnp.asarray, known.values()))
        inputs = traced.jaxpr.invars[1 : 1 + len(self.leaves)]
        self.moved = [k for k, old in enumerate(inputs) if self.program.outputs[k] is not old]
        read = {id(variable) for equation in self.program.equations for variable in equation.invars}
        read |= {id(self.program.outputs[k]) for k in self.moved}
        """The leaves of the state that a step changes, and those that it only reads."""
        self.still = [k for k, old in enumerate(inputs) if k not in self.moved and id(old) in read]
        for leaf in (*(leaf for each in self.arrays() for leaf in each), *self.source):
            if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
                raise NotInKernel("random keys")
            if leaf.dtype.itemsize > 4:
                raise NotInKernel(str(leaf.dtype))

    def arrays(self) -> Sequence[Sequence[Any]]:
        """The values of a step on the chip: constants, the state that it changes, the draw, rows of the source."""
        consts = [*self.known, *(self.leaves[k] for k in self.still)]
        return consts, [self.leaves[k] for k in self.moved], self.drawn, self.rows

    def after(self, t: Array, arrays: Sequence[Arrays], product: Product) -> list[Numbers]:
        """The state after a step, from padded arrays as above."""
        consts, state, drawn, rows = arrays
        given: list[Array | None] = [None] * len(self.leaves)  # those that it does not read
        count = len(self.known)
        for place, leaf in zip([*self.moved, *self.still], [*state, *consts[count:]], strict=True):
            given[place] = leaf
        found = evaluate(self.program, [*consts[:count], t, *given, *drawn, *rows], product)
        return [found[k].astype(self.leaves[k].dtype) for k in self.moved]

    def run(self, t: Array, count: Array, drawn: PyTree, kernel: Kernel) -> PyTree:
        """The state after `count` steps from t on, by one kernel; `drawn` has a row for each."""
        from jax.experimental import pallas as pl
        from jax.experimental.pallas import triton

        consts, moved, _, _ = self.arrays()
        state = [_store(pad(leaf)) for leaf in moved]
        rows = [_store(jax.vmap(pad)(leaf)) for leaf in (*jax.tree.leaves(drawn), *self.source)]

        def body(limits: Ref, *refs: Ref) -> None:
            ends = np.cumsum([0, len(consts), len(state), len(self.drawn), len(self.source), len(state)])
            of_consts, of_state, of_drawn, of_source, out = (refs[a:b] for a, b in pairwise(ends))
            fixed, product = _load(of_consts, consts), _product(kernel)

            def drawn_at(k: Array | int) -> list[Array]:
                return _load(of_drawn, self.drawn, jnp.minimum(k, kernel.steps - 1))

            def row_numbers(k: Array | int) -> list[Array]:
                return drawn_at(k) if of_source else []

            def step(k: Array, carry: Sequence[Arrays]) -> Sequence[Arrays]:
                """One step that also prefetches the rows of the next step, whose numbers were read one step earlier:
                memory is slow."""
                state, following, rows = carry
                ahead = row_numbers(k + 2), _load(of_source, self.rows, *following)
                return self.after(limits[0] + k, (fixed, state, drawn_at(k), rows), product), *ahead

            start = _load(of_state, moved), row_numbers(1), _load(of_source, self.rows, *row_numbers(0))
            end, *_ = lax.fori_loop(0, limits[1], step, start)
            for ref, leaf in zip(out, end, strict=True):
                ref[... if leaf.ndim else 0] = leaf.astype(ref.dtype)

        run = pl.pallas_call(
            body,
            out_shape=[jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in state],
            compiler_params=triton.CompilerParams(num_warps=kernel.warps, num_stages=1),
            interpret=kernel.interpret,
            name="dynascope_steps",
        )
        limits = jnp.stack([jnp.asarray(t, jnp.int32), jnp.asarray(count, jnp.int32)])
        leaves = list(self.leaves)
        fixed = [_store(pad(leaf)) for leaf in consts]
        for place, found in zip(self.moved, run(limits, *fixed, *state, *rows), strict=True):
            like = leaves[place]
            leaves[place] = (cut(found, like.shape) if like.ndim else found[0]).astype(like.dtype)
        return jax.tree.unflatten(self.structure, leaves)


def _store(leaf: jax.Array) -> jax.Array:
    """The array in the form in which it is stored in memory: no scalars, no booleans."""
    leaf = leaf.astype(jnp.int32) if leaf.dtype == bool else leaf
    return leaf if leaf.ndim else leaf[None]


def _load(refs: Sequence[Ref], like: Sequence[Shaped], rows: Array | None = None) -> list[Array]:
    """Arrays in memory, or rows of them, on the chip."""
    if rows is not None:
        return [ref[rows].astype(leaf.dtype) for ref, leaf in zip(refs, like, strict=True)]
    return [ref[... if leaf.ndim else 0].astype(leaf.dtype) for ref, leaf in zip(refs, like, strict=True)]


def _bytes(leaf: Shaped) -> int:
    return math.prod(padded_shape(leaf.shape)) * leaf.dtype.itemsize


def _product(kernel: Kernel) -> Product:
    """Matrix products in the kernel, at a precision given by JAX's name for it."""
    half = matmul_precision() == "bfloat16"

    def product(left: jax.Array, right: jax.Array, precision: Precision) -> jax.Array:
        asked = {lax.Precision.DEFAULT} if precision is None else set(precision if isinstance(precision, tuple) else ())
        coarse = half and asked == {lax.Precision.DEFAULT}
        if left.dtype == jnp.float32 and asked and (kernel.split or coarse):
            return split_product(left, right, parts=1 if coarse else 3 if lax.Precision.HIGHEST in asked else 2)
        return lax.dot(left, right, precision=precision, preferred_element_type=jnp.float32)

    return product


def split_product(left: jax.Array, right: jax.Array, parts: int) -> jax.Array:
    """The product of matrices, each number split into a sum of `parts` bfloat16 numbers, for which GPUs have special
    units.

    One part has bfloat16's precision. Two give 16 bits, more than TF32's 11; three give the 24 of float32. Products of
    parts below that precision are left out.
    """
    lefts, rights = _bfloat16_parts(left, parts), _bfloat16_parts(right, parts)
    pairs = [(i, k - i) for k in reversed(range(parts)) for i in range(k + 1)]  # the smallest first
    dots = [lax.dot(lefts[i], rights[j], preferred_element_type=jnp.float32) for i, j in pairs]
    return functools.reduce(jnp.add, dots)


def _bfloat16_parts(x: jax.Array, parts: int) -> list[jax.Array]:
    """Numbers of bfloat16 whose sum is x: repeatedly the upper 8 bits of the remainder, the last part rounded."""
    found = []
    for _ in range(parts - 1):
        upper = lax.bitcast_convert_type(x, jnp.int32) & jnp.int32(-(2**16))
        part = lax.bitcast_convert_type(upper, jnp.float32)
        found.append(part.astype(jnp.bfloat16))
        x = x - part
    return [*found, x.astype(jnp.bfloat16)]


def matmul_precision() -> str | None:
    """The current precision of matrix products."""
    return jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]
