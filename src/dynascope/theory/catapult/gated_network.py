"""The quadratic model of a two-layer ReLU network in NumPy: an independent check of the exact maps."""

from __future__ import annotations

import math

import numpy as np

from dynascope.theory.domains import Count, check_arguments

ONE_INPUT = np.array([[1.0, -0.5, 0.7, 1.2, -0.3]])


class GatedNetwork:
    """The quadratic model of a two-layer ReLU network: its gates stay those of initialization. Trained on 1/2 |r|^2."""

    def __init__(self, x: np.ndarray, y: np.ndarray, width: int, seed: int = 0) -> None:
        """Draw the initial weights.

        Args:
            x: Inputs, shape (n, d).
            y: Labels, shape (n,).
            width: Width m.
            seed: Seed of the initial weights. Not negative. Default: 0.
        """
        draw = np.random.default_rng(seed)
        self.x, self.y, self.scale = x, y, 1 / math.sqrt(width * x.shape[1])
        self.u, self.v = draw.standard_normal((width, x.shape[1])), draw.choice([-1.0, 1.0], width)
        self.gates = (x @ self.u.T >= 0).astype(float)

    def outputs(self) -> np.ndarray:
        """The outputs, shape (n,)."""
        return self.scale * (self.gates * (self.x @ self.u.T)) @ self.v

    def jacobian(self) -> np.ndarray:
        """The derivatives of the outputs with respect to all weights, shape (n, m d + m)."""
        first = self.scale * (self.gates * self.v)[:, :, None] * self.x[:, None, :]
        return np.hstack([first.reshape(len(self.x), -1), self.scale * self.gates * (self.x @ self.u.T)])

    def kernel(self) -> np.ndarray:
        """The tangent kernel, shape (n, n)."""
        return self.jacobian() @ self.jacobian().T

    def step(self, rate: float) -> None:
        """Take one step of gradient descent on 1/2 |r|^2.

        Args:
            rate: Learning rate eta.
        """
        move = rate * self.jacobian().T @ (self.outputs() - self.y)
        self.u, self.v = self.u - move[: self.u.size].reshape(self.u.shape), self.v - move[self.u.size :]


@check_arguments
def one_example(width: int, product: float, steps: int, label: float = 1.0) -> tuple[np.ndarray, np.ndarray, float]:
    """The losses and kernels at steps 0 to `steps` of the quadratic model on one example, and eta.

    Args:
        width: Width m.
        product: eta lambda_0.
        steps: Number of steps.
        label: Label y. Default: 1.0.
    """
    net = GatedNetwork(ONE_INPUT, np.array([label]), width)
    rate = product / net.kernel().item()
    losses, kernels = [], []
    for _ in range(steps + 1):
        losses.append(0.5 * (net.outputs() - net.y).item() ** 2)
        kernels.append(net.kernel().item())
        net.step(rate)
    return np.array(losses), np.array(kernels), rate


@check_arguments
def two_sided_network(count: int = 128, width: int = 5000, seed: Count = 0) -> GatedNetwork:
    """A network on scalar inputs N(2y, 1) with labels ±1: the data of Figure 3.3.

    Args:
        count: Number of examples n. Default: 128.
        width: Width m. Default: 5000.
        seed: Seed of the data and the initial weights. Not negative. Default: 0.
    """
    draw = np.random.default_rng(seed)
    y = draw.choice([-1.0, 1.0], count)
    return GatedNetwork((2 * y + draw.standard_normal(count))[:, None], y, width, seed)
