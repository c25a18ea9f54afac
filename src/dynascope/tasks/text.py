"""AG News as vectors: weighted counts of its most frequent words (TF-IDF).

Files: `ag_news_train_prefix.csv.gz` and `ag_news_test_7600.csv.gz`, lines of class (1 World, 2 Sports, 3 Business,
4 Science), title, description. "Toward Understanding the Dynamics of Over-parameterized Neural Networks" does not state
its features; these are 1000 words, unit vectors times sqrt(1000).
"""

from __future__ import annotations

import csv
import gzip
import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Float

from dynascope.tasks import files
from dynascope.tasks.image_sources import Images

TRAIN, TEST = "ag_news_train_prefix.csv.gz", "ag_news_test_7600.csv.gz"
_WORD = re.compile(r"[a-z0-9]{2,}")


@cache
def load(terms: int = 1000) -> Images:
    """AG News as rows of length sqrt(terms), classes 0..3. Words and weights are those of the training file."""
    train, y_train = _read(files.need(TRAIN, "AG News, training rows"))
    test, y_test = _read(files.need(TEST, "AG News, test rows"))
    vocabulary = frequent_words(train, terms)
    weights = inverse_frequencies(train, vocabulary)
    return Images(features(train, vocabulary, weights), y_train, features(test, vocabulary, weights), y_test)


def words(text: str) -> list[str]:
    """Lower-case words of two letters or digits and more."""
    return _WORD.findall(text.lower())


def frequent_words(texts: Sequence[str], count: int) -> list[str]:
    """The `count` words that occur most often in all, ties in alphabetical order."""
    total = Counter(word for text in texts for word in words(text))
    return sorted(total, key=lambda word: (-total[word], word))[:count]


def inverse_frequencies(texts: Sequence[str], vocabulary: Sequence[str]) -> Float[np.ndarray, " d"]:
    """ln((1 + n) / (1 + number of texts with the word)) + 1."""
    seen = Counter(word for text in texts for word in set(words(text)))
    return np.array([math.log((1 + len(texts)) / (1 + seen[word])) + 1 for word in vocabulary])


def features(
    texts: Sequence[str], vocabulary: Sequence[str], weights: Float[np.ndarray, " d"]
) -> Float[np.ndarray, "n d"]:
    """Counts times weights, each row scaled to length sqrt(d); a text without any of the words is 0."""
    place = {word: column for column, word in enumerate(vocabulary)}
    counts = np.zeros((len(texts), len(vocabulary)))
    for row, text in enumerate(texts):
        for word, count in Counter(words(text)).items():
            if word in place:
                counts[row, place[word]] = count
    rows = counts * weights
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1) * math.sqrt(len(vocabulary))


def _read(file: Path) -> tuple[list[str], np.ndarray]:
    with gzip.open(file, "rt", encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    return [f"{row['title']} {row['description']}" for row in rows], np.array([int(row["class"]) - 1 for row in rows])
