"""Measure trainings in PyTorch: a loop that is running, checkpoints on disk, the trainers of other libraries.

Needs `pip install 'dynascope[torch]'`. Probes have the names, and traces the variables, that they have in JAX.
"""

from importlib.util import find_spec as _find_spec

if _find_spec("torch") is None:
    raise ModuleNotFoundError("dynascope.torch needs PyTorch: pip install 'dynascope[torch]'")

from dynascope.torch.activations import (
    activations as activations,
    attention_entropy as attention_entropy,
    cka as cka,
)
from dynascope.torch.basic import displacement as displacement, learning_rate as learning_rate, loss as loss
from dynascope.torch.curvature import (
    hessian_density as hessian_density,
    sharpness as sharpness,
    top_eigenvalues as top_eigenvalues,
)
from dynascope.torch.kernel import kernel_distance as kernel_distance, kernel_norm as kernel_norm
from dynascope.torch.noise import batch_sharpness as batch_sharpness, gradient_noise as gradient_noise
from dynascope.torch.objective import Objective as Objective
from dynascope.torch.replay import replay as replay
from dynascope.torch.sensitivity import agop_alignment as agop_alignment
from dynascope.torch.snapshot import Snapshot as Snapshot
from dynascope.torch.watch import Watch as Watch
from dynascope.torch.weights import (
    singular_values as singular_values,
    weight_ranks as weight_ranks,
    weight_updates as weight_updates,
)
