"""Long curves with fewer points: in each stretch the least and the largest are kept, so that no spike is lost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def thinned(x: NDArray[np.floating], y: NDArray[np.floating], most: int) -> NDArray[np.intp]:
    """The places of at most about `most` points that draw the same curve; x and y as they lie on the page."""
    if len(x) <= most:
        return np.arange(len(x))
    steps = np.diff(x)
    forward = bool(np.all(np.isfinite(x)) and (np.all(steps >= 0) or np.all(steps <= 0)) and np.ptp(x) > 0)
    if forward:
        stretch = np.floor((x - x.min()) / np.ptp(x) * (most / 4)).astype(int)
    else:
        stretch = np.arange(len(x)) * most // (6 * len(x))
    kept = {0, len(x) - 1}
    starts = np.flatnonzero(np.diff(stretch)) + 1
    for first, last in zip([0, *starts], [*starts, len(x)], strict=True):
        kept |= {int(first), int(last) - 1}
        for values in (y,) if forward else (x, y):
            part = values[first:last]
            if np.any(np.isfinite(part)):
                kept |= {int(first + np.nanargmin(part)), int(first + np.nanargmax(part))}
            if np.any(~np.isfinite(part)):
                kept.add(int(first + np.flatnonzero(~np.isfinite(part))[0]))
    return np.array(sorted(kept), dtype=np.intp)
