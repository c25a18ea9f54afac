"""What the lab shows on a terminal: tables, marks and the progress line."""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from dynascope.lab import formatting
from dynascope.lab.field_types import describe_type
from dynascope.lab.references import REFERENCES

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynascope.lab.claims import Claim
    from dynascope.lab.entry import Entry
    from dynascope.lab.experiment import Experiment
    from dynascope.lab.monitor import Progress
    from dynascope.lab.store import StoredRun

MARKS = {"holds": "[green]✓ holds[/]", "fails": "[red]✗ fails[/]", "erratum": "[yellow]! erratum[/]"}


def console(errors: bool = False) -> Console:
    """A console; lines are not wrapped where the output is not a terminal."""
    stream = sys.stderr if errors else sys.stdout
    wide = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(stderr=errors, highlight=False, width=200 if wide else None)


def catalog(entries: Sequence[Entry], last: Mapping[str, StoredRun | None]) -> Table:
    """The list of experiments."""
    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    table.add_column("experiment", no_wrap=True)
    table.add_column("question")
    table.add_column("source")
    for name in ("quick", "full"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("last run", no_wrap=True)
    for entry in entries:
        run = last.get(entry.id)
        verdict = MARKS.get(run.verdict, run.verdict) if run else "[dim]-[/]"
        stated = [entry.cost.get(name) for name in ("quick", "full")]
        costs = ["GPU" if formatting.needs_gpu(cost) else formatting.duration(cost) for cost in stated]
        question = escape(entry.title) + (f"\n[dim]from {escape(entry.origin)}[/]" if entry.origin else "")
        source = f"{escape(entry.place)} [dim]{escape(entry.document)}[/]"
        table.add_row(f"[bold]{escape(entry.id)}[/]", question, source, *costs, verdict)
    return table


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
        for name, text in (("known failure", claim.known), ("settled after looking", claim.post_hoc)):
            statement += f"\n[dim]{name}: {escape(text)}[/]" if text else ""
        measured, expected = (escape(formatting.text(value)) for value in (claim.measured, claim.expected))
        table.add_row(f"  {mark(claim)}", statement, measured, expected)
    return table


def mark(claim: Claim) -> str:
    """The verdict of a claim; an erratum with its kind, and a verdict beside the record where they differ."""
    if claim.verdict == "fails":
        return "[yellow]✗ fails, as known[/]" if claim.known else MARKS["fails"]
    if claim.known:
        return "[red]✓ holds, but is recorded as failing[/]"
    return f"[yellow]! {claim.kind}[/]" if claim.kind else MARKS[claim.verdict]


def audit_table(rows: Sequence[Any]) -> Table:
    """The claims of an audit, a row for each."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("experiment", "claim", "holds in", "fails at seeds", "on record"):
        table.add_column(name)
    for row in rows:
        share = formatting.share({"share": row.holds / row.of, "interval": row.interval, "of": row.of})
        failing = ", ".join(map(str, row.failing_seeds[:12])) + (", …" if len(row.failing_seeds) > 12 else "")
        name = f"{escape(row.claim)} [dim](main)[/]" if row.main else escape(row.claim)
        table.add_row(escape(row.id), name, share, failing, "[dim]fails[/]" if row.known else "")
    return table


MOST_ROWS = 60
"""The most rows of a sweep's table."""


def sweep_table(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> Table:
    """The summary of a sweep over the grid's `keys`: a row for each point and claim, or, where those are many, for each
    claim over all points."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    if len(rows) <= MOST_ROWS:
        for name in (*keys, "claim", "holds in", "mean measured"):
            table.add_column(escape(name))
        for row in rows:
            found = {"share": row["share"], "interval": (row["low"], row["high"]), "of": row["of"]}
            share = formatting.share(found) if row["of"] else "gap"
            cells = (*(typed(row[key]) for key in keys), row["claim"], share, formatting.text(row["mean"]))
            table.add_row(*map(escape, cells))
        return table
    for name in ("claim", "holds in", "at every seed of", "at no seed of", "points"):
        table.add_column(name)
    for claim in dict.fromkeys(row["claim"] for row in rows):
        found = [row for row in rows if row["claim"] == claim and row["of"]]
        of = sum(row["of"] for row in found)
        yes = sum(round(row["share"] * row["of"]) for row in found)
        counts = (sum(row["share"] == 1 for row in found), sum(row["share"] == 0 for row in found), len(found))
        share = formatting.share({"share": yes / of, "of": of}) if of else "gap"
        table.add_row(escape(claim), share, *map(formatting.number, counts))
    return table


def description(kind: type[Experiment], last: StoredRun | None, origin: str = "") -> Iterator[str | Table]:
    """What `dynascope show` prints: the question, the source, the cost, presets, control, the last run, the fields."""
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
        facts.add_row("last run", f"{MARKS[last.verdict]}  {escape(str(last.folder))}")
    yield facts
    yield ""
    yield fields_table(kind)
    if kind.notes:
        yield "\n" + escape(inspect.cleandoc(kind.notes))


def _changes(changes: Mapping[str, Any]) -> str:
    return escape(", ".join(f"{field}={typed(value)}" for field, value in changes.items()))


def fields_table(kind: type[Experiment]) -> Table:
    """The fields: name, type and limits, default, description."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("field", "type", "default", ""):
        table.add_column(name)
    for name, field in kind.model_fields.items():
        default = "[red]required[/]" if field.is_required() else escape(typed(field.default))
        table.add_row(name, escape(describe_type(field)), default, f"[dim]{escape(field.description or '')}[/]")
    return table


def typed(value: Any) -> str:
    """A field's value as `--set` takes it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


class _Line:
    """The line that shows how far the work has come: drawn anew while it is shown, so that its clock goes on."""

    def __init__(self, name: str, stated: int | float | None):
        self.name, self.stated, self.began = name, stated, time.monotonic()
        self.latest: Progress | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield Text(self.words(time.monotonic() - self.began, options.max_width), no_wrap=True, overflow="ellipsis")

    def words(self, elapsed: int | float, width: int) -> str:
        """The whole of a run is its clock beside its stated cost: how many parts it has is not known."""
        now = self.latest
        share = now.done / now.total if now and now.total else 0.0
        if now and not now.part and now.total:
            bar = "█" * round(20 * share) + "░" * (20 - round(20 * share))
            pace = f", {_rounded(now.left)} left" if now.rate else ""
            return f"{self.name} {bar} {now.done:,.6g} of {now.total:,.6g} {now.what}{pace}"
        clock = _rounded(elapsed)
        if self.stated and not formatting.needs_gpu(self.stated):
            clock += f" of about {_rounded(self.stated)}" if elapsed < self.stated else " (longer than stated)"
        doing = "starting"
        if now and now.part:
            steps = f" ({now.done:,.6g} of {now.total:,.6g} {now.what})" if width >= 100 else ""
            left = f", {_rounded(now.left)} left of it" if now.rate else ""
            doing = f"part {now.part} at {100 * share:.0f} %{steps}{left}" if share < 1 else f"part {now.part} is done"
        elif now:
            doing = now.what
        return f"{self.name}: {clock}, {doing}"


def _rounded(seconds: int | float) -> str:
    """A duration in whole seconds or longer units, at least a second."""
    return f"{max(1, round(seconds))} s" if seconds < 60 else formatting.duration(round(seconds))


@contextmanager
def progress_line(name: str, stated: int | float | None = None) -> Iterator[Callable[[Progress], None] | None]:
    """A callback that shows on one line how far the work has come; None where the output is not a terminal. `stated`
    is the cost that the experiment states for it, in seconds."""
    shown = console(errors=True)
    if not shown.is_terminal:
        yield None
        return
    line = _Line(name, stated)

    def on_progress(progress: Progress) -> None:
        line.latest = progress

    with Live(line, console=shown, transient=True, refresh_per_second=5):
        yield on_progress
