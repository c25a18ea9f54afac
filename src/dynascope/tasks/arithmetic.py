"""Arithmetic word problems for language models: prompts with worked examples, and the number in an answer.

"Simple structures in neural networks", Section 4.5.2. The worked examples are written for this library, in the form of
the chain-of-thought prompts of Wei et al. (2022).
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from dynascope import checks

NEXT_QUESTION = "Q:"
"""The text with which a model begins another question."""
_NUMBER = re.compile(r"-?\$?\d[\d,]*(?:\.\d+)?")


class Problem(NamedTuple):
    """A question in words, and its answer."""

    question: str
    """The question."""
    answer: float
    """The number that answers it."""


class Worked(NamedTuple):
    """An example: a question, the steps to its answer, and the answer."""

    question: str
    """The question."""
    steps: str
    """The steps to its answer, in words."""
    answer: int
    """The answer."""


WORKED = (
    Worked(
        "A shelf holds 12 books. Nina takes 5 of them home and brings 2 others. How many books are on the shelf?",
        "After Nina takes 5 books, 12 - 5 = 7 are left. She brings 2, so there are 7 + 2 = 9.",
        9,
    ),
    Worked(
        "Each of 4 tables has 6 chairs, and 3 chairs stand in the corner. How many chairs are there?",
        "The tables have 4 * 6 = 24 chairs. With the 3 in the corner there are 24 + 3 = 27.",
        27,
    ),
    Worked(
        "Omar has 20 coins. He gives half of them to his sister and then finds 4. How many coins does he have?",
        "Half of 20 is 20 / 2 = 10, so he keeps 10. With the 4 that he finds he has 10 + 4 = 14.",
        14,
    ),
    Worked(
        "A train has 8 cars with 40 seats each. 290 seats are taken. How many seats are free?",
        "There are 8 * 40 = 320 seats. 320 - 290 = 30 are free.",
        30,
    ),
    Worked(
        "Pens cost 3 dollars and pads 5 dollars. What do 4 pens and 2 pads cost, in dollars?",
        "The pens cost 4 * 3 = 12 dollars, the pads 2 * 5 = 10 dollars. Together that is 12 + 10 = 22.",
        22,
    ),
    Worked(
        "Eva runs 3 miles on each of 5 days and 7 miles on Sunday. How many miles does she run in the week?",
        "On the 5 days she runs 5 * 3 = 15 miles. With Sunday it is 15 + 7 = 22.",
        22,
    ),
    Worked(
        "A baker makes 60 rolls and packs them in bags of 4. He sells 9 bags. How many bags are left?",
        "He has 60 / 4 = 15 bags. After 9 are sold, 15 - 9 = 6 are left.",
        6,
    ),
    Worked(
        "Ben is 7 years old. His aunt is 4 times as old. How old will she be in 10 years?",
        "His aunt is 4 * 7 = 28 years old. In 10 years she will be 28 + 10 = 38.",
        38,
    ),
)


def few_shot(question: str, shots: int) -> str:
    """A prompt with worked examples before the question.

    Args:
        question: The question.
        shots: Number of worked examples, 0 to 8.
    """
    checks.whole("shots", shots, at_least=0, at_most=len(WORKED))
    if not isinstance(question, str) or not question.strip():
        raise TypeError(f"question must be a text; got {checks.shown(question)}")
    examples = [f"Q: {each.question}\nA: {each.steps} The answer is {each.answer}.\n\n" for each in WORKED[:shots]]
    return f"{''.join(examples)}Q: {question.strip()}\nA:"


def answer_in(text: str) -> float | None:
    """The number that a model's text gives as the answer: after "The answer is", or else the last; None if there is
    none.

    Args:
        text: The text.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a string; got {checks.shown(text)}")
    _, said, after = text.partition("The answer is")
    numbers = _NUMBER.findall(after) if said else []
    found = numbers[0] if numbers else (_NUMBER.findall(text) or [None])[-1]
    return None if found is None else float(found.replace("$", "").replace(",", ""))


def make_problems(count: int, *, seed: int = 0) -> list[Problem]:
    """Problems with random numbers, in one or two simple steps, for a first look at a model.

    Args:
        count: Number of problems.
        seed: Seed of the numbers.
    """
    checks.whole("count", count, at_least=1)
    checks.whole("seed", seed, at_least=0)
    draw, found = np.random.default_rng(seed), []
    for number in range(count):
        a, b, c = (int(value) for value in draw.integers(2, 10, 3))
        found.append(
            (
                Problem(f"A box has {a} red and {b} blue balls. How many balls are in {c} such boxes?", (a + b) * c),
                Problem(f"Ada has {a * b} pears and puts {a} into each bag. How many bags does she fill?", b),
                Problem(f"A farm has {a + b + c} cows. {b} are sold, then {c} more. How many are left?", a),
            )[number % 3]
        )
    return found
