"""The one-layer linear model `f(W; x) = W x`: its learning in closed form.

"Dynamics of Concept Learning and Compositional Generalization", Theorem 4.1. Gradient flow on the population loss,
`dW/dt = -(W - I) A` with `A = diag(a)`, relaxes column `i` of `W` at rate `a_i`, so that for every input `z`

    f(W(t), z)_k = (1 - e^{-a_k t}) z_k  +  sum_{i=1}^{d} e^{-a_i t} w_ki(0) z_i
                   growth                  noise

Clock: `t` is the time of gradient flow on eq. (2.1), half the squared error summed over coordinates. After `n` gradient
steps of size `eta`, `t = eta n`; for a loss averaged over coordinates `eta` is the learning rate times `2/d`. Gradient
descent itself obeys the same formula exactly, with `(1 - eta a_i)^n` instead of `e^{-a_i t}`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import lax
from jaxtyping import Array, Float, Int

from dynascope.compilation import jit_once
from dynascope.theory.domains import NotNegativeNumber, PositiveNumber, check_arguments

Settings = Sequence[float] | Sequence[Sequence[float]] | Float[np.ndarray, "*setting s"]


@check_arguments
def strengths(mu: Settings, sigma: Settings, origin: bool = False) -> Float[np.ndarray, "*setting s"]:
    """`a_p = sigma_p^2 + mu_p^2 / s`, or `/ (s + 1)` with a cluster at the origin.

    Args:
        mu: Signals. Shape (..., s).
        sigma: Spreads. Shape (..., s).
        origin: Whether there is one more cluster at the origin. Default: False.
    """
    return np.asarray(sigma, float) ** 2 + np.asarray(mu, float) ** 2 / (np.shape(mu)[-1] + origin)


@check_arguments
def spread_of_equal_strengths(mu: tuple[float, float], second_spread: NotNegativeNumber, origin: bool = False) -> float:
    """The spread `sigma_1` at which two concepts are equally strong, `a_1 = a_2`; 0 if none is small enough.

    Args:
        mu: Signals of the two concepts.
        second_spread: Spread `sigma_2`. Not negative.
        origin: Whether there is one more cluster at the origin. Default: False.
    """
    excess = second_spread**2 + (mu[1] ** 2 - mu[0] ** 2) / (2 + origin)
    return float(np.sqrt(max(0.0, excess)))


class OutputTerms(NamedTuple):
    """The two parts of an output."""

    growth: Float[Array, "time d"]
    """The part that grows toward the target. Shape (time, d)."""
    noise: Float[Array, "time d"]
    """The decaying part of the initial weights. Shape (time, d)."""

    @property
    def output(self) -> Float[Array, "time d"]:
        """The output of the model, the sum of the two."""
        return self.growth + self.noise


Numbers = Sequence[float] | Float[np.ndarray, " s"] | Float[Array, " s"]


def _vector(numbers: Numbers, dim: int) -> Float[Array, " d"]:
    vector = jnp.asarray(numbers)
    if not jnp.issubdtype(vector.dtype, jnp.floating):
        vector = vector.astype(float)
    return jnp.pad(vector, (0, dim - vector.shape[0]))


@check_arguments
def second_moment(mu: Numbers, sigma: Numbers, dim: int, origin: bool = False) -> Float[Array, " d"]:
    """`a_p = sigma_p^2 + mu_p^2 / s`, the diagonal of `E[x x^T]` (C.13), for `s` clusters of equal weight.

    With a cluster at the origin the denominator is `s + 1`.

    Args:
        mu: Signals of the s concepts. Any shape.
        sigma: Spreads of the s concepts. Any shape.
        dim: Dimension d of the inputs.
        origin: Whether there is one more cluster at the origin. Default: False.
    """
    return _vector(sigma, dim) ** 2 + _vector(mu, dim) ** 2 / (len(mu) + origin)


@check_arguments
def printed_second_moment(mu: Numbers, sigma: Numbers, dim: int) -> Float[Array, " d"]:
    """`(sigma_p^2 + mu_p^2) / s`: the coefficient as printed in Section 4.1 of the submission, which is wrong.

    Args:
        mu: Signals of the s concepts. Any shape.
        sigma: Spreads of the s concepts. Any shape.
        dim: Dimension d of the inputs.
    """
    return (_vector(sigma, dim) ** 2 + _vector(mu, dim) ** 2) / len(mu)


@check_arguments
def output_terms(
    times: Float[Array, " time"],
    z: Float[Array, " d"],
    W0: Float[Array, "d d"],
    a: Float[Array, " d"],
    noise_inputs: int | None = None,
) -> OutputTerms:
    """Both terms of Theorem 4.1 at the given times of gradient flow.

    Args:
        times: Times of gradient flow on eq. (2.1). Shape (time,).
        z: Input at which the output is evaluated. Shape (d,).
        W0: Initial Jacobian `W(0)`. Shape (d, d).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
        noise_inputs: Inputs in the noise sum: s as printed, right only if `z_i = 0` for `i > s`. Default: all d.
    """
    decay = jnp.exp(-times[:, None] * a)
    return _terms(decay, -jnp.expm1(-times[:, None] * a), z, W0, noise_inputs)


@check_arguments
def discrete_output_terms(
    steps: Int[Array, " time"],
    eta: PositiveNumber,
    z: Float[Array, " d"],
    W0: Float[Array, "d d"],
    a: Float[Array, " d"],
    noise_inputs: int | None = None,
) -> OutputTerms:
    """Both terms of Theorem 4.1 for gradient descent on eq. (2.1), exact: `(1 - eta a_i)^n` after `n` steps.

    Args:
        steps: Numbers of steps n. Shape (time,).
        eta: Step size on eq. (2.1). Positive.
        z: Input at which the output is evaluated. Shape (d,).
        W0: Initial Jacobian `W(0)`. Shape (d, d).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
        noise_inputs: Inputs in the noise sum: s as printed, right only if `z_i = 0` for `i > s`. Default: all d.
    """
    base = jnp.broadcast_to(1 - eta * a, (steps.shape[0], a.shape[0]))
    decay = lax.pow(base, jnp.broadcast_to(steps[:, None], base.shape))
    return _terms(decay, 1 - decay, z, W0, noise_inputs)


def _terms(decay: Array, grown: Array, z: Array, W0: Array, noise_inputs: int | None) -> OutputTerms:
    kept = slice(noise_inputs)
    noise = jnp.matmul((decay * z)[:, kept], W0[:, kept].T, precision="highest")
    return OutputTerms(growth=grown * z, noise=noise)


@check_arguments
def jacobian(times: Float[Array, " time"], W0: Float[Array, "d d"], a: Float[Array, " d"]) -> Float[Array, "time d d"]:
    """`W(t) = I + (W(0) - I) e^{-A t}`, by gradient flow; a column with `a_i = 0` keeps its start.

    Args:
        times: Times of gradient flow on eq. (2.1). Shape (time,).
        W0: Initial Jacobian `W(0)`. Shape (d, d).
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
    """
    identity = jnp.eye(a.shape[0], dtype=W0.dtype)
    return identity + (W0 - identity) * jnp.exp(-times[:, None, None] * a)


@check_arguments
def to_concept_coordinates(W0: Float[Array, "d d"], rotation: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """`Q^T W Q`: the start of a model trained on rotated data `Q x`, in the axes of the concepts.

    The flow is equivariant, so the theorem holds for this start, `a` unrotated, and the output `Q^T f(Q z)`.

    Args:
        W0: Initial Jacobian `W(0)`. Shape (d, d).
        rotation: The rotation Q of the data. Shape (d, d).
    """
    return jnp.linalg.multi_dot([rotation.T, W0, rotation], precision="highest")


@check_arguments
def terminal_rate(a: Float[Array, " d"]) -> Float[Array, ""]:
    """The slope of `log ||df/dt||` at the end of learning, `-min a_k` over the learned directions (`a_k > 0`).

    Args:
        a: Strengths `a_k` of the concepts, positive. Shape (d,).
    """
    return -jnp.min(jnp.where(a > 0, a, jnp.inf))


@check_arguments
def predicted_outputs(trace: xr.Dataset, step_size: PositiveNumber, origin: bool) -> xr.Dataset:
    """The `output(signal, seed, step, concept)` and `test_loss(signal, seed, step)` of Theorem 4.1 in discrete form.

    Args:
        trace: A trace with `mu`, `sigma`, `step` and the matrix `start`.
        step_size: Step on the loss (2.1): the learning rate, times 2/d if coordinates are averaged. Positive.
        origin: Whether there is one more cluster at the origin.
    """
    start = jnp.asarray(trace.start.isel(start_step=0).transpose("signal", "seed", "row", "column").values, float)
    steps = jnp.asarray(trace.step.values)
    dim = start.shape[-1]

    def paths(mu: Array, sigma: Array, starts: Array) -> Array:
        a = second_moment(mu, sigma, dim, origin)
        z = jnp.pad(mu, (0, dim - mu.shape[0]))
        return jax.vmap(lambda W0: discrete_output_terms(steps, step_size, z, W0, a).output)(starts)

    mu, sigma = (np.asarray(trace[name].values, float) for name in ("mu", "sigma"))
    output = np.asarray(jit_once(jax.vmap(paths))(jnp.asarray(mu), jnp.asarray(sigma), start))
    target = np.pad(mu, ((0, 0), (0, dim - mu.shape[1])))[:, None, None, :]
    loss = np.sum((output - target) ** 2, axis=-1) / 2
    dims = ("signal", "seed", "step")
    return xr.Dataset(
        {"output": ((*dims, "concept"), output[..., : mu.shape[1]]), "test_loss": (dims, loss)},
        {"step": trace.step, "seed": trace.seed, "concept": trace.concept},
    )


@check_arguments
def closed_forms(measured: xr.Dataset) -> xr.Dataset:
    """Outputs at the test point and at `z`, by Theorem 4.1 and by its misprints.

    Args:
        measured: A trace with the settings, starts and learning rates of the runs.

    Returns:
        Variables with axes (signal, seed, point, time, coordinate): exact for steps of every `learning_rate`
        (`output`), of the flow (`flow_output`), its `growth` without the noise, and as misprinted (`printed_sum`,
        `printed_rate`).
    """
    mu, sigma, z, times = (jnp.asarray(measured[name].values) for name in ("mu", "sigma", "z", "time"))
    W0 = jnp.asarray(measured.start.transpose("signal", "seed", "row", "column").values)
    tests = jnp.pad(mu, ((0, 0), (0, z.shape[0] - mu.shape[1])))
    points = jnp.stack([tests, jnp.broadcast_to(z, tests.shape)], axis=1)
    rates = [float(rate) for rate in measured.learning_rate]

    def forms(mu: Array, sigma: Array, W0: Array, z: Array) -> dict[str, Array]:
        dim = z.shape[0]
        a, printed = second_moment(mu, sigma, dim), printed_second_moment(mu, sigma, dim)
        steps = [discrete_output_terms(jnp.rint(times / rate).astype(int), rate, z, W0, a).output for rate in rates]
        flow = output_terms(times, z, W0, a)
        return {
            "output": jnp.stack(steps),
            "flow_output": flow.output,
            "growth": flow.growth,
            "printed_sum": output_terms(times, z, W0, a, noise_inputs=mu.shape[0]).output,
            "printed_rate": output_terms(times, z, W0, printed).output,
        }

    over_points = jax.vmap(forms, (None, None, None, 0))
    over_seeds = jax.vmap(over_points, (None, None, 0, None))
    curves = jit_once(jax.vmap(over_seeds))(mu, sigma, W0, points)
    members, curve = ("signal", "seed", "point"), ("time", "coordinate")
    dims = {"output": (*members, "learning_rate", *curve)}
    return xr.Dataset(
        {name: (dims.get(name, (*members, *curve)), np.asarray(values)) for name, values in curves.items()},
        {"time": measured.time, "learning_rate": rates},
    )
