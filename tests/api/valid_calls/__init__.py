"""A valid call of every public function, a file for each room, for the tests of malformed ones.

Each has the arguments, and for some of them which entries of `NONSENSE` (in test_malformed_calls.py) make sense.
"""

from importlib.util import find_spec

import dynascope as ds
from dynascope.dynamics import rates as schedules
from valid_calls import (
    catapult,
    concept,
    curves,
    dynamics,
    edge,
    features,
    figures,
    geometry,
    graph_theory,
    graphs,
    lab,
    linearity,
    models,
    probes,
    rank,
    rates,
    recall,
    tasks,
)

REGISTRY = {
    "geometry": (ds.geometry, geometry.calls),
    "probes": (ds.probes, probes.calls),
    "curves": (ds.curves, curves.calls),
    "models": (ds.models, models.calls),
    "tasks": (ds.tasks, tasks.calls),
    "dynamics": (ds.dynamics, dynamics.calls),
    "rates": (schedules, rates.calls),
    "concept": (ds.theory.concept, concept.calls),
    "edge": (ds.theory.edge, edge.calls),
    "linearity": (ds.theory.linearity, linearity.calls),
    "catapult": (ds.theory.catapult, catapult.calls),
    "features": (ds.theory.features, features.calls),
    "rank": (ds.theory.rank, rank.calls),
    "recall": (ds.theory.recall, recall.calls),
    "figures": (ds.figures, figures.calls),
    "graphs": (ds.graphs, graphs.calls),
    "lab": (ds.lab, lab.calls),
    "theory.graphs": (ds.theory.graphs, graph_theory.calls),
}
if find_spec("torch"):
    from valid_calls import pytorch

    REGISTRY["torch"] = (ds.torch, pytorch.calls)

NOT_CALLED = {
    "graphs and results, which functions make": "graphs.Graph graphs.GraphBatch graphs.Pair graphs.SparseOperator "
    "graphs.Expressivity",
    "what needs PyTorch Geometric": "graphs.to_pyg",
    "results, which functions return": "geometry.Eigenpairs geometry.SpectralDensity geometry.GradientNoise "
    "geometry.BatchSharpness curves.Rise dynamics.Bifurcation "
    "dynamics.Trajectory tasks.CommunityGraphs tasks.Samples tasks.RecallBatch tasks.IndirectObjectBatch "
    "models.TorchModel",
    "states, which an optimizer makes": "rates.ScheduleState rates.CatapultState",
    "a part of optimizers, which they call": "rates.when",
    "what the library hands to functions of its users": "probes.Batch probes.Snapshot models.Products",
    "interfaces, which users implement": "dynamics.Member dynamics.Monitor dynamics.monitored_by tasks.Task "
    "tasks.DataTask tasks.PopulationTask tasks.SampledTask tasks.VelocityTask tasks.AugmentedTask",
    "what a watch hands to its probes": "torch.Snapshot",
}
"""Names without a call, by the reason."""
COUNTER_EXAMPLES = ("errata", "gated_network")
"""Modules of the theory whose functions run as they are."""
ROOMS_WITHOUT_CALLS = {
    "experiments": "their fields are checked by pydantic",
    "lm": "its functions take pretrained models; see tests/lm",
    "ledger": "its functions take no numbers; see tests/ledger",
    "theory": "its systems are rooms of their own",
}
