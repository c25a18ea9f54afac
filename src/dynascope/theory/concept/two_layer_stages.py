"""A run of a linear network of two layers predicted from its start alone, whether or not its layers are alike.

`f(x) = W_2 W_1 x`, gradient flow on (4.1), two concepts, `a_2 > a_1`. Let `r_k` be row k of `W_2` and `c_k` column k
of `W_1`, so that `w_ij = r_i . c_j`. From a small start `(r_k + c_k)/2` grows like `e^{a_k t}` and the difference
decays: the network folds onto a symmetric one. To leading order in the size of the start

- the stronger concept follows the logistic curve of growth rate `2 a_2` from the pivot `|u|^2`, `u = (r_2 + c_2)/2`,
  along the fixed direction `u/|u|`: `s' = a_2 (1 - w_22) s`, `w_22 = s^2`;
- the weaker one has a part along it, `x = r_1 . u/|u|` and `y = c_1 . u/|u|`, and a part across, and

      x' = a_1 (1 - w_11) y - a_2 w_22 x,    y' = a_1 (1 - w_11) x - a_1 w_22 y,
      w_12 = x sqrt(w_22),    w_21 = y sqrt(w_22),    w_11 = x y + q,

  where q, the product of the parts across, follows `r' = a_1 (1 - w_11) c` and `c' = a_1 (1 - w_11) r`.

`w_12` and `w_21` are the detour: they rise while `w_22` is small and decay once it has saturated. In the symmetric
model they are one number (`minor_entries`); here `w_12`, which the stronger input damps, decays first.

Clock: the time of gradient flow on (4.1); a step of gradient descent at rate h is here a step h of Euler's method for
the vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from dynascope.theory.domains import Count, Positive, PositiveNumber, check_arguments


class TwoByTwo(NamedTuple):
    """The entries of `W` for two concepts, time along a new first axis."""

    w_11: Float[Array, " time *batch"]
    """The weaker major."""
    w_12: Float[Array, " time *batch"]
    """The minor that the stronger input damps."""
    w_21: Float[Array, " time *batch"]
    """The other minor."""
    w_22: Float[Array, " time *batch"]
    """The stronger major."""


@check_arguments
def two_layer_path(
    rows: Float[Array, "*batch 2 width"],
    columns: Float[Array, "*batch 2 width"],
    weak: Positive,
    strong: Positive,
    learning_rate: PositiveNumber,
    steps: Count,
) -> TwoByTwo:
    """The entries of `W` at steps 0 to `steps` of gradient descent, to leading order in the size of the start.

    Args:
        rows: The first two rows of `W_2` at the start. Shape (..., 2, width).
        columns: The first two columns of `W_1` at the start. Shape (..., 2, width).
        weak: Strength a_1 of the weaker concept. Positive, shape (...).
        strong: Strength a_2 of the stronger one. Positive, shape (...).
        learning_rate: Learning rate h on the gradient of (4.1). Positive.
        steps: Number of steps.
    """
    weak, strong = (jnp.asarray(each, rows.dtype) for each in (weak, strong))
    folded = (rows[..., 1, :] + columns[..., 1, :]) / 2
    pivot = jnp.sum(folded**2, -1)
    along = folded / jnp.sqrt(pivot)[..., None]
    x, y = (jnp.sum(each[..., 0, :] * along, -1) for each in (rows, columns))
    across = [each[..., 0, :] - part[..., None] * along for each, part in ((rows, x), (columns, y))]
    squares = [jnp.sum(one * other, -1) for one, other in ((across[0],) * 2, (across[1],) * 2, (across[0], across[1]))]

    def advance(state: tuple[Array, ...], _: None) -> tuple[tuple[Array, ...], TwoByTwo]:
        x, y, of_row, of_column, q, root = state
        w_11, w_22 = x * y + q, root**2
        force = learning_rate * weak * (1 - w_11)
        moved = (
            x + force * y - learning_rate * strong * w_22 * x,
            y + force * x - learning_rate * weak * w_22 * y,
            of_row + 2 * force * q + force**2 * of_column,
            of_column + 2 * force * q + force**2 * of_row,
            q + force * (of_row + of_column) + force**2 * q,
            root + learning_rate * strong * (1 - w_22) * root,
        )
        return moved, TwoByTwo(w_11, x * root, y * root, w_22)

    start = jnp.broadcast_arrays(x, y, *squares, jnp.sqrt(pivot), weak + 0 * pivot)[:-1]
    return lax.scan(advance, tuple(start), None, length=steps + 1)[1]


@check_arguments
def two_layer_test_loss(path: TwoByTwo, first: Positive, second: Positive) -> Float[Array, " time *batch"]:
    """Half the squared error at the test point `(mu_1, mu_2)`, of the outputs of the two concepts.

    Args:
        path: Entries of `W`, as from `two_layer_path`.
        first: Signal mu_1 of the weaker concept. Positive, shape (...).
        second: Signal mu_2 of the stronger one. Positive, shape (...).
    """
    first, second = (jnp.asarray(each, path.w_11.dtype) for each in (first, second))
    one = (path.w_11 - 1) * first + path.w_12 * second
    two = path.w_21 * first + (path.w_22 - 1) * second
    return (one**2 + two**2) / 2
