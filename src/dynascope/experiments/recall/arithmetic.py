"""Table 4.2: arithmetic word problems, with the feed-forward output of one late layer truncated."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import xarray as xr
from pydantic import Field, PositiveInt

from dynascope.dynamics.monitor import current_monitor
from dynascope.experiments.documents import SIMPLE_STRUCTURES
from dynascope.experiments.recall.pretrained import has_matrix
from dynascope.figures import FAINT, PALETTE, panels
from dynascope.lab.claims import wilson_interval
from dynascope.lab.criteria import above, below, share
from dynascope.lab.experiment import Claims, Figures, OptionalExperiment, Source
from dynascope.lm import load_lm, missing_model
from dynascope.tasks.arithmetic import NEXT_QUESTION, answer_in, few_shot, make_problems
from dynascope.tasks.data import gsm8k

ENOUGH = 100
"""The number of problems from which accuracies are compared."""


class Arithmetic(OptionalExperiment):
    """Does truncating a late feed-forward matrix help a language model with word problems after few examples?"""

    id = "recall.arithmetic"
    source = Source(SIMPLE_STRUCTURES, "Table 4.2")
    cost = {"quick": 33, "full": 14400}
    presets = {
        "quick": {"model": "smollm2", "layer": 29, "dtype": "float32"}
        | {"problems": "made", "count": 4, "shots": (1,), "tokens": 40}
    }
    control = {"share": 1.0}
    notes = """The document's setting is Phi-3 on the 1,319 problems of GSM8K, for a GPU; its prompt is not stated, so
    the worked examples are the library's own. To use another model, give its name and its layer. Quick runs the whole
    pipeline with
    SmolLM2 on four simple problems, too few for a claim about accuracy. From 100 problems on, the main claim is about
    accuracy. The control keeps the whole matrix."""

    model: str = Field("microsoft/Phi-3-mini-4k-instruct", min_length=1)
    """`smollm2`, a folder, a .gguf file, or a name in the cache of a hub."""
    revision: str = ""
    dtype: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    problems: Literal["gsm8k", "made"] = "gsm8k"
    count: PositiveInt = 1319
    shots: Annotated[tuple[Annotated[int, Field(ge=0, le=8)], ...], Field(min_length=1)] = (1, 2, 4, 8)
    layer: PositiveInt = 28
    matrix: Literal["in", "gate", "up", "out", "q", "k", "v", "o"] = "out"
    share: float = Field(0.02, ge=0, le=1)
    """The share of the rank that is kept."""
    tokens: PositiveInt = 400
    batch: PositiveInt = 8

    def missing(self) -> str:
        return missing_model(self.model, field="model")

    def data_sets(self) -> tuple[str, ...]:
        local = self.model == "smollm2" or Path(self.model).expanduser().is_dir()
        return (*((self.model,) if local else ()), *(("gsm8k",) if self.problems == "gsm8k" else ()))

    def measure(self, seed: int) -> xr.Dataset:
        asked = make_problems(self.count, seed=seed) if self.problems == "made" else gsm8k.problems()[: self.count]
        model = load_lm(self.model, revision=self.revision or None, dtype=self.dtype)
        has_matrix(model, self.layer, self.matrix)
        answers = []
        for number, shots in enumerate(self.shots):
            prompts = [few_shot(problem.question, shots) for problem in asked]
            whole = model.continuations(prompts, tokens=self.tokens, until=NEXT_QUESTION, batch=self.batch)
            current_monitor().progress(number + 0.5, float(len(self.shots)), "evaluations")
            with model.truncate(self.layer, self.matrix, share=self.share):
                cut = model.continuations(prompts, tokens=self.tokens, until=NEXT_QUESTION, batch=self.batch)
            current_monitor().progress(number + 1.0, float(len(self.shots)), "evaluations")
            answers.append([[answer_in(text) for text in written] for written in (whole, cut)])
        return xr.Dataset(
            {
                "answer": (("shots", "model", "problem"), np.array(answers, float)),  # NaN if there is none
                "wanted": ("problem", [problem.answer for problem in asked]),
            },
            {"shots": list(self.shots), "model": ["whole", "cut"]},
        )

    def reduce(self, measured: xr.Dataset, predicted: None) -> xr.Dataset:
        answer, right = measured.answer.fillna(np.inf), measured.answer == measured.wanted
        paired = right.sel(model="cut").astype(float) - right.sel(model="whole").astype(float)
        return xr.Dataset(
            {
                "readable": measured.answer.notnull(),
                "changed": answer.sel(model="cut") != answer.sel(model="whole"),
                "accuracy": right.mean("problem"),
                "gain": paired.mean("problem"),
                "error": paired.std("problem") / np.sqrt(measured.sizes["problem"]),
            }
        )

    def judge(self, reduced: xr.Dataset) -> Claims:
        if reduced.sizes["problem"] >= ENOUGH:
            shown = {f"{shots} shots": reduced.accuracy.sel(shots=shots).values for shots in self.shots}
            few = reduced.sel(shots=[shots for shots in self.shots if shots <= 2])
            statement = "After one or two examples the truncation raises accuracy (the lower end of a 95 % interval)"
            printed = (
                "LASER improves the few-shot Chain-of-Thought [...] performance on GSM8K when only using 1 or 2 shots"
            )
            yield above("few-shots", statement, few.gain - 1.96 * few.error, 0, printed=printed, shown=shown)
            many = reduced.sel(shots=[shots for shots in self.shots if shots >= 8])
            statement, printed = (
                "After eight it lowers accuracy",
                "the performance is worse in the standard 8-shot setting",
            )
            yield below("many-shots", statement, many.gain, 0, printed=printed)
        statement = "The truncation changes the number that is answered, in most problems"
        yield share("changes", statement, reduced.changed, 0.5)
        statement = "The truncated model still answers with a number"
        yield share("readable", statement, reduced.readable.sel(model="cut"), 0.5)

    def draw(self, measured: xr.Dataset, predicted: None, reduced: xr.Dataset) -> Figures:
        figure, axis = panels(1)
        of = measured.sizes["problem"]
        for offset, name, color in ((-0.2, "whole", FAINT), (0.2, "cut", PALETTE[1])):
            accuracy = reduced.accuracy.sel(model=name).values
            ends = np.array([wilson_interval(round(value * of), of) for value in accuracy]).T
            places = np.arange(len(self.shots)) + offset
            axis.bar(places, 100 * accuracy, 0.38, color=color, label="whole model" if name == "whole" else "cut")
            axis.errorbar(places, 100 * accuracy, 100 * np.abs(ends - accuracy), fmt="none", color="black", linewidth=1)
        axis.set_xticks(range(len(self.shots)), [str(shots) for shots in self.shots])
        axis.set(xlabel="worked examples", ylabel="right answers, %", ylim=(0, 100), title=f"{of} problems")
        axis.legend()
        return {"arithmetic": figure}
