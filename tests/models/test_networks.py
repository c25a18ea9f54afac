"""Networks on images and in the NTK parameterization."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.geometry.affine_maps import find_affine_maps
from dynascope.models import MLP, ConvNet, WideResNet, myrtle5
from dynascope.models.convnet import Affine, halve


def count(model) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(model) if hasattr(leaf, "size"))


def test_ntk_networks_divide_by_the_root_of_the_fan_in():
    net = MLP(50, 2, key=jax.random.key(0), width=400, out=1, activation="relu", parameterization="ntk")
    np.testing.assert_allclose([weight.std() for weight in net.weights], 1, rtol=0.1)
    x = jnp.ones(50)
    hidden = np.maximum(np.asarray(net.weights[0]) @ np.ones(50) / np.sqrt(50), 0)
    np.testing.assert_allclose(net(x), np.asarray(net.weights[1]) @ hidden / 20, rtol=1e-5)


def test_a_scale_makes_an_ntk_network_small_at_the_start():
    common = {"key": jax.random.key(0), "width": 30, "out": 1, "activation": "relu", "parameterization": "ntk"}
    x = jnp.arange(4.0)
    np.testing.assert_allclose(MLP(4, 3, scale=0.1, **common)(x), 1e-3 * MLP(4, 3, **common)(x), rtol=1e-5)


def test_an_ntk_linear_network_is_its_matrix():
    net = MLP(3, 3, key=jax.random.key(0), width=5, parameterization="ntk")
    np.testing.assert_allclose(net.matrix(), jax.jacfwd(net)(jnp.ones(3)), rtol=1e-5, atol=1e-6)


def test_a_mup_network_is_an_ntk_network_whose_output_is_divided_and_whose_rate_is_multiplied_by_the_width():
    """Yang and Hu 2021, (3.1): a -> a + t, b -> b - t, c -> c - 2 t changes nothing."""
    width, rate, x = 16, 0.3, jax.random.normal(jax.random.key(1), (5, 4))
    common = {"key": jax.random.key(0), "width": width, "out": 1, "activation": "relu"}
    mup, ntk = (MLP(4, 3, parameterization=name, **common) for name in ("mup", "ntk"))

    def loss(net: MLP, factor: float) -> jax.Array:
        return jnp.mean((factor * jax.vmap(net)(x)[:, 0] - x[:, 0] * x[:, 1]) ** 2)

    def descend(net: MLP, factor: float, rate: float) -> MLP:
        for _ in range(3):
            step = jax.grad(loss)(net, factor)
            net = jax.tree.map(lambda weight, slope: weight - rate * slope, net, step)
        return net

    small = 1 / math.sqrt(width)
    mup, ntk = descend(mup, 1.0, rate), descend(ntk, small, rate * width)
    np.testing.assert_allclose(jax.vmap(mup)(x), small * jax.vmap(ntk)(x), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(mup.weights[1], small * ntk.weights[1], rtol=1e-4, atol=1e-6)


def test_a_mup_network_of_one_layer_is_an_ntk_network():
    one, other = (MLP(4, 1, key=jax.random.key(0), width=9, parameterization=name) for name in ("mup", "ntk"))
    np.testing.assert_array_equal(one(jnp.ones(4)), other(jnp.ones(4)))


def test_a_mup_linear_network_is_its_matrix():
    net = MLP(3, 3, key=jax.random.key(0), width=5, parameterization="mup")
    np.testing.assert_allclose(net.matrix(), jax.jacfwd(net)(jnp.ones(3)), rtol=1e-5, atol=1e-6)


def test_swish_is_x_times_its_sigmoid():
    net = MLP.from_weights([jnp.eye(2), jnp.eye(2)], "swish")
    np.testing.assert_allclose(net(jnp.array([1.0, -2.0])), [0.731059, -0.238406], rtol=1e-5)


@pytest.mark.parametrize(("shape", "window", "stride"), [((6, 6, 2), 3, 1), ((7, 9, 3), 3, 2), ((7, 8, 2), 5, 2)])
def test_a_convolution_is_its_weight_on_every_window(shape, window, stride):
    """As the tangent kernel takes it apart: the kernel depends neither on the order within a window nor on that of the
    positions, so that they are looked at here."""
    conv = Affine((window, window, shape[-1], 4), key=jax.random.key(0), stride=stride)
    x = jax.random.normal(jax.random.key(1), shape)
    _, (found,) = find_affine_maps(lambda conv, x: conv(x), conv, x)
    by_windows = conv.scale * found.lay_inputs(x[None]) @ conv.weight.ravel()[found.entries].T
    np.testing.assert_allclose(found.lay_outputs(conv(x)[None]), by_windows, rtol=1e-4, atol=1e-5)


def test_a_convolution_pads_with_zeros():
    conv = Affine((3, 3, 1, 1), key=jax.random.key(0))
    kernel, image = np.asarray(conv.weight)[:, :, 0, 0], np.arange(9.0).reshape(3, 3)
    padded = np.pad(image, 1)
    corner = np.sum(kernel * padded[:3, :3]) / 3
    np.testing.assert_allclose(conv(jnp.asarray(image[..., None], jnp.float32))[0, 0, 0], corner, rtol=1e-5)


def test_cnn5_has_four_convolutions_and_a_linear_map_over_all_pixels():
    net = ConvNet((8, 8, 3), (16,) * 4, key=jax.random.key(0), out=10)
    assert count(net) == 9 * 3 * 16 + 3 * 9 * 16 * 16 + 8 * 8 * 16 * 10
    assert net(jnp.ones((8, 8, 3))).shape == (10,)


def test_myrtle5_pools_to_one_pixel():
    net = myrtle5((32, 32, 3), (4, 8, 8, 16), key=jax.random.key(0))
    assert net.head.weight.shape == (16, 1)
    assert myrtle5((8, 8, 1), (4, 8, 8, 16), key=jax.random.key(0))(jnp.ones((8, 8, 1))).shape == (1,)


def test_wide_resnet_10_10_has_its_seven_million_weights():
    shapes = jax.eval_shape(lambda key: WideResNet((32, 32, 3), key=key), jax.random.key(0))
    assert 7.3e6 < count(shapes) < 7.5e6
    assert len(shapes.blocks) == 3
    small = WideResNet((8, 8, 1), 16, 2, key=jax.random.key(0), out=3, stem=4)
    assert len(small.blocks) == 6
    assert small(jnp.ones((8, 8, 1))).shape == (3,)


def test_the_standard_parameterization_is_the_framework_default():
    net = ConvNet((8, 8, 3), (64,), key=jax.random.key(0), parameterization="standard", bias=True)
    bound = 1 / np.sqrt(27)
    assert 0.98 * bound < np.abs(net.convolutions[0].weight).max() <= bound
    assert 0 < np.abs(net.convolutions[0].bias).max() <= bound


def test_a_convolutional_network_agrees_with_torch():
    torch = pytest.importorskip("torch")
    net = ConvNet((6, 6, 2), (5, 7), key=jax.random.key(0), parameterization="standard", bias=True, pools=(0, 1))
    x = np.array(jax.random.normal(jax.random.key(1), (6, 6, 2)))
    z = torch.tensor(x).permute(2, 0, 1)[None]
    for conv, pools in zip(net.convolutions, net.pools, strict=True):
        weight = torch.tensor(np.array(conv.weight)).permute(3, 2, 0, 1)
        z = torch.relu(torch.nn.functional.conv2d(z, weight, torch.tensor(np.array(conv.bias)), padding=1))
        z = torch.nn.functional.avg_pool2d(z, 2) if pools else z
    flat = z[0].permute(1, 2, 0).reshape(-1).numpy()
    np.testing.assert_allclose(net(jnp.asarray(x)), flat @ net.head.weight + net.head.bias, rtol=1e-4, atol=1e-5)


def test_pooling_takes_means_and_leaves_an_odd_row_out():
    image = jnp.arange(15.0).reshape(5, 3, 1)
    np.testing.assert_allclose(halve(image)[:, :, 0], [[2.0], [8.0]])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda key: MLP(3, 2, key=key, parameterization="torch"), "'standard', 'ntk', 'mup'; got 'torch'"),
        (lambda key: MLP(3, 2, key=key, parameterization="mup", bias=True), "bias must be False"),
        (lambda key: ConvNet((8, 8, 1), (4,), key=key, parameterization="torch"), "'standard', 'ntk'; got 'torch'"),
        (lambda key: ConvNet((8, 8, 1), (4, 4), key=key, pools=(1,)), "2 convolutions"),
        (lambda key: ConvNet((8, 8, 1), (), key=key), "channels must have one entry for each convolution"),
        (lambda key: ConvNet((8, 0, 1), (4,), key=key), "each of shape must be an integer, at least 1"),
        (lambda key: ConvNet((8, 8, 1), (4,), key=key)(jnp.ones((8, 8, 3))), r"one example of shape \(8, 8, 1\)"),
        (lambda key: WideResNet((8, 8, 1), 11, 1, key=key), "10, 16, 22"),
        (lambda key: WideResNet((8, 8, 1), 10, 1, key=key)(jnp.ones((8, 8, 3))), r"image \(height, width, 1\)"),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_wrong_use_gets_one_clear_line(build, message):
    with pytest.raises(ValueError, match=message):
        build(jax.random.key(0))
