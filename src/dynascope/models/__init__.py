"""Models: what learns, as immutable equinox modules."""

from dynascope.models import dag_architectures as dag_architectures
from dynascope.models.attention import Attention as Attention
from dynascope.models.dag import DAG as DAG
from dynascope.models.gpt import GPT as GPT
from dynascope.models.graph import Graph as Graph
from dynascope.models.mlp import MLP as MLP
from dynascope.models.symmetric import Symmetric as Symmetric
from dynascope.models.transformer import Products as Products
from dynascope.models.transformer import Transformer as Transformer
from dynascope.models.vision_transformer import ViT as ViT
