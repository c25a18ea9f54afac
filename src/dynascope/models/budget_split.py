"""A transformer whose parameters are split between attention and feed-forward maps, at a fixed budget.

"Simple structures in neural networks", Figure 4.14: L blocks of width d, attention through d_a dimensions (4 d d_a
parameters a block) and a network with h hidden units (2 d h), with the budget P = L (4 d d_a + 2 d h).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from dynascope import checks
from dynascope.models.frozen import Frozen
from dynascope.models.recall_transformer import draw_matrix
from dynascope.models.transformer import Attention, Linear


class Split(NamedTuple):
    """The widths that a budget buys."""

    attention: int
    """d_a."""
    hidden: int
    """h."""
    parameters: int
    """Number of parameters, all blocks together."""


def budget_split(budget: int, share: float, dim: int, depth: int = 2) -> Split:
    """The widths that a budget buys: h = P r/(2 L d) and d_a = P (1 - r)/(4 L d), rounded.

    Args:
        budget: P, the number of parameters.
        share: r, the share of feed-forward maps.
        dim: d.
        depth: L.
    """
    checks.sizes(budget=budget, dim=dim, depth=depth)
    checks.real("share", share, above=0, below=1)
    hidden, attention = round(budget * share / (2 * depth * dim)), round(budget * (1 - share) / (4 * depth * dim))
    if not hidden or not attention:
        raise ValueError(f"budget must pay for one hidden unit and one dimension of attention; got {budget}")
    return Split(attention, hidden, depth * (4 * dim * attention + 2 * dim * hidden))


class BudgetSplit(eqx.Module):
    """A transformer with a budget split between attention and feed-forward maps: one head, no norms and no biases.

    Called on one sequence of tokens, (tokens,), it returns logits (tokens, vocabulary). Embeddings, positions and
    readout are frozen, as in `RecallTransformer`.

    Args:
        vocabulary: Number of tokens.
        context: The longest sequence.
        budget: Number of trained parameters.
        share: The share of feed-forward maps in it.
        key: Key of the weights.
        dim: Width of the residual stream.
        depth: Number of blocks.
    """

    frozen: Frozen
    blocks: list[tuple[Attention, Linear, Linear]]

    def __init__(
        self,
        vocabulary: int,
        context: int,
        budget: int,
        share: float,
        *,
        key: PRNGKeyArray,
        dim: int = 64,
        depth: int = 2,
    ) -> None:
        checks.sizes(vocabulary=vocabulary, context=context)
        widths = budget_split(budget, share, dim, depth)
        keys = jax.random.split(checks.key("key", key), 3 + depth)
        embedding = jax.random.normal(keys[0], (vocabulary, dim))
        places = jax.random.normal(keys[1], (context, dim))
        readout = draw_matrix(keys[2], (vocabulary, dim))
        self.frozen = Frozen({"embedding": embedding, "places": places, "readout": readout})
        self.blocks = []
        for block_key in keys[3:]:
            each = jax.random.split(block_key, 3)
            attention = Attention(dim, 1, widths.attention, key=each[0], causal=True, bias=False)
            up = Linear(dim, widths.hidden, key=each[1], bias=False)
            self.blocks.append((attention, up, Linear(widths.hidden, dim, key=each[2], bias=False)))

    def __call__(self, tokens: Int[Array, " tokens"]) -> Float[Array, "tokens vocabulary"]:
        fixed = self.frozen.value()
        if tokens.ndim != 1 or tokens.shape[0] > fixed["places"].shape[0]:
            allowed = f"one sequence of at most {fixed['places'].shape[0]} tokens (use jax.vmap for a batch)"
            raise ValueError(f"BudgetSplit takes {allowed}; got shape {tokens.shape}")
        x = fixed["embedding"].at[tokens].get(mode="fill", fill_value=math.nan) + fixed["places"][: tokens.shape[0]]
        for attention, up, down in self.blocks:
            x = x + attention(x)
            x = x + down(jax.nn.relu(up(x)))
        return x @ jnp.asarray(fixed["readout"]).T
