"""What Figure 3.5 is made of: the learner, its whole Hessian, and the sharpness of minima with a common k."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int
from scipy.linalg import eigvalsh
from scipy.optimize import minimize_scalar

import dynascope as ds
from dynascope.probes.probe import Snapshot, probe
from dynascope.tasks.teachers import AxisTeacher, Student, norm_ratios


class NeuronLearner(eqx.Module):
    """An ensemble member: a sample of the sphere, a student near a sharp minimum, a rate that drops at the end."""

    dim: int = eqx.field(static=True)
    samples: int = eqx.field(static=True)
    looks: tuple[int, ...] = eqx.field(static=True)
    """Steps at which the whole Hessian is diagonalized, beside the search for its top eigenvalue at every step."""

    def points(self, seed: Int[Array, ""] | np.int32) -> Float[Array, "m d"]:
        return AxisTeacher(self.dim).sample(jax.random.key(seed), self.samples)

    def __call__(self, seed: Array, rate: Array, last_rate: Array, drop_at: Array) -> ds.Descent:
        task, x = AxisTeacher(self.dim), self.points(seed)

        def diagonalized(snapshot: Snapshot) -> Array:
            return jnp.linalg.eigvalsh(hessian(snapshot.model, x))[-1]

        return ds.Descent(
            task.start(jax.random.fold_in(jax.random.key(seed), 1)),
            task,
            optax.sgd(lambda step: jnp.where(step < drop_at, rate, jnp.minimum(rate, last_rate))),
            data=x,
            probes={
                "loss": ds.probes.loss(),
                "ratio": probe(lambda moment: norm_ratios(snapshot.model), dims=("neuron",)),
                "sharpness": ds.probes.sharpness(tolerance=1e-5),
                "diagonalized": probe(diagonalized, every=self.looks),
            },
        )


def hessian(student: Student, x: Float[Array, "m d"]) -> Float[Array, "p p"]:
    """The Hessian of the mean squared error, outer weights first: (2/m) J^T J, and where the two layers of one neuron
    meet the residuals of the points at which it is active."""
    v, fields = student["v"], x @ student["w"].T
    active = (fields > 0).astype(x.dtype)
    hidden = active * fields
    jacobian = jnp.concatenate([hidden, (active[:, :, None] * v[:, None] * x[:, None, :]).reshape(len(x), -1)], axis=1)
    residual = hidden @ v - AxisTeacher(x.shape[1]).label(x)
    meeting = jax.vmap(jnp.outer)(jnp.eye(v.size, dtype=x.dtype), (active * residual[:, None]).T @ x)
    across = jnp.swapaxes(meeting, 0, 1).reshape(v.size, -1)
    whole = (jacobian.T @ jacobian).at[: v.size, v.size :].add(across).at[v.size :, : v.size].add(across.T)
    return 2 / len(x) * whole


def common_sharpness(x: Float[Array, "m d"], squares: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    """The sharpness of the minima w_i = k e_i, v_i = 1/k on a sample, for several k².

    There the residual is 0, and k enters the Jacobian as a factor: k in the columns of v, 1/k in those of w.
    """
    count = x.shape[1]
    unit = np.asarray(jax.jit(hessian)(AxisTeacher(count).minimum(jnp.ones(count, x.dtype)), x))
    last = [unit.shape[0] - 1] * 2
    scales = np.repeat(np.stack([squares**0.5, squares**-0.5], axis=1), (count, count * count), axis=1)
    return np.concatenate([eigvalsh(scale[:, None] * unit * scale, subset_by_index=last) for scale in scales])


def expected_common_sharpness(square: float, dim: int) -> float:
    """The same over the whole sphere.

    By symmetry the top eigenvector has equal entries on all v_i, on all w_ii, and on all w_ij. Along it the output
    moves by a multiple of S = sum_i relu(x_i) and one of T = sum_i 1[x_i > 0] sum_{j != i} x_j, of which the sphere
    gives E S^2 = 1/2 + (d-1)/(2 pi), E ST = (d-1)/4 and E T^2 = (d-1)(1/2 + (d-2)/4 + 1/(2 pi)).
    """
    first = (1 / 2 + (dim - 1) / (2 * np.pi)) / dim
    mixed = (dim - 1) ** 0.5 / (4 * dim)
    second = (1 / 2 + (dim - 2) / 4 + 1 / (2 * np.pi)) / dim
    both = square + 1 / square  # v_i moves S by k, w_ii by 1/k
    off = (both / square) ** 0.5 * mixed
    return 2 * float(np.linalg.eigvalsh([[both * first, off], [off, second / square]])[-1])


def flattest_square(dim: int) -> float:
    """The common k² at which the sharpness over the whole sphere is least."""
    found: Any = minimize_scalar(lambda square: expected_common_sharpness(square, dim), bounds=(0.5, 3.0))
    return float(found.x)
