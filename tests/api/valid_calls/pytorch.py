"""Valid calls of the instruments for PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from valid_calls.shared import ARRAYS, POSITIVE, Calls


def calls() -> Calls:
    every = {"every": "2**62"}
    search = every | {"tolerance": "0 2.5 2**62", "max_products": "2**62", "k": "2**62"}
    inputs = every | {"x": f"{ARRAYS} None"}
    model = torch.nn.Linear(2, 1)
    data = torch.linspace(-1, 1, 6).reshape(3, 2), torch.zeros(3, 1)
    on = {"model": model, "loss": "mse", "data": data}
    watching = {"rows": "2**62", "probes": "{}"}
    kept: dict[int, Any] = {0: model.state_dict()}
    measured = {"checkpoints": kept, "probes": {"loss": torch_loss()}}
    return {
        "Watch": (on, watching),
        "Objective": (on, watching | {"loss": "None", "data": ARRAYS}),
        "replay": (on | measured, {"rows": "2**62", "checkpoints": "foo"}),  # a folder that is not there
        "activations": ({"modules": "0"}, every | {"modules": "foo"}),
        "agop_alignment": ({"target": np.eye(2)}, inputs),
        "attention_entropy": ({}, every),
        "batch_sharpness": ({"batch": 2}, every | {"batch": "2**62", "draws": "2**62", "seed": "0"}),
        "cka": ({"features": "0"}, every | {"features": "foo"}),
        "displacement": ({}, every),
        "gradient_noise": ({}, every | {"rows": "2**62"}),
        "hessian_density": (
            {"at": np.linspace(0, 1, 3), "width": 0.1},
            search | {"width": POSITIVE, "seed": "0", "draws": "2**62", "degree": "2**62"},
        ),
        "kernel_distance": ({}, inputs),
        "kernel_norm": ({}, inputs),
        "learning_rate": ({}, every),
        "loss": ({}, every),
        "sharpness": ({}, search),
        "singular_values": ({"k": 1}, search),
        "top_eigenvalues": ({"k": 1}, search),
        "weight_ranks": ({}, every),
        "weight_updates": ({}, every),
    }


def torch_loss() -> Any:
    from dynascope.torch import loss

    return loss()
