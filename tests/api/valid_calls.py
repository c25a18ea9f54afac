"""A valid call of every public function, for the tests of malformed ones.

Each has the arguments, and for some of them which entries of `NONSENSE` (in test_malformed_calls.py) make sense.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr

import dynascope as ds
from dynascope.dynamics import rates

Calls = dict[str, tuple[dict[str, Any], dict[str, str]]]

REAL, POSITIVE, NOT_NEGATIVE, SHARE = "-1 0 2.5 2**62", "2.5 2**62", "0 2.5 2**62", "0"
NUMBERS, ARRAYS = f"{REAL} nan", "nested shaped"

KEY = jax.random.key(0)
X, Y = jnp.linspace(-1, 1, 6).reshape(3, 2), jnp.array([[1.0], [0.0], [-1.0]])
PARAMS, VECTOR = {"w": jnp.array([0.5, -0.3])}, jnp.array([0.6, 0.8])
CURVE, TIMES = np.array([1.0, 0.5, 0.8, 0.1, 0.1, 0.1]), np.arange(6.0)
NODES, PAIRS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), np.array([[0, 1], [0, 3]])
FACTORS = jnp.ones((3, 2)), jnp.ones((4, 2))


def loss(params: Any) -> Any:
    return jnp.sum((params["w"] ** 2 - 1) ** 2)


def apply(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["w"])[None]


def half(state: Any) -> Any:
    return 0.5 * state


def scaled(state: Any, setting: Any) -> Any:
    return setting * state


def pairs(model: Any) -> Any:
    return model["a"], model["b"]


def member(rate: Any) -> ds.Descent:
    return ds.Descent(PARAMS, loss, optax.sgd(rate))


def geometry() -> Calls:
    at = {"loss": loss, "params": PARAMS}
    kernel = {"model": PARAMS, "x": X, "apply": apply}
    search = {"tolerance": NOT_NEGATIVE, "explore": "0 2**62", "dense": "0 2**62", "seed": "0"}
    rows = {"tolerance": NOT_NEGATIVE, "rows": "2**62", "budget": "2**62", "seed": "0"}
    number = {"tolerance": NOT_NEGATIVE, "groups": "-1 0 2**62"}
    orbit = {"rule": half, "state": jnp.zeros(2)}
    state = {"state": ARRAYS + " " + NUMBERS}
    return {
        "agop": (kernel, {}),
        "agop_factored": (kernel, {}),
        "alignment": ({"one": jnp.eye(2), "other": jnp.eye(2)}, {}),
        "directional_derivatives": (at | {"direction": VECTOR, "order": 2}, {"order": "0"}),
        "discriminant": ({"derivatives": jnp.ones(5)}, {}),
        "flip": (at | {"learning_rate": 0.1}, {"learning_rate": POSITIVE}),
        "line_search_minimum": (at | {"learning_rate": 0.1}, {"learning_rate": REAL, "halvings": "0"}),
        "top_eigenpairs": (at, search),
        "dense_hessian": (at, {}),
        "hessian_vector_product": (at | {"vector": VECTOR}, {}),
        "sharpness_gradient": (at | {"vector": VECTOR}, {}),
        "critical_rate": (kernel, rows),
        "eigenspace_losses": (kernel | {"y": Y, "splits": (1,)}, rows),
        "kernel_change": (kernel | {"start": PARAMS}, rows),
        "kernel_eigenpairs": (kernel, rows),
        "polyak_ratio": (kernel | {"y": Y}, {}),
        "block_norms": ({"function": loss, "params": PARAMS, "groups": {"w": 0}}, number),
        "hessian_norm": ({"function": loss, "params": PARAMS}, {"tolerance": NOT_NEGATIVE}),
        "linearity_gap": (
            {"function": loss, "params": PARAMS, "radius": 0.1, "key": KEY, "directions": 2},
            {"radius": POSITIVE, "among": "nested"},
        ),
        "gram_imbalance": ({"Y": FACTORS[0], "Z": FACTORS[1]}, {}),
        "imbalance": ({"x": 1.0, "y": 2.0}, {"x": f"{NUMBERS} {ARRAYS}", "y": f"{NUMBERS} {ARRAYS}"}),
        "leading_components": ({"Y": X, "Z": X, "C": jnp.eye(3), "top": jnp.ones(3)}, {}),
        "multiplier": (orbit, state),
        "multipliers": (orbit, {}),
        "norm_ratio": ({"inner": X, "outer": jnp.ones(3)}, {}),
        "residual": (orbit, state),
        "perturbation_singular_values": ({"now": FACTORS, "then": FACTORS}, {}),
        "product_singular_values": ({"a": FACTORS[0], "b": FACTORS[1]}, {}),
        "random_perturbation": ({"key": KEY, "now": FACTORS, "then": FACTORS}, {}),
        "spectral_density": (at | {"key": KEY, "draws": 2, "degree": 2}, {}),
        "kernel_product": (kernel, rows),
        "tangent_kernel": (kernel, rows),
    }


def probes() -> Calls:
    every = {"every": "2**62"}
    search = every | {"tolerance": NOT_NEGATIVE, "k": "2**62", "rows": "2**62"}
    dims = every | {"dims": "[] {}"}
    return {
        "Probe": ({"measure": apply}, dims | {"coords": "{}"}),
        "probe": ({"function": loss}, dims | {"coords": "{}"}),
        "agop_alignment": ({"target": jnp.eye(2), "x": X}, every | {"x": ARRAYS}),
        "displacement": ({}, every),
        "jacobian": ({"point": X[0]}, every),
        "loss": ({}, every),
        "output": ({"point": X[0]}, every | {"point": f"{NUMBERS} {ARRAYS}"}),
        "outputs": ({"points": X}, every | {"points": ARRAYS}),
        "flip_discriminant": ({"learning_rate": 0.1}, every | {"learning_rate": POSITIVE}),
        "gradient_alignment": ({}, search),
        "hessian_density": ({"at": X[0], "width": 0.1}, every | {"width": POSITIVE, "seed": "0"}),
        "output_hessian_norm": ({"function": loss}, search),
        "sharpness": ({}, search),
        "top_eigenvalues": ({"k": 1}, search),
        "batch_critical_rate": ({}, every),
        "kernel_distance": ({"x": X}, search | {"x": "shaped"}),
        "kernel_norm": ({"x": X, "y": Y}, search),
        "batch_rows": ({}, every),
        "learning_rate": ({}, every),
        "polyak": ({"x": X}, every | {"x": "shaped"}),
        "perturbation_spectrum": ({"pairs": pairs}, dims | {"noisy": "True"}),
        "product_spectrum": ({"pairs": pairs}, dims),
    }


def curves() -> Calls:
    reading = {"curve": ARRAYS, "loss": ARRAYS, "level": REAL, "tolerance": NOT_NEGATIVE, "values": ARRAYS}
    shares = {"share": SHARE, "values": ARRAYS, "curve": ARRAYS}
    flat = dict.fromkeys(("flat", "shortest", "window", "smallest"), NOT_NEGATIVE) | {"size": POSITIVE}
    spectrum = xr.DataArray(np.ones((3, 2)), dims=("step", "singular"), coords={"step": [0, 1, 2]})
    spike = {"curve": ARRAYS, "factor": POSITIVE, "before": "0"}
    z = np.linspace(0, 1, 12).reshape(6, 2)
    return {
        "last_cycle": ({"orbit": CURVE, "length": 2}, {"orbit": "shaped"}),
        "period": (
            {"orbit": np.zeros(8), "periods": (1, 2)},
            {"burn_in": "0", "tolerance": POSITIVE, "orbit": "shaped"},
        ),
        "transverse_exponent": ({"factors": CURVE}, {"factors": ARRAYS}),
        "comparable_pairs": ({"nodes": NODES}, {}),
        "cover_pairs": ({"nodes": NODES}, {}),
        "hierarchy": ({"concepts": 2}, {}),
        "level_means": ({"losses": CURVE[:4], "nodes": NODES}, {}),
        "share_in_order": ({"learning_times": CURVE[:4], "pairs": PAIRS}, {"learning_times": "shaped"}),
        "violation_share": ({"losses": CURVE[:4], "pairs": PAIRS}, {"losses": "shaped", "tolerance": NOT_NEGATIVE}),
        "half_times": ({"z": z}, {"z": ARRAYS}),
        "illusion_gap": (
            {"outputs": z, "at": 2, "strongest_mean": np.ones(2), "target": np.ones(2)},
            {"at": "-1 0"},
        ),
        "largest_difference": ({"z_1": CURVE, "z_2": CURVE}, {}),
        "reversal": ({"z": CURVE}, {"z": ARRAYS}),
        "signed_area": ({"z_1": CURVE, "z_2": CURVE}, {}),
        "terminal_rate": (
            {"outputs": z, "times": TIMES, "loss": CURVE},
            {"loss_share": POSITIVE, "speed_share": NOT_NEGATIVE},
        ),
        "jumps": ({"curve": CURVE, "times": TIMES}, flat),
        "plateaus": ({"curve": CURVE, "times": TIMES}, flat),
        "support_size": ({"entries": CURVE}, {"entries": ARRAYS, "threshold": NOT_NEGATIVE}),
        "switches": ({"entries": z, "times": TIMES}, {"threshold": POSITIVE}),
        "count_above": ({"values": CURVE}, shares),
        "effective_rank": ({"values": CURVE}, shares),
        "energy_rank": ({"values": CURVE}, shares),
        "stable_rank": ({"values": CURVE}, shares),
        "rise_steps": ({"values": spectrum}, {"share": ""}),
        "descents": ({"loss": CURVE}, reading),
        "first_crossing": ({"curve": CURVE, "level": 0.5}, reading),
        "memorization_depth": ({"loss": CURVE}, reading),
        "memorization_peak": ({"loss": CURVE}, reading),
        "peak": ({"curve": CURVE}, reading),
        "rises": ({"loss": CURVE}, reading | {"loss": ""}),
        "stage_log": ({"W": np.ones((6, 2, 2)), "concepts": 1}, {"phase": REAL, "tolerance": NOT_NEGATIVE}),
        "time_below_peak": ({"curve": CURVE}, shares),
        "turning_points": ({"loss": CURVE}, reading | {"loss": ""}),
        "scaling_exponent": ({"x": TIMES + 1, "y": CURVE}, {}),
        "first_spike": (
            {"curve": CURVE, "factor": 1.5, "within": 2},
            {"curve": ARRAYS, "factor": POSITIVE, "within": "0 2**62"},
        ),
        "largest_rise": ({"curve": CURVE}, {"curve": ARRAYS}),
        "spikes": ({"curve": CURVE, "factor": 1.5}, spike | {"after": "0"}),
        "troughs": ({"curve": CURVE}, spike),
        "correlation": ({"one": CURVE, "other": TIMES}, {}),
        "paired_difference": ({"after": CURVE, "before": TIMES}, {}),
    }


def models() -> Calls:
    net, small = (
        ds.models.MLP(2, 1, key=KEY, width=2, out=1),
        {"dim": 2, "depth": 1, "heads": 1, "hidden": 2, "key": KEY},
    )
    spread = {"scale": NOT_NEGATIVE, "residual_scale": NOT_NEGATIVE}
    return {
        "Attention": ({"dim": 2, "heads": 1, "key": KEY}, spread),
        "AttentionHead": ({"dim": 2}, {}),
        "ConvNet": ({"shape": (4, 4, 1), "channels": (2,), "key": KEY, "window": 1}, spread),
        "Diagonal": ({"u": jnp.ones(2), "v": jnp.ones(2), "network": ds.models.LinearNetwork(2)}, {}),
        "DiagonalForm": ({"entries": VECTOR}, {}),
        "DiagonalTransformer": (small, spread),
        "GPT": ({"vocabulary": 3, "context": 4} | small, spread),
        "LinearNetwork": ({"dim": 2}, {}),
        "MLP": ({"dim": 2, "depth": 1, "key": KEY}, spread),
        "QuadraticModel": (
            {"weights": VECTOR, "features": half, "form": ds.models.DiagonalForm(VECTOR), "gamma": 0.1},
            {"gamma": REAL},
        ),
        "Symmetric": ({"factor": jnp.eye(2)}, {"factor": "nested"}),
        "Transformer": (small, spread),
        "ViT": ({"shape": (4, 4, 1), "classes": 2} | small, spread),
        "WideResNet": ({"shape": (4, 4, 1), "widening": 1, "stem": 1, "key": KEY}, spread),
        "gated": ({"network": ds.models.MLP(2, 2, key=KEY, width=2, out=1, activation="relu")}, {}),
        "linearized": ({"model": net}, {}),
        "quadratic": ({"model": net}, {}),
        "myrtle5": ({"shape": (8, 8, 1), "channels": (1, 1, 1, 1), "key": KEY}, {}),
    }


def tasks() -> Calls:
    return {
        "AxisTeacher": ({"dim": 2}, {}),
        "Classification": ({"mean": jnp.zeros(1), "deviation": jnp.ones(1)}, {"pad": "0"}),
        "DiagonalRegression": ({"network": ds.models.LinearNetwork(2), "x": X, "y": Y[:, 0]}, {}),
        "ExtendedLoss": ({"strengths": VECTOR, "couplings": jnp.eye(2)}, {"offset": REAL}),
        "Factorization": ({"target": jnp.eye(2)}, {}),
        "Labeled": ({"x": jnp.ones((2, 4, 4, 1)), "y": jnp.array([0, 1])}, {"x": "shaped"}),
        "MultiIndex": ({"dim": 4}, {"noise": NOT_NEGATIVE}),
        "NextToken": ({"tokens": jnp.arange(9), "context": 4}, {}),
        "ProductLoss": ({}, {"target": f"{NUMBERS} {ARRAYS}", "scale": POSITIVE}),
        "QuadraticLoss": ({"S": jnp.eye(2), "c": VECTOR}, {}),
        "ScalarLoss": ({"function": half, "minimum": 0.0}, {"minimum": f"{NUMBERS} {ARRAYS}", "name": "foo"}),
        "SeparableLoss": ({"terms": (half, half), "directions": jnp.eye(2)}, {}),
        "SingleNeuron": ({"teacher": VECTOR}, {}),
        "StructuredIdentity": (
            {"mu": (1.0, 2.0), "sigma": (0.1, 0.2), "dim": 3},
            {"sigma": NOT_NEGATIVE, "truncate_radius": NOT_NEGATIVE},
        ),
        "Supervised": ({}, {}),
        "SymmetricFactorization": ({"target": jnp.eye(2)}, {}),
        "doubled_example": ({"key": KEY, "count": 3, "dim": 2}, {"which": "0"}),
        "random_rotation": ({"key": KEY, "dim": 2}, {}),
    }


def dynamics() -> Calls:
    at = {"model": PARAMS, "task": loss}
    steps = {"steps": "0", "record": "2**62", "probes": "{}", "model": "shaped", "bound": POSITIVE}
    steps |= {"critical": "2**62", "dense": "0 2**62", "tolerance": ""}
    state = {"initial": f"{NUMBERS} {ARRAYS} 1j True empty", "probes": "{}"}
    return {
        "Descent": (at | {"optimizer": optax.sgd(0.1)}, steps),
        "Flow": (at, steps),
        "CentralFlow": (at | {"learning_rate": 0.1}, steps | {"learning_rate": POSITIVE}),
        "Map": ({"rule": half, "initial": VECTOR}, state),
        "descend": (at | {"optimizer": optax.sgd(0.1), "steps": 2, "record": 1}, steps),
        "flow": (at | {"times": [0.0, 0.1]}, steps),
        "dense_flow": (at | {"until": 0.1}, {"until": "2.5"}),
        "iterate": ({"rule": half, "initial": VECTOR, "steps": 2}, steps | state),
        "central_flow": (at | {"learning_rate": 0.1, "steps": 2}, steps | {"learning_rate": POSITIVE}),
        "ensemble": (
            {"member": member, "over": {"rate": [0.1, 0.2]}, "steps": 2},
            steps | {"fixed": "{}", "width": "2**62"},
        ),
        "linear_steps": ({"steps": 3}, {"steps": "0"}),
        "log_steps": ({"steps": 3, "count": 2}, {"steps": "0"}),
        "bifurcation": (
            {"rule": scaled, "settings": VECTOR, "initial": 0.5, "burn_in": 4, "keep": 4},
            {"burn_in": "0", "initial": f"{NUMBERS} {ARRAYS}"},
        ),
        "escape_times": (
            {"rule": scaled, "settings": VECTOR, "starts": VECTOR, "steps": 4},
            steps | {"starts": "shaped"},
        ),
        "oscillation": ({}, {"every": "2**62"}),
    }


def schedules() -> Calls:
    rate = dict.fromkeys(("low", "high", "rate", "factor", "learning_rate"), NOT_NEGATIVE)
    return {
        "scheduled": ({"schedule": rates.cyclic(0.1, 0.2, 4)}, {}),
        "cyclic": ({"low": 0.1, "high": 0.2, "period": 4}, rate | {"period": "2**62"}),
        "piecewise": ({"rates": (0.1, 0.2), "at": (3,)}, {}),
        "decay": ({"rate": 0.1, "factor": 0.5, "every": 3}, rate | {"every": "2**62"}),
        "catapults": (
            {"critical_rate": loss, "count": 1},
            {"count": "0 2**62", "factor": POSITIVE, "rise": POSITIVE, "warm": "0 2**62"}
            | dict.fromkeys(("refresh", "patience"), "2**62"),
        ),
        "optimizer": ({"name": "gd", "learning_rate": 0.1}, rate),
    }


REGISTRY = {
    "geometry": (ds.geometry, geometry),
    "probes": (ds.probes, probes),
    "curves": (ds.curves, curves),
    "models": (ds.models, models),
    "tasks": (ds.tasks, tasks),
    "dynamics": (ds.dynamics, dynamics),
    "rates": (rates, schedules),
}
