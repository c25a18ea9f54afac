"""The chain behind noisy in-context recall: N tokens and the noise token, a trigger, a target, the noise level alpha.

Tokens are 0, ..., N - 1 and the noise token N; token 0 is the trigger q. A context is a chain that starts uniformly on
the N tokens and continues uniformly from all tokens except the trigger, the noise token included; after the trigger
comes the target with probability 1 - alpha and the noise token with probability alpha. The last token is the trigger.

The transition matrix is P = 1 u^T + e_q d^T, with u uniform on the N tokens and d the difference of the trigger's row
from u. With D_t the counts of all tokens up to t, p_t the distribution of z_t, and A_t = E[D_t z_t^T],

    A_{t+1} = A_t P + diag(p_{t+1}),    A_t P = (E D_t) u^T + (A_t e_q) d^T,

and E D_t and A_t e_q stay in the span of u, d and e_q: moments of any length cost three recursions of numbers.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from jaxtyping import Float

from dynascope.theory.domains import Count, Domain, Whole, check_arguments

TRIGGER = 0
"""The token after which the target or noise comes."""

Noise = Annotated[float, Domain("above 0 and below 1", lambda x: (x > 0) & (x < 1))]
"""The probability alpha of the noise token after the trigger."""
Probability = Annotated[float, Domain("from 0 to 1", lambda x: (x >= 0) & (x <= 1))]
Size = Annotated[int, Whole(3, 2000)]
"""The number N of tokens without the noise token: the trigger, a target and another one at least."""
Length = Annotated[int, Whole(2, 10_000_000)]
"""The number T of positions in a context, the last one (the trigger) included."""


class Occupation(NamedTuple):
    """The counts of the tokens of a free chain, over N + 1 tokens."""

    mean: Float[np.ndarray, " token"]
    """E D."""
    square: Float[np.ndarray, "token token"]
    """E[D D^T]."""
    last: Float[np.ndarray, " token"]
    """The distribution of the last token."""


@check_arguments
def transition(size: Size, alpha: Noise, target: Count) -> Float[np.ndarray, "token token"]:
    """P, for one target.

    Args:
        size: Number of tokens N without the noise token, from 3 to 2000.
        alpha: Noise level, above 0 and below 1.
        target: Token that follows the trigger.
    """
    _check_target(size, target)
    matrix = np.zeros((size + 1, size + 1))
    matrix[:, :size] = 1 / size
    matrix[TRIGGER] = 0
    matrix[TRIGGER, target], matrix[TRIGGER, size] = 1 - alpha, alpha
    return matrix


@check_arguments
def occupation(size: Size, positions: Annotated[int, Whole(1, 10_000_000)], alpha: Noise, target: Count) -> Occupation:
    """The moments of the counts over tokens of a free chain, exactly.

    Args:
        size: Number of tokens N without the noise token, from 3 to 2000.
        positions: Number of tokens.
        alpha: Noise level, above 0 and below 1.
        target: Token that follows the trigger.
    """
    _check_target(size, target)
    u = np.append(np.full(size, 1 / size), 0.0)
    d = -u
    d[target] += 1 - alpha
    d[size] += alpha
    at_trigger, of_u, of_d, of_q = 1 / size, 0.0, 0.0, 1 / size  # p_t(q), and A_t e_q = of_u u + of_d d + of_q e_q
    seen = before = 0.0  # sums of p_s(q) for s < t and s < t - 1
    totals = np.zeros(5)  # over t < positions: of t, of `seen`, and of the three coefficients
    for t in range(1, positions):
        totals += (t, seen, of_u, of_d, of_q)
        of_u, of_d = t / size + d[TRIGGER] * of_u, seen / size + d[TRIGGER] * of_d
        before, seen = seen, seen + at_trigger
        at_trigger = 1 / size + d[TRIGGER] * at_trigger
        of_q = d[TRIGGER] * of_q + at_trigger
    mean = positions * u + seen * d
    counts = totals[0] * u + totals[1] * d
    joint = totals[2] * u + totals[3] * d
    joint[TRIGGER] += totals[4]
    half = np.outer(counts, u) + np.outer(joint, d)
    return Occupation(mean, half + half.T + np.diag(mean), u + (seen - before) * d)


def _check_target(size: int, target: int) -> None:
    if target >= size:
        raise ValueError(f"target must be a token below size, {size}; got {target}")
