"""Theorem 3.5 and Proposition 4 against the reduced map; the intervals of Appendix B.9."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.tasks.single_neuron import reduced_start, reduced_step
from dynascope.theory.edge import neuron_intervals, product_orbit, single_neuron
from dynascope.theory.edge.neuron_intervals import Box

KS, SIZES, ANGLES, STEPS = np.linspace(1.01, 1.1, 6), np.geomspace(1e-3, 0.1, 5), np.linspace(0, np.pi / 2, 31), 300


@pytest.fixture(scope="module")
def sweep():
    with jax.enable_x64(True):
        K, size, angle = (jnp.asarray(grid.ravel()) for grid in np.meshgrid(KS, SIZES, ANGLES, indexing="ij"))

        @jax.jit
        def run(state):
            return jax.lax.scan(lambda s, _: (reduced_step(s, K), s), state, None, length=STEPS)[1]

        return K, size, jax.tree.map(np.asarray, run(reduced_start(size, angle)))


def test_the_bound_of_the_theorem_is_never_broken(sweep):
    K, size, path = sweep
    steps = jnp.arange(STEPS, dtype=float)
    bound = jax.vmap(lambda k, s: single_neuron.height_bound(steps, k, s), out_axes=1)(K, size)
    assert float(jnp.max(path["wy"] / bound)) < 0.02


def test_the_facts_of_stage_one(sweep):
    _, _, path = sweep
    v, wx, wy = path["v"], path["wx"], path["wy"]
    inside = np.asarray(single_neuron.in_stage_one(jax.tree.map(jnp.asarray, path)))
    inside = np.logical_and.accumulate(inside[1:], axis=0)
    assert inside.sum() > 1000
    values = {"slope": wy / wx, "height": wy, "gap": v - wx, "product": v * wx}
    for name, (low, high) in single_neuron.STAGE_ONE.items():
        seen = values[name][1:][inside]
        assert low <= seen.min() + 1e-12, name
        assert seen.max() <= high, name
    growth = (v * wx)[2:] / (v * wx)[1:-1]
    assert growth[inside[:-1]].min() >= single_neuron.GROWTH
    assert (v - wy)[1:][inside].min() >= 0


def test_the_limit_and_its_rates():
    K = 1.1
    state = reduced_start(0.1, 1.0)
    path = [state]
    for _ in range(160):
        path.append(reduced_step(path[-1], K))
    limit = single_neuron.limit(K)
    ends = np.sort([[float(s["v"]), float(s["wx"])] for s in path[-2:]], axis=0)
    np.testing.assert_allclose(ends[:, 0], limit["v"], atol=1e-8)
    np.testing.assert_allclose(ends[:, 1], limit["wx"], atol=1e-8)
    np.testing.assert_allclose(path[62]["wy"] / path[60]["wy"], single_neuron.height_decay(K), rtol=0.01)
    gaps = [abs(float(s["v"] - s["wx"])) for s in path]
    np.testing.assert_allclose(gaps[82] / gaps[80], product_orbit.orbit_contraction(K), rtol=0.01)


def test_the_update_conserves_the_difference_of_squares_to_first_order(sweep):
    K, _, path = sweep
    state = {name: jnp.asarray(value[5]) for name, value in path.items()}
    np.testing.assert_allclose(single_neuron.update_defect(state, K), 0, atol=1e-14)


def test_the_growth_steps():
    beta = (1 + 1.1 / math.pi) * 0.1
    assert float(single_neuron.growth_steps(0.1)) == math.ceil(math.log(1.35 / (math.pi * beta**2)) / math.log(2.56))


@pytest.mark.parametrize(
    ("box", "product", "gap_low", "height"),
    [
        (Box(0.213, 0.4, -0.017, 0.17, 0.44), (0.551, 1.12131), -0.162, 0.416),
        (Box(0.55, 0.8, -0.162, 0.068, 0.416), (0.942, 1.25786), -0.309, 0.214),
        (Box(1, 1.12131, -0.162, 0.068, 0.416), (0.595, 1.0), -0.394, 0.134),
    ],
)
def test_the_printed_intervals_come_out(box, product, gap_low, height):
    found = neuron_intervals.propagate(box, "printed")
    np.testing.assert_allclose([found.product_low, found.product_high], product, atol=1e-3)
    np.testing.assert_allclose([found.gap_low, found.height], [gap_low, height], atol=1e-3)


@pytest.mark.parametrize("box", [Box(0.55, 0.8, -0.162, 0.068, 0.416), Box(1.0, 1.12131, -0.162, 0.068, 0.416)])
def test_valid_boxes_hold_every_successor(box):
    rng, n = np.random.default_rng(0), 20_000
    product, gap = rng.uniform(*box[:2], n), rng.uniform(*box[2:4], n)
    mean = np.sqrt(product + gap**2 / 4)
    state = {"v": mean + gap / 2, "wx": mean - gap / 2, "wy": rng.uniform(0, box.height, n)}
    after = reduced_step(jax.tree.map(jnp.asarray, state), jnp.asarray(rng.uniform(1, 1.1, n)))
    out = neuron_intervals.propagate(box)
    moved, apart = after["v"] * after["wx"], after["v"] - after["wx"]
    assert out.product_low <= moved.min()
    assert moved.max() <= out.product_high
    assert out.gap_low <= apart.min()
    assert apart.max() <= out.gap_high
    assert after["wy"].max() <= out.height


def test_boxes_are_split_at_one():
    box = Box(0.9, 1.2, -0.1, 0.1, 0.2)
    parts = neuron_intervals.split(box)
    assert [part[:2] for part in parts] == [(0.9, 1.0), (1.0, 1.2)]
    with pytest.raises(ValueError, match="one side"):
        neuron_intervals.propagate(box)
    assert neuron_intervals.propagate(parts[0], cap=True).height <= 0.2
