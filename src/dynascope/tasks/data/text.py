"""Texts: how they are found, and their characters as tokens."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from dynascope.tasks.data import catalog, files, packed


class Tokens(NamedTuple):
    """A text as tokens: indices into its alphabet, which spells them."""

    tokens: Int[np.ndarray, " n"]
    alphabet: tuple[str, ...]


def characters(text: str | Path = "tiny_shakespeare") -> Tokens:
    """The characters of a text, which `read_text` finds."""
    return encode(read_text(text))


def read_text(text: str | Path = "tiny_shakespeare") -> str:
    """A file of UTF-8 text (gzipped if its name ends in .gz), or the name of one in $DYNASCOPE_DATA, the cache or the
    package, which carries tiny_shakespeare."""
    path = catalog.find_text(text)
    files.record(str(text))
    try:
        return packed.read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text (byte {error.start} is {error.object[error.start]:#04x})") from None


def encode(text: str) -> Tokens:
    """The text's characters as indices into its sorted alphabet."""
    alphabet, tokens = np.unique(np.frombuffer(text.encode("utf-32-le"), np.uint32), return_inverse=True)
    return Tokens(tokens.astype(np.int32), tuple(chr(code) for code in alphabet))


class Frequencies(NamedTuple):
    """The frequencies of characters in a text, and after one another: distributions, without smoothing."""

    first: Float[np.ndarray, " n"]
    following: Float[np.ndarray, "n n"]
    """Row by row: the distribution after this character; that of all characters if nothing follows it."""
    alphabet: tuple[str, ...]


def character_frequencies(text: str | Path = "tiny_shakespeare") -> Frequencies:
    """The frequencies of the characters of a text, which `read_text` finds, and of those that follow each."""
    tokens, alphabet = characters(text)
    size = len(alphabet)
    first = np.bincount(tokens, minlength=size) / len(tokens)
    pairs = np.bincount(tokens[:-1].astype(np.int64) * size + tokens[1:], minlength=size**2).reshape(size, size)
    total = pairs.sum(1, keepdims=True)
    return Frequencies(first, np.where(total > 0, pairs / np.maximum(total, 1), first), alphabet)
