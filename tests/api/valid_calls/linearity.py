"""Valid calls of the theory of the transition to linearity."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from dynascope.models import dag_architectures
from valid_calls.shared import ABOVE_0, ANY, FROM_0, KEY, NOT_NEGATIVE, POSITIVE, Calls


def calls() -> Calls:
    net = dag_architectures.fully_connected((2, 3, 1), key=KEY)
    sizes = dict.fromkeys(("norm", "radius", "jacobian_norm", "hessian_norm", "kernel", "squared_length"), FROM_0)
    sizes |= {"output": ANY, "residual": ANY, "start": FROM_0, "smoothness": FROM_0}
    tail = {"radius": NOT_NEGATIVE, "t": NOT_NEGATIVE, "length": POSITIVE, "c": POSITIVE, "C": POSITIVE}
    matrices = np.ones((2, 2, 2))
    relu = {"squared_length": 2.0, "width": 3, "dim": 2}
    return {
        "bounds.two_layer_relu_norm": ({"x": jnp.ones(2), "width": 3}, {}),
        "bounds.linear_model_gap": ({"norm": 1.0, "radius": 0.1}, sizes),
        "bounds.vector_norm_bound": ({"norms": jnp.ones(2)}, {}),
        "bounds.block_sum_bound": ({"blocks": jnp.ones((2, 2))}, {}),
        "bounds.jacobian_scale": ({"degree": 2, "smallest": (2, 3, 4), "layer": 3, "of": 1}, {}),
        "bounds.hessian_block_scale": ({"smallest": (2, 3, 4), "layer": 3, "first": 1}, {}),
        "bounds.weights_reached": ({"graph": net.graph(), "vertex": 3}, {"vertex": "0"}),
        "bounds.gradient_bound": ({"depth": 2}, {"homogeneity": POSITIVE, "second_moment": POSITIVE}),
        "bounds.relu_gradient_second_moment": ({"depth": 2}, {}),
        "bounds.kernel_change_bound": ({"jacobian_norm": 1.0, "hessian_norm": 0.1, "radius": 0.1, "points": 3}, sizes),
        "bounds.relu_kernel_slope": (relu | {"kernel": 1.0}, sizes),
        "bounds.relu_kernel_slope_along_gradient": (relu | {"output": 1.0}, sizes),
        "bounds.relu_gates_change": ({"residual": 1.0, "width": 9}, sizes | {"width": ABOVE_0}),
        "bounds.polyak_ratio": ({"residual": jnp.ones(2), "kernel": jnp.eye(2)}, {}),
        "bounds.polyak_loss_bound": (
            {"start": 1.0, "mu": 0.5, "rate": 0.1, "steps": np.arange(3)},
            dict.fromkeys(("start", "mu", "rate"), POSITIVE),
        ),
        "bounds.polyak_radius": ({"start": 1.0, "mu": 0.5, "smoothness": 2.0}, sizes | {"mu": ABOVE_0}),
        "gaussian_series.variance": ({"matrices": matrices}, {}),
        "gaussian_series.series_tail": ({"matrices": matrices, "radius": 1.0, "t": 1.0}, tail),
        "gaussian_series.inner_product_tail": ({"length": 1.0, "radius": 1.0, "t": 1.0}, tail),
        "gaussian_series.product_tail": ({"matrix": matrices[0], "radius": 1.0, "t": 1.0}, tail | {"matrix": "nested"}),
        "gaussian_series.columns_tail": ({"matrices": matrices, "radius": 1.0, "t": 1.0, "C": 1.0}, tail),
        "gaussian_series.activation_scale": ({"width": 3, "radius": 1.0, "layer": 2}, tail | {"layer": "0"}),
        "gaussian_series.incoming_scale": ({"degree": 2, "width": 3, "radius": 1.0, "layer": 2}, tail),
        "hessian_recursion.derivatives": ({"net": net, "x": jnp.ones(2)}, {}),
        "hessian_recursion.blocks": ({"hessian": np.eye(2), "layers": np.array([1, 2])}, {}),
    }
