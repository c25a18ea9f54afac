"""Hooks at the affine maps of a network.

A model may have `tapped(x, tap)`: its forward pass, in which every affine map z = scale W a (+ b) calls
`tap(z, a, scale=..., bias=..., windows=...)` and continues with what it returns. Features lie on the last axis of z and
a; axes before it are positions at which the same W acts (of an image, of a sequence). A convolution acts on windows of
its input: it passes the whole image as a, and in `windows` the function that extracts them. All parameters of the model
must belong to such maps, each used once. Derivatives with respect to the parameters then follow from a and the
derivative with respect to z, for instance the tangent kernel (`geometry.tangent_kernel`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxtyping import Array

Tap = Callable[..., Array]
"""`tap(outputs, inputs, *, scale: float, bias: bool, windows: Callable | None) -> outputs`."""


def untapped(outputs: Array, inputs: Array, **_: Any) -> Array:
    """The tap that changes nothing."""
    return outputs
