"""Word problems: the prompt, the number in an answer, and problems whose answers are right."""

from __future__ import annotations

import re

import pytest

from dynascope.tasks import arithmetic


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (" 3 + 4 = 7. The answer is 7.", 7),
        ("The answer is $1,250.50. Next 3", 1250.5),
        ("It costs 3 dollars, so 12", 12),
        ("The answer is unclear, 5 or 6", 5),
        ("minus -4", -4),
        ("none", None),
        ("The answer is none of 3", 3),
        ("", None),
    ],
)
def test_the_number_in_an_answer(text, number):
    assert arithmetic.answer_in(text) == number


def test_the_prompt_has_as_many_examples_as_asked_and_ends_with_the_question():
    for shots in range(9):
        text = arithmetic.few_shot("How many?", shots)
        assert text.count("Q:") == shots + 1 == text.count("A:")
        assert text.count("The answer is") == shots
        assert text.endswith("Q: How many?\nA:")
    with pytest.raises(ValueError, match="shots must be"):
        arithmetic.few_shot("How many?", 9)
    with pytest.raises(TypeError, match="question must be"):
        arithmetic.few_shot(" ", 1)


def test_worked_examples_are_right():
    for worked in arithmetic.WORKED:
        steps = re.findall(r"(\d+) ([-+*/]) (\d+) = (\d+)", worked.steps)
        assert steps
        for a, sign, b, result in steps:
            values = {"+": int(a) + int(b), "-": int(a) - int(b), "*": int(a) * int(b), "/": int(a) / int(b)}
            assert values[sign] == int(result)
        assert int(steps[-1][3]) == worked.answer


def test_made_problems_have_their_answers():
    found = arithmetic.make_problems(30, seed=1)
    for number, problem in enumerate(found):
        values = [int(value) for value in re.findall(r"\d+", problem.question)]
        wanted = ((values[0] + values[1]) * values[-1], values[0] // values[1], values[0] - values[1] - values[-1])
        assert problem.answer == wanted[number % 3]
    assert found == arithmetic.make_problems(30, seed=1) != arithmetic.make_problems(30, seed=2)
