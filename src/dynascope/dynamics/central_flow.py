"""The central flow of an optimizer: the smooth path around which it oscillates at the edge of stability.

J. Cohen, A. Damian, A. Talwalkar, J. Z. Kolter, J. D. Lee, Understanding optimization in deep learning with central
flows (2025), Section 3. Gradient descent with learning rate eta oscillates along the eigenvectors U of the Hessian H
whose eigenvalues are 2/eta. Write its iterates as w + d, with d of mean 0 and covariance Sigma = U X U^T. To second
order in d the mean gradient is grad L + 1/2 grad <H, Sigma>, so that the mean moves, with time counted in steps, as

    dw/dt = -eta [grad L(w) + 1/2 grad_w <H(w), Sigma>],

and X keeps the eigenvalues at 2/eta from growing. With T_ij = D^3 L[u_i, u_j, .], the gradient of u_i^T H u_j,

    d/dt (U^T H U)_ij = -eta [T_ij . grad L + 1/2 sum_kl (T_ij . T_kl) X_kl],

and X >= 0, d/dt (U^T H U) <= 0, <X, d/dt (U^T H U)> = 0: a semidefinite complementarity problem, with one solution if
the T_ij are independent. The path is then that of gradient flow projected on {sharpness <= 2/eta}.

RMSProp steps by -eta P^(-1) grad L, which is gradient descent in z = P^(1/2) w: the same holds for P^(-1/2) H P^(-1/2),
and P has a flow of its own (`second_moments`, Sections 4 and 5). Without X both are the stable flow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from dynascope import checks
from dynascope.dynamics.complementarity import complementary
from dynascope.dynamics.ensemble import run_single
from dynascope.dynamics.objective import Loss, Objective
from dynascope.dynamics.oscillation import CentralSnapshot, Oscillation, third_derivatives
from dynascope.dynamics.process import Process
from dynascope.dynamics.schedule import Record
from dynascope.dynamics.second_moments import Moments, RMSProp, SecondMoments
from dynascope.dynamics.stopping import Stop
from dynascope.dynamics.trajectory import Trajectory
from dynascope.geometry.eigenpairs import top_eigenpairs
from dynascope.geometry.hessian import Vector
from dynascope.probes import basic
from dynascope.probes.probe import Probe, Probes, name_probes

DENSE = 64
"""Up to this many parameters the whole Hessian is diagonalized at each substep; with more, a warm search is cheaper."""


Place = tuple[Vector, Moments]
"""The parameters, and the averaged squares of the gradients."""


class CentralState(eqx.Module):
    parameters: PyTree
    moments: Moments
    """The averaged squares of the gradients; 0 with gradient descent."""
    oscillation: Oscillation
    subspace: Float[Array, "s n"]
    """The vectors from which the next search starts."""
    diverged_at: Array


class CentralFlow(Process[CentralState]):
    """The central flow of an optimizer on the objective of a `Flow`: the population's loss, or that of `data`.

    Each step of the optimizer is integrated in `substeps`, by the fourth-order Runge-Kutta method with the force of the
    oscillation held; X is solved for so that the eigenvalues do not lie above 2/eta at the end, to first order. The
    next substep corrects the remaining error, so eigenvalues do not drift away from the edge. Below the edge it is
    gradient flow at time eta x step.

    Args:
        model: Any pytree of arrays, such as an Equinox module.
        task: A task, or a function `loss(model)`, or `loss(model, data)`.
        learning_rate: That of the optimizer, above 0.
        optimizer: `RMSProp` or `ScalarRMSProp` of `dynamics`. Default: gradient descent.
        data: Arrays with one row for each example; None for the population.
        probes: Quantities to record, by name: probes, or functions of the model. Default: the loss.
        critical: The most directions that oscillate. If more eigenvalues reach the edge, the others grow past it, which
            `sharpness`-like probes show (no eigenvalue of this flow should lie above 2/eta): raise it then. With 0 it
            is the stable flow, which knows of no edge.
        substeps: Substeps of a step. Curvatures above 2.7 substeps/eta are too large for them.
        dense: With more parameters, the eigenvectors are followed by warm-started search.
    """

    model: PyTree
    objective: Objective
    learning_rate: Float[Array, ""]
    optimizer: SecondMoments
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
        optimizer: RMSProp | None = None,
        data: PyTree = None,
        probes: Probes | None = None,
        critical: int = 3,
        substeps: int = 4,
        dense: int = DENSE,
    ) -> None:
        if optimizer is not None and not isinstance(optimizer, RMSProp):
            got = checks.shown(optimizer)
            raise TypeError(f"optimizer must be dynamics.RMSProp(...) or dynamics.ScalarRMSProp(...); got {got}")
        model = checks.jax_model(model)
        leaves = jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))
        size = sum(leaf.size for leaf in leaves)
        if any(leaf.dtype.itemsize < 4 for leaf in leaves):
            raise TypeError("model must hold arrays of single or double precision; got half precision")
        self.model, self.objective = model, Objective(task, model, data=data)
        self.learning_rate = jnp.asarray(checks.real("learning_rate", learning_rate, above=0), leaves[0].dtype)
        self.optimizer = SecondMoments() if optimizer is None else optimizer
        self.probes = name_probes({"loss": basic.loss()} if probes is None else probes)
        self.critical = min(checks.whole("critical", critical, at_least=0), size)
        self.substeps, self.dense = (
            checks.whole("substeps", substeps, at_least=1, at_most=10_000),
            checks.whole("dense", dense, at_least=0),
        )

    def check(self) -> None:
        self.objective.check(self.model)

    def start(self) -> CentralState:
        point, objective = self._flat(eqx.filter(self.model, eqx.is_inexact_array))
        k, n = self.critical, point.size
        subspace = jax.random.normal(jax.random.key(1), (min(k + 1, n), n), point.dtype)
        still = Oscillation(jnp.zeros_like(subspace[:k]), *(jnp.zeros(s, point.dtype) for s in ((k, k), (k,), ())))
        moments = self.optimizer.start(jax.grad(objective)(point))
        parameters = eqx.filter(self.model, eqx.is_inexact_array)
        return CentralState(parameters, moments, still, subspace, jnp.asarray(-1, jnp.int32))

    def _flat(self, parameters: PyTree) -> tuple[Vector, Callable[[Vector], Array]]:
        """The parameters as one vector, and the objective as a function of it."""
        fixed = eqx.filter(self.model, eqx.is_inexact_array, inverse=True)
        point, unravel = ravel_pytree(parameters)
        return point, lambda point: self.objective(eqx.combine(unravel(point), fixed))

    def advance(self, state: CentralState, now: Array, until: Array) -> CentralState:
        begin, objective = self._flat(state.parameters)
        _, unravel = ravel_pytree(state.parameters)

        def substep(i: Array, carry: Any) -> Any:
            place, oscillation, subspace, diverged_at = carry
            place, oscillation, subspace = self._substep(objective, place, oscillation, subspace, i)
            fell = ~jnp.all(jnp.isfinite(place[0])) & (diverged_at < 0)
            return place, oscillation, subspace, jnp.where(fell, i // self.substeps, diverged_at)

        carry = ((begin, state.moments), state.oscillation, state.subspace, state.diverged_at)
        (point, moments), *rest = lax.fori_loop(now * self.substeps, until * self.substeps, substep, carry)
        return CentralState(unravel(point), moments, *rest)

    def _substep(self, objective: Callable, place: Place, before: Oscillation, subspace: Array, seed: Array) -> Any:
        """Advance by h = 1/substeps: find the end point of the stable flow, then the X that keeps it stable, then the
        end point with X."""
        span, edge = self.learning_rate / self.substeps, 2 / self.learning_rate
        unforced = self._runge_kutta(objective, place, None, span)
        if self.critical == 0:
            return unforced, before, subspace
        point, scale = unforced[0], self.optimizer.scale(unforced[1])

        def curved(z: Vector) -> Array:
            return objective(point + z / jnp.sqrt(scale))

        start = None if point.size <= self.dense else subspace
        still = jnp.zeros_like(point)
        pairs = top_eigenpairs(curved, still, self.critical, tolerance=1e-5, start=start, seed=seed, dense=self.dense)
        excess = jnp.diag(pairs.values - edge)  # U^T A U - 2/eta, at the end of the unforced substep

        def held(_: Any) -> tuple[Place, Array, Array]:
            third = third_derivatives(curved, still, pairs.vectors)
            # the force shifts the end by -(eta h/2) sum_kl T_kl X_kl, and so U^T A U by -(eta h/2) (T_ij . T_kl) X_kl
            response = span / 2 * jnp.einsum("ijn,kln->ijkl", third, third)
            response += span / self.learning_rate**2 * edge**2 * self.optimizer.response(pairs.vectors, scale)
            covariance, residual = complementary(excess, response)
            force = jnp.einsum("kln,kl->n", third, covariance) / 2  # 1/2 grad <H, Sigma>, in z
            swing = edge**2 * self.optimizer.swing(pairs.vectors, covariance, scale)
            return self._runge_kutta(objective, place, (jnp.sqrt(scale) * force, swing), span), covariance, residual

        def free(_: Any) -> tuple[Place, Array, Array]:
            return unforced, jnp.zeros_like(excess), jnp.zeros_like(span)

        end, covariance, residual = lax.cond(jnp.any(pairs.values > edge), held, free, None)
        directions = pairs.vectors / jnp.sqrt(scale)
        return end, Oscillation(directions, covariance, pairs.values, residual), pairs.subspace

    def _runge_kutta(self, objective: Callable, place: Place, push: Place | None, span: Array) -> Place:
        """Advance by `span` = eta h along -P^(-1) (grad L + force) and nu's velocity with the classical fourth-order
        step, which is stable up to span x curvature = 2.78; at the edge with h = 1/4 that product is 1/2. `push` is
        what the oscillation adds to the gradient and to its squares."""

        def velocity(place: Place) -> Place:
            point, moments = place
            gradient = jax.grad(objective)(point)
            force, swing = (jnp.zeros_like(point), jnp.zeros_like(moments)) if push is None else push
            fall = -(gradient + force) / self.optimizer.scale(moments)
            return fall, self.optimizer.velocity(moments, gradient, swing) / self.learning_rate

        def moved(along: Place, share: Array) -> Place:
            return place[0] + share * along[0], place[1] + share * along[1]

        one = velocity(place)
        two = velocity(moved(one, span / 2))
        three = velocity(moved(two, span / 2))
        four = velocity(moved(three, span))
        mean = jax.tree.map(lambda a, b, c, d: a + 2 * b + 2 * c + d, one, two, three, four)
        return moved(mean, span / 6)

    def snapshot(self, state: CentralState, now: Array) -> CentralSnapshot:
        model = eqx.combine(state.parameters, self.model)
        data, on = self.objective.data, self.objective.on
        more = {"data": data, "loss_on": on, "oscillation": state.oscillation}
        return CentralSnapshot(model, now, self.objective, state.moments, **more)

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
    optimizer: RMSProp | None = None,
    data: PyTree = None,
    probes: Probes | None = None,
    critical: int = 3,
    substeps: int = 4,
    record: Record = None,
    stop: Stop = None,
) -> Trajectory:
    """Follow the central flow of gradient descent or RMSProp; one step is one of the optimizer's.

    If the sharpness rises along the oscillating direction (a term x^4), gradient descent diverges and this flow, of
    second order, continues.

    Args:
        model: Any pytree of arrays, such as an Equinox module.
        task: A task, or a function `loss(model)`, or `loss(model, data)`.
        learning_rate: That of the optimizer, above 0.
        steps: Number of steps.
        optimizer: `dynamics.RMSProp(decay)` or `dynamics.ScalarRMSProp(decay)`. Default: gradient descent.
        data: Arrays with one row for each example; None for the population.
        probes: Quantities to record, by name: probes, or functions of the model. Default: the loss.
            `{"oscillation": dynamics.oscillation()}` records the oscillation that the flow predicts.
        critical: The most directions that oscillate, as in `CentralFlow`; 0 for the stable flow.
        substeps: Substeps of a step.
        record: Record every `record`-th step, or exactly the listed steps. Default: about 1,000 recordings.
        stop: Ends the run at the first recording at which it holds.

    Returns:
        The trajectory, with the trace of the probes and the model at the end.
    """
    options = {"data": data, "probes": probes, "critical": critical, "substeps": substeps}
    process = CentralFlow(model, task, learning_rate, optimizer=optimizer, **options)
    return run_single(process, steps=steps, record=record, stop=stop)
