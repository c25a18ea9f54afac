"""The command `dynascope`: it parses, calls the lab and prints. Each command imports only what it needs.

Exit status: 0 all claims hold (or are errata), 1 some claim fails or something broke, 2 a wrong name or
value, 130 Ctrl-C.
"""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from dynascope import __version__
from dynascope.lab.errors import LabError, UsageError, explain_os_error

if TYPE_CHECKING:
    from dynascope.lab.experiment import Experiment
    from dynascope.lab.store import StoredRun

Misuse: Any = typer.BadParameter.__mro__[2]  # click's ClickException, which newer typers carry inside

app = typer.Typer(
    help="Monitor a network learn, beside what the mathematics predicts.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Runs = Annotated[Path | None, typer.Option("--runs", help="The folder of runs ($DYNASCOPE_RUNS, or ./runs).")]
Preset = Annotated[str | None, typer.Option("--preset", "-p", help="A named change of the fields, such as quick.")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help="Change a field (value: JSON or words).")
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Run again what is stored.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Debug = Annotated[bool, typer.Option("--debug", help="Print tracebacks.")]


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
    pattern: Annotated[str, typer.Argument(help="A glob over ids.")] = "*", as_json: AsJson = False, runs: Runs = None
) -> None:
    """Every experiment: its question, its source, its cost, its last verdict."""
    from dynascope.lab import registry
    from dynascope.lab.store import Store

    found = registry.match([pattern]) if pattern != "*" else registry.entries()
    store = Store(runs)
    last, problems = store.latest()
    if as_json:
        said = []
        for entry in found:
            run = last.get(entry.id)
            source = {"document": entry.document, "place": entry.place}
            row = {"id": entry.id, "title": entry.title, "source": source, "cost": entry.cost, "presets": entry.presets}
            said.append({**row, "verdict": run.verdict if run else None, "folder": str(run.folder) if run else None})
        print(json.dumps(said, indent=2))
    else:
        from dynascope.lab.terminal import catalog, console

        console().print(catalog(found, last))
    for problem in problems:
        _say(f"skipped: {problem}")


@app.command()
def show(id: Annotated[str, typer.Argument(help="An id, or a file of your own.")], runs: Runs = None) -> None:
    """What an experiment asks, its fields, presets and control."""
    import inspect

    from dynascope.lab import registry
    from dynascope.lab.store import Store
    from dynascope.lab.terminal import MARKS, compact, console, escape, fields_table, seconds

    for entry in registry.match([id]):
        kind = registry.load(entry)
        out = console()
        out.print(f"[bold]{escape(kind.id)}[/]  {escape(kind.title())}")
        body = "\n".join((kind.__doc__ or "").strip().splitlines()[1:])
        if body.strip():
            out.print("\n" + escape(inspect.cleandoc("\n" + body)))
        out.print(f"\n[dim]source[/]   {escape(str(kind.source))}")
        costs = ", ".join(f"{name} {seconds(cost)}" for name, cost in kind.cost.items())
        out.print(f"[dim]cost[/]     {costs} on two CPU cores")
        for name, changes in kind.presets.items():
            out.print(f"[dim]preset[/]   {name}: {escape(compact(dict(changes)))}")
        out.print(f"[dim]control[/]  {escape(compact(dict(kind.control)))}")
        last = Store(runs).latest(kind.id)[0].get(kind.id)
        if last:
            out.print(f"[dim]last run[/] {MARKS[last.verdict]}  {escape(str(last.folder))}")
        out.print()
        out.print(fields_table(kind))
        if kind.notes:
            out.print("\n" + escape(inspect.cleandoc(kind.notes)))


@app.command()
def run(
    ids: Annotated[list[str], typer.Argument(help="Ids, globs, or files of your own (mine.py, mine.py::id).")],
    preset: Preset = None,
    control: Annotated[
        bool, typer.Option("--control", help="Run the setting in which the phenomenon is absent.")
    ] = False,
    changes: Changes = None,
    seed: Annotated[int, typer.Option("--seed", help="Sets every random choice.")] = 0,
    force: Force = False,
    as_json: AsJson = False,
    runs: Runs = None,
    debug: Debug = False,
) -> None:
    """Run experiments: measure, predict, judge, draw. What is stored already is not run again."""
    from dynascope.lab import registry
    from dynascope.lab.fields import assignment, build
    from dynascope.lab.terminal import console

    entries = registry.match(ids)
    given = dict(assignment(text) for text in changes or ())
    experiments = [build(registry.load(entry), given, preset, control) for entry in entries]
    out = console(errors=as_json)
    finished: list[StoredRun] = []
    crashed = 0
    for number, experiment in enumerate(experiments, 1):
        label = f"[{number}/{len(experiments)}] {experiment.id}"
        try:
            finished.append(_run_one(experiment, label, out, seed=seed, preset=preset, runs=runs, force=force))
        except LabError as error:
            crashed += 1
            _say(str(error))
            if debug:
                traceback.print_exception(error)
        except KeyboardInterrupt:
            _say(f"interrupted in {label}; the same command goes on from here")
            raise typer.Exit(130) from None
    if as_json:
        print(json.dumps([_as_json(stored) for stored in finished], indent=2))
    _close(out, finished, crashed)


def _run_one(experiment: Experiment, label: str, out: Any, **options: Any) -> StoredRun:
    from dynascope.lab.run import run
    from dynascope.lab.store import Store
    from dynascope.lab.terminal import claims_table, escape, progress_line, seconds

    with progress_line(label) as tell:
        if tell is None:
            _say(f"{label} ...")
        store = Store(options.pop("runs"))
        stored = run(experiment, store=store, progress=tell, warn=_say, **options)
    cost = (
        "stored already"
        if stored.reused
        else seconds(stored.manifest["run_seconds"] + stored.manifest["judge_seconds"])
    )
    out.print(f"[bold]{escape(stored.id)}[/]  {escape(experiment.title())}  [dim]({cost})[/]")
    out.print(claims_table(stored.claims))
    out.print(f"  [dim]{escape(str(stored.folder))}[/]", soft_wrap=True)
    return stored


def _close(out: Any, finished: list[StoredRun], crashed: int) -> NoReturn:
    counts = {
        name: sum(stored.manifest["claims"][name] for stored in finished) for name in ("holds", "erratum", "fails")
    }
    line = f"{len(finished)} run{'s' * (len(finished) != 1)}: {counts['holds']} claims hold, "
    line += f"{counts['erratum']} errata, {counts['fails']} fail"
    line += f"; {crashed} did not finish" if crashed else ""
    out.print(f"[{'red' if counts['fails'] or crashed else 'green'}]{line}[/]")
    raise typer.Exit(1 if counts["fails"] or crashed else 0)


def _as_json(stored: StoredRun) -> dict[str, Any]:
    keys = ("id", "digest", "seed", "preset", "run_seconds", "compile_seconds", "device", "command")
    claims = [claim.model_dump(mode="json") for claim in stored.claims]
    head = {key: stored.manifest.get(key) for key in keys}
    return {**head, "folder": str(stored.folder), "reused": stored.reused, "verdict": stored.verdict, "claims": claims}


@app.command()
def sweep(
    id: Annotated[str, typer.Argument(help="An id, or a file of your own.")],
    grid: Annotated[
        list[str],
        typer.Option("--grid", "-g", metavar="KEY=...", help="key=FROM:TO:COUNT, key=FROM:TO:COUNT:log or key=v1,v2."),
    ],
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Seeds 0 .. N-1 at each point.")] = 1,
    preset: Preset = None,
    changes: Changes = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes on this machine.")] = 1,
    executor: Annotated[str, typer.Option("--executor", help="local, or dask:ADDRESS.")] = "local",
    force: Force = False,
    as_json: AsJson = False,
    runs: Runs = None,
) -> None:
    """Run an experiment over a grid of settings and seeds, and summarize its claims."""
    from dynascope.lab import registry
    from dynascope.lab.executors import choose, stop
    from dynascope.lab.fields import assignment, grid_axis
    from dynascope.lab.monitor import Progress
    from dynascope.lab.store import Store
    from dynascope.lab.sweep import sweep
    from dynascope.lab.terminal import console, progress_line

    kind = registry.load(id)
    axes = dict(grid_axis(kind, text) for text in grid)
    base = dict(assignment(text) for text in changes or ())
    if double := axes.keys() & base.keys():
        raise UsageError(f"{sorted(double)[0]} is given by --grid and by --set")
    out = console(errors=as_json)
    with choose(executor, jobs) as pool, progress_line(kind.id) as tell:

        def told(done: int, total: int) -> None:
            if tell:
                tell(Progress("runs", done, total, 0.0, float("inf")))

        try:
            result = sweep(
                kind,
                axes,
                base=base,
                preset=preset,
                seeds=seeds,
                store=Store(runs),
                executor=pool,
                force=force,
                told=told,
            )
        except KeyboardInterrupt:
            stop(pool)
            _say("interrupted; finished runs are stored and the same command goes on from here")
            raise typer.Exit(130) from None
    summary = (result.folder / "summary.json").read_text(encoding="utf-8")
    if as_json:
        print(summary, end="")
    _print_sweep(out, json.loads(summary), list(axes), str(result.folder))
    for line in result.errors:
        _say(line)
    raise typer.Exit(1 if result.errors else 0)


def _print_sweep(out: Any, summary: dict[str, Any], keys: list[str], folder: str) -> None:
    from dynascope.lab.terminal import Table, compact, escape

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in (*keys, "claim", "share", "interval", "of", "mean measured"):
        table.add_column(escape(name))
    for row in summary["rows"]:
        interval = f"[{row['low']:.2f}, {row['high']:.2f}]"
        cells = [*(compact(row[key]) for key in keys), row["claim"], compact(row["share"]), interval, str(row["of"])]
        table.add_row(*(escape(cell) for cell in cells), "" if row["mean"] is None else compact(row["mean"]))
    out.print(table)
    out.print(f"[dim]{escape(folder)}[/]", soft_wrap=True)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Where the site goes.")] = Path("report"),
    open_: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
    runs: Runs = None,
) -> None:
    """Write the stored runs as a static site: figures, theory and verdicts."""
    from dynascope.lab.report import write
    from dynascope.lab.store import Store

    store = Store(runs)
    page = write(store, folder)
    stored, problems = store.runs()
    for problem in problems:
        _say(f"skipped: {problem}")
    if not stored:
        _say(f"no runs are stored in {store.root}: the report is empty")
    print(f"report: {page}")
    if open_:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _say(line: str) -> None:
    """A line for the person, beside the results."""
    print(f"dynascope: {line}", file=sys.stderr)


def main() -> NoReturn:
    """The entry point: every expected error ends as one line and its exit status."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without these letters still gets the line
    status = 0
    try:
        status = app(sys.argv[1:] or ["--help"], prog_name="dynascope", standalone_mode=False) or 0
        sys.stdout.flush()
    except LabError as error:
        for line in str(error).splitlines():
            _say(line)
        status = error.exit_status
    except Misuse as error:
        _say(f"{error.format_message()} (see dynascope --help)".replace("\n", " "))
        status = 2
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted; the same command goes on from here")
        status = 130
    except BrokenPipeError:  # the reader of our output has gone: `dynascope list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        _say(str(explain_os_error(error, "working")))
        status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()
