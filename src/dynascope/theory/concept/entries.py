"""The three classes of entries of the Jacobian `W` (Section 4.2 and Figure 4 of the paper).

Major: `(p, p)` with `p < s`. Minor: off the diagonal, in a row or column below `s`; the `p`-th group of minors is all
of them in row or column `p`, so a minor with both indices below `s` is in two groups. Irrelevant: the rest. Indices
count from 0, concepts in the order given.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

IRRELEVANT, MAJOR, MINOR = 0, 1, 2


class EntryClasses(NamedTuple):
    """Masks of the classes; `groups[p]` is the p-th group of minors."""

    major: Bool[np.ndarray, "d d"]
    minor: Bool[np.ndarray, "d d"]
    irrelevant: Bool[np.ndarray, "d d"]
    groups: Bool[np.ndarray, "s d d"]

    @property
    def labels(self) -> Int[np.ndarray, "d d"]:
        """`IRRELEVANT`, `MAJOR` or `MINOR` at each entry."""
        return MAJOR * self.major.astype(int) + MINOR * self.minor.astype(int)


def entry_classes(dim: int, concepts: int) -> EntryClasses:
    """The partition for `s = concepts` in dimension `d = dim`: `s` majors, `s(s-1) + 2s(d-s)` minors."""
    if not 1 <= concepts <= dim:
        raise ValueError(f"concepts must lie between 1 and dim={dim}; got {concepts}")
    diagonal = np.eye(dim, dtype=bool)
    concept = np.arange(dim) < concepts
    touches = concept[:, None] | concept[None, :]
    row_or_column = diagonal[:concepts, :, None] | diagonal[:concepts, None, :]
    return EntryClasses(
        major=diagonal & touches, minor=~diagonal & touches, irrelevant=~touches, groups=row_or_column & ~diagonal
    )
