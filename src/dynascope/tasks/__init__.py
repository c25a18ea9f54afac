"""Tasks: a data-generating process, its loss, and the points at which we look."""

from dynascope.tasks import datasets as datasets
from dynascope.tasks import factorization as factorization
from dynascope.tasks import images as images
from dynascope.tasks import products as products
from dynascope.tasks import scalar_losses as scalar_losses
from dynascope.tasks import separable as separable
from dynascope.tasks import single_neuron as single_neuron
from dynascope.tasks import teachers as teachers
from dynascope.tasks.classification import Classification as Classification
from dynascope.tasks.classification import Labelled as Labelled
from dynascope.tasks.datasets import two_classes as two_classes
from dynascope.tasks.factorization import Factorization as Factorization
from dynascope.tasks.factorization import SymmetricFactorization as SymmetricFactorization
from dynascope.tasks.multi_index import MultiIndex as MultiIndex
from dynascope.tasks.products import ProductLoss as ProductLoss
from dynascope.tasks.scalar_losses import ScalarLoss as ScalarLoss
from dynascope.tasks.separable import ExtendedLoss as ExtendedLoss
from dynascope.tasks.separable import SeparableLoss as SeparableLoss
from dynascope.tasks.single_neuron import SingleNeuron as SingleNeuron
from dynascope.tasks.sphere import doubled_example as doubled_example
from dynascope.tasks.structured_identity import Samples as Samples
from dynascope.tasks.structured_identity import StructuredIdentity as StructuredIdentity
from dynascope.tasks.structured_identity import random_rotation as random_rotation
from dynascope.tasks.teachers import AxisTeacher as AxisTeacher
