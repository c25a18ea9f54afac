"""Valid calls of the theory of association against in-context reasoning."""

from __future__ import annotations

import numpy as np

from dynascope.theory.recall import contexts, phases
from valid_calls.shared import ABOVE_0, ANY, NOT_NEGATIVE, POSITIVE, REAL, Calls


def calls() -> Calls:
    here = {"size": 3, "length": 5, "alpha": 0.3}
    size, noise = {"size": 3}, {"alpha": 0.3}
    moments = contexts.contexts(3, 5, 0.3)
    share, target = {"noise": "0"}, {"target": "0"}
    free = {"margin": ANY, "noise_logit": ANY}
    memory = {"inputs": 3, "margin": 1.0, "noise_logit": -0.5}
    one = {"margin": REAL, "noise_logit": REAL}
    even = {"first": np.full(3, 1 / 3), "following": np.full((3, 3), 1 / 3), "alpha": 0.3, "trigger": 0, "length": 5}
    return {
        "bigrams.least_losses": (even, {"trigger": "0"}),
        "chain.transition": (size | noise | {"target": 1}, target),
        "chain.occupation": (size | noise | {"positions": 4, "target": 1}, target),
        "contexts.contexts": (here, {}),
        "counts.exact_counts": (here, {}),
        "counts.leading_counts": (here, {}),
        "counts.weighted_series": ({"ratio": 0.5, "terms": 3}, {"ratio": REAL}),
        "first_step.feed_forward_entries": (size | noise, {}),
        "first_step.value_entries": (here, {}),
        "first_step.exact_value_entries": (here, {}),
        "first_step.deviation": (
            {"variance": 0.2, "range": 1.0, "samples": 10, "events": 4, "delta": 0.1},
            {"variance": f"{NOT_NEGATIVE} shaped nested", "range": f"{NOT_NEGATIVE} shaped nested", "samples": ABOVE_0},
        ),
        "gradient_lemma.sample_gradient": (
            {
                "unembedding": np.eye(3),
                "predicted": np.ones((2, 3)) / 3,
                "labels": np.array([0, 2]),
                "inputs": np.ones((2, 4)),
            },
            {"unembedding": "", "predicted": "", "inputs": "nested"},
        ),
        "gradient_lemma.population_gradient": (
            {
                "unembedding": np.eye(3),
                "shares": np.ones(3) / 3,
                "predicted_means": np.ones((3, 2)),
                "means": np.ones((3, 2)),
            },
            {},
        ),
        "hand_built.hand_built": (here, dict.fromkeys(("previous", "matching", "avoiding", "reading"), POSITIVE)),
        "linear_memory.memory_flow": ({"inputs": 3, "alpha": 0.3, "times": np.array([0.0, 1.0])}, {}),
        "linear_memory.probabilities": (memory, free),
        "linear_memory.memory_spectrum": (memory, free),
        "linear_memory.late_margin": ({"inputs": 3, "alpha": 0.3, "times": np.array([1.0, 2.0])}, {"times": ABOVE_0}),
        "linear_memory.overtaking_margin": ({"inputs": 4, "alpha": 0.3}, {}),
        "linear_memory.memory_matrix": (memory, one),
        "linear_memory.without_noise_direction": ({"weights": np.ones((4, 3))}, {"weights": "nested"}),
        "long_contexts.population_path": (size | noise | {"rate": 1.0, "steps": 3}, {"rate": POSITIVE}),
        "long_contexts.long_contexts": (size | noise, {}),
        "margins.margin": ({"logits": np.ones(4)}, {"logits": "shaped nested"}),
        "margins.first_margins": (size | noise, {"noise_share": "0"}),
        "margins.fluctuation": (noise | {"samples": 10}, {"samples": POSITIVE}),
        "noise_logit.noise_logits": (size | noise | {"rate": 1.0, "steps": 3}, {"rate": POSITIVE, "steps": "0"}),
        "noise_logit.noise_probability": (size | {"logit": 1.0}, {"logit": ANY}),
        "noise_logit.noise_fixed_point": (size | noise, {}),
        "noise_logit.largest_rate": (noise, {}),
        "phases.value_step": ({"moments": moments, "noise": 0.3}, share),
        "phases.noise_row": (size | noise | {"probabilities": np.array([0.1]), "rate": 1.0}, {"rate": POSITIVE}),
        "phases.diagonal_values": (size | {"current": 1.0, "previous": 0.5}, {"current": REAL, "previous": REAL}),
        "phases.attention_step": (
            {"moments": moments, "values": phases.diagonal_values(3, 1.0, 1.0), "noise": 0.3},
            share,
        ),
        "phases.gaps": ({"step": np.arange(8.0)}, {}),
        "phases.value_limits": (noise, {}),
        "phases.gap_limits": (noise, {}),
        "phases.diagonal_gap_limits": (
            noise | {"current": 1.0, "previous": 1.0},
            {"current": NOT_NEGATIVE, "previous": NOT_NEGATIVE},
        ),
        "phases.early_attention_limits": (noise | {"share": 2.0}, {"share": POSITIVE}),
    }
