"""Questions to a language model at a checkpoint: words after which "the" is likely, and places of a held-out text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dynascope.tasks.prompts import PREPOSITIONS

ARTICLE = "the"
FREQUENT = 40
"""The number of most frequent words that are excluded from tests of copying."""
OTHERS = 30
"""The number of frequent words, not prepositions, that are tested too."""

Tokens = Int[np.ndarray, " n"]
Chances = Float[Array, "question vocabulary"]


class Questions(NamedTuple):
    """Windows of a text, and the next tokens."""

    windows: Int[Array, "question context"]
    label: Int[Array, " question"]

    def answers(self, model: Any) -> Chances:
        """The model's probabilities of the token after each window."""
        return answers(model, self.windows)

    def gain(self, model: Any) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The mean log-probability of the next token given the last word only, and the gain from the words before.

        The last word is given in another context: that of the window half of the list away."""
        mixed = jnp.roll(self.windows, len(self.windows) // 2, axis=0).at[:, -1].set(self.windows[:, -1])
        whole, last = (jnp.mean(jnp.log(of_label(answers(model, each), self.label))) for each in (self.windows, mixed))
        return last, whole - last


class TextQuestions(NamedTuple):
    """All questions on one text. Tokens are in the order of their frequency; 0 stands for rare words."""

    article: int
    prepositions: tuple[int, ...]
    others: tuple[int, ...]
    """Frequent words that are not prepositions."""
    after: Questions
    """Windows that end in a preposition and do not have "the"; no rare word comes next."""
    again: Questions
    """Windows in which the next word, not one of the most frequent, has occurred."""
    anywhere: Questions
    unigram: float
    """The mean log-probability of the next token `anywhere` by its frequency in the training text."""

    def ask(self, model: Any) -> dict[str, Float[Array, ""]]:
        """Means over questions: the probability and the rank of "the" after a preposition alone (`word`), after other
        words alone (`other`) and after windows that end in a preposition (`text`); nats gained over frequencies by the
        last word (`association`) and by the words before it (`context`), and by these if words recur (`copying`)."""
        found: dict[str, Float[Array, ""]] = {}
        alone = {name: answers(model, jnp.array(ids)[:, None]) for name, ids in self._alone().items()}
        for name, chances in {**alone, "text": self.after.answers(model)}.items():
            found[f"{name}_the"] = jnp.mean(chances[:, self.article])
            found[f"{name}_rank"] = jnp.mean(rank(chances, self.article))
        last, context = self.anywhere.gain(model)
        return {**found, "association": last - self.unigram, "context": context, "copying": self.again.gain(model)[1]}

    def _alone(self) -> dict[str, tuple[int, ...]]:
        return {"word": self.prepositions, "other": self.others}

    def rivals(self, model: Any) -> dict[str, Float[Array, " question"]]:
        """After windows that end in a preposition: the probabilities of "the" and of the true next token."""
        chances = self.after.answers(model)
        return {"the": chances[:, self.article], "right": of_label(chances, self.after.label)}


def text_questions(
    trained: Tokens, held_out: Int[np.ndarray, " m"], alphabet: Sequence[str], context: int, count: int
) -> TextQuestions:
    """The questions, up to `count` of each kind, spread over the held-out text."""
    if ARTICLE not in alphabet or not set(PREPOSITIONS) & set(alphabet):
        raise ValueError('the vocabulary must have "the" and a preposition: a longer text or a larger vocabulary')
    prepositions = tuple(alphabet.index(word) for word in PREPOSITIONS if word in alphabet)
    article = alphabet.index(ARTICLE)
    plain = [i for i, word in enumerate(alphabet) if i and word.isalpha() and i != article and i not in prepositions]
    ends = np.arange(context - 1, len(held_out) - 1)
    windows = np.lib.stride_tricks.sliding_window_view(held_out[:-1], context)
    label = held_out[ends + 1]
    leads = np.isin(windows[:, -1], prepositions) & np.all(windows != article, axis=1) & (label > 0)
    recurs = np.any(windows[:, :-1] == label[:, None], axis=1) & (windows[:, -1] != label) & (label > FREQUENT)
    after, again = (_spread(windows, label, which, count) for which in (leads, recurs))
    anywhere = _spread(windows, label, np.ones(len(label), bool), count)
    shares = np.bincount(trained, minlength=len(alphabet)) / len(trained)
    unigram = float(np.mean(np.log(np.maximum(shares, 1 / len(trained))[np.asarray(anywhere.label)])))
    return TextQuestions(article, prepositions, tuple(plain[:OTHERS]), after, again, anywhere, unigram)


def _spread(windows: np.ndarray, label: np.ndarray, which: np.ndarray, count: int) -> Questions:
    found = np.flatnonzero(which)
    if len(found) < 2:
        raise ValueError("the held-out text has too few of the places to be tested: give a longer text")
    chosen = found[np.unique(np.linspace(0, len(found) - 1, min(count, len(found))).round().astype(int))]
    return Questions(jnp.asarray(windows[chosen]), jnp.asarray(label[chosen]))


def answers(model: Any, windows: Int[Array, "question context"]) -> Chances:
    """The model's probabilities of the token after each window."""
    return jax.nn.softmax(jax.vmap(lambda window: model(window)[-1])(windows))


def rank(chances: Chances, token: int) -> Float[Array, " question"]:
    """The rank of a token among all, 1 for the most probable."""
    return 1 + jnp.sum(chances > chances[:, token, None], axis=1).astype(chances.dtype)


def of_label(chances: Chances, label: Int[Array, " question"]) -> Float[Array, " question"]:
    """The probabilities of the labels."""
    return jnp.take_along_axis(chances, label[:, None], axis=1)[:, 0]


def shares_after(tokens: Tokens, words: Sequence[int], following: int) -> Float[np.ndarray, " word"]:
    """The frequency of `following` after each of these words, the prediction from the last word alone."""
    after = tokens[1:] == following
    return np.array([after[tokens[:-1] == word].mean() for word in words])
