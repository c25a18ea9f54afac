"""Probes: measurements that run inside the compiled loop, each at its own cadence."""

from dynascope.probes.basic import (
    agop_alignment as agop_alignment,
    batch_rows as batch_rows,
    displacement as displacement,
    jacobian as jacobian,
    learning_rate as learning_rate,
    loss as loss,
    output as output,
    outputs as outputs,
)
from dynascope.probes.hessian import (
    flip_discriminant as flip_discriminant,
    gradient_alignment as gradient_alignment,
    hessian_density as hessian_density,
    output_hessian_norm as output_hessian_norm,
    preconditioned_sharpness as preconditioned_sharpness,
    sharpness as sharpness,
    top_eigenvalues as top_eigenvalues,
)
from dynascope.probes.kernel import (
    batch_critical_rate as batch_critical_rate,
    kernel_distance as kernel_distance,
    kernel_norm as kernel_norm,
)
from dynascope.probes.noise import batch_sharpness as batch_sharpness, gradient_noise as gradient_noise
from dynascope.probes.polyak import polyak as polyak
from dynascope.probes.probe import Batch as Batch, Probe as Probe, Snapshot as Snapshot, probe as probe
from dynascope.probes.spectra import (
    perturbation_spectrum as perturbation_spectrum,
    product_spectrum as product_spectrum,
)
from dynascope.probes.truncation import truncations as truncations
from dynascope.probes.weights import cka as cka, weight_ranks as weight_ranks
