"""The commands that read the store: `runs`, `where` and `report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dynascope.cli.complete import complete_run
from dynascope.cli.options import AsJson, Changes, Control, Preset, Runs, say, seed_in_range

Name = "an id, ID@PRESET, ID@PRESET:SEED, a digest (its first four digits are enough), or a folder"


def runs(
    pattern: Annotated[str, typer.Argument(help="A glob over ids.", autocompletion=complete_run)] = "*",
    sweeps: Annotated[bool, typer.Option("--sweeps", help="Include points of sweeps.")] = False,
    as_json: AsJson = False,
    runs: Runs = None,
) -> None:
    """List stored runs: the settings in which they differ, verdicts, age and size."""
    from dynascope.lab.inventory import inventory
    from dynascope.lab.listing import rows
    from dynascope.lab.run_tables import runs_table
    from dynascope.lab.store import Store
    from dynascope.lab.terminal import console

    store = Store(runs)
    items = inventory(store, pattern, sweeps=sweeps)
    if as_json:
        print(json.dumps(rows(items), indent=2))
    elif items:
        console().print(runs_table(items))
    for item in items:
        if item.state in ("damaged", "earlier version"):
            say(f"{item.state}: {item.problem}")
    if not items:
        points = 0 if sweeps else len(inventory(store, pattern, sweeps=True))
        hint = f", only {points:,} point{'s' * (points != 1)} of sweeps: --sweeps shows them" if points else ""
        say(f"no runs{'' if pattern == '*' else f' of {pattern}'} are stored in {store.root}{hint}")


def where(
    name: Annotated[str, typer.Argument(help=f"The run: {Name}.", autocompletion=complete_run)],
    preset: Preset = None,
    changes: Changes = None,
    seed: Annotated[int | None, typer.Option("--seed", callback=seed_in_range, help="Seed of the run.")] = None,
    control: Control = False,
    runs: Runs = None,
) -> None:
    """Print the folder of a stored run: the latest, or the latest in exactly the given setting."""
    from dynascope.lab.fields import assignment, once
    from dynascope.lab.lookup import Wanted, find
    from dynascope.lab.store import Store

    given = once((assignment(text) for text in changes or ()), "--set")
    print(find(Store(runs), name, Wanted(preset, seed, control, given)).folder)


def report(
    folder: Annotated[Path, typer.Argument(help="Folder for the site.")] = Path("report"),
    data: Annotated[bool, typer.Option("--data", help="Copy the arrays (netCDF), PNG and SVG too.")] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open the report in the browser.")] = False,
    runs: Runs = None,
) -> None:
    """Write a static site of the stored runs: figures, theory and verdicts."""
    from dynascope.lab.report import write
    from dynascope.lab.store import Store

    store = Store(runs)
    page = write(store, folder, data=data, warn=say)
    print(f"report: {page}")
    if open_:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
