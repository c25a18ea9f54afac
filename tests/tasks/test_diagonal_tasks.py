"""The losses of a product, and the numbers of the toy task."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynascope as ds
from dynascope.models import AttentionHead, Diagonal, LinearNetwork
from dynascope.tasks.diagonal import DiagonalRegression, QuadraticLoss, exit_and_return, toy_head


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def teacher_student(head):
    network, x = AttentionHead(head.x.shape[2]), jnp.asarray(head.x)
    return DiagonalRegression(network, x, jax.vmap(lambda one: network(one, jnp.asarray(head.teacher)))(x))


def test_the_golden_head_starts_at_its_loss():
    task = teacher_student(toy_head(0, dim=6, tokens=5, samples=500))
    np.testing.assert_allclose(task(jnp.zeros(12)), 1.27217, atol=5e-6)


def test_the_teacher_is_a_minimum():
    head = toy_head(3, dim=4, tokens=3, samples=20)
    assert float(teacher_student(head)(jnp.asarray(head.teacher))) == 0


def test_a_sparse_teacher_keeps_so_many_coordinates_of_each_product():
    dense, sparse = toy_head(1, dim=10, samples=5), toy_head(1, dim=10, samples=5, kept=3)
    assert np.count_nonzero(sparse.teacher[:10]) == np.count_nonzero(sparse.teacher[10:]) == 3
    there = sparse.teacher != 0
    np.testing.assert_array_equal(sparse.teacher[there], dense.teacher[there])
    np.testing.assert_array_equal(sparse.x, dense.x)


def test_a_quadratic_is_the_loss_of_a_linear_network_less_a_constant():
    rng = np.random.default_rng(0)
    x, y, beta = (
        jnp.asarray(rng.normal(size=(30, 3))),
        jnp.asarray(rng.normal(size=30)),
        jnp.asarray(rng.normal(size=3)),
    )
    regression = DiagonalRegression(LinearNetwork(3), x, y)
    quadratic = QuadraticLoss(x.T @ x / 30, x.T @ y / 30)
    np.testing.assert_allclose(regression(beta) - jnp.mean(y**2) / 2, quadratic(beta), rtol=1e-12)


def test_both_can_be_descended_on():
    example = exit_and_return()
    task = QuadraticLoss(jnp.asarray(example.S), jnp.asarray(example.c))
    model = Diagonal(jnp.asarray(example.u), jnp.asarray(example.v), LinearNetwork(4))
    trace = ds.descend(model, task, optax.sgd(0.01), steps=50).trace
    assert trace.loss[-1] < trace.loss[0]
    head = toy_head(0, dim=3, tokens=2, samples=20)
    task = teacher_student(head)
    model = Diagonal(jnp.asarray(head.u), jnp.asarray(head.v), AttentionHead(3))
    trace = ds.descend(
        model, task, optax.sgd(0.05), steps=50, data=(task.x, task.y), batch=5, key=jax.random.key(0)
    ).trace
    assert trace.loss[-1] < trace.loss[0]


def test_impossible_sizes_get_one_line():
    with pytest.raises(ValueError, match="kept must be an integer, at least 1 and at most 4"):
        toy_head(0, dim=4, kept=5)
    with pytest.raises(ValueError, match="samples must be an integer, at least 1"):
        toy_head(0, dim=4, samples=0)
