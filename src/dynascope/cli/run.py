"""The commands that run experiments and join their parts: `run`, `join`."""

from __future__ import annotations

import json
import traceback
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from dynascope.cli.options import AsJson, Changes, Control, Debug, Force, Id, Ids, Preset, Runs, Seed, say
from dynascope.lab.errors import Interrupted, LabError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynascope.lab.setting import Setting
    from dynascope.lab.store import Store
    from dynascope.lab.stored_run import StoredRun


def run(
    ids: Ids,
    preset: Preset = None,
    control: Control = False,
    changes: Changes = None,
    seed: Seed = 0,
    force: Force = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 on any failing claim, known or not.")] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Number of worker processes (default: one per core).")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the last line and errors.")] = False,
    as_json: AsJson = False,
    runs: Runs = None,
    debug: Debug = False,
) -> None:
    """Run experiments: measure, predict, reduce, judge, draw, store. A run that is stored already is not repeated.

    With --json, standard output holds only the JSON; all messages go to standard error, with --quiet too.
    """
    from dynascope.lab import registry
    from dynascope.lab.batch import default_jobs
    from dynascope.lab.fields import assignment, once
    from dynascope.lab.setting import Setting
    from dynascope.lab.store import Store
    from dynascope.lab.terminal import console

    store = Store(runs)
    given = once((assignment(text) for text in changes or ()), "--set")
    kinds = [registry.load(entry) for entry in registry.match(ids)]
    options = {"preset": preset, "control": control, "changes": given, "seed": seed}
    settings = possible([Setting.parse(kind, **options) for kind in kinds], ids)
    out = console(errors=as_json)
    jobs = 1 if len(settings) < 2 else jobs or default_jobs(len(settings))
    if jobs == 1:
        results = _in_turn(settings, store, force, quiet)
    else:
        results = _side_by_side(settings, store, force, jobs, quiet)
    finished: list[StoredRun] = []
    crashed = 0
    for result in results:
        if isinstance(result, UsageError) and len(settings) == 1:
            raise result
        if isinstance(result, LabError):
            crashed += 1
            say(str(result))
            if debug:
                traceback.print_exception(result)
            continue
        finished.append(result)
        if not quiet:
            _print(out, result, _spent(result))
    if as_json:
        print(json.dumps([_as_json(stored) for stored in finished], indent=2))
    _close(out, finished, crashed, strict)


def possible(settings: list[Setting], ids: list[str]) -> list[Setting]:
    """The settings that can run here. One that lacks a requirement is refused if it is named by its id, else left
    out."""
    from dynascope.lab.setting import possible

    found, lines = possible(settings, ids)
    for line in lines:
        say(line)
    return found


def _in_turn(settings: list[Setting], store: Store, force: bool, quiet: bool) -> Iterator[StoredRun | LabError]:
    """Run settings one after another in this process."""
    from dynascope.lab.execute import execute
    from dynascope.lab.progress_line import progress_line

    for number, setting in enumerate(settings, 1):
        label = f"[{number}/{len(settings)}] {setting.id}"
        try:
            with nullcontext() if quiet else progress_line(label, setting.cost) as on_progress:
                if on_progress is None and not quiet:
                    say(f"{label} ...")
                warn = None if quiet else say
                result = execute(setting, store, force=force, on_progress=on_progress, warn=warn)
        except LabError as error:
            result = error
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted in {label}; the same command continues from here") from None
        yield result


def _side_by_side(
    settings: list[Setting], store: Store, force: bool, jobs: int, quiet: bool
) -> Iterator[StoredRun | LabError]:
    """Run settings in several processes; the results are in the order of the settings."""
    from dynascope.lab.batch import outcomes
    from dynascope.lab.progress_line import progress_line
    from dynascope.lab.workers.executors import choose, stop

    shown = nullcontext() if quiet else progress_line(f"{len(settings)} runs")
    with choose("local", jobs) as pool, shown as on_progress:
        try:
            for result, warnings in outcomes(settings, store, pool, force=force, on_progress=on_progress):
                for warning in () if quiet else warnings:
                    say(warning)
                yield result
        except KeyboardInterrupt:
            stop(pool)
            raise Interrupted from None


def _spent(stored: StoredRun) -> str:
    from dynascope.lab import formatting

    seconds = stored.manifest["run_seconds"] + stored.manifest["judge_seconds"]
    return "stored already" if stored.reused else formatting.duration(seconds)


def _print(out: Any, stored: StoredRun, note: str) -> None:
    from dynascope.lab.terminal import claims_table, escape

    out.print(f"[bold]{escape(stored.id)}[/]  {escape(stored.manifest['title'])}  [dim]({note})[/]")
    out.print(claims_table(stored.claims))
    out.print(f"  [dim]{escape(str(stored.folder))}[/]", soft_wrap=True)


def _close(out: Any, finished: list[StoredRun], crashed: int, strict: bool) -> NoReturn:
    from dynascope.lab import formatting

    counts = [run.manifest["claims"] for run in finished]
    holds, errata, fails = (sum(count[name] for count in counts) for name in ("holds", "erratum", "fails"))
    news = [f"{run.id}: {claim}" for run in finished for claim in run.manifest["claims"]["news"]]
    line = f"{formatting.count(len(finished), 'run')}: {formatting.count(holds, 'claim holds', 'claims hold')}"
    kinds = formatting.errata(count["errata"] for count in counts)
    line += f", {formatting.count(errata, 'erratum', 'errata')}" + (f" ({kinds})" if errata else "")
    line += f", {formatting.count(fails, 'fails', 'fail')}" + (", as on record" if fails and not news else "")
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


def join(
    id: Id,
    preset: Preset = None,
    changes: Changes = None,
    seed: Seed = 0,
    others: Annotated[
        list[Path] | None, typer.Option("--from", metavar="FOLDER", help="Another folder of runs with parts.")
    ] = None,
    as_json: AsJson = False,
    runs: Runs = None,
) -> None:
    """Join stored runs of parts of an experiment (some seeds, some settings) into the run that the options name."""
    from dynascope.lab.fields import assignment, once
    from dynascope.lab.join import join
    from dynascope.lab.setting import Setting
    from dynascope.lab.store import Store
    from dynascope.lab.terminal import console

    for folder in others or ():
        if not folder.is_dir():
            raise UsageError(f"--from must be a folder of runs; got {folder}")
    given = once((assignment(text) for text in changes or ()), "--set")
    setting, out = Setting.parse(id, preset=preset, changes=given, seed=seed), console(errors=as_json)
    whole = join(setting, Store(runs), others=map(Store, others or ()), warn=say)
    if as_json:
        print(json.dumps(_as_json(whole), indent=2))
    count = len(whole.manifest.get("parts") or ())
    _print(out, whole, f"joined from {count} parts")
    _close(out, [whole], 0, strict=False)
