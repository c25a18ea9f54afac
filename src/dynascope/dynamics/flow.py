"""Gradient flow, d(parameters)/dt = -gradient of the loss, by adaptive integration that is safe on stiff problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PyTree

from dynascope import checks
from dynascope.dynamics.ensemble import run_single
from dynascope.dynamics.objective import Loss, Objective
from dynascope.dynamics.process import Process
from dynascope.dynamics.stopping import Stop
from dynascope.dynamics.trajectory import Trajectory
from dynascope.probes import basic
from dynascope.probes.probe import Probe, Probes, Snapshot, name_probes
from dynascope.tasks.task import VelocityTask

RealScalarLike = float | int | Array | np.ndarray
IMPLICIT_UP_TO = 400
"""Parameters up to which the implicit solver's dense linear solves are the cheap choice."""


class FlowState(eqx.Module):
    parameters: PyTree
    step_size: Array
    diverged_at: Array


class Flow(Process[FlowState]):
    """The flow of `-grad loss`, with the loss as in `Descent` without batches: the population's, or that of `data`.
    A `VelocityTask` gives the velocity itself.

    The solver is Kvaerno's implicit fifth-order method for small problems in float64, so stiffness costs nothing there,
    and Dormand-Prince with a step-size controller for large ones and in float32, whose rounding does not allow the
    implicit equations to be solved tightly enough.

    Args:
        model: Any pytree of arrays, such as an Equinox module.
        task: A task, or a function `loss(model)`, or `loss(model, data)`.
        data: Arrays with one row for each example; None for the population.
        probes: Quantities to record, by name: probes, or functions of the model. Default: the loss.
        solver: Any solver of diffrax. Default: as above.
        tolerance: The relative tolerance of a step. Default: 1e-9 in float64, 1e-5 in float32.
        max_steps: The most steps from one recording to the next; a flow that needs more has diverged.
    """

    axis: ClassVar[str] = "time"

    model: PyTree
    objective: Objective
    probes: Mapping[str, Probe]
    solver: diffrax.AbstractSolver
    tolerance: float
    max_steps: int

    def __init__(
        self,
        model: PyTree,
        task: Loss,
        *,
        data: PyTree = None,
        probes: Probes | None = None,
        solver: diffrax.AbstractSolver | None = None,
        tolerance: float | None = None,
        max_steps: int = 1_000_000,
    ) -> None:
        if not isinstance(solver, diffrax.AbstractSolver | None):
            raise TypeError(f"solver must be one of diffrax, such as diffrax.Tsit5(); got {checks.shown(solver)}")
        if tolerance is not None:
            tolerance = float(checks.real("tolerance", tolerance, above=0, below=1))
        model = checks.jax_model(model)
        leaves = jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))
        self.model, self.max_steps = model, checks.whole("max_steps", max_steps, at_least=1, at_most=2**31 - 1)
        self.objective = Objective(task, model, data=data)
        self.probes = name_probes({"loss": basic.loss()} if probes is None else probes)
        double = leaves[0].dtype == jnp.float64
        implicit = double and sum(leaf.size for leaf in leaves) <= IMPLICIT_UP_TO
        self.solver = solver or (diffrax.Kvaerno5() if implicit else diffrax.Dopri5())
        self.tolerance = tolerance or (1e-9 if double else 1e-5)

    def check(self) -> None:
        if not isinstance(self.objective.task, VelocityTask):
            self.objective.check(self.model)

    def start(self) -> FlowState:
        parameters = eqx.filter(self.model, eqx.is_inexact_array)
        step_size = jnp.asarray(0.0, jax.tree.leaves(parameters)[0].dtype)
        return FlowState(parameters, step_size, jnp.full_like(step_size, -1.0))

    def _absolute_tolerance(self) -> float:
        """The absolute tolerance: a thousandth of the relative one, but not below rounding at unit size."""
        dtype = jax.tree.leaves(eqx.filter(self.model, eqx.is_inexact_array))[0].dtype
        return max(self.tolerance / 1000, 10 * float(jnp.finfo(dtype).eps))

    def _solve(
        self, parameters: PyTree, now: Array, until: Array, step_size: Array, saveat: diffrax.SaveAt
    ) -> diffrax.Solution:
        """One call of diffrax; the field is minus the gradient of the objective, or the task's own velocity."""
        fixed = eqx.filter(self.model, eqx.is_inexact_array, inverse=True)

        def field(t: RealScalarLike, parameters: PyTree, args: PyTree) -> PyTree:
            if isinstance(self.objective.task, VelocityTask):
                velocity = self.objective.task.velocity(eqx.combine(parameters, fixed))
                return eqx.filter(velocity, eqx.is_inexact_array)
            gradient = jax.grad(lambda p: self.objective(eqx.combine(p, fixed)))(parameters)
            return jax.tree.map(jnp.negative, gradient)

        return diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            self.solver,
            t0=now,
            t1=until,
            dt0=step_size,
            y0=parameters,
            saveat=saveat,
            stepsize_controller=diffrax.PIDController(rtol=self.tolerance, atol=self._absolute_tolerance()),
            max_steps=self.max_steps,
            throw=False,
        )

    def advance(self, state: FlowState, now: Array, until: Array) -> FlowState:
        now, until = (time.astype(state.step_size.dtype) for time in (now, until))

        def move(state: FlowState) -> FlowState:
            span = until - now
            first = jnp.where(state.step_size > 0, jnp.minimum(state.step_size, span), span / 100)
            solution = self._solve(state.parameters, now, until, first, diffrax.SaveAt(t1=True))
            parameters = jax.tree.map(lambda leaf: leaf[0], solution.ys)
            finite = jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(parameters)])
            failed = (solution.result != diffrax.RESULTS.successful) | ~jnp.all(finite)
            taken = jnp.maximum(solution.stats["num_accepted_steps"], 1).astype(span.dtype)
            diverged_at = jnp.where(failed & (state.diverged_at < 0), now, state.diverged_at)
            parameters = jax.tree.map(lambda leaf: jnp.where(failed, jnp.nan, leaf), parameters)
            return FlowState(parameters, span / taken, diverged_at)

        return lax.cond(until > now, move, lambda state: state, state)

    def snapshot(self, state: FlowState, now: Array) -> Snapshot:
        model = eqx.combine(state.parameters, self.model)
        return Snapshot(model, now, self.objective, data=self.objective.data, loss_on=self.objective.on)

    def diverged_at(self, state: FlowState) -> Array:
        return state.diverged_at


def flow(
    model: PyTree,
    task: Loss,
    *,
    times: Sequence[float] | np.ndarray,
    data: PyTree = None,
    probes: Probes | None = None,
    solver: diffrax.AbstractSolver | None = None,
    tolerance: float | None = None,
    max_steps: int = 1_000_000,
    stop: Stop = None,
) -> Trajectory:
    """Follow the gradient flow, with probes inside the compiled loop.

    Args:
        model: Any pytree of arrays, such as an Equinox module.
        task: A task, or a function `loss(model)`, or `loss(model, data)`.
        times: The times to record, 0 or later.
        data: Arrays with one row for each example; None for the population.
        probes: Quantities to record, by name: probes, or functions of the model. Default: the loss.
        solver: Any solver of diffrax. Default: as in `Flow`.
        tolerance: The relative tolerance of a step. Default: 1e-9 in float64, 1e-5 in float32.
        max_steps: The most steps from one recording to the next; a flow that needs more has diverged.
        stop: Ends the run at the first recording at which it holds, such as `lambda snapshot: snapshot.loss() < 1e-6`.

    Returns:
        The trajectory, with the trace of the probes and the model at the end.
    """
    process = Flow(model, task, data=data, probes=probes, solver=solver, tolerance=tolerance, max_steps=max_steps)
    return run_single(process, times=times, stop=stop)


def dense_flow(
    model: PyTree,
    task: Loss,
    *,
    until: float,
    data: PyTree = None,
    solver: diffrax.AbstractSolver | None = None,
    tolerance: float | None = None,
    max_steps: int = 4096,
) -> Callable[[float], PyTree]:
    """Follow the gradient flow and return it as a function of time: the solver's own interpolation between its steps.

    Args:
        model: Any pytree of arrays, such as an Equinox module.
        task: A task, or a function `loss(model)`, or `loss(model, data)`.
        until: The end of the time interval, which begins at 0.
        data: Arrays with one row for each example; None for the population.
        solver: Any solver of diffrax. Default: as in `Flow`.
        tolerance: The relative tolerance of a step. Default: 1e-9 in float64, 1e-5 in float32.
        max_steps: The most steps of the solver; a `ValueError` if they are not enough.

    Returns:
        A function of a time in [0, until] that returns the model.
    """
    process = Flow(model, task, data=data, solver=solver, tolerance=tolerance, max_steps=max_steps)
    checks.real("until", until, above=0)
    parameters = process.start().parameters
    span = jnp.asarray(until, jax.tree.leaves(parameters)[0].dtype)

    @eqx.filter_jit
    def integrate(parameters: PyTree) -> diffrax.Solution:
        return process._solve(parameters, jnp.zeros_like(span), span, span / 100, diffrax.SaveAt(dense=True))

    solution = integrate(parameters)
    if solution.result != diffrax.RESULTS.successful:
        raise ValueError(f"the flow did not reach t={until} in {max_steps} steps; increase max_steps, or use flow")
    return lambda t: eqx.combine(solution.evaluate(jnp.asarray(t, span.dtype)), model)
