"""Truncations that uncover the knowledge of a model: a table over layers, matrices and ranks, the best of it, and its
gain on other prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from dynascope import checks
from dynascope.lm.language_model import LanguageModel


def truncation_table(
    model: LanguageModel,
    prompts: Sequence[str],
    words: Sequence[Sequence[str]],
    *,
    layers: Sequence[int] | None = None,
    matrices: Sequence[str] = ("in", "out"),
    ranks: Sequence[int] = (5,),
    batch: int = 32,
    progress: Callable[[int, int], None] | None = None,
) -> xr.Dataset:
    """Probabilities of words after prompts, of the model with one matrix of one layer truncated to one rank.

    The layers below the truncated one are computed once.

    Args:
        model: The model.
        prompts: The prompts.
        words: For each prompt the same number of words, each one token after it.
        layers: The layers. Default: all.
        matrices: The names of the matrices.
        ranks: The ranks.
        batch: Number of prompts of one length at a time.
        progress: Called with the number of layers that are done, and of all.

    Returns:
        A Dataset with `probability(layer, matrix, rank, prompt, word)`, and `full(prompt, word)` of the model as it is.
    """
    if not isinstance(model, LanguageModel):
        raise TypeError(f"model must be a LanguageModel, as load_lm returns; got {checks.shown(model)}")
    layers = tuple(range(1, model.layers + 1) if layers is None else layers)
    for layer in layers:
        checks.whole("each of layers", layer, at_least=1, at_most=model.layers)
    for matrix in matrices:
        checks.one_of("each of matrices", matrix, model.matrices)
    for rank in ranks:
        checks.whole("each of ranks", rank, at_least=0)
    tokens = _tokens(model, prompts, words)
    shape = (len(layers), len(matrices), len(ranks), *tokens.shape)
    full, found = np.zeros(tokens.shape), np.zeros(shape)
    batches = []
    for rows, ids in model.batches(prompts, batch):
        with _outputs(model) as outputs:
            full[rows] = _picked(model, ids, tokens[rows])
        batches.append((rows, ids, outputs))
    for i, layer in enumerate(layers):
        for j, matrix in enumerate(matrices):
            largest = min(model.weight(layer, matrix).shape)
            for k, rank in enumerate(ranks):
                with model.truncate(layer, matrix, rank=min(rank, largest)):
                    for rows, ids, outputs in batches:
                        with _skipping(model, layer, outputs):
                            found[i, j, k, rows] = _picked(model, ids, tokens[rows])
        if progress is not None:
            progress(i + 1, len(layers))
    dims = ("layer", "matrix", "rank", "prompt", "word")
    coords = {"layer": list(layers), "matrix": list(matrices), "rank": list(ranks), "prompt": list(prompts)}
    return xr.Dataset({"probability": (dims, found), "full": (dims[-2:], full)}, coords)


def best_truncation(table: xr.Dataset, *, target: int = 0, association: int = -1) -> dict[str, Any]:
    """The truncation with the largest ratio of mean P(target) to mean P(association). Among those that do not lower
    mean P(target), or among all if every one does.

    Args:
        table: The table of `truncation_table`.
        target: The index of the target among the words.
        association: The index of the association among the words.
    """
    means = table.probability.mean("prompt")
    ratio = means.isel(word=target) / np.maximum(means.isel(word=association), 1e-12)
    allowed = means.isel(word=target) >= float(table.full.isel(word=target).mean())
    ratio = ratio.where(allowed) if bool(allowed.any()) else ratio
    best = ratio.fillna(-1.0).stack(cut=("layer", "matrix", "rank"))
    place = best.isel(cut=int(best.argmax("cut")))
    return {"layer": int(place.layer), "matrix": str(place.matrix.values), "rank": int(place["rank"])}


def ratio_gain(
    full: Float[np.ndarray, "prompt word"],
    cut: Float[np.ndarray, "prompt word"],
    *,
    target: int = 0,
    association: int = -1,
    draws: int = 2000,
    seed: int = 0,
) -> tuple[float, float, float]:
    """The factor by which a truncation raises the ratio of mean P(target) to mean P(association), and the ends of its
    95 % interval.

    Args:
        full: Probabilities of the model as it is, (prompt, word).
        cut: Probabilities of the truncated model, (prompt, word).
        target: The index of the target among the words.
        association: The index of the association among the words.
        draws: Number of bootstrap draws over prompts, the same for both models.
        seed: Seed of the draws.
    """
    full, cut = np.asarray(full, float), np.asarray(cut, float)
    if full.ndim != 2 or full.shape != cut.shape or not len(full):
        raise ValueError(f"full and cut must be (prompt, word), both alike; got {full.shape} and {cut.shape}")
    checks.whole("draws", draws, at_least=1)

    def gain(rows: Int[np.ndarray, "... prompt"]) -> Any:
        ratios = [each[rows, target].mean(-1) / each[rows, association].mean(-1) for each in (cut, full)]
        return ratios[0] / ratios[1]

    drawn = np.random.default_rng(seed).integers(len(full), size=(draws, len(full)))
    low, high = np.quantile(gain(drawn), (0.025, 0.975))
    return float(gain(np.arange(len(full)))), float(low), float(high)


def rank_of_token(
    probabilities: Float[np.ndarray, "prompt vocab"], tokens: int | Int[np.ndarray, " prompt"]
) -> Int[np.ndarray, " prompt"]:
    """The place of a token among the predictions after each prompt; 1 is the likeliest.

    Args:
        probabilities: Probabilities, (prompt, vocab).
        tokens: The token, or one for each prompt.
    """
    probabilities = np.asarray(probabilities)
    chosen = np.broadcast_to(np.asarray(tokens, int), len(probabilities))
    own = np.take_along_axis(probabilities, chosen[:, None], 1)
    return 1 + (probabilities > own).sum(1)


def _tokens(model: LanguageModel, prompts: Sequence[str], words: Sequence[Sequence[str]]) -> np.ndarray:
    if len(prompts) != len(words) or len({len(each) for each in words}) != 1:
        raise ValueError(f"words must have the same number of words for each of {len(prompts)} prompts; got others")
    rows = zip(prompts, words, strict=True)
    return np.array([[model.token_after(prompt, word) for word in each] for prompt, each in rows])


def _picked(model: LanguageModel, ids: Any, tokens: np.ndarray) -> np.ndarray:
    return np.take_along_axis(model.probabilities(ids), tokens, 1)


@contextmanager
def _outputs(model: LanguageModel) -> Iterator[list[Any]]:
    """Collect the output of each layer inside the `with`."""
    found: list[Any] = []
    hooks = [block.register_forward_hook(lambda *call: found.append(call[2])) for block in model.blocks]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _skipping(model: LanguageModel, layer: int, outputs: list[Any]) -> Iterator[None]:
    """Inside the `with`, make the layers below `layer` return at once the stored output of the last of them."""
    below = list(model.blocks)[: layer - 1]
    try:
        for block in below:
            block.forward = lambda *_, **__: outputs[layer - 2]
        yield
    finally:
        for block in below:
            block.__dict__.pop("forward", None)
