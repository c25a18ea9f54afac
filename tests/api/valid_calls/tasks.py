"""Valid calls of the tasks."""

from __future__ import annotations

import jax.numpy as jnp

import dynascope as ds
from valid_calls.shared import ARRAYS, EVERYTHING, KEY, NOT_NEGATIVE, NUMBERS, POSITIVE, REAL, VECTOR, Calls, X, Y, half

ARRAY = jnp.zeros((2, 4), int)


def calls() -> Calls:
    return {
        "AssociativeMemory": ({"inputs": jnp.eye(2), "outputs": jnp.ones((3, 2))}, {"alpha": "0"}),
        "AxisTeacher": ({"dim": 2}, {}),
        "Classification": ({"mean": jnp.zeros(1), "deviation": jnp.ones(1)}, {"pad": "0"}),
        "ConceptLabels": ({"processes": (ds.tasks.ImageConcepts(pixels=4),)}, {}),
        "DiagonalRegression": ({"network": ds.models.LinearNetwork(2), "x": X, "y": Y[:, 0]}, {}),
        "ExtendedLoss": ({"strengths": VECTOR, "couplings": jnp.eye(2)}, {"offset": REAL}),
        "Factorization": ({"target": jnp.eye(2)}, {}),
        "ImageConcepts": (
            {},
            {
                "color_separation": "0",
                "size_separation": "0",
                "shape_separation": "0",
                "color_spread": NOT_NEGATIVE,
                "size_spread": NOT_NEGATIVE,
                "smallest": POSITIVE,
                "center": "0",
                "noise": NOT_NEGATIVE,
                "blur": NOT_NEGATIVE,
            },
        ),
        "IndirectObject": ({}, {"alpha": "0"}),
        "Labeled": ({"x": jnp.ones((2, 4, 4, 1)), "y": jnp.array([0, 1])}, {"x": "shaped"}),
        "MultiIndex": ({"dim": 4}, {"noise": NOT_NEGATIVE}),
        "NoisyRecall": (
            {"first": jnp.full(3, 1 / 3), "following": jnp.full((3, 3), 1 / 3), "length": 4},
            {"alpha": "0", "noise": "0"},
        ),
        "NextToken": ({"tokens": jnp.arange(9), "context": 4}, {}),
        "NodeTask": ({"graph": X}, {"graph": EVERYTHING}),
        "block_model_graphs": (
            {"graphs": 2, "nodes": 4, "within": 2.0, "across": 1.0, "seed": 0},
            {"within": "0 2.5", "across": "0 2.5", "seed": "0 2**62"},
        ),
        "overlap": ({"found": jnp.array([0, 1, 1]), "labels": jnp.array([0, 1, 0])}, {}),
        "propagated_features": (
            {"graphs": ds.tasks.block_model_graphs(2, 4, 2.0, 1.0, seed=0), "order": 2},
            {"kappa": REAL},
        ),
        "unnamed_cross_entropy": ({"logits": jnp.ones((1, 3, 2)), "labels": jnp.array([[0, 1, 0]])}, {}),
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
        "VariationalDiffusion": ({}, {"data_noise": POSITIVE}),
        "read_concepts": (
            {"images": jnp.ones((1, 4, 4, 3)), "process": ds.tasks.ImageConcepts(pixels=4)},
            {},
        ),
        "SymmetricFactorization": ({"target": jnp.eye(2)}, {}),
        "informative": ({"batch": ds.tasks.RecallBatch(ARRAY, ARRAY, ARRAY[:, 0])}, {}),
        "most_frequent": ({"first": VECTOR, "count": 1}, {}),
        "doubled_example": ({"key": KEY, "count": 3, "dim": 2}, {"which": "0"}),
        "two_classes": (
            {"name": "digits", "classes": (0, 1), "count": 4, "test": 4, "key": KEY},
            {"flips": "0", "test": "0 None 2**62", "count": "2**62"},
        ),
        "random_rotation": ({"key": KEY, "dim": 2}, {}),
    }
