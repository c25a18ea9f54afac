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
from dynascope.lab.report.atlas import Atlas
from dynascope.lab.report.moving import interactive
from dynascope.lab.report.pages import RunPage
from dynascope.lab.report.prose import plain, prose

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


def write_site(atlas: Atlas, folder: Path) -> Path:
    """Write the atlas to `folder`; an earlier report there stays until the new one is complete."""
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".dynascope-report-") as room:
        fresh, stale = Path(room) / "fresh", Path(room) / "stale"
        _render(atlas, fresh)
        if folder.exists():
            folder.rename(stale)
        try:
            fresh.rename(folder)
        except OSError:
            if stale.exists():
                stale.rename(folder)
            raise
    return folder / "index.html"


def _render(atlas: Atlas, folder: Path) -> None:
    folder.mkdir()
    (folder / MARKER).write_text("Written by `dynascope report`, which may replace this whole folder.\n")
    with as_file(files("dynascope.lab.report") / "assets") as assets:
        _copy(assets, [asset.name for asset in assets.iterdir()], folder / "assets")
    pages = _environment()
    _save(folder / "index.html", pages.get_template("index.html").render(atlas=atlas, root=""))
    template = pages.get_template("run.html")
    neighbors = [None, *atlas.experiments, None]
    for before, experiment, after in zip(neighbors, atlas.experiments, neighbors[2:], strict=False):
        for run in experiment.runs:
            names = [name for name, _ in run.files]
            _copy(run.path, names + _pictures(run), folder / run.folder)
            live = interactive(run, folder)
            html = template.render(run=run, experiment=experiment, before=before, after=after, live=live, root="../../")
            _save(folder / run.folder / "index.html", html)
    template, chosen = pages.get_template("sweep.html"), {one.id: one.chosen for one in atlas.experiments}
    for sweep in atlas.sweeps:
        names = [*(figure.svg for figure in sweep.figures), *(name for name, _ in sweep.files)]
        _copy(sweep.path, names, folder / sweep.folder)
        html = template.render(sweep=sweep, chosen=chosen.get(sweep.id), root="../../../")
        _save(folder / sweep.folder / "index.html", html)


def _pictures(run: RunPage) -> list[str]:
    """The pictures of a run's page: small ones, and with the data the originals."""
    found = [run.card.file] if run.card else []
    for figure in run.figures:
        found += [figure.wide.file] + ([figure.narrow.file] if figure.narrow else [])
        found += [name for name in (figure.png, figure.svg) if name] if run.data else []
    return list(dict.fromkeys(found))


def _environment() -> Environment:
    pages = Environment(
        loader=PackageLoader("dynascope.lab.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {"human": formatting.text, "label": formatting.label, "prose": prose, "plain": plain}
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
