"""Eq. (4.1), (4.3), (D.1), (D.2): the printed dynamics of the Jacobian against steps of gradient descent on U."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

import dynascope as ds
from dynascope.compilation import jit_once
from dynascope.curves import paths
from dynascope.experiments.concept.symmetric_experiment import SymmetricExperiment
from dynascope.lab.claims import erratum
from dynascope.lab.criteria import above, agrees, below, every
from dynascope.lab.experiment import Claims
from dynascope.theory.concept import jacobian_recursion as recursion


def reduce_increments(experiment: SymmetricExperiment, chosen: xr.Dataset) -> xr.Dataset:
    """The largest error of each printed equation in runs that recorded every `U` and `W`."""
    U, W = chosen.U.values, chosen.W.values
    output = W[0] @ np.asarray(experiment.mu)  # at 5 % of the loss the weak major is only at 1/2
    rate = paths.terminal_rate(output, chosen.step.values, chosen.test_loss.values[0], loss_share=1e-4)
    errors, ratio, signs = jit_once(lambda U, W: _errors(experiment, U, W))(jnp.asarray(U), jnp.asarray(W))
    found = {
        **errors,
        "slope": rate.slope,
        "r_squared": rate.r_squared,
        "predicted_slope": -4 * experiment.learning_rate * experiment.strengths.min(),
    }
    strong, weak = np.argsort(-experiment.strengths)[:2]
    peak = np.abs(W[0, :, weak, strong]).argmax()
    dominated = output[peak, weak] / W[0, peak, weak, strong] / np.asarray(experiment.mu)[[strong, weak]]
    table = {name: float(value) for name, value in found.items()}
    rows = {"clock": [float(ratio.min()), float(ratio.max())], "signs": list(map(bool, signs)), "dominated": dominated}
    ends = np.abs(W[:, -1] - np.eye(len(experiment.mu))).max(axis=(1, 2))
    return xr.Dataset(
        {**table, **{name: (f"{name}_row", row) for name, row in rows.items()}, "off_end": ("start", ends)}
    )


def _errors(experiment: SymmetricExperiment, U: Array, W: Array) -> tuple[dict[str, Array], Array, list[Array]]:
    """The largest errors by equation, the speed of gradient descent over the printed one, and whether growth and
    suppression have the signs that are stated."""
    a, eta = jnp.asarray(experiment.strengths), 2 * experiment.learning_rate
    before, step = W[:, :-1], (W[:, 1:] - W[:, :-1]) / eta
    terms = recursion.growth(before, a) - recursion.suppression(before, a) - recursion.noise(before, a)
    dropped, velocity = recursion.dropped_term(U[:, :-1], a, eta), recursion.velocity(before, a)
    task = ds.tasks.StructuredIdentity(experiment.mu, experiment.sigma, len(experiment.mu), norm="sum")

    def loss(factor: jax.Array) -> jax.Array:
        return task.population_loss(ds.models.Symmetric(factor))

    start = U[:, 0]
    gradient = jax.vmap(jax.grad(loss))(start)
    across = jnp.eye(start[0].size).reshape(-1, *start[0].shape) * 1e-6
    slopes = jax.vmap(lambda u: jax.vmap(lambda e: (loss(u + e) - loss(u - e)) / 2e-6)(across))(start)
    moves = -(gradient @ jnp.swapaxes(start, 1, 2) + start @ jnp.swapaxes(gradient, 1, 2))
    ratio = moves / recursion.velocity(W[:, 0], a)
    errors = {
        "increment": jnp.abs(eta * (step - velocity - dropped)).max(),
        "terms": jnp.abs(step - dropped - terms).max(),
        "matrix_form": jnp.abs(terms - velocity).max(),
        "gradient": jnp.abs(recursion.gradient(start, a) - gradient).max(),
        "differences": jnp.abs(slopes.reshape(start.shape) - gradient).max(),
    }
    grows, suppresses = recursion.growth(before, a), recursion.suppression(before, a)
    own, net = (jnp.diagonal(part, axis1=-2, axis2=-1) for part in (before, grows - suppresses))
    signs = [jnp.all(grows * before >= 0), jnp.all(suppresses * before >= 0), jnp.all((net >= 0) | (own > 1))]
    return errors, ratio, signs


def judge_increments(errors: xr.Dataset, runs: int) -> Claims:
    statement = "A step of gradient descent on U moves W by the recursion (D.1) plus (η²/4) ∇L ∇Lᵀ, the term it drops "
    statement += "(largest error of an increment)"
    yield below("increments", statement, errors.increment, 1e-12, source="eq. (D.1)", seeds=runs)
    statement = "Growth, suppression and noise sum to the increment (largest error; and against the matrix form)"
    sums = np.array([errors.terms, errors.matrix_form])
    yield below("three-terms", statement, sums, 1e-13, source="eq. (D.2)", seeds=runs)
    statement = "∇L = [(W - I)A + A(W - I)]U agrees with automatic differentiation (largest difference)"
    yield below("gradient", statement, errors.gradient, 1e-14, source="eq. (4.1)", seeds=runs)
    statement = "Automatic differentiation agrees with central differences (largest difference)"
    yield below("differences", statement, errors.differences, 1e-8, source="eq. (4.1)", seeds=runs)
    statement = "Eq. (4.3) and (D.2) are half of gradient flow on U, which only rescales time: the paper's clock is "
    statement += "t = 2η · steps (ratio of the true dW/dt to the printed one, smallest and largest entry)"
    twice = agrees("clock", statement, errors.clock, 2.0, absolute=1e-6, seeds=runs)
    printed = "The gradient flow update of the i,j-th entry of W is given by [... G_ij - S_ij - N_ij]"
    yield erratum(twice, kind="misprint", printed=printed, at="Section 4.2, eq. (4.3)")
    statement = "At every step growth and suppression have the sign of their entry, and a major below 1 grows by them"
    yield every("signs", statement, errors.signs, source="Section 4.2", seeds=runs)
    statement = "All majors end at 1, all minors at 0 (largest difference of an entry from the identity)"
    yield below("ends-at-identity", statement, errors.off_end, 1e-3, source="Section 4.2.2", seeds=runs)
    statement = "When the minor is largest, the weaker output is w_{k,1} μ₁, not w_{k,1} μ_k: ratio to the latter"
    shown = {"to the former": errors.dominated[0]}
    counter = above("dominating-term", statement, errors.dominated[1], 1.5, shown=shown)
    printed = "f(U(t); x̂)_k is dominated by w_{k,1}(t) μ_k"
    yield erratum(counter, kind="misprint", printed=printed, at="Section 4.2.2")
    statement = "Learning ends exponentially, at -4 η a of the weakest concept per step (slope of the log speed)"
    shown = {"R²": errors.r_squared}
    slope = float(errors.predicted_slope)
    yield agrees("terminal-rate", statement, errors.slope, slope, relative=0.02, source="Section 3.2", shown=shown)
