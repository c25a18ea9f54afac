"""Texts as words: the most frequent ones are tokens, all others are one token."""

from __future__ import annotations

import re

import numpy as np

from dynascope.checks import whole
from dynascope.tasks.data.text import Tokens

PARTS = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+|[^\w\s]|_")
"""Words with their apostrophes, numbers, and single punctuation marks."""
RARE = "…"
"""The spelling of the token for all rare words."""


def words(text: str, vocabulary: int) -> Tokens:
    """The words, numbers and marks of a text in lower case, as `vocabulary` tokens, or fewer if the text has fewer.

    Token 0 stands for all rare words; the others are in the order of their frequency, then of the alphabet.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a string; got {type(text).__name__}")
    whole("vocabulary", vocabulary, at_least=2, at_most=2**31 - 1)
    parts = PARTS.findall(text.lower().replace("’", "'"))
    if not parts:
        raise ValueError("text must have words; got none")
    known, where, counts = np.unique(parts, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")[: vocabulary - 1]
    tokens = np.zeros(len(known), np.int32)
    tokens[order] = np.arange(1, len(order) + 1)
    return Tokens(tokens[where], (RARE, *(str(word) for word in known[order])))
