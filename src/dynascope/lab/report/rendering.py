"""The pictures of a run's page, drawn from its stored data.

Those of an earlier report are kept while the run is the same. The others are drawn by several processes.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image
from xarray import Dataset

from dynascope.lab.drawing import Card, card_panel, lay_out, open_figures
from dynascope.lab.errors import WorkerLost, one_line
from dynascope.lab.experiment import Experiment
from dynascope.lab.json_text import digest_of
from dynascope.lab.observations import observed_figures
from dynascope.lab.report import plotly
from dynascope.lab.report.about import Find
from dynascope.lab.report.pictures import interactive_script, small_files, wide
from dynascope.lab.stored_run import StoredRun
from dynascope.lab.workers.executors import choose, stop

WEB = "figures/web"
"""The folder of a page's pictures."""
KEY = "rendered.txt"
"""The file in it that says which run they show."""
FORMAT = 2
"""Increase it when pictures of the same run look different."""
RUNS_PER_PROCESS = 6
"""The number of runs per process: starting a process takes as long as drawing some runs."""


def render_runs(runs: Iterable[StoredRun], find: Find, site: Path, earlier: Path) -> Iterator[str]:
    """Put the pictures of each run into its folder of a site, and report the figures that could not be drawn.

    Args:
        runs: The runs that have a page.
        find: The class of an experiment by its id.
        site: The folder of the new site.
        earlier: The folder of the report that it replaces, if there is one.

    Yields:
        A line for each figure that could not be drawn: its page shows the PNG.
    """
    waiting: list[StoredRun] = []
    for run in (run for run in runs if run.figures):
        before, target = (folder / run.id / run.digest / WEB for folder in (earlier, site))
        if (before / KEY).is_file() and (before / KEY).read_text(encoding="utf-8") == _key(run):
            shutil.copytree(before, target)
        else:
            waiting.append(run)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    executor = choose("local", max(1, min(cores, len(waiting) // RUNS_PER_PROCESS)))
    with executor:
        futures: dict[Future[list[str]], StoredRun] = {
            executor.submit(_render, run.folder, find, site / run.id / run.digest / WEB): run for run in waiting
        }
        try:
            for future, run in futures.items():
                try:
                    yield from future.result()
                except WorkerLost as error:
                    yield f"{run.folder}: no pictures were drawn ({one_line(error)})"
        except BaseException:
            stop(executor)
            raise


def render(run: StoredRun, find: Find) -> tuple[dict[str, bytes], list[str]]:
    """Draw the pictures of one run.

    Args:
        run: The stored run.
        find: The class of an experiment by its id.

    Returns:
        The files by name, `<figure>.wide.webp` and so on, and a line for each figure that could not be drawn.
    """
    from dynascope.lab.machine import compilation_cache, precision  # it imports JAX

    files: dict[str, bytes] = {}
    for name, png in run.figures.items():
        with suppress(OSError, Image.DecompressionBombError):  # not a picture, or not one of ours
            files[f"{name}.wide.webp"] = wide(png)
    kind = None if run.observed else find(run.id) or find(_address(run))
    if kind is None and not run.observed:
        return files, [f"{run.folder} cannot be drawn again: {run.id} is not known here"]
    problems: list[str] = []
    try:
        draw, card = _drawing(run, kind)
        with compilation_cache(), precision(True, "highest"), open_figures(draw) as figures:
            chosen, panel = card_panel(card, figures)
            for name in run.figures:
                try:
                    files |= _web_files(name, figures, panel if name == chosen else None)
                except Exception as error:  # a figure of a kind that we have not met
                    problems.append(f"{run.folder}: the figure {name!r} cannot be laid out ({one_line(error)})")
    except Exception as error:  # the experiment may have changed since it was run
        problems.append(f"{run.folder} cannot be drawn by this version of {run.id} ({one_line(error)})")
    return files, problems


def _drawing(run: StoredRun, kind: type[Experiment] | None) -> tuple[Callable[[], Mapping[str, Figure]], Card]:
    """The function that draws a run, or an observation, from its stored data, and the figure for the card."""
    if kind is None:
        trace = run.measured()
        assert isinstance(trace, Dataset)
        return lambda: observed_figures(trace), ""
    experiment = kind(**run.config)
    data = run.measured(), run.predicted(), run.reduced()
    return lambda: experiment.draw(*data), experiment.card


def _address(run: StoredRun) -> str:
    """The experiment in the command of the run, such as `mine.py::my.thing`; files beside the runs are not loaded."""
    with suppress(ValueError, IndexError):
        address = shlex.split(run.manifest["command"])[2]
        if not Path(address.partition("::")[0]).resolve().is_relative_to(run.folder.resolve().parents[1]):
            return address
    return run.id


def _web_files(name: str, figures: Mapping[str, Figure], panel: int | None) -> dict[str, bytes]:
    """The files of one figure but the wide one; the first figure has an interactive version too."""
    lay_out(figures[name])
    first = name == next(iter(figures))
    script = interactive_script(figures[name]) if first and plotly.find_script() else None
    files = {f"{name}.{ending}": content for ending, content in small_files(figures[name], panel).items()}
    return files | ({f"{name}.plotly.js": script.encode()} if script else {})


def _render(folder: Path, find: Find, target: Path) -> list[str]:
    run = StoredRun.open(folder)
    files, problems = render(run, find)
    target.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (target / name).write_bytes(content)
    if not problems:
        (target / KEY).write_text(_key(run), encoding="utf-8")
    return problems


def _key(run: StoredRun) -> str:
    """A key that is the same for the same files of a run, drawn by the same code."""
    return digest_of([FORMAT, plotly.find_script() is not None, run.manifest.get("code"), run.manifest["files"]])
