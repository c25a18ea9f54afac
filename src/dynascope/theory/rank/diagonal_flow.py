"""The gradient flow of a diagonal network from a small start, in coordinates that keep small weights exact.

"Transformers learn through gradual rank increase", Section 4.1, with beta = u * v, force g(beta) = -grad L(beta) and
u(0) = alpha u0, v(0) = alpha v0. The flow conserves kappa = u^2 - v^2 (Lemma 4.2). After swapping u_i and v_i if
|u_i| < |v_i| and multiplying both by the sign of u_i, neither of which changes beta,

    u = sqrt(kappa) cosh z,  v = sqrt(kappa) sinh z,  u + v = sqrt(kappa) e^z,
    dz/dt = g(beta),         beta = (kappa / 2) sinh 2z.

This is exact. In the flow of u and v themselves, u - v = kappa / (u + v), about alpha^2, falls below rounding once u v
is of order one, and so the time at which a coordinate returns to the support is lost. Times are rescaled, tau = t /
log(1/alpha). The log-scale weight of a coordinate is b = log_alpha(u + v): between 0 and 2 while it is inactive, 0 if
it is active with beta > 0, and 2 if it is active with beta < 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix
import xarray as xr
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from dynascope.checks import array, real
from dynascope.dynamics.ensemble import ensemble
from dynascope.dynamics.flow import Flow
from dynascope.probes import basic
from dynascope.probes.probe import Probe, probe
from dynascope.tasks.task import PopulationTask, VelocityTask
from dynascope.theory.domains import POSITIVE, Domain, PositiveNumber, check_arguments

Product = Float[Array, " p"]
Loss = Callable[[Product], Float[Array, ""]]
Scale = Annotated[float, Domain("a finite number, above 0 and below 1", lambda alpha: (alpha > 0) & (alpha < 1))]
LOG_4 = math.log(4.0)
LOG_CAP = math.log(1e6)
"""The largest log|beta|: a trial step of the solver that is much too long then gives a large number, not infinity."""


class Reduced(NamedTuple):
    """A point of the reduced flow."""

    log_kappa: Float[Array, " ..."]
    """log |u^2 - v^2|, which is conserved. Any shape."""
    z: Float[Array, " ..."]
    """The coordinate z. Any shape."""


class Weights(NamedTuple):
    """Weights, ordered and signed so that u > |v|."""

    u: Float[Array, " ..."]
    """First weights. Any shape."""
    v: Float[Array, " ..."]
    """Second weights. Any shape."""


@check_arguments
def log_inverse(scale: Scale) -> float:
    """log(1/alpha).

    Args:
        scale: Initial scale alpha, above 0 and below 1.
    """
    return -math.log(real("scale", scale, above=0, below=1))


@check_arguments
def reduce_weights(
    u: Float[Array, " ..."], v: Float[Array, " ..."], log_scale: Float[Array, " ..."] | float = 0.0
) -> Reduced:
    """Weights in reduced coordinates; |u| and |v| must differ (Assumption 4.3).

    Args:
        u: First weights. Any shape.
        v: Second weights. Any shape.
        log_scale: Log of a factor of both. Any shape. Default: 0.0.
    """
    large, small = jnp.maximum(jnp.abs(u), jnp.abs(v)), jnp.minimum(jnp.abs(u), jnp.abs(v))
    log_kappa = jnp.log(large - small) + jnp.log(large + small) + 2 * log_scale
    return Reduced(log_kappa, jnp.sign(u) * jnp.sign(v) * jnp.arctanh(small / large))


@check_arguments
def product(point: Reduced) -> Float[Array, " ..."]:
    """beta = (kappa / 2) sinh 2z, computed without overflow.

    Args:
        point: A point of the reduced flow.
    """
    size = jnp.abs(point.z)
    base = point.log_kappa - LOG_4
    return jnp.sign(point.z) * (jnp.exp(jnp.minimum(base + 2 * size, LOG_CAP)) - jnp.exp(base - 2 * size))


@check_arguments
def weights(point: Reduced) -> Weights:
    """u and v at a point.

    Args:
        point: A point of the reduced flow.
    """
    plus = jnp.exp(point.log_kappa / 2 + point.z) / 2
    minus = jnp.exp(point.log_kappa / 2 - point.z) / 2
    return Weights(plus + minus, plus - minus)


@check_arguments
def log_weight(point: Reduced, pace: Annotated[Float[Array, " ..."] | float, POSITIVE]) -> Float[Array, " ..."]:
    """b = log_alpha(u + v).

    Args:
        point: A point of the reduced flow.
        pace: log(1/alpha). Positive, any shape.
    """
    return -(point.log_kappa / 2 + point.z) / pace


@check_arguments
def conserved_quantity(u: Float[Array, " ..."], v: Float[Array, " ..."]) -> Float[Array, " ..."]:
    """kappa = u^2 - v^2, which gradient flow conserves (Lemma 4.2).

    Args:
        u: First weights. Any shape.
        v: Second weights. Any shape.
    """
    return (u - v) * (u + v)


@check_arguments
def conservation_residual(u: Product, v: Product, kappa: Product) -> Float[Array, ""]:
    """max_i |u_i^2 - v_i^2 - kappa_i| / (u_i^2 + v_i^2).

    Args:
        u: First weights. Shape (p,).
        v: Second weights. Shape (p,).
        kappa: kappa at the start. Shape (p,).
    """
    return jnp.max(jnp.abs(conserved_quantity(u, v) - kappa) / (u**2 + v**2))


@check_arguments
def force(loss: Loss, beta: Product) -> Product:
    """g(beta) = -grad L(beta), eq. (4).

    Args:
        loss: Loss L as a function of beta.
        beta: The product beta. Shape (p,).
    """
    return -jax.grad(loss)(beta)


@check_arguments
def head_force(x: Float[Array, "samples n d"], y: Float[Array, "samples n d"], beta: Product) -> Product:
    """The force of the attention head of Appendix A in closed form; at beta = 0 the half of w_K * w_Q is 0.

    Args:
        x: Inputs. Shape (samples, n, d).
        y: Targets. Shape (samples, n, d).
        beta: The product beta. Shape (p,).
    """
    a, c = beta[: x.shape[2]], beta[x.shape[2] :]
    attention = jax.nn.softmax(jnp.einsum("sid,sjd->sij", x * a, x, precision="highest"), axis=-1)
    mixed = jnp.einsum("sij,sjd->sid", attention, x, precision="highest")
    residual = mixed * c - y
    back = jnp.einsum("sid,sjd->sij", residual * c, x, precision="highest")
    scores = attention * (back - jnp.sum(back * attention, axis=-1, keepdims=True))
    of_a = jnp.sum(x * jnp.einsum("sij,sjd->sid", scores, x, precision="highest"), axis=(0, 1))
    return -jnp.concatenate([of_a, jnp.sum(residual * mixed, axis=(0, 1))]) / x.shape[0]


class ReducedTask(PopulationTask, VelocityTask):
    """The reduced flow as a task for `flow`: the model is z, and time runs `pace` times as fast."""

    of_product: Loss
    """Loss L as a function of beta."""
    log_kappa: Product
    """log |u^2 - v^2|. Shape (p,)."""
    pace: Float[Array, ""]
    """How many times as fast time runs: log(1/alpha)."""

    def product(self, z: Product) -> Product:
        """beta at z.

        Args:
            z: The coordinate z. Shape (p,).
        """
        return product(Reduced(self.log_kappa, z))

    def population_loss(self, z: Product) -> Float[Array, ""]:
        """The loss at z.

        Args:
            z: The coordinate z. Shape (p,).
        """
        return self.of_product(self.product(z))

    def velocity(self, z: Product, /) -> Product:
        """dz/dt in rescaled time.

        Args:
            z: The coordinate z. Shape (p,).
        """
        return self.pace * force(self.of_product, self.product(z))


def stiff_solver() -> diffrax.AbstractSolver:
    """A solver for losses whose curvatures differ widely.

    Kvaerno 5(4) with full Newton steps, since diffrax's chord method mistakes rounding errors of the constant force on
    a plateau for divergence. The default, Tsitouras 5(4), is faster in all examples here: in z a plateau is a straight
    line, and only active coordinates are stiff.
    """
    return diffrax.Kvaerno5(root_finder=diffrax.with_stepsize_controller_tols(optimistix.Newton)())


@check_arguments
def reduced_process(
    loss: Loss,
    start: Reduced,
    pace: Annotated[Float[Array, ""] | float, POSITIVE],
    *,
    solver: diffrax.AbstractSolver | None = None,
    tolerance: PositiveNumber = 1e-7,
) -> Flow:
    """The reduced flow as a member of an ensemble; it records loss, product (beta) and log_weight (b).

    Args:
        loss: Loss L as a function of beta.
        start: The initial point.
        pace: log(1/alpha). Positive.
        solver: Solver of diffrax. Default: Tsitouras 5(4).
        tolerance: Relative and absolute tolerance of the solver. Positive. Default: 1e-07.
    """
    task = ReducedTask(loss, start.log_kappa, jnp.asarray(pace, start.z.dtype))
    probes = {
        "loss": basic.loss(),
        "product": _along(task.product),
        "log_weight": _along(lambda z: log_weight(Reduced(task.log_kappa, z), task.pace)),
    }
    return Flow(start.z, task, probes=probes, solver=solver or diffrax.Tsit5(), tolerance=tolerance)


def _along(function: Callable[[Product], Product]) -> Probe:
    return probe(lambda snapshot: function(snapshot.model), dims=("coordinate",))


class _FromScale(eqx.Module):
    """A member of an ensemble: the flow from one initial scale."""

    loss: Loss
    solver: diffrax.AbstractSolver | None = eqx.field(static=True)
    tolerance: PositiveNumber = eqx.field(static=True)

    def __call__(self, scale: Mapping[str, Array], u: Array, v: Array) -> Flow:
        pace = scale["pace"]
        return reduced_process(
            self.loss, reduce_weights(u, v, -pace), pace, solver=self.solver, tolerance=self.tolerance
        )


@check_arguments
def reduced_flow(
    loss: Loss,
    u: ArrayLike,
    v: ArrayLike,
    scales: Sequence[float],
    times: ArrayLike,
    *,
    solver: diffrax.AbstractSolver | None = None,
    tolerance: PositiveNumber = 1e-7,
) -> xr.Dataset:
    """The loss (scale, time), product and log_weight (scale, time, coordinate) from alpha (u, v), for every scale
    alpha.

    Args:
        loss: Loss L as a function of beta.
        u: Initial direction u0. Shape (p,).
        v: Initial direction v0, with |u| != |v| everywhere. Shape (p,).
        scales: Initial scales alpha, above 0 and below 1.
        times: Rescaled times tau. Shape (time,).
        solver: Solver of diffrax. Default: Tsitouras 5(4).
        tolerance: Relative and absolute tolerance of the solver. Positive. Default: 1e-07.
    """
    paces = np.array([log_inverse(scale) for scale in scales])
    first, second = check_start(u, v)
    trace = ensemble(
        _FromScale(loss, solver, tolerance),
        {"scale": {"pace": paces}},
        times=np.asarray(times),
        fixed={"u": first, "v": second},
        width=1,
    ).trace
    return trace.assign_coords(scale=list(scales))


@check_arguments
@eqx.filter_jit
def plain_flow(
    loss: Loss, u: Product, v: Product, times: Float[Array, " time"], *, tolerance: PositiveNumber = 1e-9
) -> Float[Array, "time p"]:
    """beta of the flow of u and v themselves, for comparison: float64 is not precise enough once a coordinate leaves
    the support (see above).

    Args:
        loss: Loss L as a function of beta.
        u: Initial u. Shape (p,).
        v: Initial v. Shape (p,).
        times: Times, not rescaled. Shape (time,).
        tolerance: Relative tolerance of the solver. Positive. Default: 1e-09.
    """

    def velocity(t: Any, pair: tuple[Product, Product], args: None) -> tuple[Product, Product]:
        push = force(loss, pair[0] * pair[1])
        return pair[1] * push, pair[0] * push

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(velocity),
        diffrax.Tsit5(),
        t0=0.0,
        t1=times[-1],
        dt0=1e-3,
        y0=(u, v),
        saveat=diffrax.SaveAt(ts=times),
        max_steps=1_000_000,
        throw=False,
        stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=1e-150),
    )
    assert solution.ys is not None
    return solution.ys[0] * solution.ys[1]


@check_arguments
def check_start(u: ArrayLike, v: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """u and v as float64 vectors, which must differ everywhere in size (Assumption 4.3).

    Args:
        u: First weights. Shape (p,).
        v: Second weights. Shape (p,).
    """
    first, second = np.asarray(array("u", u, ndim=1), np.float64), np.asarray(array("v", v, ndim=1), np.float64)
    if first.shape != second.shape:
        raise ValueError(f"u and v must be vectors of one length; got shapes {first.shape} and {second.shape}")
    equal = np.flatnonzero(np.abs(first) == np.abs(second))
    if equal.size:
        raise ValueError(f"|u| and |v| must differ (Assumption 4.3); got |u| = |v| at coordinate {equal[0]}")
    return first, second
