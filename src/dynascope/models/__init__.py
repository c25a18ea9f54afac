"""Models: what learns, as immutable equinox modules."""

from dynascope.models import dag_architectures as dag_architectures
from dynascope.models.dag import DAG as DAG
from dynascope.models.graph import Graph as Graph
from dynascope.models.mlp import MLP as MLP
from dynascope.models.symmetric import Symmetric as Symmetric
