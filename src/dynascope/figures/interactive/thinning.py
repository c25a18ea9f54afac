"""Long curves with fewer points: in each stretch the least and the largest are kept, so that no spike is lost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def thinned(x: NDArray[np.floating], y: NDArray[np.floating], most: int) -> NDArray[np.intp]:
    """The places of at most about `most` points that draw the same curve; x and y as they lie on the page."""
    if len(x) <= most:
        return np.arange(len(x))
    seen = np.isfinite(x)
    along = np.where(seen, x, x[seen].min()) if seen.any() else np.zeros(len(x))  # step 0 on a logarithmic axis
    steps = np.diff(along)
    forward = bool((np.all(steps >= 0) or np.all(steps <= 0)) and np.ptp(along) > 0)
    if forward:
        stretch = np.floor((along - along.min()) / np.ptp(along) * (most / 4)).astype(int)
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
