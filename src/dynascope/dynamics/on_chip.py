"""Many small trainings on the chip: the loop over steps as one GPU kernel, a program of its own for each member.

The weights of a small network fit on one multiprocessor of a GPU. In the ordinary loop every operation of every step
reads them from memory and writes them back. Here one kernel (Pallas, Triton) takes a member's state and what was drawn
for the next steps (numbers of rows, or samples), takes the steps without leaving the chip, and writes the state back.
Rows of the data are read from memory as a step needs them. Probes run between kernels, as they do in the ordinary loop.
The kernel's body is the process's own `step`, traced and evaluated on padded arrays (see `padded`). JAX has deprecated
Pallas's Triton backend (0.11); where a later JAX has none, the ordinary loop runs.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import PyTree

from dynascope.dynamics.padded import (
    NotInKernel,
    Product,
    before_and_inside,
    cut,
    evaluate,
    pad,
    padded_shape,
)
from dynascope.dynamics.process import Process, SteppedProcess

LARGEST = 160 * 2**10
"""Bytes of a member's state, batch and constants up to which a kernel is tried."""
DRAWN = 2**30
"""Bytes of what is drawn for all members before a kernel starts."""
MOST_STEPS = 1024
"""Steps in one kernel."""
WARPS = (1, 2, 4, 8, 16)
"""Numbers of warps that are tried."""
REGISTERS = 1024 * 32
"""Bytes that a warp's registers hold: with fewer of them, a member's numbers are moved to and fro."""


class Chip(NamedTuple):
    """How the kernel is made."""

    steps: int
    """Steps in one kernel, at most."""
    whole: bool = False
    """Whether these are all from one recording to the next."""
    warps: int = 4
    split: bool = False
    """Whether the factors of matrix products are split into numbers of bfloat16."""
    required: bool = False
    """Whether the ordinary loop may not take its place."""
    interpret: bool = False
    """Run it as ordinary operations, for tests without a GPU."""

    def __str__(self) -> str:
        return f"on chip, {self.warps} warp{'s' * (self.warps > 1)}{', split products' * self.split}"


class Fit(NamedTuple):
    """Whether a process can run on the chip."""

    reason: str | None
    """Why not."""
    size: int = 0
    """Bytes of a member's state, batch and constants."""
    drawn: int = 0
    """Bytes of what is drawn for a member's step."""
    required: bool = False
    """Whether it was asked for."""


FORBIDDEN = Fit("a single run, or on_chip=False")


def interpreted() -> bool:
    """Whether kernels run as ordinary operations, for tests without a GPU ($DYNASCOPE_INTERPRET_KERNELS)."""
    return os.environ.get("DYNASCOPE_INTERPRET_KERNELS", "") not in ("", "0")


def fit(process: Process, state: PyTree, required: bool) -> Fit:
    """Whether one member's step can be a kernel; called on abstract values."""
    if not interpreted() and "NVIDIA" not in jax.devices()[0].device_kind:
        return Fit("it needs an NVIDIA GPU")
    if not isinstance(process, SteppedProcess):
        return Fit(f"{type(process).__name__} does not move in steps")
    if find_spec("jax.experimental.pallas.triton") is None:
        return Fit(f"JAX {jax.__version__} has no Pallas for Triton")
    at = jnp.asarray(0, jnp.int32)
    try:
        step = _Step(process, state, process.drawn(at))
        blank = [[jnp.zeros(padded_shape(leaf.shape), leaf.dtype) for leaf in each] for each in step.arrays()]
        step.after(at, blank, _product(Chip(1)))
    except NotInKernel as unknown:
        return Fit(f"the kernel has no {unknown}")
    except Exception as error:
        if required:
            raise
        return Fit(f"its step cannot be made a kernel ({_line(error)})")
    size = sum(_bytes(leaf) for each in step.arrays() for leaf in each)
    if size > LARGEST:
        return Fit(f"a member takes {size / 1024:.0f} KiB, and {LARGEST // 1024} fit")
    return Fit(None, size, sum(map(_bytes, step.drawn)), required)


def chip_of(found: Fit, since: Any, times: np.ndarray, members: int) -> Chip | None:
    """How so many members run from `since` on, recorded at these times, before anything is measured; None: not on a
    chip."""
    if found.reason is not None:
        return None
    intervals = np.diff(times, prepend=since)
    longest, usual = int(intervals.max()), math.ceil(intervals.mean())
    most = DRAWN // max(1, found.drawn * members)
    steps = max(1, min(longest if longest <= 2 * usual else usual, MOST_STEPS, most))
    warps = next(each for each in WARPS if found.size <= each * REGISTERS)
    return Chip(steps, steps >= longest, warps, required=found.required, interpret=interpreted())


def advance(process: SteppedProcess, state: PyTree, now: Any, until: Any, chip: Chip) -> PyTree:
    """The state at `until`, from the one at `now`, for one member; `jax.vmap` makes a program of each member."""

    def some(carry: tuple[Any, PyTree]) -> tuple[Any, PyTree]:
        t, state = carry
        count = jnp.minimum(until - t, chip.steps)
        drawn = jax.vmap(process.drawn)(t + jnp.arange(chip.steps, dtype=jnp.int32))
        one = jax.tree.map(lambda leaf: leaf[0], drawn)
        state = _Step(process, state, one).steps(t, count, drawn, chip)
        return t + count, process.settled(state, t + count - 1)

    if chip.whole:
        return some((now, state))[1]
    return lax.while_loop(lambda carry: carry[0] < until, some, (now, state))[1]


class _Step:
    """One step of a process as a traced function of flat arrays."""

    def __init__(self, process: SteppedProcess, state: PyTree, drawn: PyTree):
        self.leaves, self.structure = jax.tree.flatten(state)
        self.source = jax.tree.leaves(process.source())
        self.drawn, batch = jax.tree.flatten(drawn)
        self.rows, rows = jax.tree.flatten(jax.eval_shape(process.read, drawn))
        """What a step is given: what was drawn, and rows of the source."""

        def flat(t: Any, leaves: Sequence[Any], drawn: Sequence[Any], read: Sequence[Any]) -> list[Any]:
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
        """Which leaves of the state a step changes; and those that it reads only."""
        self.still = [k for k, old in enumerate(inputs) if k not in self.moved and id(old) in read]
        for leaf in (*(leaf for each in self.arrays() for leaf in each), *self.source):
            if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
                raise NotInKernel("random keys")
            if leaf.dtype.itemsize > 4:
                raise NotInKernel(str(leaf.dtype))

    def arrays(self) -> Sequence[Sequence[Any]]:
        """What a step has on the chip: constants, the state it changes, what was drawn, rows of the source."""
        consts = [*self.known, *(self.leaves[k] for k in self.still)]
        return consts, [self.leaves[k] for k in self.moved], self.drawn, self.rows

    def after(self, t: Any, arrays: Sequence[Sequence[Any]], product: Product) -> list[Any]:
        """What a step makes of the state, of arrays as above, padded."""
        consts, state, drawn, rows = arrays
        given: list[Any] = [None] * len(self.leaves)  # those that it does not look at
        count = len(self.known)
        for place, leaf in zip([*self.moved, *self.still], [*state, *consts[count:]], strict=True):
            given[place] = leaf
        found = evaluate(self.program, [*consts[:count], t, *given, *drawn, *rows], product)
        return [found[k].astype(self.leaves[k].dtype) for k in self.moved]

    def steps(self, t: Any, count: Any, drawn: PyTree, chip: Chip) -> PyTree:
        """The state after `count` steps from t on, by one kernel; `drawn` has a row for each."""
        from jax.experimental import pallas as pl
        from jax.experimental.pallas import triton

        consts, moved, _, _ = self.arrays()
        state = [_stored(pad(leaf)) for leaf in moved]
        rows = [_stored(jax.vmap(pad)(leaf)) for leaf in (*jax.tree.leaves(drawn), *self.source)]

        def body(limits: Any, *refs: Any) -> None:
            ends = np.cumsum([0, len(consts), len(state), len(self.drawn), len(self.source), len(state)])
            of_consts, of_state, of_drawn, of_source, out = (refs[a:b] for a, b in pairwise(ends))
            fixed, product = _loaded(of_consts, consts), _product(chip)

            def drawn_at(k: Any) -> list[Any]:
                return _loaded(of_drawn, self.drawn, jnp.minimum(k, chip.steps - 1))

            def row_numbers(k: Any) -> list[Any]:
                return drawn_at(k) if of_source else []

            def step(k: Any, carry: tuple[Any, ...]) -> tuple[Any, ...]:
                """Reads the rows of the next step too, whose numbers the step before has read: memory is slow."""
                state, following, rows = carry
                ahead = row_numbers(k + 2), _loaded(of_source, self.rows, *following)
                return self.after(limits[0] + k, (fixed, state, drawn_at(k), rows), product), *ahead

            start = _loaded(of_state, moved), row_numbers(1), _loaded(of_source, self.rows, *row_numbers(0))
            end, *_ = lax.fori_loop(0, limits[1], step, start)
            for ref, leaf in zip(out, end, strict=True):
                ref[... if leaf.ndim else 0] = leaf.astype(ref.dtype)

        run = pl.pallas_call(
            body,
            out_shape=[jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in state],
            compiler_params=triton.CompilerParams(num_warps=chip.warps, num_stages=1),
            interpret=chip.interpret,
            name="dynascope_steps",
        )
        limits = jnp.stack([jnp.asarray(t, jnp.int32), jnp.asarray(count, jnp.int32)])
        leaves = list(self.leaves)
        fixed = [_stored(pad(leaf)) for leaf in consts]
        for place, found in zip(self.moved, run(limits, *fixed, *state, *rows), strict=True):
            like = leaves[place]
            leaves[place] = (cut(found, like.shape) if like.ndim else found[0]).astype(like.dtype)
        return jax.tree.unflatten(self.structure, leaves)


def _stored(leaf: jax.Array) -> jax.Array:
    """As it lies in memory: no single numbers, no booleans."""
    leaf = leaf.astype(jnp.int32) if leaf.dtype == bool else leaf
    return leaf if leaf.ndim else leaf[None]


def _loaded(refs: Sequence[Any], like: Sequence[Any], rows: Any = None) -> list[Any]:
    """Arrays in memory, or rows of them, on the chip."""
    if rows is not None:
        return [ref[rows].astype(leaf.dtype) for ref, leaf in zip(refs, like, strict=True)]
    return [ref[... if leaf.ndim else 0].astype(leaf.dtype) for ref, leaf in zip(refs, like, strict=True)]


def _bytes(leaf: Any) -> int:
    return math.prod(padded_shape(leaf.shape)) * leaf.dtype.itemsize


def _product(chip: Chip) -> Product:
    """Matrix products in the kernel, at the precision that is asked for in JAX's words."""
    half = _precision() == "bfloat16"

    def product(left: jax.Array, right: jax.Array, precision: Any) -> jax.Array:
        asked = {lax.Precision.DEFAULT} if precision is None else set(precision if isinstance(precision, tuple) else ())
        coarse = half and asked == {lax.Precision.DEFAULT}
        if left.dtype == jnp.float32 and asked and (chip.split or coarse):
            return split_product(left, right, parts=1 if coarse else 3 if lax.Precision.HIGHEST in asked else 2)
        return lax.dot(left, right, precision=precision, preferred_element_type=jnp.float32)

    return product


def split_product(left: jax.Array, right: jax.Array, parts: int) -> jax.Array:
    """The product of matrices whose numbers are sums of `parts` numbers of bfloat16, which has units of its own.

    One part is bfloat16's precision. Two give 16 bits, more than TF32's 11; three give the 24 of float32. Products of
    parts that are smaller than that are left out.
    """
    lefts, rights = _in_bfloat16(left, parts), _in_bfloat16(right, parts)
    pairs = [(i, k - i) for k in reversed(range(parts)) for i in range(k + 1)]  # the smallest first
    dots = [lax.dot(lefts[i], rights[j], preferred_element_type=jnp.float32) for i, j in pairs]
    return functools.reduce(jnp.add, dots)


def _in_bfloat16(x: jax.Array, parts: int) -> list[jax.Array]:
    """Numbers of bfloat16 whose sum is x: the upper 8 bits of what is left, and the rest rounded."""
    found = []
    for _ in range(parts - 1):
        upper = lax.bitcast_convert_type(x, jnp.int32) & jnp.int32(-(2**16))
        part = lax.bitcast_convert_type(upper, jnp.float32)
        found.append(part.astype(jnp.bfloat16))
        x = x - part
    return [*found, x.astype(jnp.bfloat16)]


def _precision() -> str | None:
    """The precision of matrix products that is asked for."""
    return jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]


Trial = Callable[[Chip | None], tuple[Callable[[], str], Callable[[], Any]]]
"""For a way to make the kernel, or None for the ordinary loop, two functions: the text of the program, a run of it."""


def fastest(chip: Chip, trial: Trial) -> tuple[Chip | None, str]:
    """The fastest way to take the steps on this device, found by trying; where that is no kernel, None and why.

    What was found is kept beside JAX's compiled programs, where these are kept.
    """
    ways = (False,) if _precision() == "bfloat16" else (False, True)
    kernels = [chip._replace(warps=warps, split=split) for split in ways for warps in WARPS if warps >= chip.warps]
    tried: list[Chip | None] = [*kernels, *([] if chip.required else [None])]
    try:
        text = trial(kernels[0])[0]()
    except Exception as error:  # the kernel language's own, of several kinds
        return _none(chip, error)
    key = hashlib.sha256(f"{jax.devices()[0].device_kind} {jax.__version__} {tried} {text}".encode()).hexdigest()
    found = _known().get(key)
    if not isinstance(found, str) and not (type(found) is int and 0 <= found < len(tried)):
        seconds = _seconds_of(kernels, trial)
        if not chip.required and any(isinstance(taken, float) for taken in seconds.values()):
            seconds[None] = _seconds(trial(None)[1])
        worked = [each for each, taken in seconds.items() if isinstance(taken, float)]
        best = min(worked, key=lambda each: seconds[each]) if worked else None
        found = tried.index(best) if worked else str(seconds[kernels[0]])
        _keep(key, found)
    return _none(chip, found) if isinstance(found, str) else (tried[found], "measured to be faster than the kernel")


def _seconds_of(kernels: Sequence[Chip], trial: Trial) -> dict[Chip | None, Any]:
    """What the kernels take; more warps are tried as long as that gains, beginning with the best known number."""
    found: dict[Chip | None, Any] = {}
    fewest = kernels[0].warps
    for split in (False, True):
        least = math.inf
        for kernel in (each for each in kernels if each.split == split and each.warps >= fewest):
            found[kernel] = taken = _seconds(trial(kernel)[1])
            if isinstance(taken, Exception):
                continue
            if taken > least:
                break
            least, fewest = taken, kernel.warps
    return found


def _seconds(run: Callable[[], Any]) -> Any:
    """Of a run that is compiled; or why it fails, such as with too little shared memory for so many warps. Where the
    device's memory is full, fewer members must run at once: that is not caught here."""
    try:
        jax.block_until_ready(run())
        begin = time.perf_counter()
        jax.block_until_ready(run())
        return time.perf_counter() - begin
    except Exception as error:
        if "RESOURCE_EXHAUSTED" in str(error) and "hared memory" not in str(error):
            raise
        return error


def _line(error: Any) -> str:
    return str(error).partition("\n")[0][:120]


def _none(chip: Chip, error: Any) -> tuple[None, str]:
    reason = f"the kernel does not compile ({_line(error)})"
    if chip.required:
        raise ValueError(f"on_chip: the members cannot run on a chip: {reason}")
    return None, reason


_FOUND: dict[str, int | str] = {}
"""For programs the number of their fastest kernel, or why none of them runs."""


def _file() -> Path | None:
    folder = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    return Path(folder) / "dynascope-on-chip.json" if folder and os.path.isdir(folder) else None


def _known() -> dict[str, Any]:
    path = _file()
    try:
        kept = json.loads(path.read_text()) if path else {}
    except (OSError, ValueError):
        kept = {}
    return {**(kept if isinstance(kept, dict) else {}), **_FOUND}


def _keep(key: str, found: int | str) -> None:
    _FOUND[key] = found
    path = _file()
    if path is not None and not isinstance(found, str):  # another process, with more memory, may do better
        try:
            fresh = path.with_suffix(f".{os.getpid()}")
            fresh.write_text(json.dumps({key: best for key, best in _known().items() if not isinstance(best, str)}))
            fresh.replace(path)
        except OSError:
            pass  # it is measured again next time
