"""Texts as their most frequent words."""

import numpy as np
import pytest

from dynascope.tasks.data.words import RARE, words


def spelled(found):
    return [found.alphabet[token] for token in found.tokens]


def test_frequent_words_are_tokens_in_the_order_of_their_frequency():
    found = words("To be, or not to be: to the Lord's 12 men.", 5)
    assert found.alphabet == (RARE, "to", "be", ",", ".")
    said = ["to", "be", ",", RARE, RARE, "to", "be", RARE, "to", RARE, RARE, RARE, RARE, "."]
    assert spelled(found) == said


def test_apostrophes_belong_to_words_and_marks_stand_alone():
    assert spelled(words("Lord's, don’t_3!", 99)) == ["lord's", ",", "don't", "_", "3", "!"]


def test_every_word_is_a_token_where_there_is_room():
    found = words("a b a", 99)
    assert found.alphabet == (RARE, "a", "b")
    np.testing.assert_array_equal(found.tokens, [1, 2, 1])


def test_a_text_without_words_and_too_few_tokens_are_refused():
    with pytest.raises(ValueError, match="must have words"):
        words(" \n", 5)
    with pytest.raises(ValueError, match="vocabulary must be"):
        words("a b", 1)
