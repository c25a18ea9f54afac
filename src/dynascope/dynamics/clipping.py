"""An optimizer of diffusion models that clips the denoiser's gradient apart from the schedule's."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import optax
from jaxtyping import Array

from dynascope import checks

Number = float | int | Array


def clipped_network(
    rule: optax.GradientTransformation, norm: Number, *, schedule: optax.GradientTransformation
) -> optax.GradientTransformation:
    """Optimizer of a `ds.models.Diffusion` that clips the denoiser's gradient only, not that of the schedule.

    At the start the reconstruction term makes the gradient of the offset thousands of times larger than all others. If
    one norm clips both, the denoiser's gradient is scaled down with it, nearly to nothing.

    Args:
        rule: Optimizer of the denoiser.
        norm: Largest norm of the denoiser's gradient.
        schedule: Optimizer of the schedule's two numbers.

    Returns:
        An optax transformation for `ds.descend`.
    """
    checks.positive(norm=norm)
    for name, given in (("rule", rule), ("schedule", schedule)):
        if not isinstance(given, optax.GradientTransformation):
            raise TypeError(f"{name} must be an optax transformation, such as optax.adamw(1e-3); got {given!r}")
    network = optax.chain(optax.clip_by_global_norm(norm), rule)
    return optax.partition({"network": network, "schedule": schedule}, _parts)


def _parts(model: Any) -> Any:
    """The labels "network" and "schedule" in place of the model's arrays, for `optax.partition`."""
    labels = jax.tree.map(lambda _: "network", model)
    return eqx.tree_at(lambda part: (part.offset, part.slope), labels, ("schedule", "schedule"))
