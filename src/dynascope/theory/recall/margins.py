"""The margin of the noise token after one gradient step: O(1) from feed-forward weights, O(1/N) from attention.

"Simple structures in neural networks", Theorem 4.1. The margin of logits is that of the noise token over the best other
one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dynascope.theory.domains import PositiveNumber, check_arguments
from dynascope.theory.recall.chain import Noise, Probability, Size


class Margins(NamedTuple):
    """Margins per unit of the learning rates of W_F and of W_V."""

    feed_forward: float
    """Per unit of the learning rate of W_F."""
    attention: float
    """Per unit of the learning rate of W_V."""


@check_arguments
def margin(logits: Float[np.ndarray, "*batch tokens"]) -> Float[np.ndarray, "*batch"]:
    """The logit of the last token, the noise, minus the largest of the others.

    Args:
        logits: Logits, that of the noise token last. Shape (..., tokens).
    """
    return np.asarray(logits[..., -1] - logits[..., :-1].max(-1))


@check_arguments
def first_margins(size: Size, alpha: Noise, noise_share: Probability = 0.0, previous: bool = True) -> Margins:
    """The margins for infinitely many samples and N, T >> 1: alpha, and (alpha^2 s + alpha (1 - s))/N.

    Args:
        size: Number of tokens N without the noise token, from 3 to 2000.
        alpha: Noise level, above 0 and below 1.
        noise_share: Share s of the noise token in the test context, from 0 to 1. Default: 0.0.
        previous: Inputs of Eq. 4.2, each token twice: double the margin of attention in the theorem. Default: True.
    """
    attended = alpha**2 * noise_share + alpha * (1 - noise_share)
    return Margins(float(alpha), float((2 if previous else 1) * attended / size))


@check_arguments
def fluctuation(alpha: Noise, samples: PositiveNumber) -> float:
    """The relative standard deviation of both margins over draws of m samples: sqrt((1 - alpha)/(alpha m)), since both
    are proportional to the number of noise labels.

    Attention's signal is smaller by a factor N, and its fluctuation too. The maximum over the other tokens adds a bias,
    small for m >> N.

    Args:
        alpha: Noise level, above 0 and below 1.
        samples: Number of samples m. Positive.
    """
    return float(np.sqrt((1 - alpha) / (alpha * samples)))
