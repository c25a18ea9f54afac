"""The three phases of the one-layer model: feed-forward weights, then values, then attention, each from an exact
population gradient.

"Simple structures in neural networks", Theorem 4.2, Section 4.4.4.3 and Appendix C.4. Attention is uniform, the noise
token is predicted with probability p and every other one with (1 - p)/N in every context: p = 1/(N + 1) at the start, p
= alpha once the feed-forward weights have learned (phases 2 and 3). V is the table W_U W_V (token, input), with inputs
as in `contexts`; the query is the trigger.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dynascope.theory.domains import NotNegativeNumber, Number, PositiveNumber, check_arguments
from dynascope.theory.recall.chain import TRIGGER, Noise, Probability, Size
from dynascope.theory.recall.contexts import Contexts

Table = Float[np.ndarray, "token coordinate"]


@check_arguments
def value_step(moments: Contexts, noise: Probability) -> Table:
    """-grad of V, the step at rate 1: exactly (1 - alpha)/N E[xbar | target j] - (1 - p)/N E xbar in row j, and (alpha
    - p) E xbar in the row of the noise token.

    Args:
        moments: Moments of the contexts, as from `contexts.contexts`.
        noise: Probability p with which the noise token is predicted, from 0 to 1.
    """
    size, alpha = moments.size, moments.alpha
    means = moments.means()
    mean = means.mean(0)
    return np.vstack([(1 - alpha) / size * means - (1 - noise) / size * mean, (alpha - noise) * mean])


@check_arguments
def noise_row(
    size: Size, alpha: Noise, probabilities: Float[np.ndarray, " step"], rate: PositiveNumber
) -> Float[np.ndarray, " two"]:
    """The row of the noise token of V, on other tokens and on itself, for N, T >> 1: c and alpha c,
    c = (eta/N) sum_t (alpha - p_t) (4.6; eta is missing in the print).

    Args:
        size: Number of tokens N without the noise token, from 3 to 2000.
        alpha: Noise level, above 0 and below 1.
        probabilities: Probabilities p_t with which it was predicted at each step. Shape (step,).
        rate: Learning rate eta. Positive.
    """
    c = rate / size * np.sum(alpha - probabilities)
    return np.array([c, alpha * c])


@check_arguments
def diagonal_values(size: Size, current: Number, previous: Number) -> Table:
    """V with beta_1 on current tokens and beta_2 on previous ones, for every token but the noise: (C.21), simplified as
    in the proof of Theorem 4.2.

    Args:
        size: Number of tokens N without the noise token, from 3 to 2000.
        current: beta_1.
        previous: beta_2.
    """
    table = np.zeros((size + 1, 2 * (size + 1)))
    token = np.arange(size)
    table[token, token], table[token, size + 1 + token] = current, previous
    return table


@check_arguments
def attention_step(moments: Contexts, values: Table, noise: Probability) -> Float[np.ndarray, " coordinate"]:
    """-grad of W_QK, projected on the trigger as the query: for every input, (alpha - p) V_tau M +
    sum_k [(1 - alpha)/N V_k M_k - (1 - p)/N V_k M], with M_k the covariance for target k and M its mean.

    Args:
        moments: Moments of the contexts, as from `contexts.contexts`.
        values: V. Shape (token, coordinate).
        noise: Probability p with which the noise token is predicted, from 0 to 1.
    """
    size, alpha = moments.size, moments.alpha
    if values.shape != (size + 1, 2 * (size + 1)):
        raise ValueError(f"values must have shape {(size + 1, 2 * (size + 1))}; got {values.shape}")
    mean, swaps = moments.average_covariance(), moments.swaps()
    swapped = np.take_along_axis(values[1:size], swaps, 1) @ moments.covariance[1]
    own = values[TRIGGER] @ moments.covariance[0] + np.take_along_axis(swapped, swaps, 1).sum(0)
    everywhere = (alpha - noise) * values[size] @ mean - (1 - noise) / size * values[:size].sum(0) @ mean
    return (1 - alpha) / size * own + everywhere


class Gaps(NamedTuple):
    """The gaps of attention after one step, in favor of tokens that follow a trigger."""

    trigger: float
    """(4.3): the least logit of (previous = q, current = any) less the largest of (previous not q, current = any)."""
    noise: float
    """(4.4): the logit of (q, a token that is not q) less that of (q, noise)."""
    noise_at_trigger: float
    """(4.4) for the token q itself."""


@check_arguments
def gaps(step: Float[np.ndarray, " coordinate"]) -> Gaps:
    """The gaps of the logits xi(i -> j) = step(previous = i) + step(current = j).

    Args:
        step: A step of W_QK, as from `attention_step`. Shape (coordinate,).
    """
    if len(step) % 2 or len(step) < 8:
        raise ValueError(f"step must have 2 (N + 1) coordinates, N at least 3; got {len(step)}")
    current, previous = np.split(step, 2)
    others = np.delete(previous, TRIGGER)
    first = previous[TRIGGER] + current.min() - others.max() - current.max()
    return Gaps(float(first), float(current[1] - current[-1]), float(current[TRIGGER] - current[-1]))


@check_arguments
def value_limits(alpha: Noise) -> dict[str, float]:
    """N^2 times the entries of a step of V in phase 2, for N, T >> 1: on the diagonal, of the trigger on itself and on
    the noise token.

    (C.20) is printed with 1 instead of (1 - alpha)^2, and leaves out the row of the trigger.

    Args:
        alpha: Noise level, above 0 and below 1.
    """
    b = (1 - alpha) ** 2
    return {"diagonal": float(b), "trigger": float(b / alpha), "trigger-noise": float(b)}


@check_arguments
def gap_limits(alpha: Noise) -> dict[str, float]:
    """Limits for N, T >> 1 of the gaps after one step of W_QK with the values that one step of phase 2 makes: N^3 times
    (4.3), and N^4 times (4.4) as (1 - alpha)^4 (alpha - 1/alpha - (1 - alpha)), which is negative.

    Args:
        alpha: Noise level, above 0 and below 1.
    """
    b = 1 - alpha
    return {"trigger": float(b**4), "noise": float(b**4 * (alpha - 1 / alpha - b))}


@check_arguments
def diagonal_gap_limits(alpha: Noise, current: NotNegativeNumber, previous: NotNegativeNumber) -> dict[str, float]:
    """Limits of the gaps for `diagonal_values`: N times (4.3), and N^2 times (4.4) as
    (1 - alpha)^2 [alpha beta_1 - (1 - alpha) beta_2], positive only for alpha beta_1 > (1 - alpha) beta_2.

    The proof has (1 - alpha)^2 beta_1: it drops terms that add up to the same order over the N tokens.

    Args:
        alpha: Noise level, above 0 and below 1.
        current: beta_1. Not negative.
        previous: beta_2. Not negative.
    """
    b = (1 - alpha) ** 2
    return {"trigger": float(b * current), "noise": float(b * (alpha * current - (1 - alpha) * previous))}


@check_arguments
def early_attention_limits(alpha: Noise, share: PositiveNumber) -> dict[str, float]:
    """N^2 times the projection on the noise token, and N^3 times that on a token that is not the trigger, of the first
    step of W_QK after a first step of V from zero, both of rate 1, for N >> 1.

    The second is printed as positive (C.19); the forced last trigger makes it negative unless T >> N.

    Args:
        alpha: Noise level, above 0 and below 1.
        share: T/N. Positive.
    """
    inverse = 1 / share
    first = alpha**3 * (1 - alpha)
    return {"noise": float(-first), "other": float(first - alpha**2 * inverse * (1 + inverse))}
