"""Spectra of products and of their perturbations, against the full singular value decomposition."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr

import dynascope as ds
from dynascope import curves
from dynascope.geometry import spectra


def factors(seed, shape=(2, 3, 10, 4), dtype=jnp.float64):
    return tuple(jax.random.normal(key, shape, dtype) for key in jax.random.split(jax.random.key(seed)))


def full(now, then):
    (a, b), (a0, b0) = ([np.asarray(factor, np.float64) for factor in pair] for pair in (now, then))
    return np.linalg.svd(a @ b.swapaxes(-1, -2) - a0 @ b0.swapaxes(-1, -2), compute_uv=False)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e3])
def test_the_small_core_has_the_singular_values_of_the_whole_matrix(size):
    with jax.enable_x64(True):
        then, step = factors(0), factors(1)
        now = tuple(factor + size * change for factor, change in zip(then, step, strict=True))
        exact = full(now, then)
        found = spectra.perturbation_singular_values(now, then)
        assert found.shape == (2, 3, 8)
        tolerance = 1e-12 if size >= 1 else 1e-9  # the reference itself cancels six digits
        np.testing.assert_allclose(found / exact[..., :1], exact[..., :8] / exact[..., :1], atol=tolerance)
        np.testing.assert_allclose(exact[..., 8:], 0, atol=1e-9 * exact.max())


def test_in_float32_nothing_cancels_while_the_weights_have_hardly_moved():
    then, step = factors(0, dtype=jnp.float32), factors(1, dtype=jnp.float32)
    now = tuple(factor + 1e-4 * change for factor, change in zip(then, step, strict=True))
    exact = full(now, then)[..., :8]
    found = spectra.perturbation_singular_values(now, then)
    np.testing.assert_allclose(found / exact[..., :1], exact / exact[..., :1], atol=1e-6)


def test_the_route_for_accelerators_is_exact_to_the_root_of_the_precision():
    then = factors(0, (4, 40, 8), jnp.float32)
    decay = jnp.exp(-jnp.arange(8.0))
    now = tuple(
        factor + 0.3 * change * decay for factor, change in zip(then, factors(1, (4, 40, 8), jnp.float32), strict=True)
    )
    left = jnp.concatenate([now[0], then[0]], -1)
    right = jnp.concatenate([now[1], -then[1]], -1)
    exact = full(now, then)[..., :16]
    np.testing.assert_allclose(spectra.by_eigenvalues(left, right) / exact[..., :1], exact / exact[..., :1], atol=1e-3)
    with jax.enable_x64(True):
        left, right = (np.asarray(factor, np.float64) for factor in (left, right))
        found = spectra.by_eigenvalues(jnp.asarray(left), jnp.asarray(right))
        np.testing.assert_allclose(found / exact[..., :1], exact / exact[..., :1], atol=1e-7)


def test_wide_heads_give_as_many_values_as_the_matrix_has():
    with jax.enable_x64(True):
        then, now = factors(0, (5, 4)), factors(1, (5, 4))
        exact = full(now, then)
        np.testing.assert_allclose(spectra.perturbation_singular_values(now, then), exact, rtol=1e-10)
        a, b = (jnp.concatenate(pair, -1) for pair in ((now[0], then[0]), (now[1], -then[1])))
        np.testing.assert_allclose(spectra.by_eigenvalues(a, b), exact, rtol=1e-6)


def test_ranks_of_spectra_that_are_known():
    flat = jnp.array([2.0, 2.0, 2.0, 0.0])
    assert float(curves.stable_rank(flat)) == 3
    np.testing.assert_allclose(curves.effective_rank(flat), 3, rtol=1e-6)
    assert float(curves.count_above(flat)) == 3
    assert float(curves.energy_rank(flat, 0.9)) == 3
    assert float(curves.energy_rank(flat, 0.5)) == 2
    steep = jnp.array([1.0, 0.5, 0.05])
    np.testing.assert_allclose(curves.stable_rank(steep), 1.2525, rtol=1e-6)
    assert float(curves.count_above(steep)) == 2
    assert float(curves.count_above(steep, 0.6)) == 1


def test_no_perturbation_has_no_rank():
    pair = factors(0, dtype=jnp.float32)
    values = spectra.perturbation_singular_values(pair, pair)
    assert np.isnan(values).all()
    read = curves.spectra.summary(xr.DataArray(np.asarray(values), dims=("layer", "head", "singular")))
    assert all(np.isnan(read[name]).all() for name in read)


def test_a_random_perturbation_is_as_large_and_not_of_low_rank():
    then = factors(0, (2, 64, 32), jnp.float32)
    now = tuple(factor.at[..., :1].add(0.3) for factor in then)
    noisy = spectra.random_perturbation(jax.random.key(5), now, then)
    for moved, as_far, start in zip(noisy, now, then, strict=True):
        np.testing.assert_allclose(
            np.linalg.norm(moved - start, axis=(-2, -1)), np.linalg.norm(as_far - start, axis=(-2, -1)), rtol=1e-4
        )
    low, high = (curves.stable_rank(spectra.perturbation_singular_values(pair, then)) for pair in (now, noisy))
    assert low.max() < 3
    assert high.min() > 6


def test_stable_ranks_at_the_start_are_those_of_the_spec():
    """512 x 128: 42 to 43; 64 x 32: 8.4 (uniform weights)."""
    keys = jax.random.split(jax.random.key(0))
    for (d, k), (low, high) in {(512, 128): (41.5, 44.0), (64, 32): (7.4, 9.4)}.items():
        a, b = (jax.random.uniform(key, (4, d, k), minval=-1.0, maxval=1.0) for key in keys)
        rank = float(curves.stable_rank(spectra.product_singular_values(a, b)).mean())
        assert low < rank < high


def test_the_probe_follows_a_run_and_says_nothing_at_its_start():
    """One factor is pulled toward a matrix of rank one: the perturbation of the product has rank one."""
    target = jnp.outer(jnp.arange(1.0, 5.0), jnp.ones(3))

    def loss(pair):
        return jnp.mean((pair[0] @ pair[1].T - target) ** 2)

    start = (jnp.zeros((4, 2)), jnp.ones((3, 2)))
    trace = ds.descend(
        start, loss, optax.sgd(0.1), steps=5, record=1,
        probes={
            "gained": ds.probes.perturbation_spectrum(lambda pair: pair, dims=("singular",)),
            "whole": ds.probes.product_spectrum(lambda pair: pair, dims=("whole_singular",)),
        },
    ).trace  # fmt: skip
    assert trace.gained.dims == ("step", "singular")
    assert np.isnan(trace.gained[0]).all()
    ranks = curves.spectra.summary(trace.gained).stable_rank
    np.testing.assert_allclose(ranks[1:], 1, rtol=1e-5)
    np.testing.assert_allclose(trace.gained[1:, 0], trace.whole[1:, 0], rtol=1e-5)  # it began at zero


def test_factors_in_half_precision_are_looked_at_in_float32():
    start = {"a": jnp.ones((4, 2), jnp.bfloat16), "b": jnp.ones((3, 2), jnp.bfloat16)}
    probes = {
        "gained": ds.probes.perturbation_spectrum(lambda net: (net["a"], net["b"]), dims=("singular",)),
        "whole": ds.probes.product_spectrum(lambda net: (net["a"], net["b"]), dims=("whole",)),
    }
    trace = ds.descend(
        start, lambda net: jnp.mean(net["a"] ** 2), optax.sgd(1.0), steps=1, record=1, probes=probes
    ).trace  # a is three quarters of what it was
    assert trace.gained.dtype == np.float32
    np.testing.assert_allclose(trace.gained[1, 0], trace.whole[0, 0] / 4, rtol=1e-2)


@pytest.mark.parametrize("factors", [((4, 2), (2, 3)), ((2,), (2,)), ((4, 2),)])
@pytest.mark.parametrize("kind", [ds.probes.product_spectrum, ds.probes.perturbation_spectrum])
def test_factors_that_do_not_fit_are_named(kind, factors):
    given = [jnp.ones(shape) for shape in factors]
    with pytest.raises(ValueError, match=r"A \(..., d, k\) and B \(..., e, k\) with one k; got shapes \[\("):
        ds.descend(
            jnp.ones(2), jnp.sum, optax.sgd(0.1), steps=1, probes={"s": kind(lambda net: given, dims=("singular",))}
        )


def test_components_rise_when_they_first_pass_a_share_of_the_largest_there_ever_is():
    steps = np.array([0, 10, 20, 30, 40])
    first, second, third = [np.nan, 1.0, 8.0, 10.0, 9.0], [np.nan, 0.5, 1.9, 2.1, 1.0], [np.nan, 0.1, 0.2, 0.3, 1.9]
    one = np.stack([first, second, third], axis=-1)
    values = xr.DataArray(
        np.stack([one, 5 * one[:, [0, 0, 1]]]), dims=("head", "step", "singular"), coords={"step": steps}
    )
    found = curves.rise_steps(values, 0.2)
    assert found.dims == ("head", "singular")
    np.testing.assert_array_equal(found, [[20, 30, np.nan], [20, 20, 30]])
    np.testing.assert_array_equal(curves.rise_steps(values, 0.04)[0], [10, 10, 40])
