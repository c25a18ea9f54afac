"""What the lab shows on a terminal: tables, marks and the progress line. Everything here only prints."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynascope.lab.claims import Claim
    from dynascope.lab.experiment import Experiment
    from dynascope.lab.monitor import Progress
    from dynascope.lab.registry import Entry
    from dynascope.lab.store import StoredRun

MARKS = {"holds": "[green]✓ holds[/]", "fails": "[red]✗ fails[/]", "erratum": "[yellow]! erratum[/]"}


def console(errors: bool = False) -> Console:
    """A console; where nobody sits before it, lines are as long as they are."""
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
        costs = [seconds(entry.cost.get(name)) for name in ("quick", "full")]
        table.add_row(
            f"[bold]{escape(entry.id)}[/]", escape(entry.title), f"[dim]{escape(entry.place)}[/]", *costs, verdict
        )
    return table


def claims_table(claims: Sequence[Claim]) -> Table:
    """What was claimed, measured and expected."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(ratio=3)
    table.add_column(ratio=2)
    table.add_column(ratio=2, style="dim")
    for claim in claims:
        said = escape(claim.statement) + (f"\n[dim]{escape(claim.diagnosis)}[/]" if claim.diagnosis else "")
        table.add_row(
            f"  {MARKS[claim.verdict]}", said, escape(compact(claim.measured)), escape(compact(claim.expected))
        )
    return table


def fields_table(kind: type[Experiment]) -> Table:
    """What can be varied: each field, what it takes, its default, and what it is."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("field", "takes", "default", ""):
        table.add_column(name)
    for name, field in kind.model_fields.items():
        default = "[red]needed[/]" if field.is_required() else escape(compact(field.default))
        table.add_row(name, escape(_takes(field)), default, f"[dim]{escape(field.description or '')}[/]")
    return table


def _takes(field: Any) -> str:
    """A field's type and limits, as a person would write them: `int > 0`, `'sgd' | 'adam'`."""
    hint = field.annotation
    text = hint.__name__ if isinstance(hint, type) and not hasattr(hint, "__args__") else str(hint)
    text = " ".join([text.replace("typing.", "").replace("NoneType", "None"), *map(str, field.metadata)])
    text = re.sub(r"\w+\((gt|ge|lt|le)=([^)]*)\)", lambda limit: f"{_SIGNS[limit[1]]} {limit[2]}", text)
    text = re.sub(r"FieldInfo\(annotation=\w+, required=\w+, metadata=\[([^]]*)\]\)", r"\1", text)
    text = re.sub(r"(Min|Max)Len\(\w+=(\d+)\)", lambda size: f"{_LENGTHS[size[1]]} {size[2]}", text)
    text = re.sub(r"Annotated\[([^],]*), ([^]]*)\]", r"\1 \2", text)
    text = re.sub(r"Optional\[(.*)\]", r"\1 | None", text)
    return re.sub(r"Literal\[([^]]*)\]", lambda words: words[1].replace(", ", " | "), text)


_LENGTHS = {"Min": "at least", "Max": "at most"}
_SIGNS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}


def compact(value: Any) -> str:
    """A measured or expected value in few characters."""
    if isinstance(value, dict):
        if {"share", "interval", "of"} <= value.keys():
            low, high = value["interval"]
            rest = {key: item for key, item in value.items() if key not in ("share", "interval", "of")}
            text = f"{compact(value['share'])} [{compact(low)}, {compact(high)}] of {value['of']}"
            return text + (f", {compact(rest)}" if rest else "")
        return _short(", ".join(f"{key} {compact(item)}" for key, item in value.items()))
    if isinstance(value, list | tuple):
        return _short("[" + ", ".join(compact(item) for item in value) + "]")
    return f"{value:.4g}" if isinstance(value, float) else _short(str(value))


def _short(text: str, most: int = 160) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def seconds(value: float | None) -> str:
    """A duration: 0.5 s, 12 s, 3 min, 2.5 h."""
    if value is None:
        return "-"
    if value == float("inf"):
        return "?"
    if value < 10:
        return f"{value:.2g} s"
    if value < 120:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 5400 else f"{value / 3600:.1f} h"


@contextmanager
def progress_line(name: str) -> Iterator[Callable[[Progress], None] | None]:
    """A line with steps, rate and time left, while somebody watches; nothing where nobody does."""
    shown = console(errors=True)
    if not shown.is_terminal:
        yield None
        return
    with shown.status(f"{name}: starting") as status:

        def tell(progress: Progress) -> None:
            share = progress.done / progress.total if progress.total else 1.0
            bar = "█" * round(20 * share) + "░" * (20 - round(20 * share))
            pace = f"{progress.rate:.3g}/s, {seconds(progress.left)} left" if progress.rate else ""
            what = f"{name}: {progress.what}" if progress.what else name
            status.update(escape(f"{what} {bar} {progress.done:.6g}/{progress.total:.6g} {pace}"))

        yield tell
