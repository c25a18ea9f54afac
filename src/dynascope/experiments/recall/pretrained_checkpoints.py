"""The same questions to the checkpoints of a pretrained model (Pythia's), read from folders on this machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from dynascope.lm import load_lm, rank_of_token
from dynascope.tasks.prompts import ASSOCIATION, PREPOSITIONS, SENTENCES, indirect_objects

if TYPE_CHECKING:
    from dynascope.lm import LanguageModel

OTHERS = ("house", "king", "water", "run", "blue", "seven", "never", "music", "tree", "said", "very", "he", "you", "is")
"""Words that are no prepositions."""
MATRIX = "in"


def checkpoint_folders(folder: str) -> dict[int, Path]:
    """The checkpoints in a folder: its sub-folders step0, step1, step512, ..., by step."""
    found = {}
    for path in sorted(Path(folder).expanduser().glob("*")):
        match = re.fullmatch(r"step_?(\d+)", path.name)
        if match and path.is_dir():
            found[int(match[1])] = path
    if len(found) < 2:
        raise ValueError(
            f"checkpoints must be a folder with two folders or more called step0, step1, ...; got {folder!r}"
        )
    return dict(sorted(found.items()))


def read_checkpoints(folder: str, ranks: Sequence[int], count: int) -> xr.Dataset:
    """What `checkpoints.Checkpoints.measure` returns, along the checkpoints of a folder, with `count` indirect-object
    prompts: there the right word is the indirect object, and `context` its log-probability over the other name's."""
    places = checkpoint_folders(folder)
    found = [read_checkpoint(load_lm(place), ranks, count) for place in places.values()]
    trace = xr.concat(found, xr.IndexVariable("step", list(places))).expand_dims(seed=[0])
    unknown = dict.fromkeys(("word_share", "other_share", "frequency"), np.nan)
    return trace.assign(**unknown, is_article=("question", np.zeros(trace.sizes["question"], bool)))


def read_checkpoint(model: LanguageModel | Any, ranks: Sequence[int], count: int) -> xr.Dataset:
    """One checkpoint: "the" after single words and sentences, and indirect objects with every MLP cut to every rank."""
    found: dict[str, Any] = {}
    for name, prompts in (("word", PREPOSITIONS), ("other", OTHERS), ("text", SENTENCES)):
        found[f"{name}_the"], found[f"{name}_rank"] = _article(model, prompts)
    drawn = indirect_objects(count)
    texts = [prompt.text for prompt in drawn]
    words = np.array(
        [
            [model.token_after(each.text, word, first=True) for word in (each.target, each.subject, ASSOCIATION)]
            for each in drawn
        ]
    )
    whole = _picked(model, texts, words)
    context = float(np.mean(np.log(whole[:, 0]) - np.log(whole[:, 1])))
    cut = np.array([[_cut(model, texts, words, layer, rank) for rank in ranks] for layer in range(1, model.layers + 1)])
    cut = np.concatenate([cut, np.broadcast_to(whole, (len(cut), 1, *whole.shape))], axis=1)
    dims = ("weight", "rank", "question")
    return xr.Dataset(
        {
            **found,
            "association": np.nan,
            "context": context,
            "copying": context,
            "cut_the": (dims, cut[..., 2]),
            "cut_right": (dims, cut[..., 0]),
        },
        {"weight": [f"{layer + 1}" for layer in range(model.layers)], "rank": [*ranks, WHOLE]},
    )


WHOLE = 2**31 - 1
"""The rank under which a model is as it is."""


def _article(model: Any, prompts: Iterable[str]) -> tuple[float, float]:
    texts = list(prompts)
    chances = model.next_token_probs(texts)
    tokens = np.array([model.token_after(text, ASSOCIATION) for text in texts])
    return float(chances[np.arange(len(texts)), tokens].mean()), float(rank_of_token(chances, tokens).mean())


def _picked(model: Any, texts: list[str], words: np.ndarray) -> np.ndarray:
    return np.take_along_axis(model.next_token_probs(texts), words, axis=1)


def _cut(model: Any, texts: list[str], words: np.ndarray, layer: int, rank: int) -> np.ndarray:
    with model.truncated(layer, MATRIX, rank=rank):
        return _picked(model, texts, words)
