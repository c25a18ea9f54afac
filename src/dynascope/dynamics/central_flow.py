"""The central flow of gradient descent: the smooth path around which it oscillates at the edge of stability.

J. Cohen, A. Damian, A. Talwalkar, J. Z. Kolter, J. D. Lee, Understanding optimization in deep learning with central
flows (2025), Section 3. Gradient descent with learning rate eta oscillates along the eigenvectors U of the Hessian H
whose eigenvalues are 2/eta. Write its iterates as w + d, with d of mean 0 and covariance Sigma = U X U^T. To second
order in d the mean gradient is grad L + 1/2 grad <H, Sigma>, so that the mean moves, with time counted in steps, as

    dw/dt = -eta [grad L(w) + 1/2 grad_w <H(w), Sigma>],

and X keeps the eigenvalues at 2/eta from growing. With T_ij = D^3 L[u_i, u_j, .], the gradient of u_i^T H u_j,

    d/dt (U^T H U)_ij = -eta [T_ij . grad L + 1/2 sum_kl (T_ij . T_kl) X_kl],

and X >= 0, d/dt (U^T H U) <= 0, <X, d/dt (U^T H U)> = 0: a semidefinite complementarity problem, with one solution if
the T_ij are independent. The path is then that of gradient flow projected on {sharpness <= 2/eta}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from dynascope import checks
from dynascope.dynamics.ensemble import run_single
from dynascope.dynamics.objective import Loss, Objective
from dynascope.dynamics.process import Process
from dynascope.dynamics.schedule import Record
from dynascope.dynamics.stopping import Stop
from dynascope.dynamics.trajectory import Trajectory
from dynascope.geometry.eigenpairs import top_eigenpairs
from dynascope.geometry.hessian import Vector
from dynascope.probes import basic
from dynascope.probes.descriptions import describe_probe
from dynascope.probes.probe import Probe, Probes, Snapshot, name_probes

DENSE = 64
"""Up to this many parameters the whole Hessian is diagonalized at each substep; with more, a warm search is cheaper."""


class Oscillation(NamedTuple):
    """The oscillation of gradient descent about the flow: Sigma = U X U^T."""

    vectors: Float[Array, "k n"]
    """The rows are the top eigenvectors of the Hessian, U^T."""
    covariance: Float[Array, "k k"]
    """X, in that basis. Directions that are not at the edge have rows of zeros."""
    values: Float[Array, " k"]
    """The eigenvalues of these vectors, largest first."""
    residual: Float[Array, ""]
    """The residual of X in its complementarity problem, relative to its data."""

    @property
    def variance(self) -> Array:
        """E |d|^2 = tr Sigma."""
        return jnp.trace(self.covariance)

    @property
    def extra_loss(self) -> Array:
        """E L(w + d) - L(w) = 1/2 <H, Sigma>, to second order in d."""
        return jnp.sum(self.values * jnp.diag(self.covariance)) / 2


@dataclass(frozen=True, eq=False)
class CentralSnapshot(Snapshot):
    """The snapshot that probes get of a central flow, with the oscillation about it."""

    oscillation: Oscillation = field(kw_only=True)


class CentralState(eqx.Module):
    parameters: PyTree
    oscillation: Oscillation
    subspace: Float[Array, "s n"]
    """The vectors from which the next search starts."""
    diverged_at: Array


class CentralFlow(Process[CentralState]):
    """The central flow of gradient descent on the objective of a `Flow`: the population's loss, or that of `data`.

    Each step of the optimizer is integrated in `substeps`, by the fourth-order Runge-Kutta method with the force of the
    oscillation held; X is solved for so that the eigenvalues do not lie above 2/eta at the end, to first order. The
    next substep corrects the remaining error, so eigenvalues do not drift away from the edge. Below the edge it is
    gradient flow at time eta x step.

    Args:
        model: Any pytree of arrays, such as an Equinox module.
        task: A task, or a function `loss(model)`, or `loss(model, data)`.
        learning_rate: That of gradient descent, above 0.
        data: Arrays with one row for each example; None for the population.
        probes: Quantities to record, by name: probes, or functions of the model. Default: the loss.
        critical: The most directions that oscillate. If more eigenvalues reach the edge, the others grow past it, which
            `sharpness`-like probes show (no eigenvalue of this flow should lie above 2/eta): raise it then.
        substeps: Substeps of a step.
        dense: With more parameters, the eigenvectors are followed by warm-started search.
    """

    model: PyTree
    objective: Objective
    learning_rate: Float[Array, ""]
    probes: Mapping[str, Probe]
    critical: int
    substeps: int
    dense: int

    def __init__(
        self,
        model: PyTree,
        task: Loss,
        learning_rate: Float[Array, ""] | float,
        *,
        data: PyTree = None,
        probes: Probes | None = None,
        critical: int = 3,
        substeps: int = 4,
        dense: int = DENSE,
    ) -> None:
        model = checks.jax_model(model)
        leaves = jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))
        size = sum(leaf.size for leaf in leaves)
        if any(leaf.dtype.itemsize < 4 for leaf in leaves):
            raise TypeError("model must hold arrays of single or double precision; got half precision")
        self.model, self.objective = model, Objective(task, model, data=data)
        self.learning_rate = jnp.asarray(checks.real("learning_rate", learning_rate, above=0), leaves[0].dtype)
        self.probes = name_probes({"loss": basic.loss()} if probes is None else probes)
        self.critical = min(checks.whole("critical", critical, at_least=1), size)
        self.substeps, self.dense = (
            checks.whole("substeps", substeps, at_least=1, at_most=10_000),
            checks.whole("dense", dense, at_least=0),
        )

    def check(self) -> None:
        self.objective.check(self.model)

    def start(self) -> CentralState:
        parameters = eqx.filter(self.model, eqx.is_inexact_array)
        point, _ = ravel_pytree(parameters)
        k, n = self.critical, point.size
        subspace = jax.random.normal(jax.random.key(1), (min(k + 1, n), n), point.dtype)
        still = Oscillation(jnp.zeros_like(subspace[:k]), *(jnp.zeros(s, point.dtype) for s in ((k, k), (k,), ())))
        return CentralState(parameters, still, subspace, jnp.asarray(-1, jnp.int32))

    def advance(self, state: CentralState, now: Array, until: Array) -> CentralState:
        fixed = eqx.filter(self.model, eqx.is_inexact_array, inverse=True)
        point, unravel = ravel_pytree(state.parameters)

        def objective(point: Vector) -> Array:
            return self.objective(eqx.combine(unravel(point), fixed))

        def substep(i: Array, carry: Any) -> Any:
            point, _, subspace, diverged_at = carry
            point, oscillation, subspace = self._substep(objective, point, subspace, i)
            fell = ~jnp.all(jnp.isfinite(point)) & (diverged_at < 0)
            return point, oscillation, subspace, jnp.where(fell, i // self.substeps, diverged_at)

        begin = (point, state.oscillation, state.subspace, state.diverged_at)
        end = lax.fori_loop(now * self.substeps, until * self.substeps, substep, begin)
        return CentralState(unravel(end[0]), *end[1:])

    def _substep(self, objective: Callable, point: Vector, subspace: Array, seed: Array) -> Any:
        """Advance by h = 1/substeps: find the end point of gradient flow, then the X that keeps it stable, then the end
        point with X."""
        span = self.learning_rate / self.substeps
        unforced = _runge_kutta(objective, point, jnp.zeros_like(point), span)
        start = None if point.size <= self.dense else subspace
        pairs = top_eigenpairs(
            objective, unforced, self.critical, tolerance=1e-5, start=start, seed=seed, dense=self.dense
        )
        excess = jnp.diag(pairs.values - 2 / self.learning_rate)  # U^T H U - 2/eta, at the end of the unforced substep

        def held(_: Any) -> tuple[Vector, Array, Array]:
            third = third_derivatives(objective, unforced, pairs.vectors)
            # the force shifts the end by -(eta h/2) sum_kl T_kl X_kl, and so U^T H U by -(eta h/2) (T_ij . T_kl) X_kl
            response = span / 2 * jnp.einsum("ijn,kln->ijkl", third, third)
            covariance, residual = complementary(excess, response)
            force = jnp.einsum("kln,kl->n", third, covariance) / 2  # 1/2 grad <H, Sigma>
            return _runge_kutta(objective, point, force, span), covariance, residual

        def free(_: Any) -> tuple[Vector, Array, Array]:
            return unforced, jnp.zeros_like(excess), jnp.zeros_like(span)

        end, covariance, residual = lax.cond(jnp.any(pairs.values * self.learning_rate > 2), held, free, None)
        return end, Oscillation(pairs.vectors, covariance, pairs.values, residual), pairs.subspace

    def snapshot(self, state: CentralState, now: Array) -> CentralSnapshot:
        model = eqx.combine(state.parameters, self.model)
        data, on = self.objective.data, self.objective.on
        return CentralSnapshot(model, now, self.objective, data=data, loss_on=on, oscillation=state.oscillation)

    def diverged_at(self, state: CentralState) -> Array:
        return state.diverged_at

    def work(self, state: CentralState) -> int:
        size = sum(leaf.size for leaf in jax.tree.leaves(state.parameters))
        data = self.objective.data
        rows = 1 if data is None else jax.tree.leaves(data)[0].shape[0]
        return self.substeps * size * rows * (size if size <= self.dense else 20)


def central_flow(
    model: PyTree,
    task: Loss,
    learning_rate: Float[Array, ""] | float,
    *,
    steps: int,
    data: PyTree = None,
    probes: Probes | None = None,
    critical: int = 3,
    substeps: int = 4,
    record: Record = None,
    stop: Stop = None,
) -> Trajectory:
    """Follow the central flow of gradient descent; one step is one of the optimizer's.

    If the sharpness rises along the oscillating direction (a term x^4), gradient descent diverges and this flow, of
    second order, continues.

    Args:
        model: Any pytree of arrays, such as an Equinox module.
        task: A task, or a function `loss(model)`, or `loss(model, data)`.
        learning_rate: That of gradient descent, above 0.
        steps: Number of steps.
        data: Arrays with one row for each example; None for the population.
        probes: Quantities to record, by name: probes, or functions of the model. Default: the loss.
            `{"oscillation": dynamics.oscillation()}` records the oscillation that the flow predicts.
        critical: The most directions that oscillate, as in `CentralFlow`.
        substeps: Substeps of a step.
        record: Record every `record`-th step, or exactly the listed steps. Default: about 1,000 recordings.
        stop: Ends the run at the first recording at which it holds.

    Returns:
        The trajectory, with the trace of the probes and the model at the end.
    """
    process = CentralFlow(model, task, learning_rate, data=data, probes=probes, critical=critical, substeps=substeps)
    return run_single(process, steps=steps, record=record, stop=stop)


def oscillation(every: int | None = None) -> Probe:
    """The predicted oscillation of gradient descent about a central flow.

    In the trace, for a probe called `oscillation`: `oscillation`, its variance tr Sigma; `oscillation_loss`, the
    time-averaged loss L + 1/2 <H, Sigma>; `oscillation_directions`, the rank of Sigma; `oscillation_residual`.

    Args:
        every: The cadence, in steps. Default: the run's.

    Returns:
        A probe for `central_flow`; its values are scalars.
    """

    def measure(snapshot: Snapshot, memory: None) -> tuple[dict[str, Array], None]:
        if not isinstance(snapshot, CentralSnapshot):
            raise TypeError("the probe `oscillation` needs a CentralFlow; other processes predict no oscillation")
        swing = snapshot.oscillation
        spread = jnp.linalg.eigvalsh(swing.covariance)
        return {
            "value": swing.variance,
            "loss": snapshot.loss() + swing.extra_loss,
            "directions": jnp.sum(spread > 1e-3 * spread[-1], dtype=jnp.int32),
            "residual": swing.residual,
        }, memory

    return describe_probe(Probe(measure, every=every), "oscillation")


def _runge_kutta(objective: Callable, point: Vector, force: Vector, span: Array) -> Vector:
    """Advance by `span` along -(grad L + force) with the classical fourth-order step, which is stable up to span x
    sharpness = 2.78; at the edge with h = 1/4 that product is 1/2."""

    def velocity(point: Vector) -> Vector:
        return -(jax.grad(objective)(point) + force)

    one = velocity(point)
    two = velocity(point + span / 2 * one)
    three = velocity(point + span / 2 * two)
    four = velocity(point + span * three)
    return point + span / 6 * (one + 2 * two + 2 * three + four)


def third_derivatives(objective: Callable, point: Vector, vectors: Float[Array, "k n"]) -> Float[Array, "k k n"]:
    """T_ij = D^3 L[u_i, u_j, .]: the gradient of u_i^T H u_j with the vectors held, for all pairs."""
    k = vectors.shape[0]
    rows, columns = jnp.triu_indices(k)

    def one(u: Vector, v: Vector) -> Vector:
        def along(point: Vector) -> Array:
            return jax.jvp(objective, (point,), (u,))[1]

        return jax.grad(lambda point: jax.jvp(along, (point,), (v,))[1])(point)

    found = jax.vmap(one)(vectors[rows], vectors[columns])
    return jnp.zeros((k, *vectors.shape), point.dtype).at[rows, columns].set(found).at[columns, rows].set(found)


def complementary(
    excess: Float[Array, "k k"], response: Float[Array, "k k k k"], tolerance: float = 1e-9, max_iterations: int = 50
) -> tuple[Float[Array, "k k"], Float[Array, ""]]:
    """The X >= 0 with M X - A >= 0 and <X, M X - A> = 0, for an excess A and a response M; and the residual left.

    For k = 1 this is X = max(0, A/M). With A = -h eta <grad S, grad L> (the growth of a sharpness S at the edge) and M
    = h eta/2 |grad S|^2 it is X = max(0, <grad S, -grad L> / (1/2 |grad S|^2)).

    In general, X = Y+ and M X - A = (-Y)+ for one symmetric Y, + being the projection on the positive matrices: the two
    are then complementary by themselves, and M Y+ - (-Y)+ = A is left to solve. That equation is smooth except where an
    eigenvalue of Y is 0; Newton's method, with the best of a few fractions of its step, takes some five iterations.
    """
    k = excess.shape[0]
    basis = _symmetric_basis(k, excess.dtype)
    size = jnp.einsum("aij,ijkl,akl->", basis, response, basis) / basis.shape[0]
    scale = jnp.where(size > 0, size, 1)  # X is solved for in units in which M is about 1
    identity = jnp.eye(basis.shape[0], dtype=excess.dtype)
    matrix = jnp.einsum("aij,ijkl,bkl->ab", basis, response / scale, basis) + 1e-10 * identity
    target = jnp.einsum("aij,ij->a", basis, excess)
    goal = tolerance * (jnp.linalg.norm(target) + jnp.finfo(excess.dtype).tiny)

    def spectrum(y: Array) -> tuple[Array, Array]:
        return jnp.linalg.eigh(jnp.einsum("a,aij->ij", y, basis))

    def positive(y: Array) -> Array:
        values, q = spectrum(y)
        return jnp.einsum("aij,ik,k,jk->a", basis, q, jnp.maximum(values, 0), q)

    def miss(y: Array) -> Array:
        return matrix @ positive(y) - (positive(y) - y) - target  # (-Y)+ = Y+ - Y

    def newton(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        y, off, count = carry
        values, q = spectrum(y)
        turned = jnp.einsum("ki,akl,lj->aij", q, basis, q)
        # the derivative of Y+ in Y's eigenbasis: (l_i+ - l_j+) / (l_i - l_j), entry by entry (Loewner)
        gaps = values[:, None] - values[None, :]
        level = (values > 0).astype(y.dtype)[:, None] * jnp.ones_like(gaps)
        steps = jnp.maximum(values, 0)[:, None] - jnp.maximum(values, 0)[None, :]
        slopes = jnp.where(jnp.abs(gaps) > 1e-14, steps / jnp.where(gaps == 0, 1, gaps), level)
        projector = jnp.einsum("aij,ij,bij->ab", turned, slopes, turned)
        step = jnp.linalg.solve((matrix - identity) @ projector + identity, -off)
        tries = y + 0.4 ** jnp.arange(6, dtype=y.dtype)[:, None] * step
        misses = jax.vmap(miss)(tries)
        sizes = jnp.linalg.norm(misses, axis=1)
        best = jnp.where(
            jnp.min(sizes) < 0.99 * jnp.linalg.norm(off), jnp.argmin(sizes), 0
        )  # stuck: leap, all the same
        return tries[best], misses[best], count + 1

    def unsolved(carry: tuple[Array, Array, Array]) -> Array:
        return (jnp.linalg.norm(carry[1]) > goal) & (carry[2] < max_iterations)

    first = jnp.linalg.solve(matrix, target)
    y, off, _ = lax.while_loop(unsolved, newton, (first, miss(first), jnp.asarray(0, jnp.int32)))
    return jnp.einsum("a,aij->ij", positive(y), basis) / scale, jnp.linalg.norm(off) / (goal / tolerance)


def _symmetric_basis(k: int, dtype: Any) -> Float[Array, "p k k"]:
    """An orthonormal basis of the symmetric matrices."""
    rows, columns = jnp.triu_indices(k)
    which = jnp.arange(rows.size)
    unit = jnp.zeros((rows.size, k, k), dtype).at[which, rows, columns].set(1)
    unit = (unit + unit.transpose(0, 2, 1)) / 2
    return unit / jnp.sqrt(jnp.sum(unit**2, axis=(1, 2), keepdims=True))
