"""Models: what learns, as immutable equinox modules."""

from dynascope.models import dag_architectures as dag_architectures
from dynascope.models.attention import Attention as Attention
from dynascope.models.convnet import ConvNet as ConvNet
from dynascope.models.convnet import myrtle5 as myrtle5
from dynascope.models.dag import DAG as DAG
from dynascope.models.diagonal import AttentionHead as AttentionHead
from dynascope.models.diagonal import Diagonal as Diagonal
from dynascope.models.diagonal import DiagonalTransformer as DiagonalTransformer
from dynascope.models.diagonal import LinearNetwork as LinearNetwork
from dynascope.models.gated import Gated as Gated
from dynascope.models.gated import gated as gated
from dynascope.models.gpt import GPT as GPT
from dynascope.models.graph import Graph as Graph
from dynascope.models.mlp import MLP as MLP
from dynascope.models.quadratic_model import DiagonalForm as DiagonalForm
from dynascope.models.quadratic_model import QuadraticModel as QuadraticModel
from dynascope.models.residual import WideResNet as WideResNet
from dynascope.models.symmetric import Symmetric as Symmetric
from dynascope.models.taylor import Taylor as Taylor
from dynascope.models.taylor import linearised as linearised
from dynascope.models.taylor import quadratic as quadratic
from dynascope.models.transformer import Products as Products
from dynascope.models.transformer import Transformer as Transformer
from dynascope.models.vision_transformer import ViT as ViT
