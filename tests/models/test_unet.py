"""The U-Net of diffusion models, its layers, and the classifier of concepts."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.models import ConceptClassifier, UNet
from dynascope.models.unet import waves
from dynascope.models.unet_layers import Conv, Doubled, Draws, GroupNorm, draw_at_once, drop_out

KEY = jax.random.key(0)
small = partial(UNet, (4, 4, 2), 3, key=KEY, channels=(4, 8), blocks=1, groups=2, heads=2)


def count(model) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(model))


def trained(model, seed=0):
    """The model with every parameter moved: none of its layers is zero."""
    draw = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: leaf + jnp.asarray(0.1 * draw.normal(size=leaf.shape), leaf.dtype), model)


def inputs(count=None):
    draw, batch = np.random.default_rng(1), () if count is None else (count,)
    z, gamma, condition = draw.normal(size=(*batch, 4, 4, 2)), draw.normal(size=batch), draw.normal(size=(*batch, 3))
    return tuple(jnp.asarray(x, jnp.float32) for x in (z, gamma, condition))


@pytest.mark.parametrize(("options", "parameters"), [({}, 10_618_115), ({"placement": "downsampling"}, 10_150_787)])
def test_the_parameters_of_the_published_network(options, parameters):
    shapes = jax.eval_shape(lambda key: UNet((32, 32, 3), key=key, **options), KEY)
    assert count(shapes) == parameters
    assert count(jax.eval_shape(lambda key: UNet((32, 32, 3), key=key, norm="layer", **options), KEY)) == parameters


@pytest.mark.parametrize("options", [{}, {"norm": "layer", "placement": "downsampling"}])
def test_at_the_start_the_output_is_the_input_and_later_everything_matters(options):
    model, (z, gamma, condition) = small(**options), inputs(3)
    run = jax.jit(jax.vmap(lambda model, z, gamma, condition: model(z, gamma, condition), in_axes=(None, 0, 0, 0)))
    np.testing.assert_array_equal(run(model, z, gamma, condition), z)
    model = trained(model)
    out = np.asarray(run(model, z, gamma, condition))
    assert np.abs(out - run(model, z, gamma + 1, condition)).max() > 1e-3
    assert np.abs(out - run(model, z, gamma, condition + 1)).max() > 1e-3


def test_on_an_accelerator_a_batch_goes_through_one_convolution_for_each_of_the_network(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    text = str(jax.make_jaxpr(jax.vmap(small()))(*inputs(3)))
    convolutions = [line for line in text.splitlines() if "= conv_general_dilated[" in line]
    assert len(convolutions) == 3 + 6 * 2 + 2  # stem, halving, head; two in each of six blocks; two shortcuts
    assert all("[3," in line for line in convolutions)


def test_bfloat16_is_near_float32_and_dropout_needs_a_key():
    exact, example, keys = trained(small(channels=(4,), dropout=0.5)), inputs(), jax.random.split(KEY)
    rough = trained(small(channels=(4,), compute="bfloat16"))
    assert {leaf.dtype for leaf in jax.tree.leaves(rough)} == {jnp.dtype("float32")}
    out, near = (eqx.filter_jit(model)(*example) for model in (exact, rough))
    assert near.dtype == jnp.float32
    assert 1e-6 < np.abs(out - near).max() / np.abs(out - example[0]).max() < 0.05
    random = jax.jit(lambda key: exact(*example, key=key))
    first, second = (np.asarray(random(key)) for key in keys)
    assert np.abs(first - second).max() > 1e-3
    np.testing.assert_array_equal(first, random(keys[0]))


def test_dropout_keeps_its_share_and_the_mean():
    ones = jnp.ones((100, 100, 10))
    x = np.asarray(jax.jit(lambda key: drop_out(ones, 0.1, key))(KEY))
    np.testing.assert_allclose(np.mean(x == 0), 0.1, atol=3 * 0.3 / np.sqrt(x.size))
    np.testing.assert_allclose(x[x > 0], 1 / 0.9, rtol=1e-6)
    assert drop_out(ones, 0.0, KEY) is ones


def test_the_waves_of_the_time():
    found = waves(jnp.asarray(0.25), 6)
    angles = 250 * np.array([1, 1e-2, 1e-4])
    np.testing.assert_allclose(found, [*np.sin(angles), *np.cos(angles)], atol=2e-5)


def test_a_group_norm_normalizes_groups_of_channels_over_pixels():
    norm = GroupNorm(6, 3, draws=Draws(None, 1.0))
    draw = np.random.default_rng(0)
    norm = eqx.tree_at(
        lambda n: (n.gain, n.offset), norm, tuple(jnp.asarray(draw.normal(size=6), jnp.float32) for _ in "go")
    )
    x = 100 + draw.normal(size=(5, 4, 6))
    groups = x.reshape(5, 4, 3, 2)
    mean, deviation = (np.asarray(f(groups, axis=(0, 1, 3), keepdims=True)) for f in (np.mean, np.std))
    wanted = ((groups - mean) / deviation).reshape(x.shape) * norm.gain + norm.offset
    np.testing.assert_allclose(norm(jnp.asarray(x, jnp.float32)), wanted, atol=1e-4)
    np.testing.assert_allclose(norm(jnp.full((5, 4, 6), 7.0)), np.broadcast_to(norm.offset, (5, 4, 6)), atol=1e-6)


def test_doubling_is_a_transposed_convolution():
    layer = draw_at_once(lambda draws: Doubled(3, 2, draws=draws), KEY)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 3)), jnp.float32)
    kernel = layer.weight[::-1, ::-1]
    wanted = jax.lax.conv_transpose(x[None], kernel, (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))[0]
    np.testing.assert_allclose(layer(x), wanted + layer.bias, rtol=1e-5, atol=1e-6)


def test_parameters_are_drawn_alike_in_a_program_and_outside_of_one():
    def make(key):
        return draw_at_once(lambda draws: (Conv(3, 2, 4, draws=draws), Conv(3, 2, 4, draws=draws)), key, 0.5)

    first, second = make(KEY)
    bound = 0.5 / np.sqrt(18)
    assert 0.9 * bound < np.abs(first.weight).max() <= bound
    assert np.abs(first.weight - second.weight).max() > 0.5 * bound
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), jax.jit(make)(KEY), (first, second))


def test_the_scale_multiplies_all_parameters():
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, 0.02 * b, rtol=1e-5), small(scale=0.02), small())


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"shape": (6, 8, 3)}, "height and width must be multiples of 4, to be halved between 3 levels; got 6 x 8"),
        ({"channels": (8, 12, 16)}, "each of channels must be a multiple of groups=8; got"),
        ({"channels": ()}, r"channels must have one entry for each level; got \(\)"),
        ({"heads": 3}, "the last of channels must be a multiple of heads=3; got 256"),
        ({"channels": (8,), "placement": "downsampling"}, 'two levels or more for placement="downsampling"; got one'),
        ({"gamma_max": -6}, "gamma_max must be a finite number, above -5.0; got -6"),
        ({"dropout": 1}, "dropout must be a finite number, at least 0 and below 1; got 1"),
        ({"norm": "batch"}, "norm must be one of"),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_what_cannot_be_is_refused_in_one_line(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        UNet(**({"shape": (8, 8, 3), "key": KEY} | options))


def test_a_wrong_size_is_refused_in_one_line():
    model, (z, gamma, condition) = small(), inputs()
    with pytest.raises(ValueError, match=r"condition must be a vector of 3 numbers .*; got .* shape \(2,\)"):
        model(z, gamma, condition[:2])
    with pytest.raises(ValueError, match=r"UNet takes one example of shape \(4, 4, 2\)"):
        model(z[:2], gamma, condition)


def test_a_classifier_gives_two_logits_for_each_concept():
    model = ConceptClassifier((4, 4, 3), 3, key=KEY, channels=(4, 4))
    image = jnp.asarray(np.random.default_rng(0).normal(size=(4, 4, 3)), jnp.float32)
    logits = jax.jit(jax.vmap(model))(jnp.stack([image, -image]))
    assert logits.shape == (2, 3, 2)
    assert np.abs(logits[0] - logits[1]).max() > 1e-3
    shapes = jax.eval_shape(lambda key: ConceptClassifier((32, 32, 3), key=key), KEY)
    assert shapes.out.weight.shape == (64, 4)
    with pytest.raises(ValueError, match="groups must divide 64; got 5"):
        ConceptClassifier((4, 4, 3), key=KEY, groups=5)


def test_the_rows_of_a_kernel_go_along_the_rows_of_the_picture():
    conv = draw_at_once(lambda draws: Conv(3, 1, 1, draws=draws), jax.random.key(0))
    dot = jnp.zeros((5, 5, 1)).at[2, 2].set(1.0)
    seen = conv(dot)[1:4, 1:4, 0] - conv.bias
    np.testing.assert_allclose(seen, conv.weight[::-1, ::-1, 0, 0], rtol=1e-5, atol=1e-6)
