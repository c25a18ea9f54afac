"""The command `dynascope data`: list data sets, fetch them, and print the folders that are searched for them.

Exit status: 0, 1 if a data set cannot be fetched, 2 for an unknown name.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from dynascope.cli.complete import Context
from dynascope.cli.options import AsJson
from dynascope.lab.errors import UsageError

app = typer.Typer(help="List data sets, fetch them, print the folders that are searched.")


@app.callback(invoke_without_command=True)
def list_(context: Context, as_json: AsJson = False) -> None:
    """List data sets: contents, location, size and license."""
    if context.invoked_subcommand is not None:
        return
    from dynascope.tasks.data import catalog

    if as_json:
        rows = [
            {
                "name": entry.name,
                "what": entry.what,
                "where": entry.where,
                "paths": [str(path) for path in entry.paths],
                "size": entry.size,
                "sha256": entry.sha256,
                "license": entry.license,
                "source": entry.source,
            }
            for entry in catalog.entries()
        ]
        print(json.dumps(rows, indent=2))
        return
    from rich.table import Column

    from dynascope.lab import formatting
    from dynascope.lab.terminal import console, escape, plain_table

    size = Column("size", justify="right", no_wrap=True)
    table = plain_table(Column("data set", no_wrap=True), "what", "where", size, "license")
    for entry in catalog.entries():
        size = formatting.size(entry.size) if entry.paths else ""
        where = entry.where if entry.paths else f"[yellow]{entry.where}[/]"
        name, license = f"[bold]{escape(entry.name)}[/]", f"[dim]{escape(entry.license)}[/]"
        table.add_row(name, escape(entry.what), where, size, license)
    console().print(table)


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(help="Names of data sets, as listed by `dynascope data`.")],
) -> None:
    """Fetch data sets from their official sources, verify their checksums, and keep them in the cache."""
    from dynascope.tasks.data import download
    from dynascope.tasks.data.files import DataNotFoundError

    try:
        for name in names:
            download.check(name)
    except download.UnknownDataError as error:
        raise UsageError(str(error).replace("\n", " ")) from None
    failed = False
    for name in names:
        try:
            for path in download.fetch(name, _show if sys.stderr.isatty() else None):
                print(path)
        except (download.FetchError, DataNotFoundError) as error:
            failed = True
            print(f"dynascope: {error}", file=sys.stderr)
    raise typer.Exit(1 if failed else 0)


@app.command()
def where() -> None:
    """Print the folders that are searched for data sets, in order."""
    from dynascope.tasks.data import catalog

    for what, folder in catalog.where():
        print(f"{folder}  ({what})")


def _show(file: str, done: int, total: int | None) -> None:
    """The progress of a download, on one line of standard error."""
    of = f" of {total / 1e6:.1f}" if total else ""
    end = "\n" if done == total else ""
    print(f"\r{file}: {done / 1e6:.1f}{of} MB", end=end, file=sys.stderr, flush=True)
