"""Where a network lets itself be watched: at its affine maps.

A model may have `tapped(x, tap)`: its forward pass, in which every affine map z = scale W a (+ b) hands what it made to
`tap(z, a, scale=..., bias=...)` and goes on with what comes back. Features lie on the last axis of z and a; axes before
it are positions at which the same W acts (of an image, of a sequence). A convolution acts on windows of its input: it
gives `windows`, a function that makes a of the image it hands over instead. All parameters of the model belong to such
maps, each used once; then whatever a derivative with respect to them needs is known from a and the derivative with
respect to z, for instance the tangent kernel (`geometry.tangent_kernel`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxtyping import Array

Tap = Callable[..., Array]
"""`tap(outputs, inputs, *, scale: float, bias: bool, windows: Callable | None) -> outputs`."""


def untapped(outputs: Array, inputs: Array, **_: Any) -> Array:
    """Nobody looks."""
    return outputs
