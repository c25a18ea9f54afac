"""The pictures of the page on a diffusion model, from a stored run of `concept.diffusion`: its figures in few colors,
and an animation of what it paints while it learns, a column for each separation of colors, with the step below.

    python docs/make_paintings.py runs/concept.diffusion/<digest>
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from dynascope.lab.stored_run import StoredRun

PICTURES = Path(__file__).resolve().parent / "pictures"
FIGURES = ("diffusion", "leads")
WIDTH, FRAMES, TILE, MARGIN, QUALITY = 1300, 13, 84, 22, 75


def main(folder: str) -> None:
    run = StoredRun.open(Path(folder))
    for name in FIGURES:
        figure = Image.open(run.figures[name]).convert("RGB")
        small = figure.resize((WIDTH, round(WIDTH * figure.height / figure.width)), Image.Resampling.LANCZOS)
        small.quantize(96, dither=Image.Dither.NONE).save(PICTURES / f"concept-diffusion-{name}.png", optimize=True)
    gallery = Image.open(run.figures["paintings"]).convert("RGB")
    gallery.thumbnail((950, 950), Image.Resampling.LANCZOS)
    gallery.save(PICTURES / "concept-diffusion-paintings.jpg", quality=70, optimize=True)
    measured = run.measured()
    pictures = measured.concepts_pictures.isel(prompt=-1, picture=0, seed=0)
    pictures = pictures.transpose("step", "separation", "y", "x", "rgb").values
    last = len(pictures) - 1
    chosen = np.unique(np.linspace(last // 8, last, FRAMES).astype(int))
    tiles = [[Image.fromarray(one) for one in pictures[at]] for at in chosen]
    frames = sheets(tiles, measured.separation.values, measured.step.values[chosen])
    animate(frames, PICTURES / "concept-diffusion-paintings.webp")


def sheets(
    tiles: Sequence[Sequence[Image.Image]], separations: Sequence[float], steps: Sequence[int]
) -> list[Image.Image]:
    """A frame for each step: the pictures beside one another, their separations above and the step below."""
    font = ImageFont.truetype(str(Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), 13)
    frames = []
    for row, step in zip(tiles, steps, strict=True):
        width = (TILE + 2) * len(row)
        frame = Image.new("RGB", (width, TILE + 2 * MARGIN), "white")
        pen = ImageDraw.Draw(frame)
        for i, (tile, separation) in enumerate(zip(row, separations, strict=True)):
            left = 1 + i * (TILE + 2)
            frame.paste(tile.resize((TILE, TILE), Image.Resampling.NEAREST), (left, MARGIN))
            pen.text((left + TILE / 2, MARGIN / 2), f"{separation:.1f}", "black", font, anchor="mm")
        told = f"step {step} (above: separation of the colors)"
        pen.text((width / 2, TILE + 1.5 * MARGIN), told, "black", font, anchor="mm")
        frames.append(frame)
    return frames


def animate(frames: Sequence[Image.Image], target: Path) -> None:
    """Write the frames as an animation in full colors; the last one stays."""
    times = [450] * (len(frames) - 1) + [2400]
    frames[0].save(target, save_all=True, append_images=frames[1:], duration=times, loop=0, quality=QUALITY, method=6)
    print(f"{target}: {target.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main(sys.argv[1])
