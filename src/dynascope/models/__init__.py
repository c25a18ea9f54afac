"""Models: what learns, as immutable equinox modules."""

from dynascope.models.mlp import MLP as MLP
from dynascope.models.symmetric import Symmetric as Symmetric
