"""The quadratic model on one example: its maps against gradient descent in weights, its thresholds and fixed points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.theory.catapult import quadratic_model
from dynascope.theory.catapult.gated_network import GatedNetwork
from dynascope.theory.catapult.largest_rate import bisect_rate, largest_convergent
from dynascope.theory.catapult.quadratic_model import Normalized, State

X, WIDTH, LABEL = np.array([[1.0, -0.5, 0.7, 1.2, -0.3]]), 2000, 1.3
CURVATURE = float(X[0] @ X[0]) / (WIDTH * X.shape[1])


def in_weights(product: float, steps: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Residuals and kernels of gradient descent on the weights themselves."""
    net = GatedNetwork(X, np.array([LABEL]), WIDTH)
    rate = product / net.kernel().item()
    path = []
    for _ in range(steps + 1):
        path.append(((net.outputs() - net.y).item(), net.kernel().item()))
        net.step(rate)
    residuals, kernels = np.array(path).T
    return residuals, kernels, rate


def test_the_gated_network_is_the_second_order_expansion_of_the_relu_network():
    net = GatedNetwork(X, np.array([LABEL]), 7)
    start = jnp.concatenate([jnp.asarray(net.u).ravel(), jnp.asarray(net.v)])

    def relu_network(weights):
        u, v = weights[: net.u.size].reshape(net.u.shape), weights[net.u.size :]
        return net.scale * v @ jax.nn.relu(u @ jnp.asarray(X[0]))

    move = jnp.asarray(np.random.default_rng(1).standard_normal(start.size))
    value, first = jax.jvp(relu_network, (start,), (move,))
    second = jax.jvp(lambda w: jax.jvp(relu_network, (w,), (move,))[1], (start,), (move,))[1]
    net.u, net.v = net.u + np.asarray(move[: net.u.size]).reshape(net.u.shape), net.v + np.asarray(move[net.u.size :])
    np.testing.assert_allclose(net.outputs()[0], value + first + second / 2, rtol=1e-13)


@pytest.mark.parametrize("product", [1.0, 2.5, 3.5, 3.9])
def test_the_map_is_gradient_descent(product):
    residuals, kernels, rate = in_weights(product, 60)
    state = State(jnp.asarray(residuals[0]), jnp.asarray(kernels[0]))
    _, path = jax.lax.scan(
        lambda now, _: (quadratic_model.step(now, rate, LABEL, CURVATURE), now), state, None, length=61
    )
    np.testing.assert_allclose(path.residual, residuals, atol=1e-10 * np.abs(residuals).max())
    np.testing.assert_allclose(path.kernel, kernels, atol=1e-10)


@pytest.mark.parametrize("product", [1.5, 3.0])
def test_the_map_without_units_is_the_same_map(product):
    residuals, kernels, rate = in_weights(product, 60)
    state = quadratic_model.normalize(State(jnp.asarray(residuals), jnp.asarray(kernels)), rate, LABEL, CURVATURE)
    path = quadratic_model.normalized_path(Normalized(*(part[0] for part in state)), 60)
    for found, expected in zip(path, state, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-10)
    label_size = CURVATURE * WIDTH * rate**2 * LABEL**2
    np.testing.assert_allclose(path.w**2, label_size * path.u / WIDTH, atol=1e-12)
    losses = 0.5 * residuals**2
    np.testing.assert_allclose(quadratic_model.peak_loss(state.u, rate, CURVATURE), losses, rtol=1e-12)


def test_zero_curvature_is_the_linear_model():
    state = quadratic_model.step(State(jnp.asarray(0.7), jnp.asarray(1.5)), 2.0, 1.0, 0.0)
    assert float(state.residual) == pytest.approx(0.7 * (1 - 3.0))
    assert float(state.kernel) == 1.5


def test_the_largest_convergent_rate_tends_to_four_over_the_kernel():
    """As m grows, over 20 random starts, in numbers of an independent computation."""
    key = np.random.default_rng(0)
    widths = np.array([1e3, 1e4, 1e5])[:, None]
    output, label = key.standard_normal((3, 20)) / np.sqrt(2), key.standard_normal((3, 20))
    kernel = 1 + key.standard_normal((3, 20)) * 1.5 / np.sqrt(widths)
    found = jax.jit(largest_convergent)(
        jnp.asarray(output - label), jnp.asarray(kernel), jnp.asarray(label), jnp.asarray(1 / widths)
    )
    assert bool(jnp.all(found.found))
    median = np.median(np.asarray(found.low), axis=1)
    np.testing.assert_allclose(median, 4, atol=0.03)
    assert np.all(np.abs(median[1:] - 4) < 2e-3)
    spread = np.ptp(np.asarray(found.low), axis=1)
    assert np.all(spread < np.log(widths[:, 0]) / np.sqrt(widths[:, 0]))
    assert spread[2] < spread[1] < spread[0]


def test_bisection_finds_a_known_threshold_and_says_when_there_is_none():
    thresholds = jnp.asarray([0.3, 2.5, 7.0])
    found = bisect_rate(lambda rate: rate < thresholds, jnp.zeros(3), jnp.full(3, 5.0))
    np.testing.assert_allclose(found.low[:2], thresholds[:2], atol=1e-12)
    assert found.found.tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("delta", "peak", "fall"), [(0.003, 0.502, 1.003), (0.01, 0.503, 1.007), (0.03, 0.51, 1.02), (0.1, 0.534, 1.071)]
)
def test_small_catapults(delta, peak, fall):
    path = quadratic_model.normalized_path(
        Normalized(jnp.asarray(1e-9), jnp.asarray(0.0), jnp.asarray(2 + delta)), 12_000
    )
    assert float(path.u.max()) / delta**2 == pytest.approx(peak, abs=0.002)
    assert (2 - float(path.v[-1])) / delta == pytest.approx(fall, abs=0.002)
    law = quadratic_model.small_catapult(delta, 1e-9)
    assert float(law.peak) == pytest.approx(delta**2 / 2)
    assert float(law.final) == pytest.approx(2 - delta)
    if delta >= 0.01:
        assert 1 <= float(jnp.argmax(path.u)) / float(law.time) < 1.35


@pytest.mark.parametrize(
    ("delta", "peak", "end"),
    [
        (0.1, (0.0053, 0.0063), (1.883, 1.893)),
        (0.25, (0.0365, 0.0375), (1.697, 1.701)),
        (0.5, (0.160, 0.171), (1.280, 1.284)),
        (1.0, (0.66, 0.82), (0.19, 0.25)),
        (1.5, (1.57, 2.07), (0.21, 1.26)),
        (1.9, (1.97, 3.05), (0.06, 0.76)),
    ],
)
def test_larger_catapults_peak_and_end_where_an_independent_computation_says(delta, peak, end):
    """Over widths of 1e3 to 1e7, with C = 0 and 1; the bounds are rounded to their last digit, and are reached."""
    widths, label_sizes = np.meshgrid(np.logspace(3, 7, 5), [0.0, 1.0])
    u, w = 1 / widths, label_sizes / widths
    path = quadratic_model.normalized_path(
        Normalized(jnp.asarray(u), jnp.asarray(w), jnp.full(u.shape, 2 + delta)), 3000
    )
    peaks = path.u.max(axis=0)
    digit = 1e-4 if delta < 0.5 else 1e-3 if delta == 0.5 else 1e-2
    np.testing.assert_allclose([peaks.min(), peaks.max()], peak, atol=0.6 * digit)
    np.testing.assert_allclose([path.v[-1].min(), path.v[-1].max()], end, atol=6e-4 if delta < 1 else 6e-3)


@pytest.mark.parametrize(("width", "end"), [(1e3, 0.997), (1e4, 0.9997), (1e5, 0.99997)])
def test_below_the_threshold_the_kernel_moves_by_one_over_the_width(width, end):
    start = Normalized(jnp.asarray(1 / width), jnp.asarray(0.0), jnp.asarray(1.0))
    path = quadratic_model.normalized_path(start, 100)
    assert float(path.v[-1]) == pytest.approx(end, abs=0.3 * (1 - end))


@pytest.mark.parametrize("product", [0.5, 1.0, 1.8])
def test_the_constant_of_the_kernels_change_below_the_threshold(product):
    errors = []
    for width in (1e4, 1e5):
        start = State(jnp.asarray(0.8), jnp.asarray(1.2))
        rate, c = product / 1.2, 1 / width
        law = float(quadratic_model.monotone_change(start, rate, -0.3, c))
        path = quadratic_model.normalized_path(quadratic_model.normalize(start, rate, -0.3, c), 300)
        errors.append(abs(float(path.v[-1] / rate - 1.2) / law - 1))
    assert errors[0] < 0.02
    assert errors[1] < 0.15 * errors[0] + 1e-9  # an error of the next order


def test_above_the_catapult_window_everything_grows():
    path = quadratic_model.normalized_path(Normalized(jnp.asarray(1e-4), jnp.asarray(1e-6), jnp.asarray(4.1)), 6)
    assert np.all(np.diff(path.u) > 0)
    assert np.all(np.diff(path.v) > 0)
    assert not bool(quadratic_model.stays_bounded(Normalized(path.u[0], path.w[0], path.v[0])))


def test_minima_are_fixed_with_multipliers_one_and_one_minus_v():
    for v in (0.5, 1.7):
        state = State(jnp.asarray(0.0), jnp.asarray(v / 2.5))
        found = np.sort(np.linalg.eigvals(np.asarray(quadratic_model.jacobian(state, 2.5, 1.0, 1e-4))))
        np.testing.assert_allclose(found, np.sort([1, 1 - v]), atol=1e-12)


def test_the_other_fixed_points_are_fixed_and_repel():
    points = quadratic_model.fixed_points(2.5, 1.0, 1e-4)
    for point, expected in ((points.origin, (0.951, 1.051)), (points.high, (5.05, 9)), (points.low, (4.95, 9))):
        after = quadratic_model.step(point, 2.5, 1.0, 1e-4)
        np.testing.assert_allclose(after, point, atol=1e-9)
        found = np.sort(np.abs(np.linalg.eigvals(np.asarray(quadratic_model.jacobian(point, 2.5, 1.0, 1e-4)))))
        np.testing.assert_allclose(found, expected, atol=2e-3)


@pytest.mark.parametrize("label_size", [0.0, 1.0])
def test_the_growth_phase_keeps_its_promise(label_size):
    delta, width, height = 0.5, 1e6, 0.1
    start = Normalized(jnp.asarray(1 / width), jnp.asarray(label_size / width), jnp.asarray(2 + delta))
    path = quadratic_model.normalized_path(start, 60)
    law = quadratic_model.growth_phase(delta, label_size, height, 1.0, 1.0)
    low = np.asarray(path.u) <= height * delta**2 / np.log(width)
    low = low & (np.arange(61) < np.argmax(path.u))
    assert low.sum() > 8
    assert np.all(np.abs(np.asarray(path.v) - 2.5)[low] <= float(law.kernel) * delta / np.log(width))
    least = 1 + delta - float(law.multiplier) * delta / np.log(width)
    assert least > 1.38
    assert np.all(np.asarray(quadratic_model.multiplier(path))[low] ** 2 >= least**2)


@pytest.mark.parametrize(
    ("delta", "label_size", "height", "start", "margin", "kappa", "kernel", "width"),
    [  # one line for each of the five conditions on the width: there it is the largest
        (0.5, 0.1, 0.01, 1e-6, 1.0, 0.295, 0.28, 0.1475 / 1.1e-6),
        (0.5, 0.1, 0.01, 1.0, 0.1, 0.295, 0.28, (2.4 / 0.0295) ** 2),
        (0.5, 0.3, 1e-4, 1.0, 1.0, 0.00585, 0.0028, 2_073_600),
        (5.0, 0.0, 0.1, 1.0, 1.0, 3.3, 2.8, np.exp(14)),
        (0.5, 0.3, 0.25, 2.0, 1.5, 7.275, 7.0, np.exp(29.1)),
    ],
)
def test_the_constants_of_the_growth_phase_by_hand(delta, label_size, height, start, margin, kappa, kernel, width):
    law = quadratic_model.growth_phase(delta, label_size, height, start, margin)
    assert float(law.multiplier) == pytest.approx(kappa)
    assert float(law.kernel) == pytest.approx(kernel)
    assert float(law.width) == pytest.approx(width)


def test_the_kernel_at_the_start():
    low, mean, high = quadratic_model.initial_kernel(3.0, 5)
    draws = [
        float(GatedNetwork(X * np.sqrt(3 / (X[0] @ X[0])), np.ones(1), 1000, seed).kernel()[0, 0])
        for seed in range(100)
    ]
    assert float(low) <= min(draws)
    assert max(draws) <= float(high)
    assert np.mean(draws) == pytest.approx(float(mean), rel=0.02)
