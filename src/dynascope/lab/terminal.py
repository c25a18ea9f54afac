"""Tables and marks for a terminal."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from dynascope import ledger
from dynascope.lab import formatting
from dynascope.lab.field_types import describe_type, format_value
from dynascope.lab.references import REFERENCES

if TYPE_CHECKING:
    from dynascope.lab.audit import Row
    from dynascope.lab.claims import Claim
    from dynascope.lab.entry import Entry
    from dynascope.lab.experiment import Experiment
    from dynascope.lab.stored_run import StoredRun

MARKS = {"holds": "[green]✓ holds[/]", "fails": "[red]✗ fails[/]", "erratum": "[yellow]! erratum[/]"}


def console(errors: bool = False) -> Console:
    """A console; lines are wrapped only if the output is a terminal."""
    stream = sys.stderr if errors else sys.stdout
    wide = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(stderr=errors, highlight=False, width=200 if wide else None)


def plain_table(*columns: str | Column, **options: Any) -> Table:
    """A table without lines, its headers in bold."""
    return Table(*columns, box=None, pad_edge=False, header_style="bold", **options)


def catalog(entries: Sequence[Entry], last: Mapping[str, StoredRun | None]) -> Table:
    """The list of experiments."""
    costs = (Column(name, justify="right", no_wrap=True) for name in ("quick", "full"))
    table = plain_table(Column("experiment", no_wrap=True), "question", "source", *costs, collapse_padding=True)
    table.add_column("last run", no_wrap=True)
    for entry in entries:
        run = last.get(entry.id)
        verdict = _mark(run) if run else "[dim]-[/]"
        on_gpu = (
            f"{formatting.duration(entry.cost[formatting.GPU])} on {formatting.GPU}"
            if formatting.GPU in entry.cost
            else "GPU"
        )
        stated = [entry.cost.get(name) for name in ("quick", "full")]
        costs = [on_gpu if formatting.needs_gpu(cost) else formatting.duration(cost) for cost in stated]
        question = escape(entry.title) + (f"\n[dim]from {escape(entry.origin)}[/]" if entry.origin else "")
        source = f"{escape(entry.place)}, [dim]{escape(entry.document)}[/]"
        table.add_row(f"[bold]{escape(entry.id)}[/]", question, source, *costs, verdict)
    return table


VERDICT_STYLES = {"holds as printed": "green", "holds in a weaker form": "yellow", "does not hold": "red"}


def statement(row: ledger.Statement) -> Iterator[str | Table]:
    """A table of one statement of a document: its place, words, verdict, and the claims with their verdicts on
    record."""
    found, where = ledger.verdict(row), ", ".join(filter(None, (row.part, row.document)))
    yield f"[bold]{escape(row.place)}[/]  [dim]{escape(where)}[/]"
    yield escape(row.printed)
    why = row.not_judged or row.nothing_instead
    yield f"[{VERDICT_STYLES.get(found, 'dim')}]{found}[/]" + (f": {escape(why)}" if why else "")
    table = plain_table("claim", "verdict on record", "size", "judges")
    for claim in ledger.judgments(row):
        sizes = ", ".join(f"{size}: {name}" for size, name in claim.sizes.items()) if claim.is_divided else claim.size
        table.add_row(escape(claim.claim), MARKS.get(claim.verdict, claim.verdict), sizes, claim.role)
    if table.row_count:
        yield table
    yield ""


def claims_table(claims: Sequence[Claim]) -> Table:
    """The claims: verdict, statement, measured, expected."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(ratio=3)
    table.add_column(ratio=2)
    table.add_column(ratio=2, style="dim")
    for claim in claims:
        statement = escape(claim.statement)
        if claim.printed:
            statement += f"\n[dim]printed in {escape(claim.source)}:[/] [italic]{escape(claim.printed)}[/]"
        for name, text in (("known failure", claim.known), ("chosen after seeing results", claim.post_hoc)):
            statement += f"\n[dim]{name}: {escape(text)}[/]" if text else ""
        measured, expected = (escape(formatting.text(value)) for value in (claim.measured, claim.expected))
        table.add_row(f"  {mark(claim)}", statement, measured, expected)
    return table


def mark(claim: Claim) -> str:
    """The verdict of a claim, with the kind of an erratum; the mark says if the verdict differs from the record."""
    if claim.verdict == "fails":
        return "[yellow]✗ fails, as known[/]" if claim.known else MARKS["fails"]
    if claim.known:
        return "[red]✓ holds, but is recorded as failing[/]"
    return f"[yellow]! {claim.kind}[/]" if claim.kind else MARKS[claim.verdict]


def audit_table(rows: Sequence[Row]) -> Table:
    """The claims of an audit, a row for each."""
    table = plain_table("experiment", "claim", "holds in", "fails at seeds", "on record")
    for row in rows:
        share = formatting.share({"share": row.holds / row.of, "interval": row.interval, "of": row.of})
        failing = ", ".join(map(str, row.failing_seeds[:12])) + (", …" if len(row.failing_seeds) > 12 else "")
        name = f"{escape(row.claim)} [dim](main)[/]" if row.main else escape(row.claim)
        table.add_row(escape(row.id), name, share, failing, "[dim]fails[/]" if row.known else "")
    return table


MOST_ROWS = 60
"""The most rows of a sweep's table."""


def sweep_table(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> Table:
    """The summary of a sweep over the grid's `keys`: a row for each point and claim, or, if there are too many, for
    each claim over all points."""
    if len(rows) <= MOST_ROWS:
        table = plain_table(*map(escape, keys), "claim", "holds in", "mean measured")
        for row in rows:
            found = {"share": row["share"], "interval": (row["low"], row["high"]), "of": row["of"]}
            share = formatting.share(found) if row["of"] else "gap"
            cells = (*(format_value(row[key]) for key in keys), row["claim"], share, formatting.text(row["mean"]))
            table.add_row(*map(escape, cells))
        return table
    table = plain_table("claim", "holds in", "at every seed of", "at no seed of", "points")
    for claim in dict.fromkeys(row["claim"] for row in rows):
        found = [row for row in rows if row["claim"] == claim and row["of"]]
        of = sum(row["of"] for row in found)
        yes = sum(round(row["share"] * row["of"]) for row in found)
        counts = (sum(row["share"] == 1 for row in found), sum(row["share"] == 0 for row in found), len(found))
        share = formatting.share({"share": yes / of, "of": of}) if of else "gap"
        table.add_row(escape(claim), share, *map(formatting.number, counts))
    return table


def description(kind: type[Experiment], last: StoredRun | None, origin: str = "") -> Iterator[str | Table]:
    """The output of `dynascope show`: the question, the source, the cost, presets, control, the last run, the
    fields."""
    title, _, body = inspect.cleandoc(kind.__doc__ or "").partition("\n")
    yield f"[bold]{escape(kind.id)}[/]  {escape(title)}"
    if body.strip():
        yield "\n" + escape(body.strip())
    yield ""
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_row("source", escape(str(kind.source)))
    if kind.source.document in REFERENCES:
        reference = REFERENCES[kind.source.document]
        links = ", ".join(address for _, address in reference.links)
        facts.add_row("", f"[dim]{escape(reference.authors)} ({reference.year}), {escape(links)}[/]")
    facts.add_row("cost", escape(formatting.costs(kind.cost)))
    for name, changes in kind.presets.items():
        facts.add_row("preset", f"[bold]{escape(name)}[/]: {_changes(changes)}")
    facts.add_row("control", _changes(kind.control))
    if origin:
        facts.add_row("from", escape(origin))
    if last:
        facts.add_row("last run", f"{_mark(last)}  {escape(str(last.folder))}")
    yield facts
    yield ""
    yield fields_table(kind)
    if kind.notes:
        paragraphs = inspect.cleandoc(kind.notes).split("\n\n")  # the terminal breaks their lines
        yield "\n" + escape("\n\n".join(" ".join(part.split()) for part in paragraphs))


def _mark(run: StoredRun) -> str:
    return MARKS[run.verdict] if run.verdict else ""


def _changes(changes: Mapping[str, object]) -> str:
    return escape(", ".join(f"{field}={format_value(value)}" for field, value in changes.items()))


def fields_table(kind: type[Experiment]) -> Table:
    """The fields: name, type and limits, default, description."""
    table = plain_table("field", "type", "default", "")
    for name, field in kind.model_fields.items():
        default = "[red]required[/]" if field.is_required() else escape(format_value(field.default))
        table.add_row(name, escape(describe_type(field)), default, f"[dim]{escape(field.description or '')}[/]")
    return table
