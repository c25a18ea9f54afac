"""The first gradient of noisy in-context recall, with all weights zero: its mean, its variance, and its deviation in a
sample.

"Simple structures in neural networks", Lemmas C.1 and C.2 with Table C.1. At zero all tokens are predicted with
probability 1/(N + 1), and attention is uniform, so that one sample gives (c_k as in `counts`)

    W_U(k)^T grad W_F W_E(q) = 1/(N+1) - 1{y = k},    W_U(j)^T grad W_V W_E(k) = (1/(N+1) - 1{y = j}) c_k / T.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
import xarray as xr

from dynascope.theory.domains import NotNegative, Positive, Whole, check_arguments
from dynascope.theory.recall.chain import Length, Noise, Size
from dynascope.theory.recall.counts import exact_counts

ENTRIES = ("τ,τ", "τ,q", "τ,k", "q,τ", "q,q", "q,k", "j,τ", "j,q", "j,j", "j,k")
"""The kinds (j, k) of entries of W_V, in the order of Table C.1: j is predicted, k attended to."""
LARGEST_NOISE = 1.5 - math.sqrt(5) / 2
"""Up to this alpha every token is pushed to predict itself (C.18)."""


@check_arguments
def feed_forward_entries(size: Size, alpha: Noise) -> xr.Dataset:
    """The `mean`, `variance` and `range` (token) of entries of grad W_F on the trigger, for the noise token and another
    one (Lemma C.1).

    The mean for the noise token is 1/(N+1) - alpha, of which the lemma prints the leading -alpha.

    Args:
        size: Number of tokens N without the noise token, from 3 to 2000.
        alpha: Noise level, above 0 and below 1.
    """
    each = (1 - alpha) / size
    return xr.Dataset(
        {
            "mean": ("token", 1 / (size + 1) - np.array([alpha, each])),
            "variance": ("token", np.array([alpha * (1 - alpha), each * (1 - each)])),
            "range": ("token", np.array([max(alpha, 1 - alpha), 1.0])),
        },
        {"token": ["noise", "other"]},
    )


@check_arguments
def value_entries(size: Size, length: Length, alpha: Noise, printed: bool = False) -> xr.Dataset:
    """The `mean`, `variance` and `range` (entry) of entries of grad W_V, to leading order (Table C.1).

    The range of (j, τ) is 1/2, printed 1/3: q, τ, q, τ, ... attains it.

    Args:
        size: Number of tokens N without the noise token, from 3 to 2000.
        length: Number of positions T in a context, the last one (the trigger) included.
        alpha: Noise level, above 0 and below 1.
        printed: Give the printed variances, upper bounds for j <= N: 1/(N+1) stands for its square. Default: False.
    """
    a, b, N, T = alpha, 1 - alpha, size, length
    mean = np.array([-(a**2) * N, -a * N, -a * N, 2 * a - 1, (2 * a - 1) / a, a, a**2, a, 3 * a - a**2 - 1, a]) / N**2
    tau = [a**2 / (T * N) + (a**3 - a**4) / N**2] + [a / (T * N) + (a - a**2) / N**2] * 2
    one, cube = 1 / (T * N**2), 1 / N**3
    if printed:
        rest = [
            one + (a**2 - a + 1) * cube,
            (a**3 - a**2 - a + 2) / a**3 * one + (a**2 - a + 1) / a**2 * cube,
            (2 - a) * (one + cube),
            (2 - a) * (a * one + a**2 * cube),
            (2 - a) * (one + cube),
            (1 + b * (2 - a)) * one + (1 + b * (2 - a) ** 2) * cube,
            (2 - a) * (one + cube),
        ]
    else:
        plain = b * (one + cube)
        own = b * ((2 - a) / a**2 * one + cube / a**2)
        target = b * ((2 - a) * one + (2 - a) ** 2 * cube)
        rest = [plain, own, plain, b * (a * one + a**2 * cube), plain, target, plain]
    span = np.array([1 / 2, 1, 1, 1 / 2, 1, 1, 1 / 3 if printed else 1 / 2, 1 / 2, 1, 1])
    return _dataset(mean, np.array(tau + rest)).assign(range=("entry", span))


@check_arguments
def exact_value_entries(size: Size, length: Length, alpha: Noise, forced: bool = False) -> xr.Dataset:
    """The `mean` and `variance` (entry) of entries of grad W_V, exactly.

    Args:
        size: Number of tokens N without the noise token, from 3 to 2000.
        length: Number of positions T in a context, the last one (the trigger) included.
        alpha: Noise level, above 0 and below 1.
        forced: Make the last token the trigger, as in the task, which adds 1/T to c_q/T. Default: False.
    """
    counts = exact_counts(size, length, alpha, forced)
    mean = _entry_moments(counts["mean"].values, size, alpha, 1)
    square = _entry_moments(counts["square"].values, size, alpha, 2)
    first, second = mean / length, square / length**2
    return _dataset(first, second - first**2)


@check_arguments
def deviation(
    variance: NotNegative, range: NotNegative, samples: Positive, events: Annotated[int, Whole()], delta: Noise
) -> NotNegative:
    """How far a mean over m samples can be from its expectation, for all events at once except with probability delta:
    sqrt(4 s^2 L/m) + 4 R L/m, L = ln(events) + ln(2/delta) (C.1, C.7).

    Args:
        variance: s^2. Not negative, any shape.
        range: R. Not negative, any shape.
        samples: m. Positive, any shape.
        events: Number of events: N + 1 entries of W_F on the trigger, (N + 1)^2 of W_V.
        delta: Probability, above 0 and below 1.
    """
    logarithm = np.log(events) + np.log(2 / delta)
    return np.sqrt(4 * variance * logarithm / samples) + 4 * range * logarithm / samples


def _entry_moments(counts: np.ndarray, size: int, alpha: float, power: int) -> np.ndarray:
    """E[(1/(N+1) - 1{y = j})^power c^power] of every kind of entry, from E c^power of the seven cases."""
    own_trigger, own_noise, own_other, trigger, noise, target, other = counts
    no, yes = (1 / (size + 1)) ** power, (1 / (size + 1) - 1) ** power
    mixed = (1 - alpha) * yes + alpha * no  # cases in which the target is j
    always = alpha * yes + (1 - alpha) * no  # for j the noise token
    n, rest = size, size - 2
    everywhere = np.array(
        [own_noise + (n - 1) * noise, own_trigger + (n - 1) * trigger, own_other + target + rest * other]
    )
    at_trigger = np.array([own_noise, own_trigger, own_other])
    at_target = np.array([noise, trigger, other])  # of a token k that is neither q nor j
    q_rows = mixed * at_trigger + no * (everywhere - at_trigger)
    j_rows = mixed * at_target + no * (everywhere - at_target)
    j_j = mixed * target + no * (own_other + rest * other)
    rows = [*(always * everywhere), *q_rows, j_rows[0], j_rows[1], j_j, j_rows[2]]
    return np.array(rows) / size


def _dataset(mean: np.ndarray, variance: np.ndarray) -> xr.Dataset:
    return xr.Dataset({"mean": ("entry", mean), "variance": ("entry", variance)}, {"entry": list(ENTRIES)})
