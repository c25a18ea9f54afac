"""Valid calls of the models."""

from __future__ import annotations

from importlib.util import find_spec

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import dynascope as ds
from dynascope.models.frozen import Frozen
from valid_calls.shared import KEY, NOT_NEGATIVE, POSITIVE, REAL, VECTOR, Calls, half


def keeps(z: jnp.ndarray, gamma: jnp.ndarray, condition: jnp.ndarray) -> jnp.ndarray:
    """A denoiser that takes everything for noise."""
    return z


def calls() -> Calls:
    net, small = (
        ds.models.MLP(2, 1, key=KEY, width=2, out=1),
        {"dim": 2, "depth": 1, "heads": 1, "hidden": 2, "key": KEY},
    )
    spread = {"scale": NOT_NEGATIVE, "residual_scale": NOT_NEGATIVE}
    dag = ds.models.dag_architectures.fully_connected((2, 3, 1), key=KEY)
    relu = ds.models.MLP(2, 2, key=KEY, width=2, out=1, activation="relu")
    found: Calls = {
        "Attention": ({"dim": 2, "heads": 1, "key": KEY}, spread),
        "AttentionHead": ({"dim": 2}, {}),
        "ConceptClassifier": ({"shape": (2, 2, 1), "channels": (4,), "heads": 1, "key": KEY}, {}),
        "ConvNet": ({"shape": (4, 4, 1), "channels": (2,), "key": KEY, "window": 1}, spread),
        "Diagonal": ({"u": jnp.ones(2), "v": jnp.ones(2), "network": ds.models.LinearNetwork(2)}, {}),
        "Diffusion": ({"denoiser": keeps}, {"gamma_min": REAL, "gamma_max": REAL}),
        "DiagonalForm": ({"entries": VECTOR}, {}),
        "DiagonalTransformer": (small, spread),
        "FeaturedGraph": ({"graph": ds.graphs.parity_colors(ds.graphs.cycle(3))}, {}),
        "GAMLP": ({"features": 2, "out": 1, "key": KEY}, {}),
        "GIN": ({"features": 2, "depth": 1, "out": 1, "key": KEY}, {}),
        "GPT": ({"vocabulary": 3, "context": 4} | small, spread),
        "LinearNetwork": ({"dim": 2}, {}),
        "MLP": ({"dim": 2, "depth": 1, "key": KEY}, spread),
        "QuadraticModel": (
            {"weights": VECTOR, "features": half, "form": ds.models.DiagonalForm(VECTOR), "gamma": 0.1},
            {"gamma": REAL},
        ),
        "SIGN": ({"operators": 2, "features": 2, "out": 1, "key": KEY}, {}),
        "SpectralGNN": ({"depth": 2, "out": 2, "key": KEY}, {}),
        "BudgetSplit": ({"vocabulary": 3, "context": 4, "budget": 64, "share": 0.5, "key": KEY, "dim": 2}, {}),
        "OneLayerRecall": ({"vocabulary": 3}, {}),
        "RecallTransformer": (
            {"vocabulary": 3, "context": 4, "dim": 2, "feeds": ("linear",), "key": KEY},
            {"score_scale": POSITIVE},
        ),
        "Symmetric": ({"factor": jnp.eye(2)}, {"factor": "nested"}),
        "Transformer": (small, spread),
        "UNet": (
            {"shape": (2, 2, 1), "condition": 1, "channels": (2,), "groups": 1, "heads": 1, "blocks": 1, "key": KEY},
            {"scale": POSITIVE, "gamma_min": "-1 0 2.5", "gamma_max": "-1 0 2.5 2**62", "dropout": "0"},
        ),
        "generate": (
            {
                "model": ds.models.Diffusion(keeps),
                "conditions": jnp.zeros((2, 1)),
                "shape": (2,),
                "key": KEY,
                "steps": 2,
            },
            {"conditions": "nested"},
        ),
        "ViT": ({"shape": (4, 4, 1), "classes": 2} | small, spread),
        "WideResNet": ({"shape": (4, 4, 1), "widening": 1, "stem": 1, "key": KEY}, spread),
        "DAG": ({"edges": dag.edges, "sources": dag.sources}, {}),
        "Graph": (
            {
                "vertices": 3,
                "source": np.array([0, 1]),
                "target": np.array([1, 2]),
                "parameter": np.arange(2),
                "skip": np.full(3, -1),
            },
            {},
        ),
        "Gated": ({"network": relu, "start": Frozen(relu)}, {}),
        "Taylor": (
            {"displacement": eqx.filter(net, eqx.is_inexact_array), "base": Frozen(net), "order": 1, "apply": None},
            {"apply": "None"},
        ),
        "budget_split": ({"budget": 64, "share": 0.5, "dim": 2}, {}),
        "without_feed": (
            {"model": ds.models.RecallTransformer(3, 4, dim=2, feeds=("linear",), key=KEY), "layer": 0},
            {"layer": "0"},
        ),
        "freeze_gates": ({"network": relu}, {}),
        "linearize": ({"model": net}, {}),
        "quadratic": ({"model": net}, {}),
        "myrtle5": ({"shape": (8, 8, 1), "channels": (1, 1, 1, 1), "key": KEY}, {}),
    }
    if find_spec("torch2jax") is None:
        return found
    import torch

    module = torch.nn.Linear(2, 1)
    found["from_torch"] = {"module": module}, {"example": "nested"}
    found["register_torch_function"] = {"function": torch.erfinv, "counterpart": jnp.tanh}, {}
    found["to_torch"] = {"model": ds.models.from_torch(module), "module": module}, {}
    return found
