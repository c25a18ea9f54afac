"""The commands that describe experiments: `list`, `show`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynascope.cli.options import AsJson, Id, Runs, say

if TYPE_CHECKING:
    from dynascope.lab.entry import Entry
    from dynascope.lab.experiment import Experiment
    from dynascope.lab.stored_run import StoredRun
    from dynascope.ledger import Statement


def list_(
    pattern: Annotated[str, typer.Argument(help="An id, a glob over ids, or a file of your own.")] = "*",
    figure: Annotated[
        str | None,
        typer.Option(
            "--figure", help='A place in a document, such as "Figure 5": its statements and the claims that judge them.'
        ),
    ] = None,
    as_json: AsJson = False,
    runs: Runs = None,
) -> None:
    """List the experiments: question, source, cost, last verdict.

    Costs are for two CPU cores; settings that take more than a day on these are for a GPU. Your own experiments are
    included: those in the folders of $DYNASCOPE_EXPERIMENTS and those of installed packages. With --figure: the
    statements at that place, each with its claims, their verdicts on record and the size of that evidence, or the
    reason why it is not judged.
    """
    from dynascope.lab import registry
    from dynascope.lab.store import Store

    found, left_out = registry.survey()
    found = registry.match([pattern]) if pattern != "*" else found
    rows = []
    if figure is not None:
        rows, found = _on(figure, found, only_theirs=pattern != "*")
    last, problems = Store(runs).latest()
    if as_json:
        experiments = [_row(entry, last.get(entry.id)) for entry in found]
        stated = {"statements": [_stated(row) for row in rows], "experiments": experiments}
        print(json.dumps(experiments if figure is None else stated, indent=2))
    else:
        from dynascope.lab.terminal import catalog, console, statement

        for part in (part for row in rows for part in statement(row)):
            console().print(part)
        if found:
            console().print(catalog(found, last))
    for problem in [*left_out, *(f"skipped: {problem}" for problem in problems)]:
        say(problem)


def show(id: Id, as_json: AsJson = False, runs: Runs = None) -> None:
    """Show the question of an experiment, its fields, presets and control."""
    from dynascope.lab import registry
    from dynascope.lab.outline import outline
    from dynascope.lab.store import Store
    from dynascope.lab.terminal import console, description

    store = Store(runs)
    found = [(entry, outline(entry) or registry.load(entry)) for entry in registry.match([id])]
    last = {entry.id: store.latest(entry.id)[0].get(entry.id) for entry, _ in found}
    if as_json:
        print(json.dumps([_facts(entry, kind, last[entry.id]) for entry, kind in found], indent=2))
        return
    for entry, kind in found:
        for part in description(kind, last[entry.id], entry.origin):
            console().print(part)


def _on(place: str, entries: list[Entry], only_theirs: bool) -> tuple[list[Statement], list[Entry]]:
    """The statements at a place (or only those that these experiments judge), and the experiments on it."""
    from dynascope.lab.errors import UsageError, plain
    from dynascope.lab.places import experiments_on, statements_on

    ids = {entry.id for entry in entries}
    rows = [row for row in statements_on(place) if not only_theirs or row.experiments & ids]
    theirs = {id for row in rows for id in row.experiments} | {entry.id for entry in experiments_on(place, entries)}
    if not rows and not theirs:
        raise UsageError(
            f"no statement and no experiment is on '{plain(place)}'; name a place such as 'Figure 5' or 'Theorem 4.1'"
        )
    return rows, [entry for entry in entries if entry.id in theirs]


def _stated(row: Statement) -> dict[str, Any]:
    from dataclasses import asdict

    from dynascope.ledger import judgments, verdict

    claims = [{**asdict(found), "verdict": found.verdict, "size": found.size} for found in judgments(row)]
    told = {key: getattr(row, key) for key in ("document", "part", "place", "kind", "printed", "not_judged")}
    return {**told, "verdict": verdict(row), "claims": claims}


def _row(entry: Entry, last: StoredRun | None) -> dict[str, Any]:
    return {
        "id": entry.id,
        "title": entry.title,
        "source": {"document": entry.document, "place": entry.place},
        "cost": entry.cost,
        "presets": entry.presets,
        "from": entry.origin or ("dynascope" if entry.module else str(entry.path)),
        "verdict": last.verdict if last else None,
        "folder": str(last.folder) if last else None,
    }


def _facts(entry: Entry, kind: type[Experiment], last: StoredRun | None) -> dict[str, Any]:
    import inspect

    from pydantic_core import to_jsonable_python

    from dynascope.lab.field_types import describe_type

    fields = [
        {
            "name": name,
            "takes": describe_type(field),
            "default": None if field.is_required() else field.default,
            "required": field.is_required(),
            "description": field.description or "",
        }
        for name, field in kind.model_fields.items()
    ]
    words = {"about": inspect.cleandoc(kind.__doc__ or ""), "notes": inspect.cleandoc(kind.notes)}
    settings = {"presets": kind.presets, "control": kind.control, "fields": fields}
    return to_jsonable_python({**_row(entry, last), **words, **settings}, fallback=str)
