"""The answer: where the claim holds, its limits with their uncertainty, the smallest change that breaks it, and
theory's limits beside them; as a dataset and in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from dynascope.lab.formatting import count
from dynascope.lab.limit_search.crossings import Crossing, crossings, share_holding
from dynascope.lab.limit_search.nearest import SmallestChange, smallest_change
from dynascope.lab.limit_search.points import GAP, NOT_JUDGED, Point
from dynascope.lab.limit_search.question import Question
from dynascope.lab.limit_search.ranges import Range
from dynascope.lab.limit_search.theory import Lines, distance_to, theory_lines

DIGITS = 4


@dataclass(frozen=True)
class Answer:
    """The result of a search."""

    question: Question
    claim: str
    """The id of the claim; that of the first one if `main` was given."""
    origin: Point
    points: list[Point]
    crossings: list[Crossing]
    change: SmallestChange | None
    theory: Lines

    @classmethod
    def of(cls, question: Question, claim: str, origin: Point, points: Sequence[Point]) -> Answer:
        """The answer that the points give.

        Args:
            question: The question.
            claim: The id of the claim.
            origin: The default setting.
            points: Every point within the ranges that was run, and the default setting if it has a place.
        """
        seen = sorted((point for point in points if point.outcomes), key=lambda point: point.values)
        found = crossings(seen, question.ranges)
        change = smallest_change(origin, seen, found, question.ranges)
        return cls(question, claim, origin, seen, found, change, theory_lines(question, claim))

    @property
    def runs(self) -> int:
        """The number of runs, with those of the default setting."""
        return sum(len(point.outcomes) for point in self.points) + (
            0 if self.origin.values else len(self.origin.outcomes)
        )

    @property
    def everywhere(self) -> str:
        """`holds` or `fails` if it does so at every point that was judged, `not judged` if none was; else empty."""
        verdicts = {point.holds for point in self.points if point.holds is not None}
        if not verdicts:
            return NOT_JUDGED
        return "" if len(verdicts) == 2 else "holds" if True in verdicts else "fails"

    @property
    def lines(self) -> list[str]:
        """The answer in sentences; a single one if the claim holds, or fails, at every point."""
        question = self.question
        over = " × ".join(span.text for span in question.ranges)
        spent = f"{count(len(self.points), 'point')}, {count(self.runs, 'run')}"
        name = f"{question.kind.id}, {self.claim}"
        if self.everywhere:
            where = f"is {NOT_JUDGED}" if self.everywhere == NOT_JUDGED else self.everywhere
            return [f"{name}: {where} at every point of {over} ({spent}); no limit was found"]
        share = share_holding(self.points, question.ranges)
        lines = [f"{name}: holds in {100 * share:.3g} % of {over} ({spent})", *self._limits(), self._smallest()]
        return [line for line in [*lines, self._theory()] if line]

    def _limits(self) -> list[str]:
        """Each limit of one field; for more fields, how well they are known."""
        ranges = self.question.ranges
        if len(ranges) == 1:
            ordered = sorted(self.crossings, key=lambda each: each.place)
            return [f"limit: {_at(ranges, each.place, each.uncertainty)}, {_sides(each)}" for each in ordered]
        sizes = sorted(each.uncertainty for each in self.crossings)
        if not sizes:
            return []
        middle, most = 100 * sizes[len(sizes) // 2], 100 * sizes[-1]
        known = f"{middle:.2g} % of the ranges in the median, {most:.2g} % at most"
        return [f"limits: {count(len(sizes), 'pair')} of neighbors between which the verdict changes, known to {known}"]

    def _smallest(self) -> str:
        if self.origin.holds is None:
            return "the default setting was not judged"
        verb = "breaks" if self.origin.holds else "makes"
        if self.change is None:
            return "the default setting has no place beside these ranges: a field is no number, or has no logarithm"
        ranges, change = self.question.ranges, self.change
        moved = [
            f"{span.name} {_number(now)} → {_at([span], [at], change.uncertainty).partition('=')[2]}"
            for span, now, at in zip(ranges, self.origin.values, change.place, strict=True)
            if abs(at - span.coordinate(now)) > 1e-9
        ]
        size = f"{100 * change.distance:.3g} % of the ranges"
        return f"the smallest change of the default setting that {verb} it: {', '.join(moved)} ({size})"

    def _theory(self) -> str:
        if not self.theory or not self.crossings:
            return ""
        if len(self.question.ranges) == 1:
            span = self.question.ranges[0]
            return "theory: " + ", ".join(
                f"{span.name}={_number(span.value(float(line[0, 0])))}" for line in self.theory
            )
        apart = 100 * np.array([distance_to(self.theory, each.place) for each in self.crossings])
        middle, most = np.median(apart), apart.max()
        return f"theory: its line is {middle:.2g} % of the ranges away in the median, {most:.2g} % at most"

    def dataset(self) -> xr.Dataset:
        """The points, the limits and theory's lines, each with the values of the fields."""
        ranges = self.question.ranges
        verdicts = {True: "holds", False: "fails", None: NOT_JUDGED}
        rows = {
            "values": [point.values for point in self.points],
            "verdict": [_verdict(point, verdicts) for point in self.points],
            "margin": [point.margin for point in self.points],
            "share": [point.share for point in self.points],
            "low": [point.interval[0] for point in self.points],
            "high": [point.interval[1] for point in self.points],
            "seeds": [len(point.judged) for point in self.points],
        }
        wide = (0, len(ranges))
        found = self.crossings
        theory = [
            (number, *_values(ranges, place)) for number, line in enumerate(self.theory) for place in line.tolist()
        ]
        dims = {"values": ("point", "field")}
        data: dict[str, Any] = {name: (dims.get(name, ("point",)), np.array(values)) for name, values in rows.items()}
        data |= {
            "estimate": (
                ("limit", "field"),
                np.array([_values(ranges, each.place) for each in found]).reshape(-1, wide[1]),
            ),
            "holds_at": (
                ("limit", "field"),
                np.array([each.holds.values for each in found], float).reshape(-1, wide[1]),
            ),
            "fails_at": (
                ("limit", "field"),
                np.array([each.fails.values for each in found], float).reshape(-1, wide[1]),
            ),
            "uncertainty": ("limit", np.array([each.uncertainty for each in found], float)),
            "theory": (("theory_point", "field"), np.array([row[1:] for row in theory], float).reshape(-1, wide[1])),
            "theory_line": ("theory_point", np.array([row[0] for row in theory], int)),
        }
        start = self.origin.values or (math.nan,) * wide[1]
        data["default"] = ("field", np.array(start, float))
        data["smallest_change"] = (
            "field",
            np.array(_values(ranges, self.change.place) if self.change else start, float),
        )
        data["distance"] = ((), self.change.distance if self.change else math.nan)
        return xr.Dataset(data, {"field": [span.name for span in ranges]})


def _verdict(point: Point, verdicts: Mapping[bool | None, str]) -> str:
    gaps = all(outcome.verdict == GAP for outcome in point.outcomes)
    return GAP if gaps and point.outcomes else verdicts[point.holds]


def _values(ranges: Sequence[Range], place: Sequence[float]) -> list[float]:
    """The values at a place, between integers too."""
    return [_between(span, at) for span, at in zip(ranges, place, strict=True)]


def _between(span: Range, at: float) -> float:
    if span.log:
        return span.low * (span.high / span.low) ** at
    return span.low + at * (span.high - span.low)


def _at(ranges: Sequence[Range], place: Sequence[float], uncertainty: float) -> str:
    """`rate=3.99 ± 0.01`."""
    texts = []
    for span, at in zip(ranges, place, strict=True):
        value = _between(span, at)
        apart = max(_between(span, at + uncertainty) - value, value - _between(span, at - uncertainty))
        texts.append(f"{span.name}={_number(value)}" + (f" ± {apart:.2g}" if uncertainty and not span.whole else ""))
    return ", ".join(texts)


def _sides(each: Crossing) -> str:
    return "holds above" if each.holds.place > each.fails.place else "holds below"


def _number(value: float) -> str:
    return f"{value:.{DIGITS}g}"
