"""Spectra with known answers: each true value lies within the stated error, or it is not called converged."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynascope as ds

SIZE, K = 150, 2
COLUMNS = np.linalg.qr(np.random.default_rng(0).standard_normal((SIZE, SIZE)))[0]
RISING, FALLING = np.linspace(-0.5, 1, SIZE), 0.9 ** np.arange(SIZE)


def with_top(top, rest):
    return np.concatenate([top, rest[: SIZE - len(top)]])


POSITIVE = {
    "simple": FALLING,
    "each three times": np.repeat(FALLING[: SIZE // 3], 3),
    "three copies of three": with_top(np.repeat([24.614, 21.848, 20], 3), FALLING),
    "ten copies": with_top(np.full(10, 2.0), FALLING),
    "one part in a thousand": with_top([1, 0.999, 0.998, 0.997], FALLING / 2),
    "all the same": np.ones(SIZE),
    "rank two": with_top([3, 3], np.zeros(SIZE)),
    "inverse squares": 1 / np.arange(1.0, SIZE + 1) ** 2,
    "tiny": 1e-20 * with_top([20, 20, 10], FALLING),
    "huge": 1e20 * with_top([20, 20, 10], FALLING),
}
SIGNED = {
    "copies and the negative": with_top([5, 5, -7, -7], RISING / 2),
    "one part in five million": with_top([5, 5 - 1e-6, 4], RISING),
    "opposite pairs": np.concatenate([FALLING[: SIZE // 2], -FALLING[: SIZE // 2]]),
    "all negative": -1 - np.arange(SIZE) / SIZE,
    "zero": np.zeros(SIZE),
    "negative of rank one": with_top([-3], np.zeros(SIZE)),
    "evenly spaced": RISING,
    "chain": 2 * np.cos(np.linspace(0, np.pi, SIZE)),
    "small beside large": with_top([1e-4], -np.linspace(1, 1e5, SIZE)),
    "tiny and signed": 1e-20 * with_top([3, 3, -5], RISING),
    "huge and signed": 1e20 * with_top([3, 3, -5], RISING),
}
HARD = {
    "one part in five million",
    "evenly spaced",
    "chain",
    "small beside large",
    "all negative",
    "negative of rank one",
}
"""Their values need not be converged: they are zero, or tell apart by less than the tolerance or the rounding."""


class Quadratic(eqx.Module):
    """x^T M x / 2 + b^T x; a module, so that all of one precision share a program."""

    matrix: jax.Array
    slope: jax.Array

    def __call__(self, x):
        return x @ (self.matrix @ x) / 2 + self.slope @ x


def linear(weights, x):
    return x @ weights


def starts(precision):
    """None, and vectors that are eigenvectors of other eigenvalues: a search that looks nowhere else stays there."""
    return None, np.asarray(COLUMNS.T[7 : 8 + K], precision)


def judge(name, found, truth, precision):
    values, errors = np.asarray(found.values, float), np.asarray(found.errors, float)
    reference = 3e-14 * np.abs(truth).max()  # rounding of the eigenvalues that are compared with
    apart = np.abs(np.abs(values) - np.abs(truth[: len(values)]))
    inside = apart <= errors + reference
    assert (inside | ~np.asarray(found.converged)).all(), (name, values, truth[:4], errors, found.converged)
    assert found.converged.all() or name in HARD, (name, errors / np.abs(values), int(found.products))
    assert 0 <= float(found.missed) <= (1.001e-3 if found.converged.all() else 1)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("which", ["largest", "magnitude"])
@pytest.mark.parametrize("name", [*POSITIVE, *SIGNED])
def test_no_eigenvalue_of_a_hessian_is_missed(name, which, precision):
    spectrum = {**POSITIVE, **SIGNED}[name]
    with jax.enable_x64(precision == "float64"):
        matrix = np.asarray((COLUMNS * spectrum) @ COLUMNS.T, precision)
        matrix = (matrix + matrix.T) / 2
        scale = np.abs(spectrum).max() or 1
        truth = scale * np.linalg.eigvalsh(np.asarray(matrix, float) / scale)
        truth = truth[np.argsort(-truth if which == "largest" else -np.abs(truth))]
        loss = Quadratic(jnp.asarray(matrix), jnp.asarray(COLUMNS[:, 1] * scale, precision))
        for start in starts(precision):
            found = ds.geometry.top_eigenpairs(
                loss, jnp.zeros(SIZE, precision), K, which=which, start=start, dense=0, tolerance=TOLERANCE[precision]
            )
            judge(name, found, truth, precision)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", POSITIVE)
def test_no_eigenvalue_of_a_kernel_is_missed(name, precision):
    with jax.enable_x64(precision == "float64"):
        rows = np.asarray(COLUMNS * np.sqrt(POSITIVE[name]), precision)
        truth = np.linalg.svd(np.asarray(rows, float), compute_uv=False) ** 2
        for start in starts(precision):
            found = ds.geometry.kernel_eigenpairs(
                jnp.zeros(SIZE, precision), jnp.asarray(rows), K, apply=linear, start=start, formed=False,
                tolerance=TOLERANCE[precision],
            )  # fmt: skip
            judge(name, found, truth, precision)


TOLERANCE = {"float32": 1e-4, "float64": 1e-6}


def test_there_are_sixty_spectra_and_more():
    """Hessians and kernels in two precisions; each is searched from two starts, and Hessians for two ends."""
    assert 2 * (len(POSITIVE) + len(SIGNED)) + 2 * len(POSITIVE) >= 60


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", [*POSITIVE, *SIGNED])
def test_a_diagonalized_hessian_is_not_called_converged_where_it_is_not(name, precision):
    spectrum = {**POSITIVE, **SIGNED}[name]
    with jax.enable_x64(precision == "float64"):
        matrix = np.asarray((COLUMNS * spectrum) @ COLUMNS.T, precision)
        matrix = (matrix + matrix.T) / 2
        scale = np.abs(spectrum).max() or 1
        truth = scale * np.linalg.eigvalsh(np.asarray(matrix, float) / scale)[::-1]
        loss = Quadratic(jnp.asarray(matrix), jnp.zeros(SIZE, precision))
        found = ds.geometry.top_eigenpairs(loss, jnp.zeros(SIZE, precision), K, tolerance=TOLERANCE[precision])
        judge(name, found, truth, precision)


@pytest.mark.parametrize("tolerance", [1e-4, 1e-6])
def test_a_regression_with_three_outputs_has_each_eigenvalue_three_times(tolerance):
    """Copies are told apart by residuals alone, which rounding keeps above the smaller tolerance."""
    x = jax.random.normal(jax.random.key(0), (200, 150))
    exact = np.linalg.eigvalsh(np.asarray(2 / 600 * x.T @ x, float))[::-1]
    found = ds.geometry.top_eigenpairs(
        lambda weights: jnp.mean((x @ weights) ** 2), jnp.ones((150, 3)), 4, tolerance=tolerance
    )
    np.testing.assert_allclose(found.values, exact[[0, 0, 0, 1]], rtol=1e-4)
    assert (np.abs(found.values - exact[[0, 0, 0, 1]]) <= found.errors).all()
    assert (found.errors <= 1e-4 * found.values).all()
    assert found.converged.all() or tolerance == 1e-6
    assert 0 < found.missed < 2e-3


def test_copies_that_appear_along_a_trajectory_are_followed():
    """Two eigenvalues meet at the top; one more copy rises from below, at the recording that is checked or later."""
    rest = jnp.asarray(FALLING / 2, jnp.float32)

    def look(subspace, t):
        curvatures = rest.at[10].set(3.0).at[40].set(1 + 2 * t).at[90].set(1 + 2 * t)
        found = ds.geometry.top_eigenpairs(
            lambda x: jnp.sum(curvatures * x**2) / 2, jnp.zeros(SIZE), 3, start=subspace, tolerance=1e-4
        )
        return found.subspace, (found.values, found.converged)

    times = jnp.linspace(0, 1, 8)
    values, converged = jax.lax.scan(look, jnp.asarray(COLUMNS.T[:4], jnp.float32), times)[1]
    np.testing.assert_allclose(values, np.stack([np.full(8, 3), 1 + 2 * times, 1 + 2 * times], axis=1), rtol=1e-4)
    assert converged.all()


@pytest.mark.parametrize("which", ["largest", "magnitude"])
def test_in_a_cluster_no_value_is_stated_to_be_more_exact_than_the_others(which):
    """The largest is found to 1e-9, the next one to 1e-16: neither is known better than which of them is the larger."""
    with jax.enable_x64(True):
        spectrum = with_top([1 + 1e-10, 1], FALLING / 2)
        off = 0.01 * np.random.default_rng(1).standard_normal(SIZE) / np.sqrt(SIZE)
        start = np.stack([COLUMNS[:, 1], COLUMNS[:, 0] + off, COLUMNS[:, 2]])
        loss = Quadratic(jnp.asarray((COLUMNS * spectrum) @ COLUMNS.T), jnp.zeros(SIZE))
        found = ds.geometry.top_eigenpairs(loss, jnp.zeros(SIZE), 2, which=which, start=start, tolerance=1e-3)
        assert found.converged.all()
        assert float(found.residuals[0]) < 1e-14
        assert 1 - float(found.values[1]) > 1e-10, "the larger one is the second"
        assert (np.abs(found.values - spectrum[:2]) <= found.errors).all()


@pytest.mark.parametrize("negative", [-1.03, -3.5])
def test_a_search_by_magnitude_finds_a_negative_value_that_its_start_hides(negative):
    """The check sees it below the negative level, and has to point toward it."""
    with jax.enable_x64(True):
        spectrum = with_top([3, 3, 3, 1, negative], 0.8 * RISING)
        loss = Quadratic(jnp.asarray((COLUMNS * spectrum) @ COLUMNS.T), jnp.zeros(SIZE))
        truth = sorted(spectrum, key=abs, reverse=True)[:4]
        for seed in range(2):
            found = ds.geometry.top_eigenpairs(
                loss, jnp.zeros(SIZE), 4, which="magnitude", start=COLUMNS.T[[0, 1, 2, 3, 9]], tolerance=1e-3, seed=seed
            )
            np.testing.assert_allclose(found.values, truth, rtol=1e-3)
            assert found.converged.all()


def test_exact_eigenvectors_of_other_values_have_the_error_of_the_values_that_may_be_missed():
    """Their residuals are zero, and yet larger values may lie within the level that the check has cleared."""
    with jax.enable_x64(True):
        curvatures = 1 + 1e-5 * np.random.default_rng(0).random(SIZE)
        start = np.eye(SIZE)[np.argsort(curvatures)[90:93]]
        found = ds.geometry.top_eigenpairs(
            lambda x: jnp.sum(curvatures * x**2) / 2, jnp.zeros(SIZE), 2, start=start, tolerance=1e-3
        )
        truth = np.sort(curvatures)[::-1][:2]
        assert (np.abs(found.values - truth) <= found.errors).all()
        assert found.converged.all()
