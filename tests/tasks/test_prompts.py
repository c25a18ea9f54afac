"""Prompts for language models are what the document describes."""

from __future__ import annotations

from collections import Counter

import pytest

from dynascope.tasks import prompts

ENDINGS = (
    {"without": 7}
    | dict.fromkeys(("during", "beneath", "around"), 5)
    | dict.fromkeys(("before", "over", "with"), 3)
    | dict.fromkeys(("above", "along"), 2)
    | dict.fromkeys(("about", "across", "in", "behind", "inside"), 1)
)


def test_forty_sentences_end_as_those_of_the_appendix_and_have_no_the():
    assert Counter(text.split()[-1] for text in prompts.SENTENCES) == ENDINGS
    assert len(set(prompts.SENTENCES)) == 40
    assert all("the" not in text.lower().split() for text in prompts.SENTENCES)


def test_the_sets_have_the_sizes_of_the_document():
    assert len(prompts.FACTS) == 20
    assert len(prompts.PREPOSITIONS) == 30 == len(set(prompts.PREPOSITIONS))
    assert len(prompts.REFERENCE_FACTS) == 16
    assert len(prompts.REFERENCE_INDIRECT_OBJECTS) == 30
    assert len(prompts.NAMES) == len(set(prompts.NAMES)) >= 50


def test_unseen_prompts_are_none_of_those_that_a_search_sees():
    seen = {prompt.text for prompt in (*prompts.FACTS, prompts.MADRID)}
    assert not seen & {prompt.text for prompt in prompts.CITIES}


@pytest.mark.parametrize("varied", [False, True])
def test_the_subject_is_named_twice_and_the_target_once(varied):
    found = prompts.indirect_objects(50, seed=3, varied=varied)
    for prompt in found:
        words = prompt.text.replace(",", "").split()
        assert words.count(prompt.target.strip()) == 1
        assert words.count(prompt.subject.strip()) == 2
        assert "the" not in words
    assert found == prompts.indirect_objects(50, seed=3, varied=varied) != prompts.indirect_objects(50, varied=varied)
    assert {prompt.text.split()[1] == prompt.target.strip() for prompt in found} == {True, False}


def test_malformed_calls_are_refused():
    for arguments in ({"count": 0}, {"count": 2, "seed": -1}, {"count": 2, "names": ("A",)}):
        with pytest.raises((ValueError, TypeError), match=r"must be"):
            prompts.indirect_objects(**arguments)
