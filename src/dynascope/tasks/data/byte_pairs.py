"""Texts as byte-pair tokens, learned from the text itself.

Sennrich, Haddow and Birch, "Neural machine translation of rare words with subword units" (2016), on characters: the
pair of neighboring tokens that occurs most often within words is merged into a new token, again and again. A word
includes the space before it; all other whitespace is a word by itself. No token crosses words, so only distinct words
have to be processed, and the tokens of a text spell it exactly.
"""

from __future__ import annotations

import re

import numpy as np
from jaxtyping import Int

from dynascope.checks import whole
from dynascope.tasks.data.text import Tokens, encode

WORDS = re.compile(r" ?[^\s]+|\s")
BETWEEN = -1
"""The separator of two words in the concatenation of all words."""


def pieces(text: str, vocabulary: int) -> Tokens:
    """The text in `vocabulary` tokens, or fewer once no pair occurs twice. Its alphabet has the characters first, then
    the merged pairs in their order."""
    if not text:
        raise ValueError("text must not be empty")
    words, where, counts = np.unique(WORDS.findall(text), return_inverse=True, return_counts=True)
    letters = encode("".join(words))
    whole("vocabulary", vocabulary, at_least=len(letters.alphabet))
    alphabet, lengths = list(letters.alphabet), np.char.str_len(words)
    line = np.insert(letters.tokens, np.cumsum(lengths), BETWEEN).astype(np.int64)
    weight = np.repeat(counts, lengths + 1)
    while len(alphabet) < vocabulary:
        pair = _commonest(line, weight, len(alphabet))
        if pair is None:
            break
        line, weight = _merged(line, weight, pair, len(alphabet))
        alphabet.append(alphabet[pair[0]] + alphabet[pair[1]])
    return Tokens(_spelled(line, where), tuple(alphabet))


def _commonest(line: np.ndarray, weight: np.ndarray, size: int) -> tuple[int, int] | None:
    """The pair of neighbors within words that occurs most often in the text, if any occurs twice."""
    inside = (line[:-1] != BETWEEN) & (line[1:] != BETWEEN)
    codes, places = np.unique(line[:-1][inside] * size + line[1:][inside], return_inverse=True)
    if not len(codes):
        return None
    totals = np.bincount(places, weights=weight[:-1][inside])
    best = int(np.argmax(totals))
    return divmod(int(codes[best]), size) if totals[best] > 1 else None


def _merged(line: np.ndarray, weight: np.ndarray, pair: tuple[int, int], piece: int) -> tuple[np.ndarray, np.ndarray]:
    """The line with the pair merged, from the left: of three equal neighbors the first two are merged."""
    first = np.flatnonzero((line[:-1] == pair[0]) & (line[1:] == pair[1]))
    if pair[0] == pair[1] and len(first):  # in a run of overlapping matches every second one counts
        begins = np.r_[True, np.diff(first) > 1]
        since = np.arange(len(first)) - np.maximum.accumulate(np.where(begins, np.arange(len(first)), 0))
        first = first[since % 2 == 0]
    line = line.copy()
    line[first] = piece
    kept = np.ones(len(line), bool)
    kept[first + 1] = False
    return line[kept], weight[kept]


def _spelled(line: np.ndarray, where: np.ndarray) -> Int[np.ndarray, " n"]:
    """The tokens of the whole text, from those of its distinct words and the word at each position."""
    ends = np.flatnonzero(line == BETWEEN)
    starts = np.r_[0, ends[:-1] + 1]
    lengths = (ends - starts)[where]
    offsets = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return line[np.repeat(starts[where], lengths) + offsets].astype(np.int32)
