import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.curves.stages import descents
from dynascope.theory.concept.two_layer_stages import TwoByTwo, two_layer_path, two_layer_test_loss

WEAK, STRONG, RATE, STEPS = 0.5025, 2.0025, 0.05, 700


def trained(size: float, starts: int, dim: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows, the columns, and W at every step (step, start, 2, 2) of gradient descent on both layers."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(0, size, (2, starts, dim, dim))
    rows, columns = second[:, :2].copy(), first.transpose(0, 2, 1)[:, :2].copy()
    moment, path = np.zeros(dim), []
    moment[:2] = WEAK, STRONG
    for _ in range(STEPS + 1):
        W = second @ first
        path.append(W[:, :2, :2])
        pull = (np.eye(dim) - W) * moment
        both = RATE * first.transpose(0, 2, 1), RATE * second.transpose(0, 2, 1)
        second, first = second + pull @ both[0], first + both[1] @ pull
    return rows, columns, np.stack(path)


def predicted(rows: np.ndarray, columns: np.ndarray) -> TwoByTwo:
    full = jnp.ones(len(rows))
    return two_layer_path(jnp.asarray(rows), jnp.asarray(columns), WEAK * full, STRONG * full, RATE, STEPS)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize(("size", "within"), [(0.1, 0.02), (0.03, 0.003), (0.01, 0.0007)])
def test_every_entry_of_a_network_of_unlike_layers_follows_from_its_start(size: float, within: float):
    rows, columns, W = trained(size, 60)
    path = predicted(rows, columns)
    for entry, (i, j) in zip(path, ((0, 0), (0, 1), (1, 0), (1, 1)), strict=True):
        assert np.median(np.abs(np.asarray(entry) - W[:, :, i, j]).max(axis=0)) < within


def test_it_tells_which_starts_memorize():
    rows, columns, W = trained(0.05, 300)
    mu = np.array([1.0, 2.0])
    loss = np.sum((W @ mu - mu) ** 2, axis=-1) / 2
    full = jnp.ones(len(rows))
    told = two_layer_test_loss(predicted(rows, columns), full, 2 * full)
    seen, told = (descents(np.asarray(each).T, noise=0.0) >= 2 for each in (loss, told))
    assert seen.sum() > 20
    assert (seen & told).sum() / (seen | told).sum() > 0.8


def test_two_equal_layers_have_equal_parts_until_the_stronger_concept_is_learned():
    rows = np.array([[[0.02, 0.01], [0.03, 0.0]]])
    path = predicted(rows, rows)
    assert float(path.w_12[0, 0]) == pytest.approx(float(path.w_21[0, 0])) == pytest.approx(0.02 * 0.03)
    assert float(path.w_11[0, 0]) == pytest.approx(0.02**2 + 0.01**2)
    early = np.flatnonzero(np.asarray(path.w_22[:, 0]) < 0.01)[-1]
    np.testing.assert_allclose(path.w_12[early, 0], path.w_21[early, 0], rtol=0.02)
    assert float(path.w_12[:, 0].max()) < float(path.w_21[:, 0].max())


def test_the_loss_at_the_test_point_is_that_of_the_outputs():
    one = TwoByTwo(*(jnp.asarray([value]) for value in (0.5, 0.1, 0.2, 0.9)))
    full = jnp.ones(1)
    expected = ((0.5 * 1 + 0.1 * 2 - 1) ** 2 + (0.2 * 1 + 0.9 * 2 - 2) ** 2) / 2
    np.testing.assert_allclose(two_layer_test_loss(one, full, 2 * full), expected, rtol=1e-6)
