"""The three classes of entries of the Jacobian `W` (Section 4.2 and Figure 4 of the paper).

Major: `(p, p)` with `p < s`. Minor: off the diagonal, in a row or column below `s`; the `p`-th group of minors is all
of them in row or column `p`, so a minor with both indices below `s` is in two groups. Irrelevant: the rest. Indices
count from 0, concepts in the order given.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from dynascope.theory.domains import check_arguments

IRRELEVANT, MAJOR, MINOR = 0, 1, 2


class EntryClasses(NamedTuple):
    """Masks of the classes."""

    major: Bool[np.ndarray, "d d"]
    """The diagonal entries of the concepts. Shape (d, d)."""
    minor: Bool[np.ndarray, "d d"]
    """The other entries in rows and columns of concepts. Shape (d, d)."""
    irrelevant: Bool[np.ndarray, "d d"]
    """The rest. Shape (d, d)."""
    groups: Bool[np.ndarray, "s d d"]
    """The p-th group of minors, for each p. Shape (s, d, d)."""

    @property
    def labels(self) -> Int[np.ndarray, "d d"]:
        """`IRRELEVANT`, `MAJOR` or `MINOR` at each entry."""
        return MAJOR * self.major.astype(int) + MINOR * self.minor.astype(int)


@check_arguments
def entry_classes(dim: int, concepts: int) -> EntryClasses:
    """The partition of the entries of `W`: `s` majors, `s(s-1) + 2s(d-s)` minors, and the rest.

    Args:
        dim: Dimension `d`.
        concepts: Number of concepts `s`, from 1 to `dim`.
    """
    if not 1 <= concepts <= dim:
        raise ValueError(f"concepts must lie between 1 and dim={dim}; got {concepts}")
    diagonal = np.eye(dim, dtype=bool)
    concept = np.arange(dim) < concepts
    touches = concept[:, None] | concept[None, :]
    row_or_column = diagonal[:concepts, :, None] | diagonal[:concepts, None, :]
    return EntryClasses(
        major=diagonal & touches, minor=~diagonal & touches, irrelevant=~touches, groups=row_or_column & ~diagonal
    )
