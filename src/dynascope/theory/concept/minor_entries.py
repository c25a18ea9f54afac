"""The rise and fall of an off-diagonal entry `w_ij` of the symmetric model, `i` dominant and `j` weaker, `a_i > a_j`.

It grows while major i is small, turns where `w_ii` passes `w*`, and decays once major i has saturated; that detour is
the transient memorization of the paper (Section 4.2). Derived from eq. (4.3) without its noise term. Paper clock
throughout (`t = 2 h * steps` for gradient descent on `U` with learning rate `h`). Functions are elementwise and
broadcast, unless they take a start.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from dynascope.compilation import as_one_program
from dynascope.theory.domains import POSITIVE, check_arguments

Entry = Float[Array, "..."]
Strength = Annotated[Entry, POSITIVE]


class MinorPeak(NamedTuple):
    """The peak of a minor entry, in the paper clock."""

    time: Entry
    """When the entry is largest. Any shape."""
    value: Entry
    """Its value then. Any shape."""


@check_arguments
def turning_point(a_i: Strength, a_j: Strength) -> Entry:
    """The value of the dominant major at which the minor turns: `w* = 2 (a_i + a_j) / (3 a_i + a_j) < 1`.

    Lemma D.7's condition `a_i > 3 a_j` is `w* < 0.8`.

    Args:
        a_i: Strength of the dominant concept. Positive, any shape.
        a_j: Strength of the weaker concept. Positive, any shape.
    """
    return 2 * (a_i + a_j) / (3 * a_i + a_j)


@check_arguments
def decay_rate_between(a_i: Strength, a_j: Strength) -> Entry:
    """`(a_i - a_j) / 2`: the minor's decay between the saturation of the dominant and of the weaker major.

    Args:
        a_i: Strength of the dominant concept. Positive, any shape.
        a_j: Strength of the weaker concept. Positive, any shape.
    """
    return (a_i - a_j) / 2


@check_arguments
def decay_rate_after(a_i: Strength, a_j: Strength) -> Entry:
    """`a_i + a_j`: its decay after both have saturated.

    Args:
        a_i: Strength of the dominant concept. Positive, any shape.
        a_j: Strength of the weaker concept. Positive, any shape.
    """
    return a_i + a_j


@check_arguments
def minor_entry(times: Entry, w_ij: Entry, a_i: Strength, a_j: Strength, log_p_i: Entry, log_p_j: Entry) -> Entry:
    """The entry at the given times, neglecting noise:

        w_ij(t) = w_ij(0) e^{(a_i+a_j)t} [1 + p_i (e^{2 a_i t} - 1)]^{-(3a_i+a_j)/(4a_i)}
                                         [1 + p_j (e^{2 a_j t} - 1)]^{-(3a_j+a_i)/(4a_j)}

    Args:
        times: Times in the paper clock. Any shape.
        w_ij: The entry at the start. Any shape.
        a_i: Strength of the dominant concept. Positive, any shape.
        a_j: Strength of the weaker concept. Positive, any shape.
        log_p_i: Log of `w_ii(0)`, of the dominant major. Any shape.
        log_p_j: Log of the pivot `p_j` of the weaker major. Any shape.
    """
    exponent = (
        (a_i + a_j) * times
        - (3 * a_i + a_j) / (4 * a_i) * _log_denominator(times, a_i, log_p_i)
        - (3 * a_j + a_i) / (4 * a_j) * _log_denominator(times, a_j, log_p_j)
    )
    return w_ij * jnp.exp(exponent)


@check_arguments
@as_one_program
def minor_peak(w_ij: Entry, a_i: Strength, a_j: Strength, log_p_i: Entry, log_p_j: Entry) -> MinorPeak:
    """The largest value of `minor_entry` and its time, by bisection of its logarithmic slope

        (a_i + a_j) - (3a_i+a_j)/2 w_ii(t) - (3a_j+a_i)/2 w_jj(t),   each major on its logistic curve,

    which falls in `t` and is no longer positive at `w_ii = w*`. An entry that falls from the start peaks at time 0.

    Args:
        w_ij: The entry at the start. Any shape.
        a_i: Strength of the dominant concept. Positive, any shape.
        a_j: Strength of the weaker concept. Positive, any shape.
        log_p_i: Log of `w_ii(0)`, of the dominant major. Any shape.
        log_p_j: Log of the pivot `p_j` of the weaker major. Any shape.
    """
    star = turning_point(a_i, a_j)
    latest = (jnp.log(star / (1 - star)) - log_p_i + jnp.log1p(-jnp.exp(log_p_i))) / (2 * a_i)

    def halve(_: Array, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bracket
        middle = (low + high) / 2
        rising = (a_i + a_j) > (
            (3 * a_i + a_j) / 2 * _major(middle, a_i, log_p_i) + (3 * a_j + a_i) / 2 * _major(middle, a_j, log_p_j)
        )
        return jnp.where(rising, middle, low), jnp.where(rising, high, middle)

    high = jnp.maximum(latest, 0)
    low, high = lax.fori_loop(0, 60, halve, (jnp.zeros_like(high), high))
    time = (low + high) / 2
    return MinorPeak(time, minor_entry(time, w_ij, a_i, a_j, log_p_i, log_p_j))


@check_arguments
def minor_peak_of_factor(U0: Float[np.ndarray, "*batch 2 width"], a: Float[np.ndarray, " 2"]) -> MinorPeak:
    """The peak of the only minor of two concepts, the second of which is the stronger.

    Args:
        U0: Initial factor `U(0)`. Shape (..., 2, width).
        a: Strengths `a_k` of the concepts, positive. Shape (2,).
    """
    W0 = U0 @ np.swapaxes(U0, -1, -2)
    weak = W0[..., 0, 0] - W0[..., 0, 1] ** 2 / W0[..., 1, 1]
    given = (W0[..., 0, 1], a[1], a[0], np.log(W0[..., 1, 1]), np.log(weak))
    return minor_peak(*(jnp.asarray(each) for each in given))


def _log_denominator(times: Entry, a: Entry, log_p: Entry) -> Entry:
    """`log(1 + p (e^{2 a t} - 1))`, without overflow."""
    return jnp.logaddexp(jnp.log1p(-jnp.exp(log_p)), log_p + 2 * a * times)


def _major(times: Entry, a: Entry, log_p: Entry) -> Entry:
    """The logistic curve `w(t)` with `w(0) = p` and growth rate `2 a`."""
    return jax.nn.sigmoid(log_p - jnp.log1p(-jnp.exp(log_p)) + 2 * a * times)
