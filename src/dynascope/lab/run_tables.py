"""Tables of stored runs for a terminal: a list of runs, and two runs side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Column, Table

from dynascope.lab import formatting
from dynascope.lab.field_types import format_value
from dynascope.lab.inventory import Item
from dynascope.lab.listing import fields_that_differ
from dynascope.lab.terminal import mark, plain_table

if TYPE_CHECKING:
    from dynascope.lab.claims import Claim
    from dynascope.lab.compare import Comparison, Pair
    from dynascope.lab.stored_run import StoredRun

SHORT = 8
"""The digits of a digest that are shown."""
LONGEST = 28


def runs_table(items: Sequence[Item]) -> Table:
    """The runs, a row for each; an id is printed once."""
    first = (Column(name, no_wrap=True) for name in ("experiment", "digest", "preset"))
    seed, verdict = Column("seed", justify="right"), Column("verdicts", no_wrap=True)
    last = (Column(name, justify="right", no_wrap=True) for name in ("age", "size"))
    table = plain_table(*first, seed, "settings that differ", verdict, *last, padding=(0, 2, 0, 0))
    names, before = fields_that_differ(items), ""
    for item in items:
        head = "" if item.id == before else f"[bold]{escape(item.id)}[/]"
        cells = (head, escape(item.digest[:SHORT]), *_about(item, names))
        table.add_row(*cells, formatting.age(item.age), formatting.size(item.size))
        before = item.id
    return table


def _about(item: Item, names: Mapping[str, Sequence[str]]) -> tuple[str, str, str, str]:
    if item.run is None:
        why = f": {escape(item.problem)}" if item.state == "crashed" and item.problem else ""
        return "", "", f"[yellow]{item.state}[/][dim]{why}[/]", ""
    run = item.run
    if run.observed:
        given = [f"{name}={short(run.config[name])}" for name in names.get(item.id, ()) if name in run.config]
        return "[dim]observed[/]", "", escape("  ".join(given)), f"[dim]{escape(run.recordings)}[/]"
    given = [f"{name}={short(run.config[name])}" for name in names.get(item.id, ()) if name in run.config]
    return escape(run.preset or "full"), str(run.seed), escape("  ".join(given)), verdicts(run)


def verdicts(run: StoredRun) -> str:
    """The numbers of claims that hold, are errata and fail; failures in red if one is not on record."""
    counts = run.manifest["claims"]
    color = "red" if counts.get("news") else "yellow"
    marks = (("holds", "✓", "green"), ("erratum", "!", "yellow"), ("fails", "✗", color))
    return "  ".join(f"[{color}]{counts[name]} {mark}[/]" for name, mark, color in marks if counts.get(name))


def short(value: object) -> str:
    """A value in the form that `--set` accepts, shortened if it is long."""
    text = format_value(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def differences_table(pairs: Mapping[str, Pair], title: str) -> Table:
    """The differences between two runs."""
    table = _side_by_side(title)
    for name, pair in pairs.items():
        table.add_row(
            escape(name), *("[dim]–[/]" if value is None else escape(formatting.text(value)) for value in pair)
        )
    return table


def claims_side_by_side(compared: Comparison) -> Table:
    """The claims of two runs: their verdicts and measured values; in bold if the verdicts differ."""
    table = _side_by_side("claim")
    for id, pair in compared.claims.items():
        differ = len({claim.verdict if claim else None for claim in pair}) > 1
        name = f"[bold]{escape(id)}[/]" if differ else escape(id)
        table.add_row(name, *map(_outcome, pair))
    return table


def _side_by_side(name: str) -> Table:
    sides = (Column(side, ratio=1) for side in ("A", "B"))
    return plain_table(Column(name, no_wrap=True), *sides, padding=(0, 2, 0, 0))


def _outcome(claim: Claim | None) -> str:
    return f"{mark(claim)}  {escape(formatting.text(claim.measured))}" if claim else "[dim]–[/]"
