"""The command `compare`: two stored runs side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynascope.cli.complete import complete_run
from dynascope.cli.options import AsJson, Runs, say
from dynascope.cli.store import Name
from dynascope.lab.errors import UsageError, explain_os_error

if TYPE_CHECKING:
    from dynascope.lab.compare import Comparison

KINDS = (".png", ".svg", ".pdf")


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help=f"A run: {Name}.", autocompletion=complete_run)],
    b: Annotated[
        str, typer.Argument(metavar="B", help="Another run, named in the same way.", autocompletion=complete_run)
    ],
    figure: Annotated[
        Path | None,
        typer.Option("--figure", metavar="FILE", help="File for the figure of the traces (default: compare-A-B.png)."),
    ] = None,
    as_json: AsJson = False,
    runs: Runs = None,
) -> None:
    """Compare two stored runs: settings that differ, claims, and the traces of both in one figure."""
    from dynascope.lab.compare import Comparison
    from dynascope.lab.lookup import find
    from dynascope.lab.store import Store

    if figure and figure.suffix.lower() not in KINDS:
        raise UsageError(f"--figure must be a file that ends in {', '.join(KINDS)}; got {figure}")
    store = Store(runs)
    compared = Comparison(find(store, a), find(store, b))
    if not as_json:
        _print(compared)
    drawn = _draw(compared, figure or Path(f"compare-{compared.a.digest[:8]}-{compared.b.digest[:8]}.png"))
    if as_json:
        print(json.dumps({**compared.as_json(), "figure": str(drawn) if drawn else None}, indent=2))
    elif drawn:
        print(f"figure: {drawn}")


def _print(compared: Comparison) -> None:
    from dynascope.lab.run_tables import claims_side_by_side, differences_table
    from dynascope.lab.terminal import console
    from dynascope.lab.trace_findings import sentences

    out = console()
    for name, run in (("A", compared.a), ("B", compared.b)):
        what = run.recordings if run.observed else f"{run.preset or 'full'}  seed {run.seed}"
        print(f"{name}  {run.id}  {what}  {run.folder}")
    for title, pairs in (("setting", compared.fields), ("made with", compared.circumstances)):
        if pairs:
            print()
            out.print(differences_table(pairs, title))
    if compared.claims:
        print()
        out.print(claims_side_by_side(compared))
    for name, run in (("A", compared.a), ("B", compared.b)):
        if run.observed:
            print("\n".join(["", *(f"{name}  {line}" for line in sentences(run.measured()))]))


def _draw(compared: Comparison, path: Path) -> Path | None:
    """Draw the traces to a file; return None, with a message, if the runs have none in common."""
    from dynascope.lab.overlay import draw

    try:
        drawn, missing = draw(compared, path)
    except OSError as error:
        raise explain_os_error(error, "drawing the traces") from error
    if not drawn:
        say("the runs have no traces in common: no figure is drawn")
    elif missing:
        say(f"not drawn: {', '.join(missing)}")
    return path if drawn else None
