"""Runs a script cell by cell, and renders it with what it printed and drew: as a page, or as a Jupyter notebook.

The scripts are in percent format, which editors show as notebooks. A cell begins with `# %%` and may have a title;
after `# %% [markdown]` its comments are text; lines `# !command` are given to the shell; a cell with the title
`name.py` is written to that file.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

COLUMNS = 110
"""The width of a terminal, as commands see it."""


@dataclass(frozen=True)
class Cell:
    """A part of a script: text in Markdown, Python, commands for the shell, or a file. Its source begins at `line`."""

    kind: Literal["text", "code", "shell", "file"]
    source: str
    title: str = ""
    line: int = 1


@dataclass(frozen=True)
class Outcome:
    """A cell that has been run: what it printed, with the value of its last expression, and its figures as PNG."""

    cell: Cell
    printed: str = ""
    figures: tuple[bytes, ...] = ()


class CellError(Exception):
    """A cell that did not run: the message names the script and the line."""


def cells(script: str) -> list[Cell]:
    """The cells of a script in percent format; what stands before the first mark is a cell too."""
    found: list[Cell] = []
    title, begin = "", 1
    lines = script.splitlines()
    for number, line in enumerate([*lines, "# %%"], start=1):
        if line != "# %%" and not line.startswith("# %% "):
            continue
        while begin < number and not lines[begin - 1].strip():
            begin += 1
        if source := "\n".join(lines[begin - 1 : number - 1]).rstrip():
            found.append(_cell(title, source, begin))
        title, begin = line[4:].strip(), number + 1
    return found


def _cell(title: str, source: str, line: int) -> Cell:
    lines = source.split("\n")
    if title == "[markdown]":
        return Cell("text", "\n".join(re.sub(r"^# ?", "", each) for each in lines), "", line)
    if all(each.startswith("# !") for each in lines):
        return Cell("shell", "\n".join(each[3:] for each in lines), title, line)
    return Cell("file" if title.endswith(".py") else "code", source, title, line)


def execute(script: Path, folder: Path) -> list[Outcome]:
    """Run the cells of a script one after another, in one namespace and in `folder`."""
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(script)}
    with contextlib.chdir(folder):
        return [run(cell, names, script.name) for cell in cells(script.read_text(encoding="utf-8"))]


def run(cell: Cell, names: dict[str, Any], script: str) -> Outcome:
    """Run one cell; code reads and sets `names`."""
    if cell.kind == "shell":
        return Outcome(cell, "\n".join(_shell(command, script, cell.line) for command in cell.source.splitlines()))
    if cell.kind == "file":
        Path(cell.title).write_text(cell.source + "\n", encoding="utf-8")
    if cell.kind != "code":
        return Outcome(cell)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            value = _evaluate(cell, names, script)
            figures = [value] if _is_figure(value) else []
            if value is not None and not figures:
                print(repr(value))
    except Exception as error:
        raise CellError(f"{script}, the cell at line {cell.line}: {type(error).__name__}: {error}") from error
    return Outcome(cell, printed.getvalue().rstrip(), tuple(_pictures(figures)))


def _is_figure(value: Any) -> bool:
    """Whether a value is a figure, which notebooks show."""
    return f"{type(value).__module__}.{type(value).__name__}" == "matplotlib.figure.Figure"


def _evaluate(cell: Cell, names: dict[str, Any], script: str) -> Any:
    """Run the statements; the value is that of the last one, where it is an expression that does not draw."""
    tree = ast.parse(cell.source, script)
    ast.increment_lineno(tree, cell.line - 1)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, script, "exec"), names)
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), script, "eval"), names)
    first = value[0] if isinstance(value, list) and value else value
    return None if type(first).__module__.startswith("matplotlib") and not _is_figure(value) else value


def _shell(command: str, script: str, line: int) -> str:
    """What a command prints; the programs of this environment come first."""
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "COLUMNS": str(COLUMNS),
        "NO_COLOR": "1",
        "MPLBACKEND": "agg",
    }
    done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CellError(f"{script}, the cell at line {line}: `{command}` ended with {done.returncode}: {done.stderr}")
    return "\n".join([f"$ {command}", *(each.rstrip() for each in done.stdout.rstrip().splitlines())])


def _pictures(figures: list[Any]) -> Iterator[bytes]:
    """The open figures of pyplot, which are closed, and others, as PNG."""
    if "matplotlib.pyplot" in sys.modules:
        from matplotlib import pyplot

        open_ones = [pyplot.figure(number) for number in pyplot.get_fignums()]
        figures = open_ones + [figure for figure in figures if figure not in open_ones]
        pyplot.close("all")
    for figure in figures:
        file = io.BytesIO()
        figure.savefig(file, dpi=160, bbox_inches="tight", facecolor="white")
        yield file.getvalue()


def page(outcomes: Iterable[Outcome], stem: str) -> tuple[str, dict[str, bytes]]:
    """The page in Markdown, and the pictures that it shows, by name; the names begin with `stem`."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for outcome in outcomes:
        cell = outcome.cell
        if cell.kind == "text":
            parts.append(cell.source)
        elif cell.kind == "shell":
            parts.append(f"```console\n{outcome.printed}\n```")
        elif cell.kind == "file":
            parts.append(f'```python title="{cell.title}"\n{cell.source}\n```')
        else:
            parts.append(f"```python\n{cell.source}\n```")
            if outcome.printed:
                parts.append(f"```text\n{outcome.printed}\n```")
        for figure in outcome.figures:
            name = f"{stem}-{len(pictures) + 1}.png"
            pictures[name] = figure
            parts.append(f"![Figure]({name})")
    return "\n\n".join(parts) + "\n", pictures


def notebook(outcomes: Iterable[Outcome]) -> str:
    """A Jupyter notebook (format 4.5) with the outputs in it."""
    found = []
    for number, outcome in enumerate(outcomes):
        cell = outcome.cell
        entry: dict[str, Any] = {"id": f"cell-{number}", "metadata": {}, "source": cell.source}
        if cell.kind == "text":
            found.append({**entry, "cell_type": "markdown"})
            continue
        if cell.kind == "shell":
            entry["source"] = "\n".join(f"!{command}" for command in cell.source.splitlines())
        if cell.kind == "file":
            entry["source"] = f"%%writefile {cell.title}\n{cell.source}"
        outputs: list[dict[str, Any]] = []
        if outcome.printed:
            outputs.append({"output_type": "stream", "name": "stdout", "text": outcome.printed + "\n"})
        for figure in outcome.figures:
            data = {"image/png": base64.b64encode(figure).decode()}
            outputs.append({"output_type": "display_data", "metadata": {}, "data": data})
        found.append({**entry, "cell_type": "code", "execution_count": None, "outputs": outputs})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {"cells": found, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
