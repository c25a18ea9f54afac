"""The flow of the linear memory against its own gradient, its spectrum against an SVD, late times in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.theory.recall import errata, linear_memory as memory


def loss(weights, alpha, pure=False):
    """The mean over inputs of the cross-entropy; `pure` without noise in the labels."""
    n = weights.shape[1]
    scores = jax.nn.log_softmax(jnp.asarray(weights), axis=0)
    own = jnp.mean(scores[np.arange(n), np.arange(n)])
    return -own if pure else -(1 - alpha) * own - alpha * jnp.mean(scores[-1])


@pytest.mark.parametrize("kind", ["mean", "sum"])
@pytest.mark.parametrize("n", [2, 5])
def test_the_flow_is_the_gradient_flow_of_the_whole_matrix(n, kind):
    alpha, step, scale = 0.3, 1e-3, 1.0 if kind == "mean" else float(n)
    move = jax.jit(lambda w: w - step * scale * jax.grad(lambda v: loss(v, alpha))(w))
    weights = jax.lax.fori_loop(0, 5000, lambda _, w: move(w), jnp.zeros((n + 1, n)))
    flow = memory.memory_flow(n, alpha, np.array([5.0]), kind)
    expected = memory.memory_matrix(n, float(flow.margin[0]), float(flow.noise_logit[0]))
    np.testing.assert_allclose(weights, expected, atol=2e-3)


@pytest.mark.parametrize("n", [2, 3, 7])
def test_the_spectrum_is_that_of_the_matrix(n):
    flow = memory.memory_flow(n, 0.1, np.array([1.0, 30.0, 1000.0]))
    for at in range(3):
        now = flow.isel(time=at)
        values = np.linalg.svd(memory.memory_matrix(n, float(now.margin), float(now.noise_logit)), compute_uv=False)
        expected = np.sort([float(now["memory"])] * (n - 1) + [float(now["noise"])])[::-1]
        np.testing.assert_allclose(values, expected, rtol=1e-9)


def test_without_the_noise_direction_the_memory_is_pure():
    now = memory.memory_flow(3, 0.3, np.array([50.0])).isel(time=0)
    whole = memory.memory_matrix(3, float(now.margin), float(now.noise_logit))
    for weights, names in (
        (whole, ("correct", "noisy")),
        (memory.without_noise_direction(whole), ("pure_correct", "pure_noisy")),
    ):
        shares = np.exp(weights[:, 0]) / np.exp(weights[:, 0]).sum()
        np.testing.assert_allclose(shares[[0, 3]], [float(now[name]) for name in names], rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.39])
def test_theorem_4_3_at_late_times(alpha):
    """The whole memory predicts (1 - alpha, alpha); without the noise direction noise has probability O(t^-1/2)."""
    late = memory.memory_flow(2, alpha, np.array([1e6]), "sum").isel(time=0)
    np.testing.assert_allclose([late.correct, late.noisy], [1 - alpha, alpha], atol=1e-5)
    assert float(late.pure_noisy) * np.sqrt(1.5 * (1 - alpha) * 1e6) == pytest.approx(1, rel=2e-3)
    assert float(late.margin) == pytest.approx(float(memory.late_margin(2, alpha, 1e6, "sum")), abs=1e-4)
    assert float(memory.late_margin(2, alpha, 1e6)) == pytest.approx(np.log(0.75 * (1 - alpha) * 1e6))


def test_from_four_inputs_on_the_noise_direction_overtakes():
    assert memory.overtaking_margin(3, 0.3) == np.inf
    flow = memory.memory_flow(4, 0.3, np.geomspace(1, 1e4, 2000), "sum")
    first = flow.margin.values[np.argmax(flow.noise.values > flow.memory.values)]
    assert first == pytest.approx(memory.overtaking_margin(4, 0.3), rel=0.05)
    cut = []
    for time in (10.0, 100.0):
        now = memory.memory_flow(4, 0.3, np.array([time]), "sum").isel(time=0)
        whole = memory.memory_matrix(4, float(now.margin), float(now.noise_logit))
        left, values, right = np.linalg.svd(whole, full_matrices=False)
        cut.append(
            (float(loss(left[:, :3] * values[:3] @ right[:3], 0.3, pure=True)), float(loss(whole, 0.3, pure=True)))
        )
    assert cut[0] == pytest.approx((0.28, 0.44), abs=0.005)
    assert cut[1][0] > 2 * cut[1][1]


def test_numbers_of_the_printed_flow():
    for alpha in (0.1, 0.3):
        found = errata.printed_memory_rate(alpha)
        assert found["integrated"] == pytest.approx(found["right"], rel=1e-4)
        assert abs(found["printed"] / found["integrated"] - 1) > 0.04
        assert found["odds"] == pytest.approx(0, abs=1e-5)
        assert found["flow"] == pytest.approx(found["flow-limit"], rel=1e-4)
    chosen = errata.rank_one_choice()
    assert chosen["largest"] == pytest.approx(chosen["noise"])
    assert chosen["share"] == pytest.approx(0, abs=1e-12)
    assert errata.alternating_share(401, 200) > 0.49
