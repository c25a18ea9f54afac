"""The summary of a search: its dataset, its points as a table, the answer as JSON, and a figure."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Sequence
from pathlib import Path

import xarray as xr

from dynascope import __version__
from dynascope.lab.errors import explain_os_error
from dynascope.lab.files import checksum, write_atomically
from dynascope.lab.json_text import digest_of, plain_json, pretty
from dynascope.lab.limit_search.answer import Answer
from dynascope.lab.limit_search.question import Question
from dynascope.lab.locks import lock
from dynascope.lab.netcdf import pack
from dynascope.lab.run_folders import LIMITS, UNFINISHED, publish, settle

FORMAT = 1


def write_summary(question: Question, answer: Answer, data: xr.Dataset, gaps: Sequence[str]) -> Path:
    """Write `limits/<digest>/` with `limits.nc`, `points.csv`, `limits.json`, the figure and a manifest.

    Args:
        question: The question.
        answer: The result of the search.
        data: The same as a dataset.
        gaps: A line for each run that did not finish.

    Returns:
        The folder.
    """
    final = question.store.root / question.kind.id / LIMITS / digest_of(plain_json(question.plain))
    try:
        with lock(final.with_name(final.name + ".lock")):
            _write(final, answer, data, gaps)
    except OSError as error:
        raise explain_os_error(error, f"writing the limits of {question.kind.id}") from error
    return final


def _write(final: Path, answer: Answer, data: xr.Dataset, gaps: Sequence[str]) -> None:
    from dynascope.lab.limit_search.figures import draw

    question, draft = answer.question, final.with_name(final.name + UNFINISHED)
    settle(final)
    shutil.rmtree(draft, ignore_errors=True)
    rows = point_rows(data)
    texts: dict[str, bytes | str] = {
        "limits.nc": pack(data),
        "limits.json": pretty(
            {**question.plain, "claim": answer.claim, "answer": answer.lines, "points": rows, "gaps": list(gaps)}
        ),
        "points.csv": _csv(rows),
    }
    figures = []
    for figure in draw(answer):
        texts[f"figures/{figure.name}.svg"] = figure.svg
        figures.append({"name": figure.name, "title": figure.title, "width": figure.width, "height": figure.height})
    for name, text in texts.items():
        write_atomically(draft / name, text)
    files = {name: checksum(draft / name) for name in texts}
    head = {"format": FORMAT, "status": "complete", **question.plain, "claim": answer.claim}
    head |= {"title": question.kind.title(), "command": question.command, "runs": answer.runs}
    manifest = {**head, "dynascope": __version__, "figures": figures, "files": files}
    write_atomically(draft / "manifest.json", pretty(manifest))
    publish(draft, final)


def point_rows(data: xr.Dataset) -> list[dict[str, object]]:
    """Each point: the values of the fields, the verdict, the margin, the share of seeds and its interval.

    Args:
        data: The dataset of an answer.
    """
    rows = []
    for point in range(data.sizes["point"]):
        one = data.isel(point=point)
        row = dict(zip(one.field.values.tolist(), one["values"].values.tolist(), strict=True))
        columns = ("verdict", "margin", "share", "low", "high", "seeds")
        rows.append(row | {name: _plain(one[name].item()) for name in columns})
    return rows


def _plain(value: object) -> object:
    return None if isinstance(value, float) and value != value else value


def _csv(rows: Sequence[dict[str, object]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
