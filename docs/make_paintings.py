"""The pictures of the page on a diffusion model, from a stored run of `concept.diffusion`: its figures in few colors,
and an animation of what it paints while it learns, a column for each separation of colors.

    python docs/make_paintings.py runs/concept.diffusion/<digest>
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

from dynascope.lab.stored_run import StoredRun

PICTURES = Path(__file__).resolve().parent / "pictures"
FIGURES = ("diffusion", "leads")
WIDTH, FRAMES, ZOOM, COLORS = 1300, 13, 2, 16


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
    pictures = pictures.transpose("step", "y", "separation", "x", "rgb").values
    last = len(pictures) - 1
    chosen = np.unique(np.linspace(last // 8, last, FRAMES).astype(int))
    frames = []
    for picture in pictures[chosen]:
        height, columns, width, _ = picture.shape
        sheet = Image.fromarray(picture.reshape(height, columns * width, 3))
        sheet = sheet.resize((ZOOM * columns * width, ZOOM * height), Image.Resampling.BILINEAR)
        frames.append(sheet.quantize(COLORS, dither=Image.Dither.NONE))
    times = [160] * (len(frames) - 1) + [1600]
    target = PICTURES / "concept-diffusion-paintings.gif"
    frames[0].save(target, save_all=True, append_images=frames[1:], duration=times, loop=0, optimize=True)
    print(f"{target}: {target.stat().st_size // 1000} kB, steps {measured.step.values[chosen].tolist()}")


if __name__ == "__main__":
    main(sys.argv[1])
