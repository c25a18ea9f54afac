"""AG News as vectors: weighted counts of its most frequent words (TF-IDF).

Files: `ag_news_csv/train.csv` and `ag_news_csv/test.csv`, as published by the authors of the character-level CNN, or
`ag_news_train_prefix.csv.gz` and `ag_news_test_7600.csv.gz` in their place: rows of class (1 World, 2 Sports,
3 Business, 4 Science), title, description, with or without a header.
"Toward Understanding the Dynamics of Over-parameterized Neural Networks" does not state its features; these are 1000
words, as unit vectors times sqrt(1000). All 120,000 rows take a gigabyte.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Float

from dynascope.checks import sizes
from dynascope.tasks.data import catalog, files, packed
from dynascope.tasks.data.files import TrainTest

FOLDER = "ag_news_csv"
Stamp = tuple[Path, int, int]
_WORD = re.compile(r"[a-z0-9]{2,}")


def load(terms: int = 1000) -> TrainTest:
    """AG News as rows (n, terms) of length sqrt(terms), classes 0 to 3; words and weights are those of the training
    file."""
    sizes(terms=terms)
    train, test = catalog.find("ag_news")
    files.record("ag_news")
    return _load(files.stamp(train), files.stamp(test), terms)


@cache
def _load(train_file: Stamp, test_file: Stamp, terms: int) -> TrainTest:
    (train, y_train), (test, y_test) = (read_rows(file) for file, *_ in (train_file, test_file))
    vocabulary = frequent_words(train, terms)
    weights = inverse_frequencies(train, vocabulary)
    return TrainTest(features(train, vocabulary, weights), y_train, features(test, vocabulary, weights), y_test)


def keep(contents: Mapping[str, bytes]) -> None:
    """Put the downloaded files into the cache."""
    for part, content in contents.items():
        files.keep_bytes(f"{FOLDER}/{part}", content)


def read_rows(file: Path) -> tuple[list[str], np.ndarray]:
    """Titles with descriptions, and classes from 0 to 3."""
    rows = list(csv.reader(io.StringIO(packed.read_bytes(file).decode("utf-8"), newline="")))
    if rows and rows[0][:1] == ["class"]:
        rows = rows[1:]
    for number, row in enumerate(rows, 1):
        if len(row) != 3 or row[0] not in ("1", "2", "3", "4"):
            raise ValueError(f"{file}: row {number} is not class (1 to 4), title, description; got {str(row)[:60]}")
    return [f"{title} {description}" for _, title, description in rows], np.array([int(row[0]) - 1 for row in rows])


def words(text: str) -> list[str]:
    """Lower-case words of two or more letters or digits."""
    return _WORD.findall(text.lower())


def frequent_words(texts: Sequence[str], count: int) -> list[str]:
    """The `count` words that occur most often, ties in alphabetical order."""
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
    counts *= weights  # in place: this is the largest array
    length = np.linalg.norm(counts, axis=1, keepdims=True)
    counts /= np.where(length > 0, length, 1)
    counts *= math.sqrt(len(vocabulary))
    return counts
