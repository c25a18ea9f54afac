"""Tasks: a data-generating process, its loss, and the points at which we look."""

from dynascope.tasks.structured_identity import Samples as Samples
from dynascope.tasks.structured_identity import StructuredIdentity as StructuredIdentity
from dynascope.tasks.structured_identity import concept_subsets as concept_subsets
from dynascope.tasks.structured_identity import random_rotation as random_rotation
