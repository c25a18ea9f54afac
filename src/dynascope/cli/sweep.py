"""The commands for many runs: `sweep` over settings, `audit` over seeds."""

from __future__ import annotations

import json
import re
import sys
import traceback
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from dynascope.cli.complete import complete_id
from dynascope.cli.options import AsJson, Changes, Control, Debug, Force, Id, Preset, Runs, say, seed_in_range
from dynascope.cli.run import possible
from dynascope.lab.errors import Interrupted, LabError, UsageError

if TYPE_CHECKING:
    from dynascope.lab.sweeps.plan import Plan


ESTIMATED = "estimated from the experiment's cost"
MOST_MINUTES, MOST_UNASKED = 30, 1000
"""The minutes and runs from which a sweep asks for confirmation."""


def sweep(
    id: Id,
    grid: Annotated[
        list[str],
        typer.Option("--grid", "-g", metavar="KEY=...", help="key=FROM:TO:COUNT, key=FROM:TO:COUNT:log or key=v1,v2."),
    ],
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Seeds 0 to N-1 at each point.")] = 1,
    preset: Preset = None,
    control: Control = False,
    changes: Changes = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Number of processes on this machine.")] = 1,
    executor: Annotated[
        str, typer.Option("--executor", help="local, dask:tcp://HOST:PORT, dask:local:N or dask:FILE.toml.")
    ] = "local",
    part: Annotated[
        str | None,
        typer.Option(
            "--part", metavar="K/N", help="Run only every N-th point, starting at the K-th; write no summary."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation for large sweeps.")] = False,
    force: Force = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if any claim fails at any point.")] = False,
    as_json: AsJson = False,
    runs: Runs = None,
    debug: Debug = False,
) -> None:
    """Run an experiment over a grid of settings and seeds; summarize its claims and numbers over the grid."""
    from dynascope.lab import registry
    from dynascope.lab.fields import assignment, grid_axis, once
    from dynascope.lab.progress_line import progress_line
    from dynascope.lab.store import Store
    from dynascope.lab.sweeps import carry_out
    from dynascope.lab.sweeps.plan import plan
    from dynascope.lab.sweeps.summary import claim_rows
    from dynascope.lab.terminal import console, escape, sweep_table
    from dynascope.lab.workers.executors import InProcess, check, choose, stop

    kind = registry.load(id)
    axes = once((grid_axis(kind, text) for text in grid), "--grid")
    base = once((assignment(text) for text in changes or ()), "--set")
    if double := axes.keys() & base.keys():
        raise UsageError(f"{sorted(double)[0]} is given by both --grid and --set")
    out, options = console(errors=as_json), {"base": base, "preset": preset, "control": control, "seeds": seeds}
    asked = plan(kind, axes, **options, store=Store(runs), force=force).only(_part(part))
    check(executor)
    if jobs > 1 and executor != "local":
        raise UsageError(
            f"--jobs starts processes on this machine; it does not apply to the executor {executor!r}: omit one of them"
        )
    tracebacks: list[BaseException] = []
    line, much = _amount(asked, jobs if executor == "local" else None)
    if ask := much and not yes:
        _agree(line)
    with choose(executor, jobs) if asked.missing else InProcess() as pool, ExitStack() as shown:
        if asked.missing and not ask:
            say(line)
        on_progress = shown.enter_context(progress_line(kind.id))
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
    rows = claim_rows(done.data)
    if as_json and done.folder:
        print((done.folder / "sweep.json").read_text(encoding="utf-8"), end="")
    elif as_json:
        counts = {"part": part, "runs": len(asked.numbers), "stored": len(asked.numbers) - len(done.gaps)}
        print(json.dumps({**counts, "gaps": list(done.gaps)}, indent=2))
    if done.folder:
        out.print(sweep_table(rows, list(axes)))
        out.print(f"[dim]{escape(str(done.folder))}[/]", soft_wrap=True)
    else:
        out.print(f"part {part}: {len(asked.numbers) - len(done.gaps)} of {len(asked.numbers)} runs are stored")
    for name, why in done.data.attrs["left_out"].items() if done.folder else ():
        say(f"{name} is left out of sweep.nc: {why}")
    for line in done.gaps:
        say(f"gap: {line}")
    for error in tracebacks:
        traceback.print_exception(error)
    failing = strict and bool((done.data.verdict == "fails").any())
    raise typer.Exit(1 if done.gaps or failing else 0)


def _part(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,7})/(\d{1,7})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"--part is K/N, with K from 1 to N; got {text!r}")
    return int(found[1]), int(found[2])


def _amount(asked: Plan, jobs: int | None) -> tuple[str, bool]:
    """The number of missing runs and their estimated time in words, and whether to ask for confirmation."""
    from dynascope.lab import formatting

    count, seconds = len(asked.missing), asked.seconds(jobs or 1)
    line = f"{count:,} run{'s' * (count != 1)}"
    if already := len(asked.numbers) - count:
        line += f" ({already:,} more already stored)"
    if jobs is None:
        line += f", {formatting.duration(seconds)} of work, {ESTIMATED}" if seconds else ""
    elif seconds is not None:
        line += f", about {formatting.duration(seconds)} on {jobs} process{'es' * (jobs != 1)}, {ESTIMATED}"
    else:
        line += "; their duration in this setting is not known"
    return line, count > MOST_UNASKED or (jobs is not None and (seconds or 0) > 60 * MOST_MINUTES)


def _agree(line: str) -> None:
    """Ask for confirmation of a large sweep, before anything is started for it."""
    if not sys.stdin.isatty():
        raise UsageError(f"{line}: more than {MOST_UNASKED:,} runs or {MOST_MINUTES} minutes need --yes")
    say(line)
    typer.confirm("dynascope: start?", abort=True, err=True)


def audit(
    ids: Annotated[
        list[str] | None,
        typer.Argument(help="Ids and globs (default: all experiments).", autocompletion=complete_id),
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds.")] = 10,
    first: Annotated[int, typer.Option("--first", callback=seed_in_range, help="First seed.")] = 0,
    preset: Annotated[str, typer.Option("--preset", "-p", help="Preset, or full for the full setting.")] = "quick",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Number of processes on this machine.")] = 1,
    every: Annotated[
        bool, typer.Option("--all", help="Print every claim, including those that hold at all seeds.")
    ] = False,
    as_json: AsJson = False,
    runs: Runs = None,
) -> None:
    """Measure the share of seeds in which each claim holds."""
    from dynascope.lab import registry
    from dynascope.lab.audit import FILE, audit, settings_over
    from dynascope.lab.progress_line import progress_line
    from dynascope.lab.store import Store
    from dynascope.lab.terminal import audit_table, console, escape
    from dynascope.lab.workers.executors import choose, stop

    store, out = Store(runs), console(errors=as_json)
    seed_in_range(first + seeds - 1)
    chosen = None if preset == "full" else preset
    kinds = [registry.load(entry) for entry in registry.match(ids or ["*"])]
    able = possible([setting for kind in kinds for setting in settings_over(kind, [first], chosen)], ids or [])
    with choose("local", jobs) as pool, progress_line("audit") as on_progress:
        try:
            found = audit(
                [type(setting.experiment) for setting in able],
                range(first, first + seeds),
                preset=chosen,
                store=store,
                executor=pool,
                on_progress=on_progress,
            )
        except KeyboardInterrupt:
            stop(pool)
            raise Interrupted from None
    file = store.root / f"{FILE}.json"
    if as_json:
        print(file.read_text(encoding="utf-8"), end="")
    shown = [row for row in found.rows if every or row.holds < row.of]
    if shown:
        out.print(audit_table(shown))
    for line in found.errors:
        say(line)
    main = [row for row in found.rows if row.main]
    out.print(
        f"{len(found.rows)} claims at {seeds} seed{'s' * (seeds != 1)}: {found.agreement:.2%} of the verdicts are on "
        f"record; {sum(row.agrees == row.of for row in main)} of {len(main)} main claims agree with it at every seed",
        soft_wrap=True,
    )
    out.print(f"[dim]{escape(str(file))}[/]", soft_wrap=True)
    raise typer.Exit(1 if found.errors or found.agreement < 1 else 0)
