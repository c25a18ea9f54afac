"""The commands on what is stored: `report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynascope.cli.options import Runs, say


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of the site.")] = Path("report"),
    open_: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    runs: Runs = None,
) -> None:
    """Write the stored runs as a static site: figures, theory and verdicts."""
    from dynascope.lab.report import write
    from dynascope.lab.store import Store

    store = Store(runs)
    page = write(store, folder)
    stored, problems = store.runs()
    for problem in problems:
        say(f"skipped: {problem}")
    if not stored:
        say(f"no runs are stored in {store.root}: the report is empty")
    print(f"report: {page}")
    if open_:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
