"""The pictures of a run's page, with the sizes that keep the page from jumping while they load."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from dynascope.lab import formatting
from dynascope.lab.drawing import DPI
from dynascope.lab.report.pages import RunPage
from dynascope.lab.report.prose import plain
from dynascope.lab.report.rendering import WEB

WIDE_DPI = 105
"""Pixels of a page per inch of a figure; the picture itself has more, for fine screens."""


@dataclass(frozen=True)
class Still:
    """A picture in the folder of its page, and the size at which it is shown."""

    file: str
    width: int
    height: int


@dataclass(frozen=True)
class Picture:
    """A figure: for wide and narrow screens, its originals in the store, and the script of its interactive version."""

    name: str
    alt: str
    wide: Still
    narrow: Still | None
    png: str
    svg: str
    script: str | None


@dataclass(frozen=True)
class Pictures:
    """The figures of a run in the experiment's order, and the panel for its card, if there is one."""

    figures: list[Picture]
    panel: Still | None

    @property
    def card(self) -> Still | None:
        """The picture on the card: the panel, or else the first figure."""
        return self.panel or (self.figures[0].wide if self.figures else None)


def find_pictures(run: RunPage, page: Path) -> Pictures:
    """The pictures of a run that lie in the folder `page`. A figure that has none is shown by its PNG."""
    figures = [_picture(run, page, name) for name in run.manifest["figures"]]
    panels = sorted(page.glob(f"{WEB}/*.card.webp"))
    return Pictures(figures, _still(page, panels[0]) if panels else None)


def _picture(run: RunPage, page: Path, name: str) -> Picture:
    title = formatting.label(name).replace("-", " ").capitalize()
    wide, narrow, script = (page / WEB / f"{name}.{ending}" for ending in ("wide.webp", "narrow.webp", "plotly.js"))
    png = f"figures/{name}.png"
    scale = WIDE_DPI / DPI
    return Picture(
        name=title,
        alt=f"Figure “{title}”: {plain(run.question)}",
        wide=_still(page, wide, scale) if wide.is_file() else _still(run.path, run.path / png, scale),
        narrow=_still(page, narrow) if narrow.is_file() else None,
        png=png,
        svg=f"figures/{name}.svg",
        script=f"{WEB}/{script.name}" if script.is_file() else None,
    )


def _still(folder: Path, path: Path, scale: float = 1.0) -> Still:
    """A picture in a folder, with its size from its header."""
    try:
        with Image.open(path) as picture:
            width, height = (round(scale * pixels) for pixels in picture.size)
    except (UnidentifiedImageError, Image.DecompressionBombError):
        width, height = 1200, 750
    return Still(path.relative_to(folder).as_posix(), width, height)
