"""Valid calls of the theory of the edge of stability."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from dynascope.tasks.scalar_losses import quartic
from dynascope.theory.edge.neuron_intervals import Box
from dynascope.theory.edge.period_two import Window
from valid_calls.shared import ABOVE_0, ANY, FROM_0, NOT_NEGATIVE, POSITIVE, REAL, Calls

LOSS, PAIR = quartic(), jnp.array([1.2, 0.9])
FACTORS, STATE = (
    {"Y": jnp.eye(2), "Z": jnp.eye(2)},
    {"v": jnp.asarray(0.1), "wx": jnp.asarray(0.1), "wy": jnp.asarray(0.1)},
)
BOX = Box(0.5, 0.8, -0.1, 0.1, 0.2)
POSITIVE_NAMES = ("mu", "rate", "K", "sigma", "alpha", "size", "first", "squares")


def calls() -> Calls:
    each = dict.fromkeys(POSITIVE_NAMES, ABOVE_0) | dict.fromkeys(("x", "y", "z", "reach", "gap", "excess"), ANY)
    each |= {"bulk": FROM_0, "second": FROM_0, "tolerance": NOT_NEGATIVE, "steps": FROM_0}
    scalars = {name: REAL if allowed == ANY else POSITIVE for name, allowed in each.items()} | {"bulk": NOT_NEGATIVE}
    stable = {"first": 1.05, "bulk": 0.3, "alpha": 1.0}
    found: dict[str, Any] = {
        "axis_teacher.common_sharpness": ({"x": jnp.ones((3, 2)), "squares": np.ones(2)}, {"x": "nested"}),
        "axis_teacher.expected_common_sharpness": ({"square": 1.0, "dim": 3}, {"square": POSITIVE}),
        "axis_teacher.flattest_square": ({"dim": 3}, {}),
        "constraint_manifolds.in_manifold": (
            {"factors": PAIR, "rate": 0.9},
            scalars | {"tolerance": NOT_NEGATIVE, "task": "", "minimizers_only": "True"},
        ),
        "constraint_manifolds.on_hyperbola": ({"x": 1.0, "rate": 0.9}, each | {"x": ABOVE_0}),
        "constraint_manifolds.extent": ({"rate": 0.9}, each),
        "constraint_manifolds.project": ({"factors": PAIR, "rate": 0.9}, scalars),
        "optimizer_edges.gradient_descent": ({"rate": 0.1}, each),
        "optimizer_edges.heavy_ball": ({"rate": 0.1, "momentum": 0.9}, each),
        "optimizer_edges.nesterov": ({"rate": 0.1, "momentum": 0.9}, each),
        "optimizer_edges.adam": ({"rate": 0.1, "momentum": 0.9}, each),
        "quartic_orbit.orbit": ({"mu": 1.0, "rate": 1.1}, each),
        "quartic_orbit.implicit_rate": ({"mu": 1.0, "x": 0.9}, each | {"x": ABOVE_0}),
        "quartic_orbit.steps_needed": ({"K": 1.05, "tolerance": 1e-3}, each | {"tolerance": ""}),
        "quartic_orbit.critical_point": ({"mu": 1.0, "rate": 1.1}, each),
        "quartic_orbit.lower_bound": ({"mu": 1.0}, each),
        "quartic_orbit.outer_orbit": ({"mu": 1.0, "rate": 1.1}, each),
        "quartic_orbit.step": ({"x": jnp.asarray(0.9), "K": 1.1}, each),
        "quartic_orbit.cascade": ({"doublings": 2}, {}),
        "factorization.top_direction": ({"factors": FACTORS}, {}),
        "factorization.flattest_sharpness": ({"C": jnp.eye(2)}, {"C": "nested"}),
        "factorization.orbit_sizes": ({"sigma": 2.0, "K": 1.1}, each),
        "factorization.orbit_losses": ({"sigma": 2.0, "K": 1.1}, each),
        "factorization.quasi_symmetric_limit": ({"root": jnp.eye(2), "alpha": 0.9, "rate": 1.1}, scalars),
        "factorization.generic_condition": ({"first": 1.05, "second": 0.3}, each),
        "factorization.quasi_symmetric_condition": ({"first": 1.05, "second": 0.3, "alpha": 0.9}, each),
        "factorization.largest_bulk": ({"first": 1.05, "alpha": 0.9}, each),
        "factorization.gram_difference_change": ({"factors": FACTORS, "C": jnp.eye(2), "rate": 1.1}, scalars),
        "factorization.extended_spectrum": ({"strengths": np.ones(2), "couplings": np.eye(2)}, {}),
        "factorization.line_orbit": ({"excess": 0.1}, {"excess": FROM_0}),
        "factorization_stability.transition": (stable | {"y": 1.0, "z": 1.0}, each),
        "factorization_stability.eigenvalues_at_minimum": (stable, scalars),
        "factorization_stability.orbit_transition": (stable, scalars),
        "factorization_stability.spectral_radius": (stable, scalars),
        "factorization_stability.critical_bulk": ({"first": 1.05}, scalars | {"highest": POSITIVE}),
        "neuron_intervals.split": ({"box": BOX}, {}),
        "neuron_intervals.propagate": ({"box": BOX}, {}),
        "period_two.flip_quantity": ({"loss": LOSS}, {}),
        "period_two.leading_order": ({"loss": LOSS}, {"tolerance": NOT_NEGATIVE}),
        "period_two.condition_holds": ({"loss": LOSS}, {}),
        "period_two.window": ({"loss": LOSS, "reach": 0.1}, each),
        "period_two.reach_of": ({"loss": LOSS, "size": 0.1}, each),
        "period_two.orbit_rate": (
            {"loss": LOSS, "x": 0.9, "between": Window(jnp.asarray(1.0), jnp.asarray(1.2))},
            each,
        ),
        "period_two.sine_half_width": ({"rate": 1.1}, {"rate": POSITIVE}),
        "period_two.rate_through": ({"loss": LOSS, "x": 0.9}, each),
        "period_two.displacement_at_threshold": ({"loss": LOSS, "reach": 0.1}, each),
        "period_two.displacement_at_end": ({"loss": LOSS, "reach": 0.1}, each),
        "product_orbit.successor": ({"x": jnp.asarray(1.2), "y": jnp.asarray(0.9), "mu": 1.0, "rate": 1.1}, each),
        "product_orbit.contraction": ({"factors": PAIR, "mu": 1.0, "rate": 1.1}, scalars | ARRAY_RATES),
        "product_orbit.positivity": ({"factors": PAIR, "mu": 1.0, "rate": 1.1}, scalars | ARRAY_RATES),
        "product_orbit.positivity_terms": ({"gap": 0.1, "K": 1.1}, each | {"gap": FROM_0}),
        "product_orbit.largest_gap": ({"K": 1.1, "resolution": 9}, each),
        "product_orbit.flow_limit": ({"factors": PAIR, "mu": 1.0}, scalars | ARRAY_RATES),
        "single_neuron.growth_steps": ({"size": 0.1}, each),
        "single_neuron.height_bound": ({"steps": 9, "K": 1.05, "size": 0.1}, each),
        "single_neuron.in_stage_one": ({"state": STATE}, {}),
        "single_neuron.update_defect": ({"state": STATE, "K": 1.05}, each),
        "single_neuron.spread_of_sampled_K": ({"rate": 1.1, "dim": 2, "samples": 9}, {"rate": POSITIVE}),
        "squared_margins.margin": ({"model": jnp.sin, "x": 0.5}, each),
        "squared_margins.flip_from_margin": ({"model": jnp.sin, "x": 0.5}, each),
        "squared_margins.monomial_margin": ({"alpha": 3, "x": 0.5}, each | {"alpha": ""}),
        "squared_margins.closed_form": ({"name": "sin", "x": 0.5}, {"x": REAL, "name": "foo"}),
        "squared_margins.composition_condition": ({"inner": jnp.sin, "outer": jnp.exp, "x": 0.5}, each),
    }
    for name in ("normalized_orbit", "multiplier", "invariance"):
        found[f"quartic_orbit.{name}"] = {"K": 1.1}, each
    for name in (
        "product_orbit.orbit_contraction",
        "product_orbit.transverse_exponent",
        "product_orbit.swapping_point",
    ):
        found[name] = {"K": 1.1}, each
    for name in ("single_neuron.height_decay", "single_neuron.limit"):
        found[name] = {"K": 1.1}, each
    return found | {
        f"period_two.{name}": ({"loss": LOSS, "rate": 1.1}, each) for name in ("excess", "half_width", "multiplier")
    }


ARRAY_RATES = {"mu": ABOVE_0, "rate": ABOVE_0, "factors": "nested shaped"}
