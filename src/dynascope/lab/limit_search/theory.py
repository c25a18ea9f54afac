"""The limits of a claim in theory, if the experiment gives them: points over one field, lines over two."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynascope.lab.experiment import BoundedExperiment
from dynascope.lab.limit_search.question import Question

LINE_POINTS = 201
Lines = list[np.ndarray]
"""Places in the unit cube, (point, field), one array for each line."""


def theory_lines(question: Question, claim: str) -> Lines:
    """The limits of theory within the ranges; none for more than two fields.

    Args:
        question: The ranges and the default setting.
        claim: The id of the claim.
    """
    ranges = question.ranges
    experiment = question.default.experiment
    if not isinstance(experiment, BoundedExperiment) or len(ranges) > 2:
        return []
    if len(ranges) == 1:
        found = [ranges[0].coordinate(float(value)) for value in experiment.predict_limits(claim, ranges[0].name)]
        return [np.array([[at]]) for at in found if 0 <= at <= 1]
    return [line for along in (0, 1) for line in _lines(question, claim, along)]


def _lines(question: Question, claim: str, along: int) -> Lines:
    """The limits in one field along the other, each as a line."""
    other, span = 1 - along, question.ranges[1 - along]
    lines: dict[int, list[tuple[float, float]]] = {}
    for at in _coordinates(question, along):
        place = [0.0, 0.0]
        place[along] = at
        experiment = question.setting(question.values((place[0], place[1])), 0).experiment
        assert isinstance(experiment, BoundedExperiment)
        for number, value in enumerate(experiment.predict_limits(claim, span.name)):
            there = span.coordinate(float(value))
            if 0 <= there <= 1:
                pair = [at, at]
                pair[other] = there
                lines.setdefault(number, []).append((pair[0], pair[1]))
    return [np.array(line) for line in lines.values()]


def _coordinates(question: Question, along: int) -> Sequence[float]:
    span = question.ranges[along]
    count = round(1 / span.step) + 1 if span.step else LINE_POINTS
    return np.linspace(0, 1, min(count, LINE_POINTS)).tolist()


def distance_to(lines: Lines, place: Sequence[float]) -> float:
    """How far a place is from the nearest line, in shares of the ranges; infinite without lines.

    Args:
        lines: The lines.
        place: A place.
    """
    return min((_to_line(line, np.asarray(place, float)) for line in lines), default=np.inf)


def _to_line(line: np.ndarray, place: np.ndarray) -> float:
    if len(line) == 1:
        return float(np.linalg.norm(line[0] - place))
    start, way = line[:-1], np.diff(line, axis=0)
    squares = np.maximum((way**2).sum(1), 1e-300)
    share = np.clip(((place - start) * way).sum(1) / squares, 0, 1)
    return float(np.linalg.norm(start + share[:, None] * way - place, axis=1).min())
