"""Tasks: a data-generating process, its loss, and its test points."""

from dynascope.tasks import (
    arithmetic as arithmetic,
    axis_teacher as axis_teacher,
    diagonal as diagonal,
    factorization as factorization,
    products as products,
    prompts as prompts,
    scalar_losses as scalar_losses,
    separable as separable,
    single_neuron as single_neuron,
)
from dynascope.tasks.associative_memory import AssociativeMemory as AssociativeMemory
from dynascope.tasks.axis_teacher import AxisTeacher as AxisTeacher
from dynascope.tasks.block_model_features import propagated_features as propagated_features
from dynascope.tasks.classification import Classification as Classification, Labeled as Labeled
from dynascope.tasks.community_graphs import (
    CommunityGraphs as CommunityGraphs,
    block_model_graphs as block_model_graphs,
    overlap as overlap,
    unnamed_cross_entropy as unnamed_cross_entropy,
)
from dynascope.tasks.concept_labels import ConceptLabels as ConceptLabels
from dynascope.tasks.data import datasets as datasets, images as images
from dynascope.tasks.data.datasets import two_classes as two_classes
from dynascope.tasks.diagonal import DiagonalRegression as DiagonalRegression, QuadraticLoss as QuadraticLoss
from dynascope.tasks.diffusion import VariationalDiffusion as VariationalDiffusion
from dynascope.tasks.factorization import (
    Factorization as Factorization,
    SymmetricFactorization as SymmetricFactorization,
)
from dynascope.tasks.image_concepts import ImageConcepts as ImageConcepts
from dynascope.tasks.image_reading import read_concepts as read_concepts
from dynascope.tasks.indirect_object import (
    IndirectObject as IndirectObject,
    IndirectObjectBatch as IndirectObjectBatch,
)
from dynascope.tasks.multi_index import MultiIndex as MultiIndex
from dynascope.tasks.next_token import NextToken as NextToken
from dynascope.tasks.node_task import NodeTask as NodeTask
from dynascope.tasks.noisy_recall import (
    NoisyRecall as NoisyRecall,
    RecallBatch as RecallBatch,
    informative as informative,
    most_frequent as most_frequent,
)
from dynascope.tasks.products import ProductLoss as ProductLoss
from dynascope.tasks.scalar_losses import ScalarLoss as ScalarLoss
from dynascope.tasks.separable import ExtendedLoss as ExtendedLoss, SeparableLoss as SeparableLoss
from dynascope.tasks.single_neuron import SingleNeuron as SingleNeuron
from dynascope.tasks.sphere import doubled_example as doubled_example
from dynascope.tasks.structured_identity import (
    Samples as Samples,
    StructuredIdentity as StructuredIdentity,
    random_rotation as random_rotation,
)
from dynascope.tasks.supervised import Supervised as Supervised
from dynascope.tasks.task import (
    AugmentedTask as AugmentedTask,
    DataTask as DataTask,
    PopulationTask as PopulationTask,
    SampledTask as SampledTask,
    Task as Task,
    VelocityTask as VelocityTask,
)
