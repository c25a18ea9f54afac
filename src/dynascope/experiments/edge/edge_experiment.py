"""Shared by the experiments on the edge of stability: double precision."""

from __future__ import annotations

from dynascope.lab.experiment import Experiment


class EdgeExperiment(Experiment):
    """An experiment whose orbits need double precision."""

    defaults = {"precision": "float64"}
