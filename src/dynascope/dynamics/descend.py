"""Gradient descent by any optax optimizer: full batch, minibatches shuffled every epoch, or fresh samples."""

from __future__ import annotations

import math
from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Int, PRNGKeyArray, PyTree, UInt32

from dynascope import checks
from dynascope.dynamics.ensemble import run_single
from dynascope.dynamics.objective import Loss, Objective
from dynascope.dynamics.process import SteppedProcess
from dynascope.dynamics.schedule import Record
from dynascope.dynamics.stopping import Stop
from dynascope.dynamics.trajectory import Trajectory
from dynascope.probes import basic
from dynascope.probes.probe import Batch, Probe, Probes, Snapshot, name_probes
from dynascope.tasks.task import AugmentedTask

ROUNDS = 8
"""Rounds of the permutation below."""
NO_EPOCH = 2**31 - 1
"""Separates the keys of augmentation from those of the epochs' orders."""


class DescentState(eqx.Module):
    """The state of a descent: the trainable arrays, the optimizer's state, this epoch's order, the step at which it
    diverged."""

    parameters: PyTree
    optimizer: PyTree
    order: Array | None
    diverged_at: Array


class Descent(SteppedProcess[DescentState]):
    """Steps of an optax optimizer. `data` and `batch` determine the loss whose gradient is taken:

    | data | batch | the loss at a step |
    |---|---|---|
    | none | none | `task.population_loss(model)`, or `task(model)` for a plain function |
    | given | none | `task.loss(model, data)`, or `task(model, data)` |
    | given | n | the same on n rows, in an order drawn anew every epoch (rows that do not fill a batch are left out) |
    | none | n | the same on `task.sample(key, n)`, drawn anew every step |

    An `AugmentedTask` changes every batch of rows before the step.

    Args:
        model: Any pytree of arrays, such as an Equinox module.
        task: A task, or a function `loss(model)`, or `loss(model, batch)` with `data`.
        optimizer: An optax optimizer.
        data: Arrays with one row for each example; None for the population, or for fresh samples.
        batch: Rows in a minibatch; None for all.
        key: Draws the minibatches; required with `batch`.
        reshuffle: Whether every epoch has an order of its own; if not, all have the first epoch's.
        probes: Quantities to record, by name: probes, or functions of the model. Default: the loss.
    """

    model: PyTree
    objective: Objective
    optimizer: optax.GradientTransformation
    reshuffle: bool
    probes: Mapping[str, Probe]

    def __init__(
        self,
        model: PyTree,
        task: Loss,
        optimizer: optax.GradientTransformation,
        *,
        data: PyTree = None,
        batch: int | None = None,
        key: PRNGKeyArray | None = None,
        reshuffle: bool = True,
        probes: Probes | None = None,
    ) -> None:
        if not isinstance(optimizer, optax.GradientTransformation):
            got = checks.shown(optimizer)
            raise TypeError(f"optimizer must be an optax transformation, such as optax.sgd(0.1); got {got}")
        checks.flags(reshuffle=reshuffle)
        model = checks.jax_model(model)
        self.model, self.optimizer, self.reshuffle = model, optimizer, reshuffle
        self.objective = Objective(task, model, data=data, batch=batch, key=key)
        self.probes = name_probes({"loss": basic.loss()} if probes is None else probes)

    def check(self) -> None:
        self.objective.check(self.model)

    def _rows(self) -> int:
        return jax.tree.leaves(self.objective.data)[0].shape[0]

    def start(self) -> DescentState:
        parameters = eqx.filter(self.model, eqx.is_inexact_array)
        order = None
        if self.objective.data is not None and self.objective.batch is not None:
            order = jnp.zeros(ROUNDS, jnp.uint32)
        return DescentState(parameters, self.optimizer.init(parameters), order, jnp.asarray(-1, jnp.int32))

    def advance(self, state: DescentState, now: Array, until: Array) -> DescentState:
        def following(t: Array, state: DescentState) -> DescentState:
            order, drawn = self._draw(t, state.order)
            after = self.step(t, state, drawn, self.read(drawn))
            return DescentState(after.parameters, after.optimizer, order, after.diverged_at)

        return lax.fori_loop(now, until, following, state)

    def source(self) -> PyTree:
        has_rows = self.objective.batch is not None and not isinstance(self.objective.task, AugmentedTask)
        return self.objective.data if has_rows else None

    def step(self, t: Array, state: DescentState, draw: PyTree, rows: PyTree) -> DescentState:
        fixed = eqx.filter(self.model, eqx.is_inexact_array, inverse=True)
        optimizer = optax.with_extra_args_support(self.optimizer)
        batch = self._batch(draw, rows)

        def loss(parameters: PyTree) -> Array:
            model = eqx.combine(parameters, fixed)
            return self.objective(model) if self.objective.batch is None else self.objective.on(model, batch.data)

        value, gradient = jax.value_and_grad(loss)(state.parameters)
        with jax.numpy_dtype_promotion("standard"):  # optax mixes dtypes, even if its user forbids that
            updates, memory = optimizer.update(
                gradient, state.optimizer, state.parameters, value=value, grad=gradient, value_fn=loss
            )
        first_time = ~jnp.isfinite(value) & (state.diverged_at < 0)
        diverged_at = jnp.where(first_time, t, state.diverged_at)
        return DescentState(optax.apply_updates(state.parameters, updates), memory, state.order, diverged_at)

    def draw(self, t: Array) -> PyTree:
        return self._draw(t, self._order(t))[1]

    def settle(self, state: DescentState, last: Array) -> DescentState:
        order = None if state.order is None else self._order(last)
        return DescentState(state.parameters, state.optimizer, order, state.diverged_at)

    def _order(self, t: Array) -> Array | None:
        """The random words of the order in which step t's epoch takes the rows; None if there is no order."""
        if self.objective.data is None or self.objective.batch is None:
            return None
        assert self.objective.key is not None  # checked when it was made
        epoch = t // (self._rows() // self.objective.batch)
        return epoch_words(self.objective.key, epoch if self.reshuffle else jnp.zeros_like(epoch))

    def _draw(self, t: Array, order: Array | None) -> tuple[Array | None, PyTree]:
        """The draw of step t: numbers of rows if there is data, else a sample; and the epoch's order that they come
        from: `order`, unless a new epoch begins."""
        task, batch, key = self.objective.task, self.objective.batch, self.objective.key
        if batch is None:
            return order, None
        assert key is not None  # checked when it was made
        if order is None:
            return None, self.objective.sample(jax.random.fold_in(key, t))
        place = t % (self._rows() // batch)
        words = lax.cond(place == 0, lambda: self._order(t), lambda: order)
        rows = permuted(words, place * batch + jnp.arange(batch, dtype=jnp.int32), self._rows())
        if isinstance(task, AugmentedTask):
            own = jax.random.fold_in(jax.random.fold_in(key, NO_EPOCH), t)
            picked = jax.tree.map(lambda leaf: leaf[rows], self.objective.data)
            return words, Batch(rows, task.augment(own, picked))
        return words, rows

    def _batch(self, drawn: PyTree, rows: PyTree) -> Batch:
        """The batch that was drawn."""
        if self.objective.batch is None:
            return Batch(None, self.objective.data)
        if isinstance(drawn, Batch):
            return drawn
        return Batch(None, drawn) if rows is None else Batch(drawn, rows)

    def snapshot(self, state: DescentState, now: Array) -> Snapshot:
        def batch() -> Batch:
            drawn = self._draw(now, state.order)[1]
            return self._batch(drawn, self.read(drawn))

        model = eqx.combine(state.parameters, self.model)
        data, on = self.objective.data, self.objective.on
        return Snapshot(model, now, self.objective, state.optimizer, batch, data, on)

    def diverged_at(self, state: DescentState) -> Array:
        return state.diverged_at

    def work(self, state: DescentState) -> int:
        whole = 1 if self.objective.data is None else self._rows()
        return sum(leaf.size for leaf in jax.tree.leaves(state.parameters)) * (self.objective.batch or whole)


def descend(
    model: PyTree,
    task: Loss,
    optimizer: optax.GradientTransformation,
    *,
    steps: int,
    data: PyTree = None,
    batch: int | None = None,
    key: PRNGKeyArray | None = None,
    reshuffle: bool = True,
    probes: Probes | None = None,
    record: Record = None,
    stop: Stop = None,
) -> Trajectory:
    """Train a model by gradient descent, with probes inside the compiled loop.

    Args:
        model: Any pytree of arrays, such as an Equinox module.
        task: A task, or a function `loss(model)`, or `loss(model, batch)` with `data`.
        optimizer: An optax optimizer.
        steps: Number of steps.
        data: Arrays with one row for each example. `data` and `batch` determine the loss whose gradient is taken: see
            `Descent`.
        batch: Rows in a minibatch. Without `data`, examples drawn anew at every step.
        key: Draws the minibatches; required with `batch`.
        reshuffle: Whether every epoch has an order of its own.
        probes: Quantities to record, by name: probes, or functions of the model. Default: the loss.
        record: Record every `record`-th step, or exactly the listed steps. Default: about 1,000 recordings.
        stop: Ends the run at the first recording at which it holds, such as `lambda snapshot: snapshot.loss() < 1e-6`.

    Returns:
        The trajectory, with the trace of the probes and the trained model.
    """
    if key is not None and batch is None:
        raise ValueError("key= draws the batches: pass batch= as well, or omit key=")
    process = Descent(model, task, optimizer, data=data, batch=batch, key=key, reshuffle=reshuffle, probes=probes)
    return run_single(process, steps=steps, record=record, stop=stop)


def epoch_words(key: PRNGKeyArray, epoch: Int[Array, ""]) -> UInt32[Array, " rounds"]:
    """The random words that make an epoch's permutation."""
    return jax.random.bits(jax.random.fold_in(key, epoch), (ROUNDS,), jnp.uint32)


def permuted(words: UInt32[Array, " rounds"], places: Int[Array, " n"], rows: int) -> Int[Array, " n"]:
    """The images of these places under the permutation of 0..rows-1, which is evaluated instead of stored.

    Shuffling n rows every epoch by sorting random keys costs more than the training itself for small networks. Here a
    permutation of 0..n-1 is a Feistel network on pairs (l, r), l < a, r < b, a b >= n: each half is shifted, modulo its
    size, by a hash of the other. That is invertible for any hash, so it is a bijection of 0..ab-1. The few values that
    land at n or beyond are mapped again until they are below n ("cycle walking": J. Black and P. Rogaway, Ciphers with
    arbitrary finite domains, 2002). An epoch's permutation is then just `ROUNDS` random words.
    """
    if not 1 <= rows < 2**31:
        raise ValueError(f"can shuffle 1 to 2^31 - 1 rows; got {rows}")
    left_size = math.isqrt(rows - 1) + 1
    right_size = -(-rows // left_size)
    inside = places.astype(jnp.uint32)
    once = _feistel(words, inside, left_size, right_size)
    if left_size * right_size > rows:
        once = lax.while_loop(
            lambda image: jnp.any(image >= rows),
            lambda image: jnp.where(image >= rows, _feistel(words, image, left_size, right_size), image),
            once,
        )
    return once.astype(jnp.int32)


def _feistel(words: Array, places: Array, left_size: int, right_size: int) -> Array:
    left, right = places // jnp.uint32(right_size), places % jnp.uint32(right_size)
    for number in range(0, ROUNDS, 2):
        left = _shift(left, _mix(right ^ words[number]), left_size)
        right = _shift(right, _mix(left ^ words[number + 1]), right_size)
    return left * jnp.uint32(right_size) + right


def _shift(value: Array, noise: Array, size: int) -> Array:
    """(value + a number below size made from the noise) modulo size, without a division. Sizes are below 2^16."""
    moved = value + ((noise >> 16) * jnp.uint32(size) >> 16)
    return jnp.where(moved >= size, moved - jnp.uint32(size), moved)


def _mix(word: Array) -> Array:
    """The finalizer of MurmurHash3: every bit of the input affects every bit of the output."""
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return word ^ (word >> 16)
