"""Operators against dense matrices, and powers of them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from dynascope import graphs as g

GRAPH = g.from_edges([[0, 1], [1, 2], [2, 0], [2, 3], [3, 3]], 5)  # a loop, and an isolated node
A = g.to_scipy(GRAPH).toarray().astype(float)
D = A.sum(1)


def test_normalized_operators_are_their_formulas():
    safe = np.where(D > 0, D, 1.0)
    for alpha, beta in ((0.5, 0.5), (1.0, 0.0), (0.3, 0.9)):
        wanted = np.diag((D > 0) * safe**-alpha) @ A @ np.diag((D > 0) * safe**-beta)
        np.testing.assert_allclose(g.normalized_adjacency(GRAPH, alpha=alpha, beta=beta).toarray(), wanted, atol=1e-15)
    scale = np.diag((D + 2.0) ** -0.5)
    wanted = scale @ (A + 2 * np.eye(5)) @ scale
    np.testing.assert_allclose(g.with_self_loops(GRAPH, epsilon=2).toarray(), wanted, atol=1e-15)


def test_the_bethe_hessian_is_its_formula():
    c = g.average_degree(GRAPH)
    assert c == pytest.approx(9 / 5)
    wanted = (8 - c + 1) * np.eye(5) + np.sqrt(c) * A - np.diag(D)
    np.testing.assert_allclose(g.shifted_bethe_hessian(GRAPH).toarray(), wanted, atol=1e-12)
    np.testing.assert_allclose(g.bethe_hessian(GRAPH, r=2).toarray(), 3 * np.eye(5) - 2 * A + np.diag(D), atol=1e-12)


def test_counting_operators_are_integers():
    np.testing.assert_array_equal(g.power_graph(GRAPH).toarray(), np.minimum(A @ A, 1))
    np.testing.assert_array_equal(g.two_step_graph(GRAPH).toarray(), np.minimum(A + A @ A, 1))
    np.testing.assert_array_equal(g.triangles(GRAPH).toarray(), A * (A @ A))
    np.testing.assert_array_equal(g.degree(GRAPH).toarray(), np.diag(D))
    sums = g.triangles(GRAPH, averaged=True).sum(axis=1)
    np.testing.assert_allclose(sums, ((A * (A @ A)).sum(1) > 0).astype(float))
    assert all(made(GRAPH).dtype == np.int64 for made in (g.adjacency, g.degree, g.triangles, g.power_graph))


def test_pagerank_solves_its_equation():
    walk = A / np.where(D > 0, D, 1)
    wanted = 0.2 * np.linalg.inv(np.eye(5) - 0.8 * walk)
    np.testing.assert_allclose(g.pagerank(GRAPH, restart=0.2) @ np.eye(5), wanted, atol=1e-11)


def test_powers_of_integers_are_exact_beyond_64_bits():
    graph = g.complete_bipartite(100, 100)
    found = g.powers(g.adjacency(graph), np.ones(200, np.int64), 12)
    assert [int(value) for value in found[:, 0, 0]] == [100**k for k in range(13)]


def test_powers_of_floats_keep_their_type():
    found = g.powers(g.with_self_loops(GRAPH), np.ones((5, 2), np.float32), 3)
    assert (found.dtype, found.shape) == (np.float32, (4, 5, 2))
    exact = np.linalg.matrix_power(g.with_self_loops(GRAPH).toarray(), 3) @ np.ones((5, 2))
    np.testing.assert_allclose(found[3], exact, rtol=1e-6)


def test_normalized_powers_treat_each_graph_alone():
    graphs = [g.erdos_renyi(30, 0.2, seed=seed) for seed in range(3)]
    joined = g.batch(graphs).joined
    start = np.random.default_rng(0).normal(size=90)
    together = g.normalized_powers(g.adjacency(joined), start, 5, graphs=3)
    for number, graph in enumerate(graphs):
        rows = slice(30 * number, 30 * number + 30)
        value = start[rows]
        for k in range(1, 6):
            value = g.adjacency(graph) @ value
            value = (value - value.mean()) / np.sqrt(value.var() + 1e-5)
            np.testing.assert_allclose(together[k, rows], value, atol=1e-12)
    long = g.normalized_powers(g.adjacency(joined), np.ones(90), 200, graphs=3)
    assert np.isfinite(long).all()


def test_the_operator_on_the_device_is_the_matrix():
    matrix = g.with_self_loops(GRAPH)
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_allclose(g.on_device(matrix) @ jnp.asarray(x), matrix @ x, atol=1e-6)
    np.testing.assert_allclose(g.on_device(matrix) @ jnp.asarray(x[:, 0]), matrix @ x[:, 0], atol=1e-6)
