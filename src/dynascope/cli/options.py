"""Options that several commands share, and messages on standard error."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from dynascope.cli.complete import complete_change, complete_id, complete_preset
from dynascope.lab.errors import UsageError

Id = Annotated[str, typer.Argument(help="An id, or a file of your own.", autocompletion=complete_id)]
Ids = Annotated[
    list[str],
    typer.Argument(help="Ids, globs, or files of your own (mine.py, mine.py::id).", autocompletion=complete_id),
]
Runs = Annotated[Path | None, typer.Option("--runs", help="Folder of runs (default: $DYNASCOPE_RUNS, or ./runs).")]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        "-p",
        help="Named values of the fields, such as quick (default: the full setting).",
        autocompletion=complete_preset,
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="Set a field of the experiment; VALUE is JSON or text.",
        autocompletion=complete_change,
    ),
]
Control = Annotated[bool, typer.Option("--control", help="The setting in which the phenomenon is known to be absent.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Run again even if the run is stored.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Debug = Annotated[bool, typer.Option("--debug", help="Print tracebacks.")]


class NamesRequired(TyperCommand):
    """A command that selects everything if no name is given, except after `--`: there an empty list is a mistake."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse `--` at the end of the line; otherwise parse as usual."""
        if args[-1:] == ["--"]:
            raise UsageError(f"{ctx.info_name} --: give an id after it")
        return super().parse_args(ctx, args)


def seed_in_range(value: int | None) -> int | None:
    if value is not None and not 0 <= value < 2**32:  # before anything runs; `Setting` checks it for the library
        raise typer.BadParameter(f"must be an integer from 0 to {2**32 - 1}; got {value}")
    return value


Seed = Annotated[
    int,
    typer.Option(
        "--seed", callback=seed_in_range, help=f"Determines every random choice: an integer from 0 to {2**32 - 1}."
    ),
]


def say(line: str) -> None:
    """Print a message on standard error, on one line."""
    safe = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in line)
    print(f"dynascope: {safe}", file=sys.stderr)
