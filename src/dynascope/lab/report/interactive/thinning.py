"""Long curves with fewer points: for a smooth curve, those that draw the same curve; for a rough one, the smallest and
the largest value of each stretch, so that no spike is lost."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

SEEN = 0.002
"""The largest distance of the thinned curve from the original, as a share of its extent: less than a pixel."""


def thinned(x: NDArray[np.floating], y: NDArray[np.floating], most: int) -> NDArray[np.intp]:
    """The places of at most about `most` points that draw the same curve; x and y as they lie on the page."""
    if len(x) <= most:
        return np.arange(len(x))
    if (smooth := _smooth(x, y, most)) is not None:
        return smooth
    return _rough(x, y, most)


def _smooth(x: NDArray[np.floating], y: NDArray[np.floating], most: int) -> NDArray[np.intp] | None:
    """The fewest points, about, whose segments lie on the curve (Ramer, Douglas and Peucker); None if `most` are too
    few. Only the first points may be infinite or NaN: step 0 on a logarithmic axis."""
    seen = np.isfinite(x) & np.isfinite(y)
    first = int(np.argmax(seen))
    if not seen[first:].all() or len(x) - first < 3:
        return None
    points = np.stack([x, y], axis=-1)[first:].astype(float)
    extent = np.ptp(points, axis=0)
    points = points / np.where(extent > 0, extent, 1.0)
    kept = {0, len(points) - 1}
    far = [_farthest(points, 0, len(points) - 1)]
    while -far[0][0] > SEEN:
        _, low, place, high = heapq.heappop(far)
        kept.add(place)
        if len(kept) + first > most:
            return None
        for part in ((low, place), (place, high)):
            heapq.heappush(far, _farthest(points, *part))
    return np.array([*range(first), *(first + place for place in sorted(kept))], dtype=np.intp)


def _farthest(points: NDArray[np.floating], low: int, high: int) -> tuple[float, int, int, int]:
    """Minus the distance, and the place, of the point between two that is farthest from their segment; then the two."""
    if high - low < 2:
        return 0.0, low, low, high
    inside, along = points[low + 1 : high] - points[low], points[high] - points[low]
    length = float(along @ along)
    share = np.clip(inside @ along / length, 0.0, 1.0) if length > 0 else np.zeros(len(inside))
    away = inside - share[:, None] * along
    distances = np.sum(away**2, axis=1)
    place = int(np.argmax(distances))
    return -float(np.sqrt(distances[place])), low, low + 1 + place, high


def _way(x: NDArray[np.floating], y: NDArray[np.floating]) -> NDArray[np.floating]:
    """The position of each point along a path: a share of its length or, if it does not move, of its time."""
    parts = [np.nan_to_num(np.diff(each), nan=0.0, posinf=0.0, neginf=0.0) for each in (x, y)]
    lengths = np.hypot(*(part / (np.abs(part).max() or 1.0) for part in parts))
    way = np.concatenate([[0.0], np.cumsum(lengths)])
    return way / way[-1] if way[-1] > 0 else np.arange(len(x)) / len(x)


def _rough(x: NDArray[np.floating], y: NDArray[np.floating], most: int) -> NDArray[np.intp]:
    seen = np.isfinite(x)
    along = np.where(seen, x, x[seen].min()) if seen.any() else np.zeros(len(x))  # step 0 on a logarithmic axis
    steps = np.diff(along)
    forward = bool((np.all(steps >= 0) or np.all(steps <= 0)) and np.ptp(along) > 0)
    if forward:
        stretch = np.floor((along - along.min()) / np.ptp(along) * (most / 4)).astype(int)
    else:
        stretch = np.floor(_way(x, y) * (most / 6)).astype(int)  # a path is slow at its end, so its time cannot be used
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
