"""The command `dynascope`: it parses, calls the lab and prints. Each command imports only what it needs.

Exit status: 0 if every verdict is the one on record, 1 if one differs (with --strict: if any claim fails) or a run
crashes, 2 for a wrong name or value, 130 after Ctrl-C.
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

from dynascope import __version__, cli_data
from dynascope.lab.errors import LabError, UsageError, explain_os_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynascope.lab.batch import Request
    from dynascope.lab.experiment import Experiment
    from dynascope.lab.registry import Entry
    from dynascope.lab.store import StoredRun

Misuse: Any = typer.BadParameter.__mro__[2]  # click's ClickException, which newer typers carry inside

app = typer.Typer(
    help="Watch a network learn, beside what the mathematics predicts.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(cli_data.app, name="data")

Runs = Annotated[Path | None, typer.Option("--runs", help="The folder of runs ($DYNASCOPE_RUNS, or ./runs).")]
Preset = Annotated[str | None, typer.Option("--preset", "-p", help="A named change of the fields, such as quick.")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help="Change a field; value: JSON or text.")
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Run again even if the run is stored.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Debug = Annotated[bool, typer.Option("--debug", help="Print tracebacks.")]


def _print_version(asked: bool) -> bool:
    if asked:
        print(f"dynascope {__version__}")
        raise typer.Exit
    return asked


def _seed(value: int) -> int:
    if not 0 <= value < 2**32:  # checked before anything runs; `run` checks it again for users of the library
        raise typer.BadParameter(f"must be an integer from 0 to {2**32 - 1}; got {value}")
    return value


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
        _say(f"skipped: {problem}")


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


@app.command()
def run(
    ids: Annotated[list[str], typer.Argument(help="Ids, globs, or files of your own (mine.py, mine.py::id).")],
    preset: Preset = None,
    control: Annotated[
        bool, typer.Option("--control", help="Run the setting in which the phenomenon is known to be absent.")
    ] = False,
    changes: Changes = None,
    seed: Annotated[int, typer.Option("--seed", callback=_seed, help="Determines every random choice.")] = 0,
    force: Force = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 on any failing claim, known or not.")] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Processes for several experiments; one a core unasked.")
    ] = None,
    as_json: AsJson = False,
    runs: Runs = None,
    debug: Debug = False,
) -> None:
    """Run experiments: measure, predict, reduce, judge, draw, store. A run that is stored already is not repeated."""
    from dynascope.lab import registry
    from dynascope.lab.batch import Request, default_jobs
    from dynascope.lab.fields import assignment, build, once
    from dynascope.lab.store import Store
    from dynascope.lab.terminal import claims_table, console, escape

    store = Store(runs)
    entries = registry.match(ids)
    given = once((assignment(text) for text in changes or ()), "--set")
    built = _possible([(entry, build(registry.load(entry), given, preset, control)) for entry in entries], ids)
    entries, experiments = [entry for entry, _ in built], [experiment for _, experiment in built]
    out = console(errors=as_json)
    if len(entries) < 2 or (jobs or default_jobs(len(entries))) == 1:
        results = _in_turn(experiments, seed=seed, preset=preset, store=store, force=force)
    else:
        asked = [Request(entry.address, given, preset, control, seed, str(store.root), force) for entry in entries]
        results = _side_by_side(asked, jobs or default_jobs(len(entries)))
    finished: list[StoredRun] = []
    crashed = 0
    for result in results:
        if isinstance(result, LabError):
            crashed += 1
            _say(str(result))
            if debug:
                traceback.print_exception(result)
            continue
        finished.append(result)
        out.print(f"[bold]{escape(result.id)}[/]  {escape(result.manifest['title'])}  [dim]({_spent(result)})[/]")
        out.print(claims_table(result.claims))
        out.print(f"  [dim]{escape(str(result.folder))}[/]", soft_wrap=True)
    if as_json:
        print(json.dumps([_as_json(stored) for stored in finished], indent=2))
    _close(out, finished, crashed, strict)


def _possible(built: list[tuple[Entry, Experiment]], ids: list[str]) -> list[tuple[Entry, Experiment]]:
    """Those for which nothing is missing. One that is named by its id is refused; others are left out with a line."""
    from dynascope.lab.experiment import OptionalExperiment

    found = []
    for entry, experiment in built:
        missing = experiment.missing() if isinstance(experiment, OptionalExperiment) else ""
        if missing and (entry.id in ids or entry.address in ids or len(built) == 1):
            raise UsageError(f"{entry.id}: {missing}")
        if missing:
            _say(f"{entry.id} is left out: {missing}")
        else:
            found.append((entry, experiment))
    return found


def _in_turn(experiments: list[Experiment], **options: Any) -> Iterator[StoredRun | LabError]:
    """Run experiments one after another in this process."""
    from dynascope.lab.run import run
    from dynascope.lab.terminal import progress_line

    for number, experiment in enumerate(experiments, 1):
        label = f"[{number}/{len(experiments)}] {experiment.id}"
        try:
            with progress_line(label) as on_progress:
                if on_progress is None:
                    _say(f"{label} ...")
                result = run(experiment, on_progress=on_progress, warn=_say, **options)
        except LabError as error:
            result = error
        except KeyboardInterrupt:
            _say(f"interrupted in {label}; the same command continues from here")
            raise typer.Exit(130) from None
        yield result


def _side_by_side(asked: list[Request], jobs: int) -> Iterator[StoredRun | LabError]:
    """Run experiments in several processes; their results in the order they were asked for."""
    from dynascope.lab.batch import outcomes
    from dynascope.lab.executors import choose, stop
    from dynascope.lab.terminal import progress_line

    with choose("local", jobs) as pool, progress_line(f"{len(asked)} experiments") as on_progress:
        try:
            for result, warnings in outcomes(asked, pool, on_progress):
                for warning in warnings:
                    _say(warning)
                yield result
        except KeyboardInterrupt:
            stop(pool)
            _say("interrupted; finished runs are stored and the same command continues from here")
            raise typer.Exit(130) from None


def _spent(stored: StoredRun) -> str:
    from dynascope.lab import words

    seconds = stored.manifest["run_seconds"] + stored.manifest["judge_seconds"]
    return "stored already" if stored.reused else words.duration(seconds)


def _close(out: Any, finished: list[StoredRun], crashed: int, strict: bool) -> NoReturn:
    from dynascope.lab import words

    counts = [run.manifest["claims"] for run in finished]
    holds, errata, fails = (sum(count[name] for count in counts) for name in ("holds", "erratum", "fails"))
    news = [f"{run.id}: {claim}" for run in finished for claim in run.manifest["claims"]["news"]]
    line = f"{len(finished)} run{'s' * (len(finished) != 1)}: {holds} claims hold, {errata} errata"
    line += f" ({words.errata(count['errata'] for count in counts)})" if errata else ""
    line += f", {fails} fail" + (", as on record" if fails and not news else "")
    line += f"; {crashed} did not finish" if crashed else ""
    bad = bool(news or crashed or (strict and fails))
    out.print(f"[{'red' if bad else 'green'}]{line}[/]")
    for name in news:
        out.print(f"[red]differs from the record[/] {name}")
    raise typer.Exit(1 if bad else 0)


def _as_json(stored: StoredRun) -> dict[str, Any]:
    keys = ("id", "digest", "seed", "preset", "run_seconds", "compile_seconds", "device", "command")
    claims = [claim.model_dump(mode="json") for claim in stored.claims]
    head = {key: stored.manifest.get(key) for key in keys}
    return {**head, "folder": str(stored.folder), "reused": stored.reused, "verdict": stored.verdict, "claims": claims}


@app.command()
def join(
    id: Annotated[str, typer.Argument(help="An id, or a file of your own.")],
    preset: Preset = None,
    changes: Changes = None,
    seed: Annotated[int, typer.Option("--seed", callback=_seed, help="That of the parts.")] = 0,
    others: Annotated[
        list[Path] | None, typer.Option("--from", metavar="FOLDER", help="Further folders of runs with parts.")
    ] = None,
    as_json: AsJson = False,
    runs: Runs = None,
) -> None:
    """Join stored runs of its parts (some seeds here, some settings there) to the run that the options name."""
    from dynascope.lab import registry
    from dynascope.lab.fields import assignment, build, once
    from dynascope.lab.join import join
    from dynascope.lab.store import Store
    from dynascope.lab.terminal import claims_table, console, escape

    for folder in others or ():
        if not folder.is_dir():
            raise UsageError(f"--from must be a folder of runs; got {folder}")
    given = once((assignment(text) for text in changes or ()), "--set")
    experiment, out = build(registry.load(id), given, preset), console(errors=as_json)
    whole = join(experiment, seed=seed, preset=preset, store=Store(runs), others=map(Store, others or ()), warn=_say)
    if as_json:
        print(json.dumps(_as_json(whole), indent=2))
    count = len(whole.manifest.get("parts") or ())
    out.print(f"[bold]{escape(whole.id)}[/]  {escape(experiment.title())}  [dim](joined from {count} parts)[/]")
    out.print(claims_table(whole.claims))
    out.print(f"  [dim]{escape(str(whole.folder))}[/]", soft_wrap=True)
    _close(out, [whole], 0, strict=False)


@app.command()
def sweep(
    id: Annotated[str, typer.Argument(help="An id, or a file of your own.")],
    grid: Annotated[
        list[str],
        typer.Option("--grid", "-g", metavar="KEY=...", help="key=FROM:TO:COUNT, key=FROM:TO:COUNT:log or key=v1,v2."),
    ],
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Seeds 0 to N-1 at each point.")] = 1,
    preset: Preset = None,
    changes: Changes = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="The number of processes on this machine.")] = 1,
    executor: Annotated[str, typer.Option("--executor", help="local, or dask:ADDRESS.")] = "local",
    force: Force = False,
    as_json: AsJson = False,
    runs: Runs = None,
) -> None:
    """Run an experiment over a grid of settings and seeds, and summarize its claims."""
    from dynascope.lab import registry
    from dynascope.lab.executors import choose, stop
    from dynascope.lab.fields import assignment, grid_axis, once
    from dynascope.lab.store import Store
    from dynascope.lab.sweep import sweep
    from dynascope.lab.terminal import console, escape, progress_line, sweep_table

    kind = registry.load(id)
    axes = once((grid_axis(kind, text) for text in grid), "--grid")
    base = once((assignment(text) for text in changes or ()), "--set")
    if double := axes.keys() & base.keys():
        raise UsageError(f"{sorted(double)[0]} is given by --grid and by --set")
    out, store = console(errors=as_json), Store(runs)
    with choose(executor, jobs) as pool, progress_line(kind.id) as on_progress:
        try:
            result = sweep(
                kind,
                axes,
                base=base,
                preset=preset,
                seeds=seeds,
                store=store,
                executor=pool,
                force=force,
                on_progress=on_progress,
            )
        except KeyboardInterrupt:
            stop(pool)
            _say("interrupted; finished runs are stored and the same command continues from here")
            raise typer.Exit(130) from None
    summary = (result.folder / "summary.json").read_text(encoding="utf-8")
    if as_json:
        print(summary, end="")
    out.print(sweep_table(json.loads(summary)["rows"], list(axes)))
    out.print(f"[dim]{escape(str(result.folder))}[/]", soft_wrap=True)
    for line in result.errors:
        _say(line)
    raise typer.Exit(1 if result.errors else 0)


@app.command()
def audit(
    ids: Annotated[list[str] | None, typer.Argument(help="Ids and globs; all experiments by default.")] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds.")] = 10,
    first: Annotated[int, typer.Option("--first", callback=_seed, help="The first of them.")] = 0,
    preset: Annotated[str, typer.Option("--preset", "-p", help="The preset; full for the full setting.")] = "quick",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="The number of processes on this machine.")] = 1,
    every: Annotated[bool, typer.Option("--all", help="Print every claim, also those that hold at all seeds.")] = False,
    as_json: AsJson = False,
    runs: Runs = None,
) -> None:
    """In what share of seeds does each claim hold?"""
    from dynascope.lab import registry
    from dynascope.lab.audit import FILE, audit
    from dynascope.lab.executors import choose, stop
    from dynascope.lab.fields import build
    from dynascope.lab.store import Store
    from dynascope.lab.terminal import audit_table, console, progress_line

    store, out = Store(runs), console(errors=as_json)
    _seed(first + seeds - 1)
    chosen = None if preset == "full" else preset
    asked = [(entry, registry.load(entry)) for entry in registry.match(ids or ["*"])]
    built = [(entry, build(kind, {}, chosen if chosen in kind.presets else None)) for entry, kind in asked]
    entries = [entry for entry, _ in _possible(built, ids or [])]
    with choose("local", jobs) as pool, progress_line("audit") as on_progress:
        try:
            found = audit(
                entries,
                range(first, first + seeds),
                preset=chosen,
                store=store,
                executor=pool,
                on_progress=on_progress,
            )
        except KeyboardInterrupt:
            stop(pool)
            _say("interrupted; finished runs are stored and the same command continues from here")
            raise typer.Exit(130) from None
    file = store.root / f"{FILE}.json"
    if as_json:
        print(file.read_text(encoding="utf-8"), end="")
    shown = [row for row in found.rows if every or row.holds < row.of]
    if shown:
        out.print(audit_table(shown))
    for line in found.errors:
        _say(line)
    main = [row for row in found.rows if row.main]
    out.print(
        f"{len(found.rows)} claims at {seeds} seed{'s' * (seeds != 1)}: {found.agreement:.2%} of the verdicts are on "
        f"record; {sum(row.agrees == row.of for row in main)} of {len(main)} main claims agree with it at every seed",
        soft_wrap=True,
    )
    out.print(f"[dim]{file}[/]", soft_wrap=True)
    raise typer.Exit(1 if found.errors or found.agreement < 1 else 0)


@app.command()
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
        _say(f"skipped: {problem}")
    if not stored:
        _say(f"no runs are stored in {store.root}: the report is empty")
    print(f"report: {page}")
    if open_:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _say(line: str) -> None:
    """Print a message on standard error, beside the results."""
    print(f"dynascope: {line}", file=sys.stderr)


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
            _say(line)
        status = error.exit_status
    except Misuse as error:
        _say(f"{error.format_message()} (see dynascope --help)".replace("\n", " "))
        status = 2
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted; the same command continues from here")
        status = 130
    except BrokenPipeError:  # the reader of our output has gone: `dynascope list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        _say(str(explain_os_error(error, "working")))
        status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()
