"""A claim in one number: the part of what was measured that its expectation speaks of."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile

from dynascope.lab import formatting

READERS: dict[str, Callable[[Sequence[float]], float]] = {
    "largest": max,
    "smallest": min,
    "median": statistics.median,
}
"""The words with which an expectation picks one of many numbers."""
SHARE = ("share", "interval", "of")


def headline(measured: object, expected: object) -> str:
    """The measured value as one number or one pair of numbers; the rest of it is for the details.

    Args:
        measured: The number, list, share or labeled numbers of a claim.
        expected: The number or text that they were compared with, such as "largest < 0.1".

    Returns:
        The text: "0.0234", "100 % of 15", "0.756 → −0.313", "0.9 to 1.2".
    """
    if isinstance(measured, Mapping) and "share" in measured:
        share = {key: measured[key] for key in SHARE if key in measured and key != "interval"}
        return formatting.share(share)
    words = expected if isinstance(expected, str) else ""
    core = measured
    if isinstance(measured, Mapping):
        difference = next((key for key in measured if key.startswith("largest") and "difference" in key), None)
        if "measured" in measured:
            core = measured["measured"]
        elif difference and "difference" in words:
            core = measured[difference]
    return _in_words(_judged(core) if isinstance(core, Mapping) else core, words)


def _judged(core: Mapping[str, object]) -> dict[str, object]:
    """Without what was added for the reader, which comes after the numbers that are judged and is of another form."""

    def form(item: tuple[str, object]) -> tuple[bool, bool]:
        return _is_number(item[0]), isinstance(item[1], Mapping | list)

    items = [(str(key), value) for key, value in core.items()]
    return dict(takewhile(lambda item: form(item) == form(items[0]), items))


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True


def _in_words(core: object, words: str) -> str:
    picked = min((word for word in READERS if word in words), key=words.index, default=None)
    if picked and isinstance(core, Mapping) and picked in core:
        return formatting.text(core[picked])
    if isinstance(core, Mapping) and not picked and {"smallest", "largest"} <= set(core):
        core = [core["smallest"], core["largest"]]
    found = list(_leaves(core))
    if not found:
        return formatting.text(core) if not formatting.is_table(core) else "see the details"
    if picked:
        return formatting.number(READERS[picked](found))
    if len(found) == 1:
        return formatting.number(found[0])
    if words in ("falling", "rising"):
        first, last = _ends(core)
        return f"{formatting.number(first)} → {formatting.number(last)}"
    if isinstance(core, Sequence | Mapping):
        return f"{formatting.number(min(found))} to {formatting.number(max(found))}"
    return formatting.text(core)


def _ends(core: object) -> tuple[float, float]:
    """The ends of a row of numbers, or of the first of several rows."""
    values = list(core.values()) if isinstance(core, Mapping) else core
    assert isinstance(values, Sequence)
    row = list(_leaves(values[0]))
    numbers = row if len(row) > 1 else [next(_leaves(value)) for value in values if len(list(_leaves(value))) == 1]
    return numbers[0], numbers[-1]


def _leaves(value: object) -> Iterator[float]:
    """The numbers in it, at any depth."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, bool | str) or value is None:
        return
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, Sequence):
        for item in value:
            yield from _leaves(item)
