"""Table 4.1, Figures C.2-C.4: truncating one late feed-forward matrix of a pretrained model uncovers its knowledge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import xarray as xr
from pydantic import Field, PositiveInt

from dynascope.checks import InputError
from dynascope.dynamics.monitor import current_monitor
from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.recall.pretrained_drawing import draw_effects, draw_layers
from dynascope.lab.criteria import above, agrees, below, share
from dynascope.lab.experiment import Claims, Figures, OptionalExperiment, Source
from dynascope.lm import best_truncation, load_lm, missing_model, rank_of_token, ratio_gain, truncation_table
from dynascope.tasks.prompts import (
    ASSOCIATION,
    CITIES,
    DEMO,
    MADRID,
    REFERENCE_FACTS,
    REFERENCE_INDIRECT_OBJECTS,
    Prompt,
    indirect_objects,
)

if TYPE_CHECKING:
    from dynascope.lm import LanguageModel

TASKS = ("facts", "objects")
SMOLLM2 = {
    "full": (0.084, 0.358, 0.606),
    (29, "up", 5): (0.193, 0.097, 0.572),
    (29, "up", 115): (0.195, 0.092, 0.615),
    (29, "gate", 5): (0.161, 0.202, 0.553),
    (29, "out", 5): (0.165, 0.137, 0.450),
}
"""SmolLM2 with a layer and matrix cut to a rank, by a program independent of this library: the means of P(target) and
P(the) over the facts, and of P(indirect object)."""
SHARES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
DEMO_WORDS = (DEMO.target, " them", ASSOCIATION, DEMO.subject)
DEMO_LAYERS = 4


class Pretrained(OptionalExperiment):
    """Does truncating one late feed-forward matrix of a pretrained model make it recall instead of associate?"""

    id = "recall.pretrained"
    source = Source(SIMPLE_STRUCTURES, "Table 4.1, Figures C.2-C.4")
    cost = {"quick": 45, "full": 230}
    presets = {"quick": {"last_layers": 4, "unseen": 32}}
    control = {"matrices": ("q", "v", "o")}
    notes = """The document's models are Pythia and GPT-2. The default model is SmolLM2 with 135 million parameters,
    which the document does not use; any other can be named. A search over layers, matrices and ranks takes the
    truncation with the largest ratio of mean P(target) to mean P(" the") among those that do not lower P(target), on
    the document's facts and on 30 indirect-object prompts. It is judged on other prompts: cities, and indirect objects
    with other names, places and gifts, drawn by the seed. Quick searches the last four layers only. The control
    truncates attention instead."""

    model: str = Field("smollm2", min_length=1)
    """`smollm2`, a folder, a .gguf file, or a name in the cache of a hub."""
    revision: str = ""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    last_layers: Annotated[int, Field(ge=0)] = 0
    """Number of searched layers, from the last one; 0 for all."""
    matrices: tuple[Literal["in", "gate", "up", "out", "q", "k", "v", "o"], ...] = ()
    """The matrices that are cut; all of the feed-forward layer if none are given."""
    ranks: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (5, 115)
    unseen: PositiveInt = 100
    """The number of indirect-object prompts on which the truncation is judged."""

    def missing(self) -> str:
        return missing_model(self.model, field="model")

    def data_sets(self) -> tuple[str, ...]:
        path = Path(self.model).expanduser()
        return (self.model,) if self.model == "smollm2" or path.is_dir() else ()

    def measure(self, seed: int) -> xr.DataTree:
        model = load_lm(self.model, revision=self.revision or None, dtype=self.dtype)
        first = max(1, model.layers - self.last_layers + 1) if self.last_layers else 1
        layers = range(first, model.layers + 1)
        matrices = self.matrices or (("gate", "up", "out") if "gate" in model.matrices else ("in", "out"))
        for matrix in matrices:
            has_matrix(model, 1, matrix)
        drawn = indirect_objects(self.unseen, seed=seed, varied=True)
        seen = {"facts": REFERENCE_FACTS, "objects": REFERENCE_INDIRECT_OBJECTS}
        unseen = {"facts": CITIES, "objects": drawn}
        nodes, found = {}, []
        for task in TASKS:
            prompts, words = usable(model, seen[task])
            nodes[task] = truncation_table(
                model, prompts, words, layers=layers, matrices=matrices, ranks=self.ranks, progress=_tell
            )
            best = best_truncation(nodes[task])
            found.append((best["layer"], matrices.index(best["matrix"]), best["rank"]))
            prompts, words = usable(model, unseen[task])
            layer, matrix, rank = ((best[name],) for name in ("layer", "matrix", "rank"))
            other = truncation_table(model, prompts, words, layers=layer, matrices=matrix, ranks=rank)
            cut = other.probability.isel(layer=0, matrix=0, rank=0, drop=True)
            nodes[f"unseen_{task}"] = xr.Dataset({"full": other.full, "cut": cut})
            if task == "facts":
                nodes["madrid"] = _madrid(model, best["layer"], best["matrix"], best["rank"])
        last = range(max(1, model.layers - DEMO_LAYERS + 1), model.layers + 1)
        ranks = tuple(int(share * min(model.weight(1, "in").shape)) for share in SHARES)
        demo = truncation_table(model, [DEMO.text], [DEMO_WORDS], layers=last, matrices=("in",), ranks=ranks)
        nodes["demo"] = demo.isel(matrix=0, prompt=0, drop=True)
        places = xr.DataArray(found, dims=("task", "part"), coords={"task": list(TASKS)})
        nodes["found"] = xr.Dataset({"place": places, "layers": model.layers})
        return xr.DataTree.from_dict(nodes)

    def reduce(self, measured: xr.DataTree, predicted: None) -> xr.DataTree:
        gains, ends, changes, means = [], [], [], []
        for task in TASKS:
            table, other = measured[task].to_dataset(), measured[f"unseen_{task}"].to_dataset()
            cut, full = table.probability.mean("prompt"), table.full.mean("prompt")
            ratio = cut.isel(word=0) / cut.isel(word=-1) / (full.isel(word=0) / full.isel(word=-1))
            gains.append(ratio.drop_vars("prompt", errors="ignore"))
            means.append(xr.Dataset({"cut": cut.isel(word=[0, -1]), "full": full.isel(word=[0, -1])}))
            ends.append(ratio_gain(other.full.values, other.cut.values))
            both = other.mean("prompt").isel(word=[0, -1])
            changes.append((both.cut / both.full).values)
        task = xr.IndexVariable("task", list(TASKS))
        found = measured["found"].to_dataset()
        numbers = {
            "gain": (("task", "end"), np.array(ends)),
            "change": (("task", "word"), np.array(changes)),
            "layer": ("task", found.place.values[:, 0]),
            "depth": ("task", found.place.values[:, 0] / float(found.layers)),
        }
        unseen = xr.Dataset(numbers, {"task": list(TASKS), "end": ["value", "low", "high"], "word": ["target", "the"]})
        table = xr.concat(means, task).assign(gain=xr.concat(gains, task))
        demo = measured["demo"].to_dataset()
        the = DEMO_WORDS.index(ASSOCIATION)
        the_falls = (demo.probability / demo.full).isel(word=the).assign_coords(rank=list(SHARES)).rename(rank="share")
        return xr.DataTree.from_dict(
            {
                "unseen": unseen,
                "table": table,
                "demo": xr.Dataset({"the": the_falls}),
                "madrid": measured["madrid"].to_dataset(),
                "objects": xr.Dataset({"likeliest": measured["unseen_objects"].cut.argmax("word") == 0}),
            }
        )

    def judge(self, reduced: xr.DataTree) -> Claims:
        unseen, table = reduced["unseen"].to_dataset(), reduced["table"].to_dataset()
        low, value = unseen.gain.sel(end="low"), unseen.gain.sel(end="value")
        statement = 'The truncation that the search finds raises P(target)/P(" the") on prompts it has not seen: '
        shown = {f"{task}, factor": float(value.sel(task=task)) for task in TASKS}
        statement += "by this factor at least, the lower end of a 95 % interval over prompts"
        yield above("unseen", statement, low, 3, shown=shown)
        statement = "It is one of the last third of the layers (layer, over their number)"
        yield above("late", statement, unseen.depth, 2 / 3, source="Section 4.5")
        statement = 'On unseen prompts P(" the") falls (over that of the whole model)'
        yield below("the-falls", statement, unseen.change.sel(word="the"), 0.5, source="Figures C.2, C.3")
        statement = 'while the indirect object stays likelier than the subject and " the"'
        yield share("object-stays", statement, reduced["objects"]["likeliest"], 0.9, source="Figure C.2")
        madrid = reduced["madrid"].to_dataset()
        statement = f"“{MADRID.text}” goes on with{MADRID.target} once the matrix is cut (place among the predictions)"
        shown = {"before": int(madrid.place.sel(model="full"))}
        yield below("madrid", statement, madrid.place.sel(model="cut"), 2, shown=shown, source="Table 4.1")
        demo = reduced["demo"]["the"].sel(layer=int(unseen.layer.sel(task="objects")), share=slice(0.1, 0.8))
        statement = 'In the document\'s indirect-object prompt P(" the") falls at any share of the rank from 0.1 to 0.8'
        yield below("shares", statement, demo, 0.5, source="Figure C.4")
        if self.model == "smollm2" and {"gate", "up", "out"} <= set(table.matrix.values):
            last = table.gain.isel(layer=-1, rank=0).sel(matrix=["up", "out"])
            statement = "The last layer is not the one in this model: cut to the smallest rank there, the ratio falls"
            yield below("last-layer", statement, last, 1)
            if {5, 115} <= set(self.ranks) and 29 in table.layer.values:
                statement = "Probabilities of the whole model and of layer 29 are those that another program measured"
                found, wanted = [_row(table, place) for place in SMOLLM2], np.array(list(SMOLLM2.values()))
                yield agrees("smollm2", statement, np.array(found), wanted, relative=0.02, source="measured apart")

    def draw(self, measured: xr.DataTree, predicted: None, reduced: xr.DataTree) -> Figures:
        places = {task: measured["found"].place.sel(task=task).values.tolist() for task in TASKS}
        return {"layers": draw_layers(reduced, places), "effects": draw_effects(measured, SHARES, DEMO_WORDS)}


def _row(table: xr.Dataset, place: str | tuple[int, str, int]) -> list[float]:
    """The means of a row of the table: of facts the target and " the", and the indirect object."""
    if isinstance(place, str):
        means = table.full
    else:
        layer, matrix, rank = place
        means = table.cut.sel(layer=layer, matrix=matrix, rank=rank)
    facts, objects = means.sel(task="facts").values, means.sel(task="objects").values
    return [float(facts[0]), float(facts[1]), float(objects[0])]


def has_matrix(model: LanguageModel, layer: int, matrix: str) -> None:
    """Raise an error, in one sentence, if the model lacks this layer or this matrix."""
    if layer > model.layers:
        raise InputError(f"layer must be one of the {model.layers} layers of this model; got {layer}")
    if matrix not in model.matrices:
        raise InputError(f"matrices of this model are {', '.join(model.matrices)}; got {matrix}")


def usable(model: LanguageModel, prompts: Sequence[Prompt]) -> tuple[list[str], list[tuple[str, ...]]]:
    """The prompts whose words are single tokens of this model, and these words: the target first, " the" last."""
    texts, words = [], []
    for prompt in prompts:
        wanted = tuple(word for word in (prompt.target, prompt.subject, ASSOCIATION) if word)
        try:
            for word in wanted:
                model.token_after(prompt.text, word)
        except ValueError:
            continue
        texts.append(prompt.text)
        words.append(wanted)
    if len(texts) < 2:
        raise InputError(f"model must have single tokens for the words of the prompts; it has for {len(texts)} of them")
    return texts, words


def _madrid(model: LanguageModel, layer: int, matrix: str, rank: int) -> xr.Dataset:
    """The five likeliest tokens of the whole model after the prompt of Table 4.1, before and after the truncation, and
    the rank of the target among all."""
    full = model.next_token_probs([MADRID.text])
    with model.truncate(layer, matrix, rank=rank):
        cut = model.next_token_probs([MADRID.text])
    top = np.argsort(-full[0])[:5]
    target = model.token_after(MADRID.text, MADRID.target, first=True)
    both = np.concatenate([full, cut])
    return xr.Dataset(
        {"probability": (("model", "token"), both[:, top]), "place": ("model", rank_of_token(both, target))},
        {"model": ["full", "cut"], "token": [model.tokenizer.decode([int(token)]) for token in top]},
    )


def _tell(done: int, total: int) -> None:
    current_monitor().progress(float(done), float(total), "layers")
