"""Long names and units of the variables that probes record, for axes, tables and findings.

The probes of JAX and of PyTorch share them, by the names of the functions that make them. Descriptions are words: they
affect no number, and the fingerprints of experiments do not count them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import xarray as xr

from dynascope.probes.probe import Probe

Described = TypeVar("Described", bound=Probe[Any])
PRODUCTS = "Hessian-vector products"


class Words(NamedTuple):
    """A long name and a unit; "1" for a number without one, "" if the unit is that of the user's data."""

    long_name: str
    units: str = "1"


ERRORS = {
    "error": "error of the {}",
    "standard_error": "standard error of the {}",
    "residual": "residual of the {}",
}
"""Entries that any estimate may have; they have its unit."""
EIGENVECTOR = {
    "alignment": Words("alignment of the gradient with the eigenvector"),
    "angle": Words("error of the eigenvector", "rad"),
    "missed": Words("probability that a larger eigenvalue was missed"),
    "products": Words("number of products", PRODUCTS),
    "converged": Words("whether the error is within the tolerance"),
}
RANKS = {"effective": Words("effective rank"), "norm": Words("largest singular value")}

DESCRIPTIONS: Mapping[str, Mapping[str, Words]] = {
    "loss": {"value": Words("loss")},
    "output": {"value": Words("output", "")},
    "outputs": {"value": Words("outputs", "")},
    "jacobian": {"value": Words("Jacobian of the output in the input", "")},
    "displacement": {"value": Words("distance of the parameters from the start")},
    "learning_rate": {
        "value": Words("learning rate"),
        "phase": Words("phase of the catapult"),
        "catapults": Words("number of catapults", "catapults"),
    },
    "batch_rows": {"value": Words("rows of the next batch", "rows")},
    "agop_alignment": {"value": Words("alignment of the average gradient outer product")},
    "sharpness": {"value": Words("sharpness"), **EIGENVECTOR},
    "preconditioned_sharpness": {"value": Words("preconditioned sharpness"), **EIGENVECTOR},
    "top_eigenvalues": {"value": Words("largest eigenvalues of the Hessian"), **EIGENVECTOR},
    "preconditioned top_eigenvalues": {
        "value": Words("largest eigenvalues of the preconditioned Hessian"),
        **EIGENVECTOR,
    },
    "gradient_alignment": {
        "value": EIGENVECTOR["alignment"],
        "angle": EIGENVECTOR["angle"],
        "sharpness": Words("sharpness"),
    },
    "flip_discriminant": {
        "value": Words("discriminant of the flip"),
        "second": Words("second derivative along the gradient"),
        "third": Words("third derivative along the gradient"),
        "fourth": Words("fourth derivative along the gradient"),
        "fraction": Words("fraction of the step at the minimum"),
    },
    "hessian_density": {"value": Words("density of the Hessian's eigenvalues")},
    "output_hessian_norm": {
        "value": Words("spectral norm of the Hessian of the output"),
        "products": EIGENVECTOR["products"],
    },
    "batch_sharpness": {"value": Words("sharpness along the gradients of batches")},
    "gradient_noise": {
        "value": Words("gradient noise scale", "examples"),
        "variance": Words("variance of the gradients of examples"),
        "squared_norm": Words("squared norm of the gradient"),
    },
    "kernel_norm": {
        "value": Words("norm of the tangent kernel"),
        "critical_rate": Words("critical learning rate"),
        "products": Words("number of products", "products with the kernel"),
        "top": Words("loss in the top eigenspace"),
        "rest": Words("loss in the other eigenspaces"),
    },
    "kernel_distance": {"value": Words("distance of the tangent kernel")},
    "batch_critical_rate": {"value": Words("critical learning rate of the next batch")},
    "polyak": {
        "value": Words("squared norm of the gradient over twice the loss"),
        "smallest": Words("smallest eigenvalue of the tangent kernel"),
        "largest": Words("largest eigenvalue of the tangent kernel"),
        "change": Words("distance of the tangent kernel"),
    },
    "weight_ranks": {"value": Words("stable rank"), **RANKS},
    "change of weight_ranks": {"value": Words("stable rank of the change"), **RANKS},
    "singular_values": {"value": Words("singular values")},
    "weight_updates": {"value": Words("relative change of the parameters"), "norm": Words("norm of the parameters")},
    "cka": {"value": Words("similarity of representations (CKA)")},
    "activations": {
        "value": Words("effective rank of the outputs"),
        "stable": Words("stable rank of the outputs"),
        "sparsity": Words("share of outputs that are 0"),
        "norm": Words("root mean square of an example's outputs", ""),
    },
    "attention_entropy": {"value": Words("entropy of attention", "nats")},
    "product_spectrum": {"value": Words("singular values of products of weights")},
    "perturbation_spectrum": {"value": Words("singular values of the change of products of weights")},
    "oscillation": {
        "value": Words("variance of the oscillation"),
        "loss": Words("time-averaged loss"),
        "directions": Words("number of directions that oscillate", "directions"),
    },
}
"""For each function that makes a probe, and for some in a second form: the words for the entries of its value."""
CLOCKS = {"step": Words("number of steps taken", "steps"), "time": Words("time of the flow")}
ENDS = {"diverged_at": "first {} that is not finite", "stopped_at": "{} at which the run stopped"}

_kinds: WeakKeyDictionary[Probe[Any], str] = WeakKeyDictionary()


def describe_probe(probe: Described, kind: str) -> Described:
    """The probe itself, whose variables get the long names and units of a kind.

    Args:
        probe: A probe.
        kind: A key of `DESCRIPTIONS`.
    """
    _kinds[probe] = kind
    return probe


def describe_trace(trace: xr.Dataset, probes: Mapping[str, Probe[Any]]) -> xr.Dataset:
    """A trace whose variables have the attributes `long_name` and, if it is known, `units`.

    Args:
        trace: A trace; its variables are `<probe>` and `<probe>_<entry>`.
        probes: The probes by name.
    """
    trace = trace.copy()
    for name in map(str, trace.variables):
        words = _of_clock(name) or _of_end(name, trace)
        if words is None and name in trace.data_vars:
            probe = max((one for one in probes if name == one or name.startswith(f"{one}_")), key=len, default=name)
            words = _of_entry(_kinds.get(probes[probe], "") if probe in probes else "", name[len(probe) + 1 :], name)
        words = words or Words(name.replace("_", " "), "")
        trace[name].attrs.update({key: text for key, text in words._asdict().items() if text})
    return trace


def _of_entry(kind: str, entry: str, name: str) -> Words:
    """The words for an entry of a probe's value; "" is the value itself."""
    known = DESCRIPTIONS.get(kind, {})
    value = known.get("value", Words(name.removesuffix(f"_{entry}").replace("_", " "), ""))
    if entry in ERRORS and entry not in known:
        return Words(ERRORS[entry].format(value.long_name), value.units)
    return known.get(entry or "value", Words(name.replace("_", " "), ""))


def _of_clock(name: str) -> Words | None:
    clock = next((clock for clock in CLOCKS if name == clock or name.endswith(f"_{clock}")), None)
    return None if clock is None else CLOCKS[clock]


def _of_end(name: str, trace: xr.Dataset) -> Words | None:
    if name not in ENDS:
        return None
    clock = "time" if any(str(dim) == "time" or str(dim).endswith("_time") for dim in trace.dims) else "step"
    return Words(ENDS[name].format(clock), "" if clock == "time" else "steps")
