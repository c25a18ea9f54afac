"""The feed-forward logit of the noise token while nothing else moves, and the largest step without overshoot.

"Simple structures in neural networks", Section 4.4.4.3: with all other logits at zero,

    xi <- xi + eta (alpha - p),   p = e^xi / (N + e^xi),

which has the fixed point p = alpha. (The recursion is printed with the new xi on its right side.)
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from dynascope.tasks.scalar_losses import Reals
from dynascope.theory.domains import Count, Positive, PositiveNumber, check_arguments
from dynascope.theory.recall.chain import Noise, Size


@check_arguments
def noise_logits(size: Size, alpha: Noise, rate: PositiveNumber, steps: Count) -> Float[np.ndarray, " times"]:
    """The logit at steps 0 to `steps` of the recursion, from 0.

    Args:
        size: Number of tokens N without the noise token, from 3 to 2000.
        alpha: Noise level, above 0 and below 1.
        rate: Learning rate eta. Positive.
        steps: Number of steps.
    """
    logits = np.zeros(steps + 1)
    for t in range(steps):
        logits[t + 1] = logits[t] + rate * (alpha - noise_probability(logits[t], size))
    return logits


@check_arguments
def noise_probability(logit: Reals, size: Size) -> Float[np.ndarray, "*batch"]:
    """The noise token's probability if N other logits are 0: e^xi / (N + e^xi).

    Args:
        logit: xi. Any shape.
        size: Number of tokens N without the noise token, from 3 to 2000.
    """
    return np.asarray(1 / (1 + size * np.exp(-np.asarray(logit, float))))


@check_arguments
def noise_fixed_point(size: Size, alpha: Noise) -> float:
    """The fixed point of the logit: ln N + ln(alpha/(1 - alpha)).

    Args:
        size: Number of tokens N without the noise token, from 3 to 2000.
        alpha: Noise level, above 0 and below 1.
    """
    return float(np.log(size) + np.log(alpha / (1 - alpha)))


@check_arguments
def largest_rate(alpha: Noise) -> Positive:
    """The rate up to which the logit rises without crossing the fixed point, for alpha <= 1/2: 1/(alpha (1 - alpha)).

    It is the inverse of the slope of p at the fixed point; for alpha > 1/2 the slope is larger on the way.

    Args:
        alpha: Noise level, above 0 and below 1.
    """
    return 1 / (alpha * (1 - alpha))
