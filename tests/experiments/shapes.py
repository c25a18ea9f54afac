"""Every experiment at the shape of its full setting: all networks, conditions and panels, in tiny sizes.

The sizes are fields, which go by the same names in all experiments, so that one table shrinks most of them. What no
table of sizes gives is in `BESIDES`: fields that must fit one another, and lists whose values are sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from annotated_types import Ge, MultipleOf

from dynascope.lab.experiment import Experiment

SMALL: Mapping[str, int] = {
    "aligned_starts": 4,
    "angles": 5,
    "batch": 4,
    "batches": 3,
    "budgets": 1024,
    "burn_in": 64,
    "channels": 4,
    "checkpoints": 4,
    "classifier_steps": 2,
    "columns": 4,
    "compositions": 4,
    "context": 8,
    "cora_epochs": 2,
    "count": 2,
    "dim": 8,
    "draw_widths": 20,
    "draws": 8,
    "epochs": 2,
    "exact_seeds": 2,
    "graphs": 8,
    "grid": 16,
    "grid_starts": 4,
    "head_dim": 4,
    "heads": 2,
    "held_out": 16,
    "hidden": 8,
    "high_seeds": 2,
    "images": 40,
    "layers": 2,
    "length": 16,
    "line_steps": 20,
    "message_widths": 2,
    "minima": 8,
    "narrow_starts": 4,
    "narrow_steps": 24,
    "net_steps": 12,
    "nodes": 20,
    "operator_widths": 2,
    "order": 4,
    "orders": 4,
    "pair_seeds": 2,
    "pair_widths": 3,
    "per_class": 4,
    "per_prompt": 2,
    "pictures": 16,
    "points": 12,
    "population_seeds": 4,
    "population_steps": 24,
    "predictor_starts": 4,
    "questions": 20,
    "random_nodes": 8,
    "random_starts": 8,
    "ranks": 1,
    "recorded": 10,
    "recordings": 6,
    "regular_epochs": 2,
    "rows": 4,
    "samples": 24,
    "sampling_steps": 2,
    "seeds": 2,
    "since": 8,
    "sizes": 10,
    "slow_seeds": 2,
    "small_seeds": 4,
    "spectra": 4,
    "spectral_seeds": 2,
    "spike_steps": 8,
    "starts": 6,
    "states": 64,
    "steps": 24,
    "steps_near_zero": 24,
    "sum_seeds": 2,
    "symmetric_steps": 24,
    "test_graphs": 4,
    "test_samples": 16,
    "tests": 4,
    "tokens": 8,
    "unseen": 4,
    "warm": 4,
    "warmup": 2,
    "wide": 8,
    "width": 8,
    "widths": 4,
    "window": 8,
}
"""The largest size in a field of that name; a list of sizes becomes as many that count up from it."""

BESIDES: Mapping[str, Mapping[str, Any]] = {
    "catapult.cyclic": {"period": 4, "pool": 4},
    "catapult.map": {"rates": (1.0, 3.0, 5.0, 7.0), "widths": (16, 64)},
    "concept.detour-map": {"ratios": (2.0, 4.0), "sizes": (0.01, 0.1), "dims": (2, 3), "depths": (2, 3)},
    "concept.diffusion": {"pixels": 8, "channels": (8, 8, 8)},
    "concept.order-map": {"first_signals": (1.0, 2.0), "second_signals": (1.0, 2.0)},
    "concept.three-concepts": {"pixels": 8, "channels": (8, 8, 8)},
    "concept.transient-memorization": {"dims": (2, 3, 4, 5, 6, 8)},
    "edge.decay-sharpens": {"steps": 500},
    "edge.factorization-bifurcation": {"rates": 5, "steps": 1000},
    "edge.quasi-symmetric": {"steps": 150},
    "graphs.class-growth": {"largest": 13},
    "graphs.learnability": {"nodes": 40, "counts": (4, 8), "orders": (0, 2, 4), "fits": 2},
    "graphs.small-graphs": {"sizes": (4, 5, 6, 7)},
    "linearity.hessian-scaling": {"widths": (3, 5)},
    "linearity.kernel-change": {"widths": (3, 5)},
    "rank.initialization-scale": {"warmup_epochs": 1},
    "rank.language": {"depth": 2},
    "rank.perturbation-stability": {"points": 100},
    "rank.vision": {"warmup_epochs": 1},
    "rank.vision-sgd": {"warmup_epochs": 1},
    "rank.vision/imagenet": {"folder": "pictures", "pixels": 32},
    "recall.checkpoints": {"depth": 2, "vocabulary": 300},
    "recall.phase-map": {"alphas": (0.2, 0.5), "ratios": (1, 2, 4)},
}
"""Further changes to the full setting and to every preset of an experiment, or to one preset."""

AT_FULL_SIZE: frozenset[str] = frozenset(
    {
        "edge.mlp-alignment/same-epochs",
        "recall.value-rank/best-rank",
        "recall.value-rank/printed-rank",
        "recall.value-rank/smaller-destroys",
    }
)
"""Claims that are judged only at the document's own size."""


def tiny(kind: type[Experiment], preset: str = "full") -> Experiment:
    """The experiment at the shape of a setting, in small sizes. A folder of pictures is one of `write_noise`."""
    fields = kind.presets.get(preset, {})
    given: Any = kind(**fields)
    idle = {"dim"} if kind.id.startswith("features.") and "rank" not in given.data else set()
    names = [name for name in SMALL if name in kind.model_fields and name not in idle]
    small = {name: _shrunk(kind, name, given) for name in names}
    if kind.id.startswith("features.") and "dim" in small:
        small["dim"] = 12  # targets of rank 3 and 4 need ten
    besides = {**BESIDES.get(kind.id, {}), **BESIDES.get(f"{kind.id}/{preset}", {})}
    return kind(**{**fields, **small, **besides})


def _shrunk(kind: type[Experiment], name: str, given: Any) -> Any:
    value, small = getattr(given, name), SMALL[name]
    if isinstance(value, tuple):
        if name == "batches":  # the last one may be all samples
            return tuple(
                small + place if size < given.samples else SMALL["samples"] for place, size in enumerate(value)
            )
        return (50,) * len(value) if name == "steps" else tuple(small + place for place in range(len(value)))
    if not isinstance(value, int):
        return value
    size = min(value, small)
    for bound in kind.model_fields[name].metadata:
        if isinstance(bound, Ge):
            size = max(size, bound.ge)
        if isinstance(bound, MultipleOf):
            size += -size % bound.multiple_of
    return size
