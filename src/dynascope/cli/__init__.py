"""The command `dynascope`: it parses, calls the lab and prints. Each command imports only what it needs.

Exit status: 0 if every verdict is the one on record, 1 if one differs (with --strict: if any claim fails) or a run
crashes, 2 for a wrong name or value, 130 after Ctrl-C.
"""

from __future__ import annotations

import io
import json
import os
import sys
from typing import Annotated, Any, NoReturn

import typer

from dynascope import __version__
from dynascope.cli import clean, compare, data, run, store, sweep
from dynascope.cli.options import AsJson, Runs, say
from dynascope.lab.errors import LabError, explain_os_error

Misuse: Any = typer.BadParameter.__mro__[2]  # click's ClickException, which newer typers carry inside

app = typer.Typer(
    help="Watch a network learn, beside what the mathematics predicts.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data.app, name="data")


def _print_version(asked: bool) -> bool:
    if asked:
        print(f"dynascope {__version__}")
        raise typer.Exit
    return asked


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command("list")
def list_(
    pattern: Annotated[str, typer.Argument(help="A glob over ids.")] = "*",
    figure: Annotated[
        str | None, typer.Option("--figure", help='Only those of a place in a document, such as "Figure 5".')
    ] = None,
    as_json: AsJson = False,
    runs: Runs = None,
) -> None:
    """Every experiment: its question, its source, its cost, its last verdict."""
    from dynascope.lab import registry
    from dynascope.lab.store import Store

    found = registry.match([pattern]) if pattern != "*" else registry.entries()
    found = registry.of_place(found, figure) if figure is not None else found
    last, problems = Store(runs).latest()
    if as_json:
        rows = []
        for entry in found:
            run = last.get(entry.id)
            source = {"document": entry.document, "place": entry.place}
            row = {"id": entry.id, "title": entry.title, "source": source, "cost": entry.cost, "presets": entry.presets}
            rows.append({**row, "verdict": run.verdict if run else None, "folder": str(run.folder) if run else None})
        print(json.dumps(rows, indent=2))
    else:
        from dynascope.lab.terminal import catalog, console

        console().print(catalog(found, last))
    for problem in problems:
        say(f"skipped: {problem}")


@app.command()
def show(id: Annotated[str, typer.Argument(help="An id, or a file of your own.")], runs: Runs = None) -> None:
    """What an experiment asks, its fields, presets and control."""
    from dynascope.lab import registry
    from dynascope.lab.store import Store
    from dynascope.lab.terminal import console, description

    store = Store(runs)
    for entry in registry.match([id]):
        kind = registry.load(entry)
        for part in description(kind, store.latest(kind.id)[0].get(kind.id)):
            console().print(part)


app.command()(run.run)
app.command()(run.join)
app.command()(sweep.sweep)
app.command()(sweep.audit)
app.command()(store.runs)
app.command()(store.where)
app.command()(compare.compare)
app.command()(clean.rm)
app.command()(clean.gc)
app.command()(store.report)


def main() -> NoReturn:
    """The entry point: every expected error ends as one line and its exit status."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for a terminal that lacks a character
    status = 0
    try:
        status = app(sys.argv[1:] or ["--help"], prog_name="dynascope", standalone_mode=False) or 0
        sys.stdout.flush()
    except LabError as error:
        for line in str(error).splitlines():
            say(line)
        status = error.exit_status
    except Misuse as error:
        say(f"{error.format_message()} (see dynascope --help)".replace("\n", " "))
        status = 2
    except (KeyboardInterrupt, typer.Abort):
        say("interrupted; the same command continues from here")
        status = 130
    except BrokenPipeError:  # the reader of our output has gone: `dynascope list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        say(str(explain_os_error(error, "working")))
        status = 1
    sys.exit(status)
