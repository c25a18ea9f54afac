"""A teacher of n ReLU neurons along the axes, and a student of as many: sum_i v_i relu(w_i . x).

"Simple structures in neural networks", Section 3.7.1 (3.13)-(3.17) with n = 16: labels sum_i relu(e_i . x), x uniform
on the sphere, mean squared error over the samples. The minima w_i = k_i e_i, v_i = 1/k_i differ in sharpness.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks
from dynascope.tasks.scalar_losses import Reals, real
from dynascope.tasks.single_neuron import sphere_points
from dynascope.tasks.task import SampledTask

Student = dict[str, Array]
"""`v`, the outer weights, and `w`, a row for each neuron."""


class AxisTeacher(SampledTask):
    """The task, with as many neurons as dimensions."""

    dim: int = eqx.field(static=True, default=16)
    """n, the number of neurons and of dimensions d."""

    def __check_init__(self) -> None:
        checks.sizes(dim=self.dim)

    def sample(self, key: PRNGKeyArray, count: int) -> Float[Array, "n d"]:
        """`count` points, uniform on the sphere."""
        return sphere_points(key, count, self.dim)

    def label(self, x: Float[Array, "n d"]) -> Float[Array, " n"]:
        """The teacher's output: sum_i relu(x_i).

        Args:
            x: Points, (n, d).
        """
        return jnp.sum(jax.nn.relu(x), axis=1)

    def loss(self, student: Student, x: Float[Array, "n d"]) -> Float[Array, ""]:
        """The mean squared error on a sample."""
        return jnp.mean((outputs(student, x) - self.label(x)) ** 2)

    def hessian(self, student: Student, x: Float[Array, "n d"]) -> Float[Array, "p p"]:
        """The Hessian of `loss`, outer weights first.

        It is (2/n) J^T J, plus the residuals in the blocks that couple the two layers of one neuron, summed over the
        points at which the neuron is active.

        Args:
            student: The outer and inner weights.
            x: Points, (n, d).
        """
        v, fields = student["v"], x @ student["w"].T
        active = (fields > 0).astype(x.dtype)
        hidden = active * fields
        inner = (active[:, :, None] * v[:, None] * x[:, None, :]).reshape(len(x), -1)
        jacobian = jnp.concatenate([hidden, inner], axis=1)
        residual = hidden @ v - self.label(x)
        coupling = jax.vmap(jnp.outer)(jnp.eye(v.size, dtype=x.dtype), (active * residual[:, None]).T @ x)
        across = jnp.swapaxes(coupling, 0, 1).reshape(v.size, -1)
        total = (jacobian.T @ jacobian).at[: v.size, v.size :].add(across).at[v.size :, : v.size].add(across.T)
        return 2 / len(x) * total

    def minimum(self, scales: Float[Array, " d"]) -> Student:
        """The minimum w_i = k_i e_i, v_i = 1/k_i.

        Args:
            scales: The scales k, (d,).
        """
        checks.positive(scales=scales)
        if scales.shape != (self.dim,):
            raise ValueError(f"scales must have shape ({self.dim},), one for each neuron; got {scales.shape}")
        return {"v": 1 / scales, "w": jnp.diag(scales)}

    def start(self, key: PRNGKeyArray, spacing: Reals = 0.0625, noise: Reals = 0.01) -> Student:
        """A start near a minimum with k_i = 1 + spacing (i - 1): w_i = k_i (e_i + noise N(0, I)), v_i = 1/k_i.

        Args:
            key: Key of the noise.
            spacing: The spacing of the scales.
            noise: The standard deviation of the noise.
        """
        checks.real("spacing", spacing, at_least=0)
        checks.real("noise", noise, at_least=0)
        scales = 1 + real(spacing) * jnp.arange(self.dim, dtype=jnp.result_type(float))
        stray = real(noise) * jax.random.normal(key, (self.dim, self.dim))
        return {"v": 1 / scales, "w": scales[:, None] * (jnp.eye(self.dim) + stray)}


def outputs(student: Student, x: Float[Array, "n d"]) -> Float[Array, " n"]:
    """sum_i v_i relu(w_i . x) at every point.

    Args:
        student: The outer and inner weights.
        x: Points, (n, d).
    """
    hidden = jax.nn.relu(jnp.matmul(x, student["w"].T, precision="highest"))
    return jnp.matmul(hidden, student["v"], precision="highest")
