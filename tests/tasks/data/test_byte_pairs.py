"""Text as byte pairs, against the algorithm written out for strings."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dynascope.tasks.data.byte_pairs import WORDS, pieces


def by_strings(text, vocabulary):
    """The same, one word and one pair at a time."""
    words = Counter(WORDS.findall(text))
    spelled = {word: list(word) for word in words}
    alphabet = sorted(set(text))
    while len(alphabet) < vocabulary:
        pairs = Counter()
        for word, count in words.items():
            for pair in zip(spelled[word], spelled[word][1:], strict=False):
                pairs[pair] += count
        if not pairs or max(pairs.values()) < 2:
            break
        rank = {piece: place for place, piece in enumerate(alphabet)}
        left, right = min(pairs, key=lambda pair: (-pairs[pair], rank[pair[0]], rank[pair[1]]))
        for word, parts in spelled.items():
            merged = []
            for part in parts:
                fresh = merged and merged[-1] == left and part == right
                merged[-1:] = [(left + right, "done")] if fresh else [*merged[-1:], part]
            spelled[word] = [part[0] if isinstance(part, tuple) else part for part in merged]
        alphabet.append(left + right)
    return [part for word in WORDS.findall(text) for part in spelled[word]], alphabet


@settings(deadline=None, max_examples=100)
@given(st.text("ab \n", min_size=1, max_size=60), st.integers(4, 12))
def test_it_is_the_algorithm_written_out_for_strings(text, vocabulary):
    found = pieces(text, vocabulary)
    parts, alphabet = by_strings(text, vocabulary)
    assert list(found.alphabet) == alphabet
    assert [found.alphabet[token] for token in found.tokens] == parts


def test_the_text_is_its_pieces_one_after_the_other():
    text = "the cat sat on the mat,\n\n  the other cat did not\tsit — «ça» "
    found = pieces(text, 40)
    assert "".join(found.alphabet[token] for token in found.tokens) == text
    assert " the" in found.alphabet
    assert found.tokens.dtype == np.int32


def test_no_piece_crosses_words_and_what_occurs_once_is_not_merged():
    assert pieces("ab cd", 99).alphabet == (" ", "a", "b", "c", "d")


def test_of_three_equal_neighbors_the_first_two_become_one():
    found = pieces("aaa aaa", 3)
    assert [found.alphabet[token] for token in found.tokens] == ["aa", "a", " ", "aa", "a"]


def test_a_vocabulary_too_small_for_the_characters_gets_one_line():
    with pytest.raises(ValueError, match="vocabulary must be an integer, at least 3; got 2"):
        pieces("abc", 2)


def test_an_empty_text_has_none():
    with pytest.raises(ValueError, match="text must not be empty"):
        pieces("", 10)
