"""The moving picture of the first page, from a stored run of `concept.jacobian-stages`: the output at the test point
and the test loss while the model learns, over their theory.

    python docs/make_moving_picture.py runs/concept.jacobian-stages/<digest>
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from PIL import Image

from dynascope.figures import FAINT, HOUSE_STYLE, INK, PALETTE, THEORY
from dynascope.lab.stored_run import StoredRun

PICTURE = Path(__file__).resolve().parent / "pictures" / "jacobian-stages.gif"
FRAMES, COLORS, DPI = 64, 40, 140
LAST_STEP = 1000


def main(folder: str) -> None:
    """Draw a frame for each of some steps, evenly spaced in the logarithm."""
    run = StoredRun.open(Path(folder))
    measured, predicted = (tree["chosen"].to_dataset().isel(start=0) for tree in (run.measured(), run.predicted()))
    mu = np.array(run.config["mu"])
    paths = [np.einsum("sij,j->si", found.W.values, mu) for found in (measured, predicted)]
    losses = [found.test_loss.values / measured.test_loss.values[0] for found in (measured, predicted)]
    chosen = np.unique(np.geomspace(1, LAST_STEP, FRAMES).astype(int))
    with rc_context(HOUSE_STYLE):
        frames = [_frame(paths, losses, mu, step) for step in chosen]
    palette = frames[-1].quantize(COLORS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    frames = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    times = [70] * (len(frames) - 1) + [2500]
    frames[0].save(PICTURE, save_all=True, append_images=frames[1:], duration=times, loop=0, optimize=True)
    print(f"{PICTURE}: {PICTURE.stat().st_size // 1000} kB, {len(frames)} frames")


def _frame(paths: list[np.ndarray], losses: list[np.ndarray], mu: np.ndarray, step: int) -> Image.Image:
    figure = Figure(figsize=(8.4, 3.7), dpi=DPI, layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(*paths[1].T, **THEORY)
    left.plot(*paths[0][: step + 1].T, color=PALETTE[0], linewidth=2)
    left.plot(*paths[0][step], marker="o", color=PALETTE[0], markersize=8)
    left.plot([mu[0], 0], [0, mu[1]], "o", color=FAINT, markersize=9)
    left.plot(*mu, marker="*", color=INK, markersize=15)
    left.annotate("never seen", mu, (13, -3), textcoords="offset points", fontsize=9)
    left.annotate("trained on", (0, mu[1]), (10, -16), textcoords="offset points", fontsize=9)
    left.annotate("trained on", (mu[0], 0), (-10, 8), textcoords="offset points", ha="right", fontsize=9)
    left.set(xlim=(-0.1, 1.4), ylim=(-0.15, 2.4), xlabel="concept 1", ylabel="concept 2", title="Output of the network")
    steps = np.arange(len(losses[0]))
    right.semilogx(steps[1:], losses[1][1:], label="theory, from the start alone", **THEORY)
    right.plot(steps[1 : step + 1], losses[0][1 : step + 1], color=PALETTE[0], linewidth=2, label="measured")
    right.plot(step, losses[0][step], marker="o", color=PALETTE[0], markersize=8)
    right.set(xlim=(1, LAST_STEP), ylim=(-0.03, 1.05), xlabel="step", title="Test loss / first value")
    right.legend(loc="lower left")
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return Image.open(file).convert("RGB")


if __name__ == "__main__":
    main(sys.argv[1])
