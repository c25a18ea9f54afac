"""The command `dynascope`: it parses, calls the lab and prints. Each command imports only what it needs.

Exit status: 0 if every verdict is the one on record, 1 if one differs (with --strict: if any claim fails) or a run
crashes, 2 for a wrong name or value, 130 after Ctrl-C.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated, Any, NoReturn

import typer

from dynascope import __version__
from dynascope.cli import catalog, clean, compare, data, limits, live, observe, options, run, store, sweep
from dynascope.cli.options import say
from dynascope.lab.errors import Interrupted, LabError, explain_os_error
from dynascope.lab.garbage import collect_rarely

Misuse: Any = typer.BadParameter.__mro__[2]  # click's ClickException, which newer typers carry inside

app = typer.Typer(
    help="Watch a network learn, beside what the mathematics predicts.",
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


app.command("list")(catalog.list_)
app.command()(catalog.show)
app.command()(run.run)
app.command()(run.join)
app.command()(sweep.sweep)
app.command()(limits.limits)
app.command(cls=options.NamesRequired)(sweep.audit)
app.command()(observe.observe)
app.command()(store.runs)
app.command()(store.where)
app.command()(compare.compare)
app.command()(clean.rm)
app.command()(clean.gc)
app.command()(store.report)
app.command()(live.live)


def main() -> NoReturn:
    """The entry point: every expected error ends as one line and its exit status."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    collect_rarely()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for a terminal that cannot show a character
    status = 0
    try:
        status = app(sys.argv[1:] or ["--help"], prog_name="dynascope", standalone_mode=False) or 0
        sys.stdout.flush()
        if status == Interrupted.exit_status:  # typer has caught Ctrl-C
            raise KeyboardInterrupt
    except LabError as error:
        for line in str(error).split("\n"):
            say(line)
        status = error.exit_status
    except Misuse as error:
        say(f"{error.format_message()} (see dynascope --help)".replace("\n", " "))
        status = 2
    except (KeyboardInterrupt, typer.Abort):
        say("interrupted; the same command continues from here")
        status = Interrupted.exit_status
    except BrokenPipeError:  # the reader of our output has gone: `dynascope list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        say(str(explain_os_error(error, "working")))
        status = 1
    sys.exit(status)
