"""Many small trainings on the chip: the loop over steps as one GPU kernel, a program of its own for each member.

The weights of a small network fit on one multiprocessor of a GPU. In the ordinary loop every operation of every step
reads them from memory and writes them back. Here one kernel (Pallas, Triton) takes a member's state and what was drawn
for the next steps (numbers of rows, or samples), takes the steps without leaving the chip, and writes the state back.
Rows of the data are read from memory as a step needs them. Probes run between kernels, as they do in the ordinary loop.
The kernel's body is the process's own `step`, traced and evaluated on padded arrays (see `padded`). JAX has deprecated
Pallas's Triton backend (0.11); where a later JAX has none, the ordinary loop runs.
"""

from __future__ import annotations

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
    InMemory,
    NotInKernel,
    Product,
    before_and_inside,
    cut,
    evaluate,
    gathers,
    pad,
    pad_rows,
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
TF32_THRICE = lax.DotAlgorithmPreset.TF32_TF32_F32_X3
BFLOAT16 = lax.DotAlgorithmPreset.BF16_BF16_F32


class Chip(NamedTuple):
    """How the kernel is made."""

    steps: int
    """Steps in one kernel, at most."""
    whole: bool = False
    """Whether these are all from one recording to the next."""
    warps: int = 4
    thrice: bool = False
    """Whether products at the highest precision are three of TF32 instead of float32's own."""
    required: bool = False
    """Whether the ordinary loop may not take its place."""
    interpret: bool = False
    """Run it as ordinary operations, for tests without a GPU."""

    def __str__(self) -> str:
        return f"on chip, {self.warps} warps{', 3xTF32' if self.thrice else ''}"


class Fit(NamedTuple):
    """Whether a process can run on the chip."""

    reason: str | None
    """Why not."""
    drawn: int = 0
    """Bytes of what is drawn for a member's step."""
    required: bool = False
    """Whether it was asked for."""


FORBIDDEN = Fit("one member, or on_chip=False")


def interpreted() -> bool:
    """Whether kernels run as ordinary operations, for tests without a GPU ($DYNASCOPE_INTERPRET_KERNELS)."""
    return bool(os.environ.get("DYNASCOPE_INTERPRET_KERNELS"))


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
        leaves, batch = (list(map(pad, each)) for each in (step.state, step.batch))
        step.after(at, step.padded(), leaves, batch, _product(Chip(1)))
    except NotInKernel as unknown:
        return Fit(f"the kernel language has no {unknown}")
    size = sum(map(_bytes, (*step.loaded, *step.state, *step.batch)))
    if size > LARGEST:
        return Fit(f"a member takes {size / 1024:.0f} KiB, and {LARGEST // 1024} fit")
    return Fit(None, sum(map(_bytes, step.batch)), required)


def chip_of(found: Fit, times: np.ndarray, members: int) -> Chip | None:
    """How so many members run on a chip that records at these times, before anything is measured; None: they do not."""
    if found.reason is not None:
        return None
    longest = int(np.diff(times, prepend=0).max())
    most = DRAWN // max(1, found.drawn * members)
    steps = max(1, min(longest, MOST_STEPS, most))
    return Chip(steps, steps >= longest, required=found.required, interpret=interpreted())


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
    """One step of a process as a traced function of flat arrays: its constants, the state it changes, and a batch."""

    def __init__(self, process: SteppedProcess, state: PyTree, drawn: PyTree):
        leaves, structure = jax.tree.flatten(state)
        self.batch, batch = jax.tree.flatten(drawn)

        def flat(t: Any, leaves: Sequence[Any], drawn: Sequence[Any]) -> list[Any]:
            after = process.step(t, jax.tree.unflatten(structure, leaves), jax.tree.unflatten(batch, drawn))
            return jax.tree.leaves(after)

        traced = jax.make_jaxpr(flat)(jnp.asarray(0, jnp.int32), leaves, self.batch)
        self.program, self.known = before_and_inside(traced)
        inputs = traced.jaxpr.invars[1 : 1 + len(leaves)]
        read = {id(variable) for equation in self.program.equations for variable in equation.invars}
        self.moved = [k for k, old in enumerate(inputs) if self.program.outputs[k] is not old]
        """Which leaves of the state a step changes; and those that it reads only."""
        self.still = [k for k, old in enumerate(inputs) if k not in self.moved and id(old) in read]
        self.leaves, self.structure = leaves, structure
        self.state = [leaves[k] for k in self.moved]
        self.consts = [*map(jnp.asarray, self.known.values()), *(leaves[k] for k in self.still)]
        read_by = [gathers(self.program, variable) for variable in self.known]
        self.in_memory = {k for k, found in enumerate(read_by) if found}
        """Which constants stay in memory: data of which a step reads some rows."""
        self.loaded = [leaf for k, leaf in enumerate(self.consts) if k not in self.in_memory]
        self.loaded += [each.outvars[0].aval for k in sorted(self.in_memory) for each in read_by[k] or ()]
        """What else is on the chip besides the state: the other constants, and those rows."""
        for leaf in (*self.consts, *self.state, *self.batch):
            if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
                raise NotInKernel("random keys")
            if leaf.dtype.itemsize > 4:
                raise NotInKernel(str(leaf.dtype))

    def after(
        self, t: Any, consts: Sequence[Any], state: Sequence[Any], batch: Sequence[Any], product: Product
    ) -> list[Any]:
        """What a step makes of the state, all arrays padded."""
        given = [jnp.asarray(0, leaf.dtype) if k not in self.still else None for k, leaf in enumerate(self.leaves)]
        count = len(self.known)
        for place, leaf in zip([*self.moved, *self.still], [*state, *consts[count:]], strict=True):
            given[place] = leaf
        found = evaluate(self.program, [*consts[:count], t, *given, *batch], product)
        return [found[k].astype(self.leaves[k].dtype) for k in self.moved]

    def padded(self) -> list[Any]:
        """The constants as `after` takes them."""
        return [InMemory(pad_rows(leaf)) if k in self.in_memory else pad(leaf) for k, leaf in enumerate(self.consts)]

    def steps(self, t: Any, count: Any, drawn: PyTree, chip: Chip) -> PyTree:
        """The state after `count` steps from t on, by one kernel; `drawn` has a row for each."""
        from jax.experimental import pallas as pl
        from jax.experimental.pallas import triton

        consts = [_stored(leaf.array if isinstance(leaf, InMemory) else leaf) for leaf in self.padded()]
        state = [_stored(pad(leaf)) for leaf in self.state]
        batches = [_stored(jax.vmap(pad)(leaf)) for leaf in jax.tree.leaves(drawn)]

        def body(limits: Any, *refs: Any) -> None:
            ends = np.cumsum([0, len(consts), len(batches), len(state), len(state)])
            of_consts, of_batches, of_state, out = (refs[a:b] for a, b in pairwise(ends))
            fixed = [
                InMemory(ref) if k in self.in_memory else _loaded(ref, leaf)
                for k, (ref, leaf) in enumerate(zip(of_consts, self.consts, strict=True))
            ]
            product = _product(chip)

            def step(k: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
                batch = [ref[k].astype(leaf.dtype) for ref, leaf in zip(of_batches, self.batch, strict=True)]
                return tuple(self.after(limits[0] + k, fixed, state, batch, product))

            start = tuple(_loaded(ref, leaf) for ref, leaf in zip(of_state, self.state, strict=True))
            for ref, leaf in zip(out, lax.fori_loop(0, limits[1], step, start), strict=True):
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
        for place, found in zip(self.moved, run(limits, *consts, *batches, *state), strict=True):
            like = leaves[place]
            leaves[place] = (cut(found, like.shape) if like.ndim else found[0]).astype(like.dtype)
        return jax.tree.unflatten(self.structure, leaves)


def _stored(leaf: jax.Array) -> jax.Array:
    """As it lies in memory: no single numbers, no booleans."""
    leaf = leaf.astype(jnp.int32) if leaf.dtype == bool else leaf
    return leaf if leaf.ndim else leaf[None]


def _loaded(ref: Any, like: jax.Array) -> Any:
    return ref[... if like.ndim else 0].astype(like.dtype)


def _bytes(leaf: Any) -> int:
    return math.prod(padded_shape(leaf.shape)) * leaf.dtype.itemsize


def _product(chip: Chip) -> Product:
    """Matrix products in the kernel, at the precision that is asked for in JAX's words."""
    half = _precision() == "bfloat16"

    def product(left: jax.Array, right: jax.Array, precision: Any) -> jax.Array:
        highest = precision is not None and lax.Precision.HIGHEST in precision
        if not chip.interpret and left.dtype == jnp.float32 and (half or (highest and chip.thrice)):
            precision = BFLOAT16 if half and not highest else TF32_THRICE
        return lax.dot(left, right, precision=precision, preferred_element_type=jnp.float32)

    return product


def _precision() -> str | None:
    """The precision of matrix products that is asked for."""
    return jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]


Trial = Callable[[Chip | None], tuple[Callable[[], str], Callable[[], Any]]]
"""For a way to make the kernel, or None for the ordinary loop, two functions: the text of the program, a run of it."""


def fastest(chip: Chip, trial: Trial) -> tuple[Chip | None, str]:
    """The fastest way to take the steps on this device, found by trying; where that is no kernel, None and why.

    What was found is kept beside JAX's compiled programs, where these are kept.
    """
    ways = (False, True) if _precision() in ("highest", "float32") else (False,)
    kernels = [chip._replace(warps=warps, thrice=thrice) for thrice in ways for warps in WARPS]
    tried = kernels if chip.required else [*kernels, None]
    try:
        text = trial(kernels[0])[0]()
    except Exception as error:  # the kernel language's own, of several kinds
        return _none(chip, error)
    key = hashlib.sha256(f"{jax.devices()[0].device_kind} {jax.__version__} {tried} {text}".encode()).hexdigest()
    known = _known()
    if key not in known:
        seconds = [_seconds(trial(each)[1]) for each in tried]
        if all(isinstance(each, Exception) for each in seconds[: len(kernels)]):
            return _none(chip, seconds[0])
        known[key] = min(range(len(tried)), key=lambda k: math.inf if isinstance(seconds[k], Exception) else seconds[k])
        _keep(known)
    return tried[known[key]], "measured to be faster than the kernel"


def _seconds(run: Callable[[], Any]) -> Any:
    """Of a run that is compiled; or why it fails, such as with too little shared memory for so many warps."""
    try:
        jax.block_until_ready(run())
        begin = time.perf_counter()
        jax.block_until_ready(run())
        return time.perf_counter() - begin
    except jax.errors.JaxRuntimeError as error:
        return error


def _none(chip: Chip, error: Any) -> tuple[None, str]:
    reason = f"the kernel does not compile ({str(error).partition(chr(10))[0][:120]})"
    if chip.required:
        raise ValueError(f"on_chip: the members cannot run on a chip: {reason}")
    return None, reason


_FOUND: dict[str, int] = {}


def _file() -> Path | None:
    folder = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    return Path(folder) / "dynascope-on-chip.json" if folder and os.path.isdir(folder) else None


def _known() -> dict[str, int]:
    path = _file()
    try:
        return {**(json.loads(path.read_text()) if path else {}), **_FOUND}
    except (OSError, ValueError):
        return dict(_FOUND)


def _keep(known: dict[str, int]) -> None:
    _FOUND.update(known)
    path = _file()
    if path is not None:
        try:
            fresh = path.with_suffix(f".{os.getpid()}")
            fresh.write_text(json.dumps(known))
            fresh.replace(path)
        except OSError:
            pass  # it is measured again next time
