"""Figures 4.13 and C.1 on the checkpoints of a pretrained model (Pythia's), read from folders on this machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from dynascope.dynamics.monitor import current_monitor
from dynascope.experiments.recall.pretrained import usable
from dynascope.figures import PALETTE
from dynascope.lm import load_lm, missing_extra, missing_model, rank_of_token, truncation_table
from dynascope.tasks.prompts import ASSOCIATION, PREPOSITIONS, SENTENCES, indirect_objects

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dynascope.lm import LanguageModel

OTHERS = ("house", "king", "water", "run", "blue", "seven", "never", "music", "tree", "said", "very", "he", "you", "is")
"""Words that are not prepositions."""
MATRIX = "in"
WHOLE = 2**31 - 1
"""The rank that stands for the whole model."""
WORDS = ("right", "subject", "the")


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


def missing_checkpoints(folder: str) -> str:
    """One line that says what is missing before the checkpoints of a folder can be read; "" if nothing is."""
    if missing := missing_extra():
        return missing
    try:
        places = checkpoint_folders(folder)
    except ValueError as error:
        return str(error)
    told = (missing_model(str(place), field="checkpoints") for place in places.values())
    return next(filter(None, told), "")


def read_checkpoints(folder: str, ranks: Sequence[int], count: int) -> xr.Dataset:
    """The readings of `read_checkpoint`, (seed, step, ...), along the checkpoints of a folder."""
    places, found = checkpoint_folders(folder), []
    for number, place in enumerate(places.values(), start=1):
        found.append(read_checkpoint(load_lm(place), ranks, count))
        current_monitor().progress(float(number), float(len(places)), "checkpoints")
    trace = xr.concat(found, xr.IndexVariable("step", list(places))).expand_dims(seed=[0])
    return trace.assign(is_article=("question", np.zeros(trace.sizes["question"], bool)))


def read_checkpoint(model: LanguageModel, ranks: Sequence[int], count: int) -> xr.Dataset:
    """One checkpoint: probability and rank of "the" after single prepositions (`word`), other words (`other`) and
    sentences (`text`); and after `count` indirect-object prompts the probabilities of the indirect object
    (`cut_right`), the other name (`cut_subject`) and "the" (`cut_the`), (weight, rank, question), with the MLP of
    each layer cut to each rank and, last, whole. `context` is the mean log-ratio of the probabilities of the indirect
    object and the other name."""
    found: dict[str, Any] = {}
    for name, prompts in (("word", PREPOSITIONS), ("other", OTHERS), ("text", SENTENCES)):
        found[f"{name}_the"], found[f"{name}_rank"] = _article(model, prompts)
    table = truncation_table(model, *usable(model, indirect_objects(count)), matrices=(MATRIX,), ranks=ranks)
    cut = table.probability.isel(matrix=0).transpose("layer", "rank", "prompt", "word").values
    whole = table.full.transpose("prompt", "word").values
    both = np.concatenate([cut, np.broadcast_to(whole, (len(cut), 1, *whole.shape))], axis=1)
    found["context"] = float(np.mean(np.log(whole[:, 0]) - np.log(whole[:, 1])))
    for number, name in enumerate(WORDS):
        found[f"cut_{name}"] = (("weight", "rank", "question"), both[..., number])
    return xr.Dataset(found, {"weight": [f"{layer}" for layer in table.layer.values], "rank": [*ranks, WHOLE]})


def draw_objects(axes: Axes, measured: xr.Dataset, layer: int, rank: int) -> None:
    """Figure 4.13: probabilities after indirect-object prompts, of the whole model and, dashed, with an MLP cut."""
    trace = measured.isel(seed=0, step=slice(1, None))
    for (name, label), color in zip(
        (("right", "indirect object"), ("subject", "other name"), ("the", "the")), PALETTE, strict=False
    ):
        chances = trace[f"cut_{name}"].sel(weight=f"{layer}").mean("question")
        axes.plot(trace.step, chances.sel(rank=WHOLE), color=color, label=label)
        axes.plot(trace.step, chances.sel(rank=rank), color=color, linestyle="--")
    axes.set(ylabel="probability", title=f"Whole, and MLP {layer} cut (dashed)")


def _article(model: LanguageModel, prompts: Iterable[str]) -> tuple[float, float]:
    texts = list(prompts)
    chances = model.next_token_probs(texts)
    tokens = np.array([model.token_after(text, ASSOCIATION) for text in texts])
    return float(chances[np.arange(len(texts)), tokens].mean()), float(rank_of_token(chances, tokens).mean())
