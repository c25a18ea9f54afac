"""Models: what learns, as immutable equinox modules."""

from dynascope.models import dag_architectures as dag_architectures, ga_mlp as ga_mlp
from dynascope.models.ancestral_sampling import generate as generate
from dynascope.models.budget_split import BudgetSplit as BudgetSplit, budget_split as budget_split
from dynascope.models.concept_classifier import ConceptClassifier as ConceptClassifier
from dynascope.models.convnet import ConvNet as ConvNet, myrtle5 as myrtle5
from dynascope.models.dag import DAG as DAG
from dynascope.models.diagonal import (
    AttentionHead as AttentionHead,
    Diagonal as Diagonal,
    DiagonalTransformer as DiagonalTransformer,
    LinearNetwork as LinearNetwork,
)
from dynascope.models.diffusion import Diffusion as Diffusion
from dynascope.models.featured_graph import FeaturedGraph as FeaturedGraph
from dynascope.models.ga_mlp import GAMLP as GAMLP, SIGN as SIGN
from dynascope.models.gin import GIN as GIN
from dynascope.models.gpt import GPT as GPT
from dynascope.models.graph import Graph as Graph
from dynascope.models.mlp import MLP as MLP, Symmetric as Symmetric
from dynascope.models.one_layer_recall import OneLayerRecall as OneLayerRecall
from dynascope.models.quadratic_model import DiagonalForm as DiagonalForm, QuadraticModel as QuadraticModel
from dynascope.models.recall_transformer import RecallTransformer as RecallTransformer, without_feed as without_feed
from dynascope.models.residual import WideResNet as WideResNet
from dynascope.models.spectral_gnn import SpectralGNN as SpectralGNN
from dynascope.models.taylor import (
    Gated as Gated,
    Taylor as Taylor,
    freeze_gates as freeze_gates,
    linearize as linearize,
    quadratic as quadratic,
)
from dynascope.models.torch import (
    TorchModel as TorchModel,
    from_torch as from_torch,
    register_torch_function as register_torch_function,
    to_torch as to_torch,
)
from dynascope.models.transformer import Attention as Attention, Products as Products, Transformer as Transformer
from dynascope.models.unet import UNet as UNet
from dynascope.models.vision_transformer import ViT as ViT
