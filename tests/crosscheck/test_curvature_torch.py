"""The top of the Hessian's spectrum of a network of 50,000 parameters, by curvlinops and scipy."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse.linalg import eigsh

import dynascope as ds

torch = pytest.importorskip("torch", reason="the optional extra `torch` is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    curvlinops = pytest.importorskip("curvlinops", reason="curvlinops-for-pytorch is not installed")


def test_the_top_eigenvalues_are_those_of_curvlinops():
    with jax.enable_x64(True):
        net = ds.models.MLP(64, 3, width=190, out=10, key=jax.random.key(0), activation="relu", bias=True)
        assert sum(leaf.size for leaf in jax.tree.leaves(net)) == 50_550
        x = 1 + jax.random.normal(jax.random.key(1), (50, 64))
        y = jax.random.normal(jax.random.key(2), (50, 10))
        found = ds.geometry.top_eigenpairs(lambda net: jnp.mean((jax.vmap(net)(x) - y) ** 2), net, 2, tolerance=1e-9)
    layers = []
    for index, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
        layer = torch.nn.Linear(*weight.shape[::-1], dtype=torch.float64)
        layer.weight.data, layer.bias.data = torch.tensor(np.array(weight)), torch.tensor(np.array(bias))
        layers += [layer, torch.nn.ReLU()]
        layers = layers[:-1] if index == 2 else layers
    model = torch.nn.Sequential(*layers)
    data = [(torch.tensor(np.array(x)), torch.tensor(np.array(y)))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        operator = curvlinops.HessianLinearOperator(
            model, torch.nn.MSELoss(), list(model.parameters()), data, check_deterministic=False
        )
        expected = eigsh(operator.to_scipy(), k=2, which="LA", tol=1e-9, return_eigenvectors=False)
    assert found.converged.all()
    np.testing.assert_allclose(found.values, np.sort(expected)[::-1], rtol=1e-8)
