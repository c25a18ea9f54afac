"""Valid calls of the dynamics."""

from __future__ import annotations

import optax

import dynascope as ds
from valid_calls.shared import ARRAYS, NUMBERS, PARAMS, POSITIVE, VECTOR, Calls, half, loss, member, scaled


def calls() -> Calls:
    at = {"model": PARAMS, "task": loss}
    steps = {"steps": "0", "record": "2**62", "probes": "{}", "model": "shaped", "bound": POSITIVE}
    steps |= {"critical": "0 2**62", "dense": "0 2**62", "tolerance": ""}
    state = {"initial": f"{NUMBERS} {ARRAYS} 1j True empty", "probes": "{}"}
    averaging = ds.dynamics.with_average(optax.sgd(0.1), 0.9)
    moments = {"decay": "", "eps": f"0 {POSITIVE}", "moments": f"{NUMBERS} {ARRAYS}"}
    return {
        "Descent": (at | {"optimizer": optax.sgd(0.1)}, steps),
        "Flow": (at, steps),
        "CentralFlow": (at | {"learning_rate": 0.1}, steps | {"learning_rate": POSITIVE}),
        "Map": ({"rule": half, "initial": VECTOR}, state),
        "descend": (at | {"optimizer": optax.sgd(0.1), "steps": 2, "record": 1}, steps),
        "flow": (at | {"times": [0.0, 0.1]}, steps),
        "dense_flow": (at | {"until": 0.1}, {"until": "2.5"}),
        "observe": ({"models": [PARAMS], "task": loss}, {"probes": "{}", "steps": "None", "task": "None"}),
        "iterate": ({"rule": half, "initial": VECTOR, "steps": 2}, steps | state),
        "central_flow": (at | {"learning_rate": 0.1, "steps": 2}, steps | {"learning_rate": POSITIVE}),
        "ensemble": (
            {"member": member, "over": {"rate": [0.1, 0.2]}, "steps": 2},
            steps | {"fixed": "{}", "width": "2**62"},
        ),
        "member_seeds": ({"seed": 1, "count": 3}, {"seed": "0 2**62"}),
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
        "averaged": ({"at": ds.descend(PARAMS, loss, averaging, steps=2, record=2)}, {}),
        "clipped_network": (
            {"rule": optax.sgd(0.1), "norm": 1.0, "schedule": optax.sgd(0.1)},
            {"norm": POSITIVE},
        ),
        "with_average": ({"optimizer": optax.sgd(0.1), "decay": 0.9}, {"decay": "0"}),
        "RMSProp": ({}, moments),
        "ScalarRMSProp": ({}, moments),
        "oscillation": ({}, {"every": "2**62"}),
    }
