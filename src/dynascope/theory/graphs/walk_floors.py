"""Errors of walk counts that no function of propagated colors avoids, on a large random regular graph, and the error of
least squares above them.

Near most nodes such a graph is a tree: a node has d(d-1)^(k-1) others at distance k, each blue with probability 1/2.
I, A, ..., A^K tell the color of the node and the numbers n_1, ..., n_K of blue nodes at each distance. Given these, the
blue nodes of a distance are spread at random, so a walk count keeps a hypergeometric variance. It does not depend on
the nodes farther away than the walk is long: more powers than edges change nothing.

"Simple structures in neural networks", Proposition 2.7 and Section 2.6.2: the size of the error is not in the document.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from jaxtyping import Float
from scipy.stats import binom

from dynascope.theory.domains import NotNegativeNumber, Whole, check_arguments

Degree = Annotated[int, Whole(3, 8)]
Edges = Annotated[int, Whole(1, 3)]


@check_arguments
def walk_floor(degree: Degree, edges: Edges, order: Annotated[int, Whole(0, 64)], *, own: bool = True) -> float:
    """The least mean squared error of a function of X, A X, ..., A^K X for the number of walks through blue nodes, over
    the variance of that number. The node itself belongs to the walk.

    Args:
        degree: Degree d of every node, from 3 to 8.
        edges: Length L of the walks, from 1 to 3.
        order: Highest power K.
        own: Whether the node's own X is seen. If not, K must not exceed L. Default: True.
    """
    if not own and order > edges:
        raise ValueError(f"without the node's own color, order must be at most edges; got {order} and {edges}")
    mean, variance, chances = _walks_from_blue(degree, edges)
    all_chances = _product(chances)
    square_of_mean = float((all_chances * mean).sum() / 2) ** 2
    total = float((all_chances * (mean**2 + variance)).sum() / 2) - square_of_mean
    known = min(order, edges)
    for each in reversed(chances[known:]):
        mean = mean @ each
    chance = _product(chances[:known])
    if own:
        explained = float((chance * mean**2).sum() / 2)
    elif order < 2:
        explained = float((chance * mean**2).sum() / 4)
    else:  # A² X tells only n_2 plus, from walks there and back, d if the node is blue
        pad = [(0, degree) if axis == 1 else (0, 0) for axis in range(known)]
        red = np.pad(chance, pad)
        blue, counted = (np.roll(np.pad(values, pad), degree, axis=1) for values in (chance, chance * mean))
        explained = float((counted**2 / np.where(red + blue > 0, red + blue, 1)).sum() / 2)
    return max((total - (explained - square_of_mean)) / total, 0.0)


@check_arguments
def least_squares_error(
    floor: NotNegativeNumber, parameters: Annotated[int, Whole(1)], examples: Annotated[int, Whole(3)]
) -> float:
    """The expected error on new examples of a least-squares fit that can express the best function: σ² (1 + 1/n) (n -
    2)/(n - p - 2), exact for normal inputs and noise of variance σ² (Stein, 1960).

    Args:
        floor: The irreducible error σ².
        parameters: Number of fitted coefficients p besides the constant.
        examples: Number of examples n, above p + 2.
    """
    if examples <= parameters + 2:
        raise ValueError(f"examples must exceed parameters + 2; got {examples} and {parameters}")
    return float(floor) * (1 + 1 / examples) * (examples - 2) / (examples - parameters - 2)


def _walks_from_blue(
    degree: int, edges: int
) -> tuple[Float[np.ndarray, ...], Float[np.ndarray, ...], list[np.ndarray]]:
    """The mean and the variance of the walks from a blue node given n_1, ..., n_L, and the chances of these numbers.

    With B blue nodes behind blue neighbors and C blue ones behind these, there are n_1 walks of one edge, n_1 + B of
    two, and n_1² + B + C of three.
    """
    sizes = [degree * (degree - 1) ** k for k in range(edges)]
    chances = [binom.pmf(np.arange(size + 1), size, 0.5) for size in sizes]
    numbers = np.meshgrid(*(np.arange(size + 1.0) for size in sizes), indexing="ij")
    first = numbers[0]
    if edges == 1:
        return first, np.zeros_like(first), chances
    behind, second, size = (degree - 1) * first, numbers[1], sizes[1]
    mean = behind * second / size
    variance = mean * (1 - second / size) * (size - behind) / (size - 1)
    if edges == 2:
        return first + mean, variance, chances
    third, size = numbers[2], sizes[2]
    each = (degree - 1) * third / size  # C given B has the mean `each` B
    drawn = (degree - 1) * size * mean - (degree - 1) ** 2 * (variance + mean**2)  # the mean of N(M - N), N = (d-1)B
    spread = third * (size - third) / (size**2 * (size - 1)) * drawn
    return first**2 + (1 + each) * mean, (1 + each) ** 2 * variance + spread, chances


def _product(chances: list[np.ndarray]) -> Float[np.ndarray, ...]:
    """The chances of independent numbers together."""
    joint = np.ones(())
    for each in chances:
        joint = joint[..., None] * each
    return joint
