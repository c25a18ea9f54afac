"""A linear associative memory with noise: the singular direction that holds the noise, over time.

"Simple structures in neural networks", Section 4.4.3, Theorem 4.3 and Appendix C.5, for any number n of inputs. From
zero, with orthonormal embeddings, the logits of input i stay x for output i, y for the other outputs and z for the
noise, with x + (n - 1) y + z = 0: two numbers, D = x - y and E = z - x, determine all. With s = 1/n for the mean loss
over the inputs (1 for the sum), gradient flow is

    D' = s (1 - alpha - P_i + P_j),    E' = s (alpha - P_c - (1 - alpha) + P_i).

W has the singular values D, n - 1 times, and |(n - 1) D + n E|/sqrt(n + 1) on the input direction (1, ..., 1), the only
one that reaches the noise. Late, E -> -L with L = ln((1 - alpha)/alpha), and exp(-D) -> 2/(s (1 - alpha)(n + 1) t).
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import xarray as xr
from jaxtyping import Float
from scipy.integrate import solve_ivp

from dynascope.tasks.scalar_losses import Reals
from dynascope.theory.domains import Domain, NotNegative, Number, Positive, Whole, check_arguments
from dynascope.theory.recall.chain import Noise

Inputs = Annotated[int, Whole(2, 10_000)]
Loss = Literal["mean", "sum"]
Times = Annotated[
    Float[np.ndarray, " time"],
    Domain("rising, from 0 or later", lambda t: (np.diff(t, prepend=t[:1] - 1) > 0) & (t >= 0) & np.isfinite(t)),
]


@check_arguments
def memory_flow(inputs: Inputs, alpha: Noise, times: Times, loss: Loss = "mean") -> xr.Dataset:
    """Gradient flow from zero.

    Args:
        inputs: Number of inputs n, from 2 to 10,000.
        alpha: Noise level, above 0 and below 1.
        times: Times, rising from 0 or later. Shape (time,).
        loss: Loss over the inputs, "mean" or "sum". Default: "mean".

    Returns:
        Over `time`: `margin` D and `noise_logit` E, the singular values `memory` and `noise`, the probabilities
        `correct` and `noisy` of the whole memory, and `pure_correct`, `pure_noisy` without the noise direction (the
        memory of rank n - 1 as long as `noise` < `memory`).
    """
    scale = 1 / inputs if loss == "mean" else 1.0

    def velocity(_: float, state: np.ndarray) -> list[float]:
        correct, wrong, noisy = probabilities(inputs, state[0], state[1])
        return [scale * (1 - alpha - correct + wrong), scale * (2 * alpha - 1 - noisy + correct)]

    end = max(float(times[-1]), 1e-9)
    found = solve_ivp(velocity, (0.0, end), [0.0, 0.0], "LSODA", t_eval=times, rtol=1e-10, atol=1e-12)
    if not found.success:
        raise RuntimeError(f"the flow of the memory could not be integrated: {found.message}")
    margin, noise = found.y
    correct, _, noisy = probabilities(inputs, margin, noise)
    pure, _, pure_noise = probabilities(inputs, margin, -margin * (1 - 1 / inputs))
    memory, direction = memory_spectrum(inputs, margin, noise)
    entries = {"margin": margin, "noise_logit": noise, "memory": memory, "noise": direction}
    entries |= {"correct": correct, "noisy": noisy, "pure_correct": pure, "pure_noisy": pure_noise}
    return xr.Dataset({name: ("time", values) for name, values in entries.items()}, {"time": times})


@check_arguments
def probabilities(inputs: Inputs, margin: Reals, noise_logit: Reals) -> tuple[NotNegative, NotNegative, NotNegative]:
    """P_i, P_j (one other output) and P_c (the noise) from D and E.

    Args:
        inputs: Number of inputs n, from 2 to 10,000.
        margin: D. Any shape.
        noise_logit: E. Any shape.
    """
    highest = np.maximum(np.maximum(-margin, noise_logit), 0)
    correct, wrong, noisy = np.exp(-highest), np.exp(-margin - highest), np.exp(noise_logit - highest)
    total = correct + (inputs - 1) * wrong + noisy
    return correct / total, wrong / total, noisy / total


@check_arguments
def memory_spectrum(inputs: Inputs, margin: Reals, noise_logit: Reals) -> tuple[NotNegative, NotNegative]:
    """The singular values of the n - 1 directions of the memory, |D|, and of the noise direction.

    Args:
        inputs: Number of inputs n, from 2 to 10,000.
        margin: D. Any shape.
        noise_logit: E. Any shape.
    """
    return np.abs(margin), np.abs((inputs - 1) * margin + inputs * noise_logit) / np.sqrt(inputs + 1)


@check_arguments
def late_margin(inputs: Inputs, alpha: Noise, times: Positive, loss: Loss = "mean") -> Reals:
    """ln(s (1 - alpha)(n + 1) t/2), to which D tends. For n = 2 without the noise direction P_c is then
    (0.75 (1 - alpha) t)^(-1/2) for the mean loss, (1.5 (1 - alpha) t)^(-1/2) for the sum.

    Args:
        inputs: Number of inputs n, from 2 to 10,000.
        alpha: Noise level, above 0 and below 1.
        times: Times t. Positive, any shape.
        loss: Loss over the inputs, "mean" or "sum". Default: "mean".
    """
    scale = 1 / inputs if loss == "mean" else 1.0
    return np.log(scale * (1 - alpha) * (inputs + 1) * times / 2)


@check_arguments
def overtaking_margin(inputs: Inputs, alpha: Noise) -> float:
    """The margin D from which on the noise direction is not the weakest one, late: n L/(n - 1 - sqrt(n + 1)) for n >=
    4, infinite below.

    Dropping the smallest singular direction then removes a part of the memory instead of the noise.

    Args:
        inputs: Number of inputs n, from 2 to 10,000.
        alpha: Noise level, above 0 and below 1/2.
    """
    odds = np.log((1 - alpha) / alpha)
    if odds <= 0:
        raise ValueError(f"alpha must be below 1/2; got {alpha:g}")
    gap = inputs - 1 - np.sqrt(inputs + 1)
    return float(inputs * odds / gap) if gap > 1e-12 else np.inf


@check_arguments
def memory_matrix(inputs: Inputs, margin: Number, noise_logit: Number) -> Float[np.ndarray, "output input"]:
    """W with this margin and this noise logit: x = ((n - 1) D - E)/(n + 1), y = x - D, z = x + E.

    Args:
        inputs: Number of inputs n, from 2 to 10,000.
        margin: D.
        noise_logit: E.
    """
    own = ((inputs - 1) * float(margin) - float(noise_logit)) / (inputs + 1)
    table = np.full((inputs + 1, inputs), own - float(margin))
    np.fill_diagonal(table, own)
    table[-1] = own + float(noise_logit)
    return table


@check_arguments
def without_noise_direction(weights: Float[np.ndarray, "output input"]) -> Float[np.ndarray, "output input"]:
    """W less its action on the input direction (1, ..., 1), with every input one coordinate.

    Args:
        weights: W. Shape (output, input).
    """
    return weights - weights.mean(axis=1, keepdims=True)
