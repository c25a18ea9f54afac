"""The number of times that a token occurs in a context of noisy in-context recall: exact moments, and their leading
order.

"Simple structures in neural networks", Lemmas C.4 to C.10.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import xarray as xr
from jaxtyping import Float

from dynascope.theory.domains import Domain, Number, Whole, check_arguments
from dynascope.theory.recall.chain import TRIGGER, Length, Noise, Size, occupation

LEMMAS = ("C.4", "C.5", "C.6", "C.7", "C.8", "C.9", "C.10")
"""The cases, by the lemma on them: the target is the trigger, and the token counted the trigger, the noise or another
one; the target is not the trigger, and the token counted the trigger, the noise, the target or another one."""


@check_arguments
def exact_counts(size: Size, length: Length, alpha: Noise, forced: bool = False) -> xr.Dataset:
    """E c, `mean`, and E c^2, `square`, over a free chain of `length` tokens, exactly (case).

    Args:
        size: Number of tokens N without the noise token, from 3 to 2000.
        length: Number of tokens T.
        alpha: Noise level, above 0 and below 1.
        forced: Make the last token the trigger, as in the task. Default: False.
    """
    noise, target, other = size, 1, 2
    mean, square = [], []
    for aim, tokens in ((TRIGGER, [TRIGGER, noise, other]), (target, [TRIGGER, noise, target, other])):
        counts = occupation(size, length - forced, alpha, aim)
        more = np.where(np.array(tokens) == TRIGGER, forced, 0)  # one more trigger
        first = counts.mean[tokens]
        mean.append(first + more)
        square.append(np.diag(counts.square)[tokens] + more * (2 * first + 1))
    return _dataset(np.concatenate(mean), np.concatenate(square))


@check_arguments
def leading_counts(size: Size, length: Length, alpha: Noise, printed: bool = False) -> xr.Dataset:
    """The leading order of both moments for N, T >> 1, `mean` and `square` (case): those of a Poisson variable with
    mean a T/N, except for the trigger if it is its own target.

    Args:
        size: Number of tokens N without the noise token, from 3 to 2000.
        length: Number of positions T in a context, the last one (the trigger) included.
        alpha: Noise level, above 0 and below 1.
        printed: Give the second moment 2/alpha^2 in that case, as Lemma C.4 does, instead of 2/alpha. Default: False.
    """
    share = length / size
    mean = share * np.array([1 / alpha, 1, 1, 1, alpha, 2 - alpha, 1])
    square = mean + mean**2
    square[0] = mean[0] * (2 / alpha ** (2 if printed else 1) - 1) + mean[0] ** 2
    return _dataset(mean, square)


@check_arguments
def weighted_series(
    ratio: Annotated[Number, Domain("not 1", lambda x: x != 1)], terms: Annotated[int, Whole()]
) -> float:
    """sum of t a^t over t = 1, ..., T, which is a (1 - a^T)/(a - 1)^2 + T a^(T+1)/(a - 1) (Lemma C.13).

    Args:
        ratio: a, not 1.
        terms: T.
    """
    a = float(ratio)
    return a * (1 - a**terms) / (a - 1) ** 2 + terms * a ** (terms + 1) / (a - 1)


def _dataset(mean: Float[np.ndarray, " case"], square: Float[np.ndarray, " case"]) -> xr.Dataset:
    return xr.Dataset({"mean": ("case", mean), "square": ("case", square)}, {"case": list(LEMMAS)})
