"""Figures 3.2b, 3.4 and B.5-B.13: the best test loss of a network and of its Taylor models, over the learning rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
import xarray as xr
from jaxtyping import Array, PRNGKeyArray
from matplotlib.figure import Figure
from pydantic import PositiveInt

import dynascope as ds
from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.catapult.classification_data import DIGITS, TwoClassImages
from dynascope.experiments.catapult.paper import PAPER
from dynascope.experiments.catapult.two_layer_models import Kind, frozen_gates
from dynascope.figures import FAINT, PALETTE, panels
from dynascope.geometry.kernel_spectrum import kernel_eigenpairs
from dynascope.lab.claims import Claim
from dynascope.lab.criteria import above, below, every
from dynascope.lab.experiment import Source, Values
from dynascope.models import MLP, ConvNet, linearized, quadratic
from dynascope.models.mlp import Activation
from dynascope.theory.catapult import critical_rates

KINDS: tuple[Kind, ...] = ("network", "quadratic", "linear")
SYMBOLS = {"network": "f", "quadratic": "f_quad", "linear": "f_lin"}
COLORS = dict(zip(KINDS, (PALETTE[0], PALETTE[1], PALETTE[2]), strict=True))
CIFAR = {"data": "cifar10", "classes": (0, 2), "samples": 256}
CHANNELS = {"architecture": "cnn", "width": 1000}
BELOW, WINDOW, BEYOND = slice(0, 0.99), slice(1.05, 1.95), slice(2.15, None)
"""Rates over the critical one: below it, between it and its double, beyond that."""


class Learner(ds.Member):
    """An ensemble member: the network or a Taylor model of it, at `ratio` times the critical rate at initialization."""

