"""The stochastic block model with two equal communities: the threshold of detection, and the score of guessing.

A pair of nodes is an edge with probability `within / n` in a community and `across / n` between the two.
"""

from __future__ import annotations

import math

import numpy as np

from dynascope import checks
from dynascope.theory.domains import check_arguments


@check_arguments
def signal_to_noise(within: float, across: float) -> float:
    """(a - b)² / (2(a + b)): above 1, the threshold of Kesten and Stigum, large graphs can be divided better than by
    chance; below it they cannot (Mossel, Neeman and Sly, 2015).

    Args:
        within: Rate a of edges within a community.
        across: Rate b of edges between the two.
    """
    checks.real("within", within, at_least=0)
    checks.real("across", across, at_least=0)
    if within + across <= 0:
        raise ValueError(f"within and across must not both be 0; got {within} and {across}")
    return float((within - across) ** 2 / (2 * (within + across)))


@check_arguments
def negative_eigenvalues(within: float, across: float) -> int:
    """The number of eigenvalues of the Bethe Hessian H(√c) below 0 on a large graph of average degree c: one for the
    graph itself, and one more if its communities can be found (Saade, Krzakala and Zdeborová, 2014).

    Args:
        within: Rate a of edges within a community.
        across: Rate b of edges between the two.
    """
    return 1 + (signal_to_noise(within, across) > 1)


@check_arguments
def chance_overlap(nodes: int) -> float:
    """The expected overlap of a guess by fair coins with two communities, named the better way round: E|2B/n - 1| for B
    binomial, which is C(n, n/2) / 2^n and about sqrt(2 / (π n)).

    Args:
        nodes: Number of nodes n of both communities together.
    """
    checks.whole("nodes", nodes, at_least=2, at_most=2**31 - 1)
    if nodes % 2:
        raise ValueError(f"nodes must be even; got {nodes}")
    return math.exp(math.lgamma(nodes + 1) - 2 * math.lgamma(nodes / 2 + 1) - nodes * np.log(2))
