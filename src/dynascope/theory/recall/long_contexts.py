"""The one-layer model on the population of long contexts, from zero: the noise is learned first, attention later.

"Simple structures in neural networks", Eq. 4.2 and Section 4.4.4.3. In a long context with target j each pair of a
token a and the next one b has its stationary share π_j(a) P_j(a, b) (see `chain`), without fluctuations. With scores
w_a of the previous token and u_b of the current one, attention is then ∝ π_j(a) P_j(a, b) exp(w_a + u_b). The loss is a
finite sum over the target and the token before the last trigger: its gradient descent needs no sample, and the length
of the contexts does not appear.
"""

from __future__ import annotations

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float

from dynascope.models import OneLayerRecall
from dynascope.theory.domains import PositiveNumber, Whole, check_arguments
from dynascope.theory.recall.chain import TRIGGER, Noise, transition

Tokens = Annotated[int, Whole(3, 60)]


@check_arguments
def population_path(
    size: Tokens, alpha: Noise, rate: PositiveNumber, steps: Annotated[int, Whole(1, 100_000)]
) -> xr.Dataset:
    """Gradient descent of `models.OneLayerRecall` from zero on the population of long contexts.

    Args:
        size: Number of tokens N without the noise token, from 3 to 60.
        alpha: Noise level, above 0 and below 1.
        rate: Learning rate. Positive.
        steps: Number of steps.

    Returns:
        Over `step`, from 0: `noise`, the probability with which the noise token is predicted, and the attention of the
        last position `on_target` and `on_noise`, on targets and on noise right after a trigger.
    """
    pairs, chance = (jnp.asarray(values, float) for values in long_contexts(size, float(alpha)))
    level, speed = jnp.asarray(alpha, float), jnp.asarray(rate, float)
    path = _descend(OneLayerRecall(size + 1), pairs, chance, level, speed, steps)
    return xr.Dataset({name: ("step", np.asarray(values)) for name, values in path.items()}, {"step": range(steps + 1)})


@check_arguments
def long_contexts(
    size: Tokens, alpha: Noise
) -> tuple[Float[np.ndarray, "target previous current"], Float[np.ndarray, "target token"]]:
    """The stationary shares of pairs of tokens for each target, and the chance of each target and token before the last
    trigger.

    Args:
        size: Number of tokens N without the noise token, from 3 to 60.
        alpha: Noise level, above 0 and below 1.
    """
    pairs = []
    for target in range(size):
        matrix = transition(size, alpha, target)
        system = np.vstack([matrix.T - np.eye(size + 1), np.ones(size + 1)])
        share, *_ = np.linalg.lstsq(system, np.append(np.zeros(size + 1), 1.0), rcond=None)
        pairs.append(share[:, None] * matrix)
    found = np.stack(pairs)
    return found, found.sum(2) / size


@eqx.filter_jit
def _descend(
    model: OneLayerRecall, pairs: Array, chance: Array, alpha: Array, rate: Array, steps: int
) -> dict[str, Float[Array, " step"]]:
    def step(model: OneLayerRecall, _: None) -> tuple[OneLayerRecall, dict[str, Array]]:
        gradient, seen = jax.grad(_loss, has_aux=True)(model, pairs, chance, alpha)
        return jax.tree.map(lambda weight, slope: weight - rate * slope, model, gradient), seen

    return jax.lax.scan(step, model, None, steps + 1)[1]


def _loss(
    model: OneLayerRecall, pairs: Array, chance: Array, alpha: Array
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """The expected cross-entropy, and what `population_path` records."""
    targets, count = chance.shape
    query = model.score[TRIGGER] + model.score[count:]  # (token before the last trigger, coordinate)
    current, previous = jnp.exp(query[:, :count]), jnp.exp(query[:, count:])
    by_current = current * jnp.einsum("jab,ka->jkb", pairs, previous)
    by_previous = previous * jnp.einsum("jab,kb->jka", pairs, current)
    total = by_current.sum(2, keepdims=True)
    mean = jnp.concatenate([by_current, by_previous], axis=2) / total
    logits = mean @ model.value.T + model.feed[:, TRIGGER] + model.feed[:, count:].T
    log = jax.nn.log_softmax(logits)
    own = jnp.arange(targets)
    loss = -jnp.sum(chance * ((1 - alpha) * log[own, :, own] + alpha * log[..., -1]))
    after = pairs[:, TRIGGER, None] * previous[None, :, TRIGGER, None] * current / total  # right after a trigger
    seen = {"noise": jnp.exp(log[..., -1]), "on_target": after[own, :, own], "on_noise": after[..., -1]}
    return loss, {name: jnp.sum(chance * values) for name, values in seen.items()}
