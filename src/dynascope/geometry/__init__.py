"""Geometry: functions of a model or a loss at one point, each estimate with its error."""

from dynascope.geometry.agop import agop as agop, agop_factored as agop_factored, alignment as alignment
from dynascope.geometry.directional import (
    directional_derivatives as directional_derivatives,
    discriminant as discriminant,
    flip as flip,
    line_search_minimum as line_search_minimum,
)
from dynascope.geometry.eigenpairs import Eigenpairs as Eigenpairs, top_eigenpairs as top_eigenpairs
from dynascope.geometry.hessian import (
    dense_hessian as dense_hessian,
    hessian_vector_product as hessian_vector_product,
    sharpness_gradient as sharpness_gradient,
)
from dynascope.geometry.kernel_spectrum import (
    critical_rate as critical_rate,
    eigenspace_losses as eigenspace_losses,
    kernel_change as kernel_change,
    kernel_eigenpairs as kernel_eigenpairs,
    polyak_ratio as polyak_ratio,
)
from dynascope.geometry.linearity import (
    block_norms as block_norms,
    hessian_norm as hessian_norm,
    linearity_gap as linearity_gap,
)
from dynascope.geometry.noise import (
    BatchSharpness as BatchSharpness,
    GradientNoise as GradientNoise,
    batch_sharpness as batch_sharpness,
    gradient_noise as gradient_noise,
)
from dynascope.geometry.orbits import (
    gram_imbalance as gram_imbalance,
    imbalance as imbalance,
    leading_components as leading_components,
    multiplier as multiplier,
    multipliers as multipliers,
    norm_ratio as norm_ratio,
    residual as residual,
)
from dynascope.geometry.preconditioned import precondition as precondition
from dynascope.geometry.similarity import linear_cka as linear_cka
from dynascope.geometry.spectra import (
    perturbation_singular_values as perturbation_singular_values,
    product_singular_values as product_singular_values,
    random_perturbation as random_perturbation,
)
from dynascope.geometry.spectral_density import SpectralDensity as SpectralDensity, spectral_density as spectral_density
from dynascope.geometry.tangent_kernel import kernel_product as kernel_product, tangent_kernel as tangent_kernel
from dynascope.geometry.truncation import low_rank as low_rank, truncate as truncate
