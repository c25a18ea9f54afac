"""Transformers: their shapes, how their weights begin, and what heads are."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.models import GPT, Attention, ViT
from dynascope.models.transformer import LayerNorm


def small(**options):
    given = {"patch": 4, "dim": 12, "depth": 2, "heads": 3, "hidden": 16, "key": jax.random.key(0)} | options
    return eqx.filter_jit(lambda: ViT((8, 12, 3), 10, **given))()


def gpt(**options):
    given = {"dim": 12, "depth": 2, "heads": 3, "key": jax.random.key(0)} | options
    return eqx.filter_jit(lambda: GPT(11, 8, **given))()


def test_a_head_is_softmax_of_its_keys_and_queries_times_its_values_and_outputs():
    layer = Attention(6, 2, 5, key=jax.random.key(0), causal=True)
    x = np.asarray(jax.random.normal(jax.random.key(1), (4, 6)), np.float64)
    expected = np.asarray(layer.bias, np.float64)[None].repeat(4, 0)
    for key, query, value, output in zip(*(np.asarray(w, np.float64) for w in jax.tree.leaves(layer)[:4]), strict=True):
        logits = x @ query @ key.T @ x.T / np.sqrt(5)
        weights = np.exp(np.where(np.tri(4), logits, -np.inf))
        expected += weights / weights.sum(axis=1, keepdims=True) @ x @ value @ output.T
    np.testing.assert_allclose(layer(jnp.asarray(x, jnp.float32)), expected, rtol=2e-5, atol=1e-6)


def test_products_are_of_every_layer_and_head():
    net = small(head_dim=7)
    products = net.products()
    assert products.left.shape == products.right.shape == (2, 2, 3, 12, 7)
    block = net.trunk.blocks[1].attention
    np.testing.assert_array_equal(products.left[:, 1], jnp.stack([block.key, block.value]))
    np.testing.assert_array_equal(products.right[:, 1], jnp.stack([block.query, block.output]))


def test_keys_and_queries_may_trade_a_factor():
    net, image = small(), jax.random.normal(jax.random.key(1), (8, 12, 3))
    block = net.trunk.blocks[0].attention
    traded = eqx.tree_at(lambda net: net.trunk.blocks[0].attention.key, net, 4.0 * block.key)
    traded = eqx.tree_at(lambda net: net.trunk.blocks[0].attention.query, traded, block.query / 4.0)
    np.testing.assert_allclose(traded(image), net(image), rtol=1e-5, atol=1e-6)


def test_the_scale_leaves_patches_places_extra_token_and_norms_alone():
    plain, scaled = small(), small(scale=0.2)
    same = lambda net: (net.patches, net.places, net.extra, net.trunk.norm, [b.norms for b in net.trunk.blocks])  # noqa: E731
    assert eqx.tree_equal(same(plain), same(scaled))
    changed = lambda net: (net.classifier, [(b.attention, b.up, b.down) for b in net.trunk.blocks])  # noqa: E731
    for was, now in zip(jax.tree.leaves(changed(plain)), jax.tree.leaves(changed(scaled)), strict=True):
        np.testing.assert_allclose(now, 0.2 * was, rtol=1e-6)


def test_framework_weights_are_uniform_within_the_inverse_root_of_the_fan_in():
    layer = Attention(64, 4, 48, key=jax.random.key(0))
    for weight, bound in ((layer.key, 1 / 8), (layer.query, 1 / 8), (layer.value, 1 / 8), (layer.output, 192**-0.5)):
        assert np.abs(weight).max() <= bound
        np.testing.assert_allclose(weight.std(), bound / np.sqrt(3), rtol=0.03)


def test_tangent_kernel_scaling_is_the_same_function_with_weights_of_size_one():
    net, image = small(init="ntk", bias=False, pool="mean"), jax.random.normal(jax.random.key(1), (8, 12, 3))
    assert net.extra is None
    assert net.classifier.bias is None
    assert net.trunk.blocks[0].attention.bias is None
    assert abs(float(net.trunk.blocks[0].up.weight.std()) - 1) < 0.15
    plain = small(bias=False, pool="mean")
    is_map = lambda leaf: leaf.ndim == 3  # noqa: E731  (the heads' matrices)
    of_heads = jax.tree.map(lambda leaf: leaf / np.sqrt(12.0).astype(np.float32) if is_map(leaf) else leaf, net.trunk)
    for there, here in zip(plain.trunk.blocks, of_heads.blocks, strict=True):
        assert there.attention.factors == (1.0, 1.0)
        x = jax.random.normal(jax.random.key(2), (6, 12))
        moved = eqx.tree_at(
            lambda a: (a.key, a.query, a.value, a.output), there.attention,
            (here.attention.key, here.attention.query, here.attention.value, here.attention.output),
        )  # fmt: skip
        original = net.trunk.blocks[of_heads.blocks.index(here)].attention
        np.testing.assert_allclose(moved(x), original(x), rtol=1e-4, atol=1e-5)
    assert net(image).shape == (10,)


def test_a_causal_model_does_not_see_what_comes_after():
    net = gpt()
    tokens = jnp.array([1, 2, 3, 4, 5])
    changed = tokens.at[3].set(9)
    np.testing.assert_allclose(net(tokens)[:3], net(changed)[:3], rtol=1e-6)
    assert not np.allclose(net(tokens)[3:], net(changed)[3:])
    both = gpt(causal=False)
    assert not np.allclose(both(tokens)[:3], both(changed)[:3])


def test_a_tied_model_reads_out_with_its_embedding():
    tied, free = (gpt(depth=1, tied=tied) for tied in (True, False))
    count = lambda net: sum(leaf.size for leaf in jax.tree.leaves(net))  # noqa: E731
    assert count(free) - count(tied) == 11 * 12
    out = tied.trunk(tied.embedding[:3] + tied.places[:3])
    np.testing.assert_allclose(tied(jnp.arange(3)), out @ tied.embedding.T, rtol=1e-6)


def test_a_token_outside_the_vocabulary_is_seen_in_the_logits():
    model = GPT(5, 4, key=jax.random.key(0), dim=8, depth=1, heads=2)
    logits = jax.vmap(model)(jnp.asarray([[0, 4], [0, 5]]))
    assert bool(jnp.isfinite(logits[0]).all())
    assert bool(jnp.isnan(logits[1, 1]).all())


def test_maps_that_write_to_the_sum_begin_smaller_in_a_gpt():
    net = gpt(dim=64, depth=8, heads=4)
    np.testing.assert_allclose(net.trunk.blocks[0].attention.output.std(), 0.02 / 4, rtol=0.05)
    np.testing.assert_allclose(net.trunk.blocks[0].down.weight.std(), 0.02 / 4, rtol=0.05)
    np.testing.assert_allclose(net.trunk.blocks[0].up.weight.std(), 0.02, rtol=0.05)


def test_bfloat16_keeps_float32_weights_and_nearly_the_same_output():
    image = jax.random.normal(jax.random.key(1), (8, 12, 3))
    half = small(compute="bfloat16")
    assert {leaf.dtype for leaf in jax.tree.leaves(half)} == {jnp.dtype("float32")}
    assert half(image).dtype == jnp.float32
    np.testing.assert_allclose(half(image), small()(image), atol=0.03)
    assert not np.array_equal(half(image), small()(image))


def test_the_paper_s_vit_has_the_size_it_should():
    shape = jax.eval_shape(lambda: ViT((32, 32, 3), 10, head_dim=128, key=jax.random.key(0)))
    assert 15.7e6 < sum(leaf.size for leaf in jax.tree.leaves(shape)) < 15.9e6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 5}, "dim must be a multiple of heads unless head_dim is given; got dim=12, heads=5"),
        ({"patch": 5}, "patch must divide height and width; got patch=5 for 8 x 12"),
        ({"scale": 0}, "scale must be a finite number, above 0; got 0"),
        ({"pool": "max"}, "pool must be one of 'cls', 'mean'; got 'max'"),
        ({"init": "xavier"}, "init must be one of 'framework', 'normal', 'ntk'; got 'xavier'"),
        ({"compute": "float16"}, "compute must be one of 'float32', 'bfloat16'"),
        ({"depth": 0}, "depth must be an integer, at least 1"),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_wrong_use_gets_one_clear_line(options, message):
    with pytest.raises(ValueError, match=message) as error:
        small(**options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("mean", [0.0, 30.0, 1e5])
def test_a_layer_norm_loses_no_digits_to_a_large_mean(mean):
    norm = LayerNorm(64)
    norm = eqx.tree_at(lambda norm: norm.gain, norm, jnp.linspace(0.5, 2.0, 64))
    x = jnp.asarray(mean + np.random.default_rng(0).standard_normal((3, 64)), jnp.float32)

    def two_passes(x):
        centered = x - x.mean(axis=-1, keepdims=True)
        return centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + 1e-5) * np.linspace(0.5, 2.0, 64)

    wide = np.asarray(x, float)
    np.testing.assert_allclose(norm(x), two_passes(wide), atol=2e-6)
    toward = np.random.default_rng(1).standard_normal((3, 64))
    slope = (two_passes(wide + 1e-4 * toward) - two_passes(wide - 1e-4 * toward)) / 2e-4
    found = jax.jvp(norm, (x,), (jnp.asarray(toward, jnp.float32),))[1]
    np.testing.assert_allclose(found, slope, atol=1e-5)


def test_a_post_norm_block_ends_with_its_norm():
    net = small(pre_norm=False)
    assert net.trunk.norm is None
    out = net.trunk(jax.random.normal(jax.random.key(2), (7, 12)))
    np.testing.assert_allclose(out.mean(axis=1), 0.0, atol=1e-6)
    np.testing.assert_allclose(out.std(axis=1), 1.0, rtol=1e-3)


def test_inputs_of_another_shape_get_one_clear_line():
    for shape in ((8, 12, 1), (12, 12, 3)):
        with pytest.raises(ValueError, match=r"one example of shape \(8, 12, 3\) \(use jax.vmap for a batch\); got"):
            small()(jnp.ones(shape))
    with pytest.raises(ValueError, match="one sequence of at most 8 tokens"):
        gpt()(jnp.zeros(9, jnp.int32))
    for shape, classes in (((8, 8, 0), 3), ((8, 8, 1), 0)):
        with pytest.raises(ValueError, match="must be an integer, at least 1"):
            ViT(shape, classes, key=jax.random.key(0))
