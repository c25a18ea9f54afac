"""The commands for many runs: `sweep` over settings, `audit` over seeds."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from dynascope.cli.options import AsJson, Changes, Force, Preset, Runs, say, seed_in_range
from dynascope.cli.run import possible
from dynascope.lab.errors import UsageError


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
    executor: Annotated[
        str, typer.Option("--executor", help="local, dask:tcp://HOST:PORT, dask:local:N or dask:FILE.toml.")
    ] = "local",
    force: Force = False,
    as_json: AsJson = False,
    runs: Runs = None,
) -> None:
    """Run an experiment over a grid of settings and seeds, and summarize its claims."""
    from dynascope.lab import registry
    from dynascope.lab.executors import choose, stop
    from dynascope.lab.fields import assignment, grid_axis, once
    from dynascope.lab.store import Store
    from dynascope.lab.sweeps import sweep
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
            say("interrupted; finished runs are stored and the same command continues from here")
            raise typer.Exit(130) from None
    summary = (result.folder / "summary.json").read_text(encoding="utf-8")
    if as_json:
        print(summary, end="")
    out.print(sweep_table(json.loads(summary)["rows"], list(axes)))
    out.print(f"[dim]{escape(str(result.folder))}[/]", soft_wrap=True)
    for line in result.errors:
        say(line)
    raise typer.Exit(1 if result.errors else 0)


def audit(
    ids: Annotated[list[str] | None, typer.Argument(help="Ids and globs; all experiments by default.")] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds.")] = 10,
    first: Annotated[int, typer.Option("--first", callback=seed_in_range, help="The first of them.")] = 0,
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
    seed_in_range(first + seeds - 1)
    chosen = None if preset == "full" else preset
    asked = [(entry, registry.load(entry)) for entry in registry.match(ids or ["*"])]
    built = [(entry, build(kind, {}, chosen if chosen in kind.presets else None)) for entry, kind in asked]
    entries = [entry for entry, _ in possible(built, ids or [])]
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
            say("interrupted; finished runs are stored and the same command continues from here")
            raise typer.Exit(130) from None
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
    out.print(f"[dim]{file}[/]", soft_wrap=True)
    raise typer.Exit(1 if found.errors or found.agreement < 1 else 0)
