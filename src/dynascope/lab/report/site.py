"""The site on disk: rendered beside its final place, then swapped in whole."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.resources import as_file, files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from dynascope import __version__
from dynascope.lab import formatting
from dynascope.lab.errors import UsageError
from dynascope.lab.report import plotly
from dynascope.lab.report.about import Find
from dynascope.lab.report.atlas import Atlas, counted
from dynascope.lab.report.pages import RunPage
from dynascope.lab.report.prose import plain, prose
from dynascope.lab.report.rendering import render_runs
from dynascope.lab.report.stills import Pictures, find_pictures

MARKER = ".dynascope-report"
"""The file that marks a folder as a report."""


def check_ours(folder: Path, runs: Path) -> None:
    """Refuse a folder that holds anything but an earlier report, or that overlaps the run store."""
    here, there = folder.resolve(), runs.resolve()
    if here.is_relative_to(there) or there.is_relative_to(here):
        raise UsageError(f"{folder} and the run store {runs} overlap: give another folder for the report")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file: give a folder for the report")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).is_file():
        raise UsageError(f"{folder} holds something that is not a dynascope report: give an empty or a new folder")


def write_site(atlas: Atlas, folder: Path, find: Find) -> tuple[Path, list[str]]:
    """Write the atlas to a folder; an earlier report there stays until the new one is complete.

    Args:
        atlas: The contents of the site.
        folder: The folder of the site. Pictures of an earlier report there are used again.
        find: The class of an experiment by its id, to draw its figures.

    Returns:
        The site's index.html, and a line for each figure that could not be drawn for it.
    """
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".dynascope-report-") as room:
        fresh, stale = Path(room) / "fresh", Path(room) / "stale"
        fresh.mkdir()
        runs = [run.run for experiment in atlas.experiments for run in experiment.runs]
        problems = list(render_runs(runs, find, fresh, folder))
        _write_pages(atlas, fresh)
        if folder.exists():
            folder.rename(stale)
        try:
            fresh.rename(folder)
        except OSError:
            if stale.exists():
                stale.rename(folder)
            raise
    return folder / "index.html", problems


def _write_pages(atlas: Atlas, folder: Path) -> None:
    (folder / MARKER).write_text("Written by `dynascope report`, which may replace this whole folder.\n")
    with as_file(files("dynascope.lab.report") / "assets") as assets:
        _copy(assets, [asset.name for asset in assets.iterdir()], folder / "assets")
    pages = _environment()
    runs = [run for experiment in atlas.experiments for run in experiment.runs]
    pictures = {run.folder: find_pictures(run, folder / run.folder) for run in runs}
    source = plotly.find_script() if any(figure.script for one in pictures.values() for figure in one.figures) else None
    if source:
        (folder / plotly.SCRIPT).write_text(plotly.pack(source.read_bytes()), encoding="ascii")
    _save(folder / "index.html", pages.get_template("index.html").render(atlas=atlas, pictures=pictures, root=""))
    template = pages.get_template("run.html")
    neighbors = [None, *atlas.experiments, None]
    for before, experiment, after in zip(neighbors, atlas.experiments, neighbors[2:], strict=False):
        for run in experiment.runs:
            shown = pictures[run.folder]
            _copy(run.path, [name for name, _ in run.files] + _originals(run, shown), folder / run.folder)
            around = {"before": before, "after": after, "plotly": plotly.SCRIPT, "root": "../../"}
            html = template.render(run=run, experiment=experiment, pictures=shown, **around)
            _save(folder / run.folder / "index.html", html)
    template, chosen = pages.get_template("sweep.html"), {one.id: one.chosen for one in atlas.experiments}
    for sweep in atlas.sweeps:
        names = [*(figure.svg for figure in sweep.figures), *(name for name, _ in sweep.files)]
        _copy(sweep.path, names, folder / sweep.folder)
        html = template.render(sweep=sweep, chosen=chosen.get(sweep.id), root="../../../")
        _save(folder / sweep.folder / "index.html", html)
    _write_limits(atlas, pages, folder)


def _write_limits(atlas: Atlas, pages: Environment, folder: Path) -> None:
    template, chosen = pages.get_template("limits.html"), {one.id: one.chosen for one in atlas.experiments}
    for limits in atlas.limits:
        names = [*(figure.svg for figure in limits.figures), *(name for name, _ in limits.files)]
        _copy(limits.path, names, folder / limits.folder)
        html = template.render(limits=limits, chosen=chosen.get(limits.id), root="../../../")
        _save(folder / limits.folder / "index.html", html)


def _originals(run: RunPage, pictures: Pictures) -> list[str]:
    """The figures that are copied as they are stored: all with the data, else those without a smaller picture."""
    if run.data:
        return [name for figure in pictures.figures for name in (figure.png, figure.svg)]
    return [figure.png for figure in pictures.figures if figure.wide.file == figure.png]


def _environment() -> Environment:
    pages = Environment(
        loader=PackageLoader("dynascope.lab.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {
        "human": formatting.text,
        "label": formatting.label,
        "prose": prose,
        "plain": plain,
        "counted": counted,
    }
    pages.tests["rows"] = formatting.is_table
    pages.globals |= {"version": __version__, "written": f"{datetime.now(UTC):%Y-%m-%d}"}
    return pages


def _copy(source: Path, names: Iterable[str], target: Path) -> None:
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)


def _save(path: Path, html: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html, encoding="utf-8", errors="replace")  # a path may hold bytes that are no text
