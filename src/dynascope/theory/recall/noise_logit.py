"""The feed-forward logit of the noise token while nothing else moves, and how large a step may be.

"Simple structures in neural networks", Section 4.4.4.3: with all other logits at zero,

    xi <- xi + eta (alpha - p),   p = e^xi / (N + e^xi),

which has the fixed point p = alpha. (The recursion is printed with the new xi on its right side.)
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from dynascope.tasks.scalar_losses import Reals
from dynascope.theory.arguments import Count, Positive, PositiveNumber
from dynascope.theory.recall.chain import Noise, Size


def noise_logits(size: Size, alpha: Noise, rate: PositiveNumber, steps: Count) -> Float[np.ndarray, " times"]:
    """The logit at steps 0, ..., `steps`, from 0."""
    logits = np.zeros(steps + 1)
    for t in range(steps):
        logits[t + 1] = logits[t] + rate * (alpha - noise_probability(logits[t], size))
    return logits


def noise_probability(logit: Reals, size: Size) -> Float[np.ndarray, "*batch"]:
    """e^xi / (N + e^xi): the noise token's probability where N other logits are 0."""
    return np.asarray(1 / (1 + size * np.exp(-np.asarray(logit, float))))


def noise_fixed_point(size: Size, alpha: Noise) -> float:
    """ln N + ln(alpha/(1 - alpha))."""
    return float(np.log(size) + np.log(alpha / (1 - alpha)))


def largest_rate(alpha: Noise) -> Positive:
    """1/(alpha (1 - alpha)): up to it the logit rises without crossing the fixed point, for alpha <= 1/2. It is the
    inverse of the slope of p at the fixed point; for alpha > 1/2 the slope is larger on the way."""
    return 1 / (alpha * (1 - alpha))
