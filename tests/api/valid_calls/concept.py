"""Valid calls of the theory of concept learning."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import xarray as xr

from dynascope.theory.concept import assumptions, published_figures, two_layer_stages
from valid_calls.shared import ABOVE_0, ANY, NOT_NEGATIVE, POSITIVE, SHARE, Calls

A, W, U = jnp.array([2.0, 1.0]), 0.1 * jnp.eye(2), jnp.array([[0.3, 0.1], [0.1, 0.3]])
a, w, u = np.asarray(A), np.asarray(W), np.asarray(U)
FIGURE = published_figures.PUBLISHED_FIGURES[0]._replace(steps=2)
MU, SIGMA = (1.0, 2.0), (0.1, 0.2)


def trace() -> xr.Dataset:
    """Runs as an experiment records them."""
    start = np.ones((1, 1, 2, 2))
    return xr.Dataset(
        {
            "mu": (("signal", "concept"), np.array([MU])),
            "sigma": (("signal", "concept"), np.array([SIGMA])),
            "start": (("signal", "seed", "row", "column"), start),
            "z": ("coordinate", np.ones(2)),
            "U": (("start_number", "step", "row", "column"), np.broadcast_to(u, (1, 3, 2, 2))),
        },
        {"step": [0, 1, 2], "seed": [0], "concept": [0, 1], "time": [0.0, 1.0], "learning_rate": [0.1]},
    )


def calls() -> Calls:
    constants = assumptions.feasible_constants(np.array([4.0, 1.0]))
    entry = {"a_i": jnp.asarray(2.0), "a_j": jnp.asarray(1.0)}
    peak = entry | {"w_ij": jnp.asarray(0.01), "log_p_i": jnp.asarray(-3.0), "log_p_j": jnp.asarray(-4.0)}
    entries = dict.fromkeys(("times", "w_ij"), ANY) | dict.fromkeys(("a_i", "a_j"), ABOVE_0)
    entries |= dict.fromkeys(("log_p_i", "log_p_j"), ANY)
    on_W, on_U = {"W": W, "a": A}, {"U": U, "a": A}
    steps = {"eta": POSITIVE, "steps": "0", "every": "", "learning_rate": POSITIVE, "threshold": POSITIVE}
    wide = {"U": "nested", "U0": "nested", "start": "nested"}  # of width 1
    path = {"a": A, "eta": 0.1, "steps": 2}
    pivots = {"log_pivot": jnp.array([-2.0, -3.0]), "a": A}
    data, layer = {"mu": MU, "sigma": SIGMA}, {"z": A, "W0": W, "a": A}
    draw = {"seed": 0, "scale": 0.1, "dim": 2}
    start = {"seed": "0 2**62", "scale": NOT_NEGATIVE, "epsilon": NOT_NEGATIVE, "spread": NOT_NEGATIVE}
    folded = {"weak": jnp.asarray(1.0), "strong": jnp.asarray(4.0)}
    layers = {"rows": 0.1 * jnp.ones((2, 3)), "columns": 0.2 * jnp.ones((2, 3)), **folded}
    two_by_two = two_layer_stages.two_layer_path(**layers, learning_rate=0.1, steps=2)
    return {
        "two_layer_stages.two_layer_path": (
            layers | {"learning_rate": 0.1, "steps": 2},
            dict.fromkeys(("weak", "strong"), ABOVE_0) | {"learning_rate": POSITIVE, "steps": "0"},
        ),
        "two_layer_stages.two_layer_test_loss": (
            {"path": two_by_two, "first": jnp.asarray(1.0), "second": jnp.asarray(2.0)},
            dict.fromkeys(("first", "second"), ABOVE_0),
        ),
        "assumptions.feasible_constants": (
            {"a": np.array([4.0, 1.0])},
            {"beta": POSITIVE, "kappa": POSITIVE, "K": POSITIVE, "C": POSITIVE},
        ),
        "assumptions.check_assumptions": ({"a": a, "W0": w, "constants": constants}, {}),
        "assumptions.signal_difference": ({"a": a, "W0": np.full((2, 2), 0.1)}, {"kappa": POSITIVE}),
        "assumptions.share_after_repair": ({}, {"kappa": POSITIVE}),
        "entries.entry_classes": ({"dim": 2, "concepts": 1}, {}),
        "jacobian_recursion.product": ({"left": W, "right": W}, {"right": "nested"}),
        "jacobian_recursion.jacobian_of": ({"U": U}, {"U": "nested shaped"}),
        "jacobian_recursion.gradient": (on_U, wide),
        "jacobian_recursion.flow": (on_W, {}),
        "jacobian_recursion.velocity": (on_W, {}),
        "jacobian_recursion.growth": (on_W, {}),
        "jacobian_recursion.suppression": (on_W, {}),
        "jacobian_recursion.noise": (on_W, {}),
        "jacobian_recursion.jacobian_euler": (on_W | {"eta": 0.1}, steps),
        "jacobian_recursion.factor_gd": (on_U | {"eta": 0.1}, steps | wide),
        "jacobian_recursion.dropped_term": (on_U | {"eta": 0.1}, steps | wide),
        "jacobian_paths.recorded_steps": ({"steps": 4}, steps),
        "jacobian_paths.identity": ({"W": W}, {}),
        "jacobian_paths.jacobian_euler_path": (path | {"W0": W}, steps),
        "jacobian_paths.factor_path": (path | {"U0": U}, steps | wide),
        "lemmas.check_lemmas": ({"W": np.stack([w, w]), "a": a, "constants": constants}, {"rounding": NOT_NEGATIVE}),
        "lemmas.diagonal_growth_times": ({"W0": w, "a": a, "c": constants}, {}),
        "lemmas.exit_steps": ({"W": np.stack([w, w]), "c": constants}, {}),
        "linear_loss.population_loss": (on_W, {}),
        "linear_loss.out_of_distribution_loss": ({"W": W, "z": A}, {}),
        "linear_loss.combined_means": ({"mu": A, "dim": 3}, {}),
        "minor_entries.turning_point": (entry, entries),
        "minor_entries.decay_rate_between": (entry, entries),
        "minor_entries.decay_rate_after": (entry, entries),
        "minor_entries.minor_entry": (peak | {"times": jnp.asarray(1.0)}, entries),
        "minor_entries.minor_peak": (peak, entries),
        "minor_entries.minor_peak_of_factor": ({"U0": u, "a": np.array([1.0, 2.0])}, {"U0": "nested"}),
        "nearest_point.nearest_point": (data | {"radius": 0.5, "samples": 9}, {"radius": POSITIVE}),
        "one_layer.strengths": (data, {}),
        "one_layer.spread_of_equal_strengths": ({"mu": MU, "second_spread": 0.1}, {"second_spread": NOT_NEGATIVE}),
        "one_layer.second_moment": (data | {"dim": 3}, {}),
        "one_layer.printed_second_moment": (data | {"dim": 3}, {}),
        "one_layer.output_terms": (layer | {"times": A}, {}),
        "one_layer.discrete_output_terms": (layer | {"steps": jnp.arange(3), "eta": 0.1}, {"eta": POSITIVE}),
        "one_layer.jacobian": ({"times": A, "W0": W, "a": A}, {}),
        "one_layer.to_concept_coordinates": ({"W0": W, "rotation": jnp.eye(2)}, {}),
        "one_layer.terminal_rate": ({"a": A}, {}),
        "one_layer.predicted_outputs": (
            {"trace": trace().assign(start=trace().start.expand_dims("start_step")), "step_size": 0.1, "origin": False},
            {"step_size": POSITIVE, "origin": "True"},
        ),
        "one_layer.closed_forms": ({"measured": trace()}, {}),
        "published_figures.run_published_figure": (
            {"figure": FIGURE, "power": 1, "integrator": "factor_gd"},
            {"power": POSITIVE},
        ),
        "stage_times.log_pivots": ({"W0": W, "a": A}, {}),
        "stage_times.log_pivots_of_factor": ({"U0": U, "a": A}, wide),
        "stage_times.naive_log_pivots": ({"W0": W}, {}),
        "stage_times.exit_time": (pivots | {"threshold": 0.1}, steps),
        "stage_times.half_time": (pivots, {}),
        "stage_times.stage_times": (pivots, steps),
        "stage_times.steps_at": ({"times": A, "a": A, "eta": 0.1}, steps),
        "stage_times.half_steps": ({"U0": u, "a": a, "learning_rate": 0.1}, steps | wide),
        "stage_times.plateau_length": (pivots, {}),
        "staged_path.staged_path": (
            {"start": u, "a": a, "learning_rate": 0.1, "steps": np.arange(3)},
            wide | {"learning_rate": POSITIVE},
        ),
        "staged_path.predicted_runs": (
            data | {"trace": trace().rename(start="W0", start_number="start"), "learning_rate": 0.1},
            {"learning_rate": POSITIVE},
        ),
        "starts.gaussian_factor": (draw, start),
        "starts.aligned_factor": (draw | {"epsilon": 0.1}, start),
        "starts.random_factor": (draw | {"spread": 0.1}, start),
        "starts.start_moments": ({"size": 0.1, "widths": np.array([2, 3])}, {"size": POSITIVE}),
        "terminal_rates.terminal_slopes": ({"a": np.array([[2.0, 1.0]]), "rates": {"flow": 0.1}}, {"a": "nested"}),
        "terminal_rates.settled_step": (
            {"a": a, "mu": np.array(MU), "step_size": 0.1},
            {"step_size": POSITIVE, "share": SHARE.replace("0", "")},
        ),
    }
