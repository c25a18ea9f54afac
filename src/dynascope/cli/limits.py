"""The command that looks for the limits of a claim: `limits`."""

from __future__ import annotations

import sys
import traceback
from contextlib import ExitStack
from typing import Annotated

import typer

from dynascope.cli.options import AsJson, Changes, Control, Debug, Id, Preset, Runs, say
from dynascope.lab.errors import Interrupted, LabError, UsageError


def limits(
    id: Id,
    over: Annotated[
        list[str],
        typer.Option("--over", "-o", metavar="KEY=...", help="key=LOW:HIGH or key=LOW:HIGH:log; key.0 of a list."),
    ],
    claim: Annotated[str, typer.Option("--claim", help="Id of a claim, or main.")] = "main",
    points: Annotated[int, typer.Option("--points", min=1, help="Maximum number of runs, all seeds counted.")] = 300,
    seeds: Annotated[
        int,
        typer.Option("--seeds", min=1, help="Maximum number of seeds per point: two, more if these disagree."),
    ] = 3,
    resolution: Annotated[
        float, typer.Option("--resolution", help="Stop when each limit is known to this fraction of its range.")
    ] = 0.01,
    at_once: Annotated[
        int, typer.Option("--at-once", min=1, help="Number of points that are chosen and run side by side.")
    ] = 4,
    preset: Preset = None,
    control: Control = False,
    changes: Changes = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Number of processes on this machine.")] = 1,
    executor: Annotated[
        str, typer.Option("--executor", help="local, dask:tcp://HOST:PORT, dask:local:N or dask:FILE.toml.")
    ] = "local",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation for long searches.")] = False,
    as_json: AsJson = False,
    runs: Runs = None,
    debug: Debug = False,
) -> None:
    """Find where a claim stops being true: points are placed where its verdict changes."""
    from dynascope.lab import registry
    from dynascope.lab.fields import assignment, once
    from dynascope.lab.limit_search import carry_out
    from dynascope.lab.limit_search.question import Effort, ask
    from dynascope.lab.limit_search.ranges import split
    from dynascope.lab.progress_line import progress_line
    from dynascope.lab.store import Store
    from dynascope.lab.terminal import console, escape
    from dynascope.lab.workers.executors import check, choose, stop

    ranges = once((split(text) for text in over), "--over")
    base = once((assignment(text) for text in changes or ()), "--set")
    options = {"claim": claim, "base": base, "preset": preset, "control": control}
    effort = Effort(points, seeds, resolution, at_once)
    asked = ask(registry.load(id), ranges, **options, effort=effort, store=Store(runs))
    check(executor)
    if jobs > 1 and executor != "local":
        raise UsageError(
            f"--jobs starts processes on this machine; it does not apply to the executor {executor!r}: omit one of them"
        )
    _agree(asked.default.cost, points, jobs if executor == "local" else None, yes)
    out, tracebacks = console(errors=as_json), list[BaseException]()
    with choose(executor, jobs) as pool, ExitStack() as shown:
        on_progress = shown.enter_context(progress_line(asked.kind.id))
        try:
            done = carry_out(
                asked,
                pool,
                on_progress=on_progress,
                on_gap=lambda _, error: tracebacks.append(error) if debug else None,
            )
        except KeyboardInterrupt:
            stop(pool)
            raise Interrupted from None
        except LabError:
            stop(pool)
            raise
    if as_json:
        print((done.folder / "limits.json").read_text(encoding="utf-8"), end="")
    for line in done.answer.lines:
        out.print(escape(line), soft_wrap=True)
    out.print(f"[dim]{escape(str(done.folder))}[/]", soft_wrap=True)
    for line in done.gaps:
        say(f"gap: {line}")
    for error in tracebacks:
        traceback.print_exception(error)
    raise typer.Exit(1 if done.gaps else 0)


def _agree(cost: float | None, points: int, jobs: int | None, yes: bool) -> None:
    """Ask before a long search, and before anything is started for it."""
    from dynascope.cli.sweep import MOST_MINUTES, MOST_UNASKED
    from dynascope.lab import formatting

    seconds = None if cost is None or jobs is None else points * cost / jobs
    line = f"at most {formatting.count(points, 'run')}"
    line += f", {formatting.duration(seconds)}, estimated from the experiment's cost" if seconds else ""
    say(line)
    if yes or (points <= MOST_UNASKED and (seconds or 0) <= 60 * MOST_MINUTES):
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{line}: more than {MOST_UNASKED:,} runs or {MOST_MINUTES} minutes need --yes")
    typer.confirm("dynascope: start?", abort=True, err=True)
