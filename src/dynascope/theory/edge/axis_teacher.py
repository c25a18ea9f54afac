"""Minima of the axis teacher with one scale k common to all neurons, w_i = k e_i, v_i = 1/k, and the flattest of them.

"Simple structures in neural networks", Section 3.7.1 (3.13)-(3.17), Figure 3.5. The sharpness over the whole sphere is
a closed form that the document does not give.
"""

from __future__ import annotations

from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import eigvalsh
from scipy.optimize import minimize_scalar

from dynascope.tasks.axis_teacher import AxisTeacher
from dynascope.theory.domains import POSITIVE, PositiveNumber, Whole, check_arguments

Dim = Annotated[int, Whole(2)]


@check_arguments
def common_sharpness(
    x: Float[Array, "n d"], squares: Annotated[Float[np.ndarray, " k"], POSITIVE]
) -> Float[np.ndarray, " k"]:
    """The sharpness on a sample, for several k^2.

    At these minima the residual is 0, and k enters the Jacobian as a factor: k in the columns of v, 1/k in those of w.

    Args:
        x: Inputs. Shape (n, d).
        squares: Values of k^2, positive. Shape (k,).
    """
    task = AxisTeacher(x.shape[1])
    unit = np.asarray(jax.jit(task.hessian)(task.minimum(jnp.ones(task.dim, x.dtype)), x))
    last = [unit.shape[0] - 1] * 2
    scales = np.repeat(np.stack([squares**0.5, squares**-0.5], axis=1), (task.dim, task.dim**2), axis=1)
    return np.concatenate([eigvalsh(scale[:, None] * unit * scale, subset_by_index=last) for scale in scales])


@check_arguments
def expected_common_sharpness(square: PositiveNumber, dim: Dim) -> float:
    """The sharpness over the whole sphere.

    By symmetry the top eigenvector has equal entries on all v_i, on all w_ii, and on all w_ij. Along it the output
    moves by a multiple of S = sum_i relu(x_i) and one of T = sum_i 1[x_i > 0] sum_{j != i} x_j, of which the sphere
    gives E S^2 = 1/2 + (d-1)/(2 pi), E ST = (d-1)/4 and E T^2 = (d-1)(1/2 + (d-2)/4 + 1/(2 pi)).

    Args:
        square: k^2. Positive.
        dim: Dimension d, at least 2.
    """
    first = (1 / 2 + (dim - 1) / (2 * np.pi)) / dim
    mixed = (dim - 1) ** 0.5 / (4 * dim)
    second = (1 / 2 + (dim - 2) / 4 + 1 / (2 * np.pi)) / dim
    both = square + 1 / square  # v_i moves S by k, w_ii by 1/k
    off = (both / square) ** 0.5 * mixed
    return 2 * float(np.linalg.eigvalsh([[both * first, off], [off, second / square]])[-1])


@check_arguments
def flattest_square(dim: Dim) -> float:
    """The common k^2 at which the sharpness over the whole sphere is least.

    Args:
        dim: Dimension d, at least 2.
    """
    found: Any = minimize_scalar(lambda square: expected_common_sharpness(square, dim), bounds=(0.5, 3.0))
    return float(found.x)
