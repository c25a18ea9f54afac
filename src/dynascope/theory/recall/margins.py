"""The margin of the noise token after one gradient step: O(1) from feed-forward weights, O(1/N) from attention.

"Simple structures in neural networks", Theorem 4.1. The margin of logits is that of the noise token over the best other
one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dynascope.theory.arguments import PositiveNumber
from dynascope.theory.recall.chain import Noise, Probability, Size


class Margins(NamedTuple):
    """Margins per unit of the learning rates of W_F and of W_V."""

    feed_forward: float
    attention: float


def margin(logits: Float[np.ndarray, "*batch tokens"]) -> Float[np.ndarray, "*batch"]:
    """The logit of the last token, the noise, minus the largest of the others."""
    return np.asarray(logits[..., -1] - logits[..., :-1].max(-1))


def first_margins(size: Size, alpha: Noise, noise_share: Probability = 0.0, previous: bool = True) -> Margins:
    """The margins for infinitely many samples and N, T >> 1, where `noise_share` of the test context is noise: alpha,
    and (alpha^2 s + alpha (1 - s))/N.

    The inputs of Eq. 4.2 hold each token twice, as the current and as the `previous` one, which doubles the margin of
    attention. The theorem leaves that out.
    """
    attended = alpha**2 * noise_share + alpha * (1 - noise_share)
    return Margins(float(alpha), float((2 if previous else 1) * attended / size))


def fluctuation(alpha: Noise, samples: PositiveNumber) -> float:
    """sqrt((1 - alpha)/(alpha m)): the relative standard deviation over draws of m samples of both margins, since both
    are proportional to how many labels are noise. Attention's signal is smaller by a factor N, and its fluctuation
    too. The maximum over the other tokens adds a bias, small for m >> N."""
    return float(np.sqrt((1 - alpha) / (alpha * samples)))
