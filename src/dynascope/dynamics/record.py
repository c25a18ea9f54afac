"""When to look: recording times as increasing arrays that begin at 0 and end with the run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Record = int | Sequence[int] | np.ndarray | None


def linear_steps(steps: int, every: int = 1) -> np.ndarray:
    """0, every, 2 every, ..., and the last step."""
    if steps < 0 or every < 1:
        raise ValueError(f"recording needs steps >= 0 and every >= 1; got steps={steps}, every={every}")
    return np.union1d(np.arange(0, steps + 1, every), [steps]).astype(np.int32)


def log_steps(steps: int, count: int = 200) -> np.ndarray:
    """About `count` distinct steps, evenly spaced in the logarithm, with 0 and the last step."""
    if steps < 0 or count < 2:
        raise ValueError(f"recording needs steps >= 0 and count >= 2; got steps={steps}, count={count}")
    if steps == 0:
        return np.zeros(1, np.int32)
    return np.union1d([0, steps], np.rint(np.geomspace(1, steps, count))).astype(np.int32)


def recording_steps(steps: int, record: Record) -> np.ndarray:
    """The steps that `record` asks for: every so many, exactly these, or (None) about a thousand of them."""
    if record is None:
        return linear_steps(steps, max(1, steps // 1000))
    if isinstance(record, int | np.integer):
        return linear_steps(steps, int(record))
    asked = np.unique(np.asarray(record).astype(np.int64))
    if asked.size == 0 or asked[0] < 0 or asked[-1] > steps:
        raise ValueError(f"recording steps must lie in 0..{steps}; got {np.asarray(record).tolist()!s:.60}")
    return asked.astype(np.int32)
