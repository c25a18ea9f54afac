"""Shared by the experiments on the edge of stability: the document and double precision."""

from __future__ import annotations

from dynascope.lab.experiment import Experiment

DOCUMENT = "Simple structures in neural networks: on expressiveness, optimization and data distribution"


class EdgeExperiment(Experiment):
    """An experiment whose orbits need double precision."""

    defaults = {"precision": "float64"}
