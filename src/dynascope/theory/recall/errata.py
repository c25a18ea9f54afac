"""Numbers of counter-examples to statements of "Simple structures in neural networks", Chapter 4, as printed."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

from dynascope.theory.domains import check_arguments
from dynascope.theory.recall.contexts import contexts
from dynascope.theory.recall.counts import exact_counts, leading_counts
from dynascope.theory.recall.first_step import exact_value_entries, value_entries
from dynascope.theory.recall.linear_memory import late_margin, memory_flow
from dynascope.theory.recall.phases import attention_step, gaps, value_step


@check_arguments
def trigger_counts(size: int, length: int, alpha: float) -> dict[str, float]:
    """The second moment of Lemma C.4: exactly, as printed, and corrected.

    Args:
        size: Number of tokens N without the noise token, from 3 to 2000.
        length: Number of positions T in a context, the last one (the trigger) included.
        alpha: Noise level, above 0 and below 1.
    """
    exact = exact_counts(size, length, alpha).square
    guesses = [leading_counts(size, length, alpha, printed=printed).square for printed in (True, False)]
    return dict(zip(("exact", "printed", "corrected"), (float(each[0]) for each in (exact, *guesses)), strict=True))


@check_arguments
def table_variances(size: int, length: int, alpha: float) -> dict[str, np.ndarray]:
    """The exact variances (entry) of Table C.1 over printed and over corrected ones.

    Args:
        size: Number of tokens N without the noise token, from 3 to 2000.
        length: Number of positions T in a context, the last one (the trigger) included.
        alpha: Noise level, above 0 and below 1.
    """
    exact = exact_value_entries(size, length, alpha).variance.values
    guesses = {"printed": True, "corrected": False}
    return {
        name: exact / value_entries(size, length, alpha, printed).variance.values for name, printed in guesses.items()
    }


@check_arguments
def alternating_share(length: int, size: int) -> float:
    """|Gamma| of the entry (j, noise) in the context q, noise, q, noise, ..., q with label j, the target: Table C.1 has
    1/3 as its range.

    Args:
        length: Number of positions T in a context, the last one (the trigger) included.
        size: Number of tokens N without the noise token, from 3 to 2000.
    """
    noise = (length - 1) // 2
    return abs(1 / (size + 1) - 1) * noise / length


@check_arguments
def first_attention(size: int, length: int, alpha: float) -> dict[str, float]:
    """(C.19): N^2 times the first step of W_QK on the noise token, N^3 times that on a token k <= N.

    Args:
        size: Number of tokens N without the noise token, from 3 to 2000.
        length: Number of positions T in a context, the last one (the trigger) included.
        alpha: Noise level, above 0 and below 1.
    """
    moments, uniform = contexts(size, length, alpha), 1 / (size + 1)
    step = attention_step(moments, value_step(moments, uniform), uniform)
    return {"noise": size**2 * float(step[size]), "other": size**3 * float(step[2])}


@check_arguments
def attention_gaps(size: int, length: int, alpha: float) -> dict[str, float]:
    """N^3 times (4.3) and N^4 times (4.4), after one step of W_QK with the values of phase 2, exactly.

    Args:
        size: Number of tokens N without the noise token, from 3 to 2000.
        length: Number of positions T in a context, the last one (the trigger) included.
        alpha: Noise level, above 0 and below 1.
    """
    moments = contexts(size, length, alpha)
    found = gaps(attention_step(moments, value_step(moments, alpha), alpha))
    return {"trigger": size**3 * found.trigger, "noise": size**4 * found.noise}


@check_arguments
def printed_memory_rate(alpha: float) -> dict[str, float]:
    """1/(t e^a) of (C.38) as printed, and Lemma C.14's (1 - alpha)(4 - 2 alpha) for its limit; the same for the
    gradient flow of the summed loss, which moves 1/3 as fast along beta_2.

    Args:
        alpha: Noise level, above 0 and below 1.
    """
    time = 1e6

    def velocity(_: float, state: np.ndarray) -> list[float]:
        total = np.exp(state[0]) + np.exp(state[1]) + 1
        first = (2 - 2 * np.exp(state[0])) / total - 2 + 2 * alpha
        return [first, (2 - 8 * np.exp(state[1])) / total - 2 + 10 * alpha]

    found = solve_ivp(velocity, (0.0, time), [0.0, 0.0], "LSODA", rtol=1e-10, atol=1e-12).y[:, -1]
    flow = memory_flow(2, alpha, np.array([time]), "sum")
    return {
        "integrated": float(np.exp(-found[0]) / time),
        "printed": (1 - alpha) * (4 - 2 * alpha),
        "right": 3.6 * (1 - alpha),
        "flow": float(np.exp(flow.margin[0]) / time),
        "flow-limit": float(np.exp(late_margin(2, alpha, time, "sum")) / time),
        "odds": float(found[1] - np.log(alpha / (1 - alpha))),
    }


def rank_one_choice() -> dict[str, float]:
    """The singular values of the two directions of W for n = 2, beta_1 > beta_2, and the share of the memory's
    direction in the rank-one model: it keeps the noise unless 2 beta_1 > 2 sqrt 3 |beta_2|."""
    beta_1, beta_2 = 1.0, 0.8
    memory, noise = np.array([[1.0, -1], [-1, 1], [0, 0]]), np.array([[1.0, 1], [1, 1], [-2, -2]])
    left, values, right = np.linalg.svd(beta_1 * memory + beta_2 * noise, full_matrices=False)
    kept = values[0] * np.outer(left[:, 0], right[0])
    share = np.sum(kept * memory) ** 2 / np.sum(kept**2) / np.sum(memory**2)
    return {
        "memory": 2 * beta_1,
        "noise": 2 * np.sqrt(3) * abs(beta_2),
        "share": float(share),
        "largest": float(values[0]),
    }
