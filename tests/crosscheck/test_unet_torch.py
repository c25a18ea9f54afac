"""The same U-Net in PyTorch, with the same weights: the network that the diffusion race runs against."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.models import UNet

torch = pytest.importorskip("torch", reason="the optional extra `torch` is not installed")
sys.path.append(str(Path(__file__).parents[2]))
unet_torch = pytest.importorskip("benchmarks.unet_torch")


def put(there, here):
    """Set a torch layer's parameters. Ours are (size, size, in, out) for convolutions, (in, out) for linear maps."""
    if hasattr(here, "gain"):
        values = {"weight": here.gain, "bias": here.offset}
    else:
        weight = np.asarray(here.weight)
        transposed = isinstance(there, torch.nn.ConvTranspose2d)
        order = (1, 0) if weight.ndim == 2 else (2, 3, 0, 1) if transposed else (3, 2, 0, 1)
        values = {"weight": weight.transpose(order), "bias": here.bias}
    for name, value in values.items():
        assert getattr(there, name).shape == np.shape(value)
        getattr(there, name).data = torch.tensor(np.array(value, np.float64))


def put_embedding(there, here):
    put(there[0], here.first)
    put(there[2], here.second)


def put_block(there, here):
    for norm, mine in zip((there.norm1, there.norm2), here.norms, strict=True):
        put(norm, mine)
    put(there.conv1, here.first)
    put(there.conv2, here.second)
    assert (here.shortcut is None) == isinstance(there.skip, torch.nn.Identity)
    if here.shortcut is not None:
        put(there.skip, here.shortcut)
    for net, mine in zip(there.vectors, here.embeddings, strict=True):
        put_embedding(net, mine)


def in_torch(model, **options):
    net = unet_torch.UNet(dropout=0.0, **options).double()
    put_embedding(net.time, model.time)
    body = model.backbone
    for there, here in ((net.stem, body.stem), (net.norm, body.last), (net.head, body.head)):
        put(there, here)
    for there, here in ((net.down, body.down), (net.up, body.up), ([net.middle], [body.middle])):
        for blocks, mine in zip(there, here, strict=True):
            for block, my in zip(blocks, mine, strict=True):
                put_block(block, my)
    for there, here in ((net.halved, body.halved), (net.doubled, body.doubled)):
        for layer, mine in zip(there, here, strict=True):
            put(layer, mine)
    for layer, mine in zip(net.entries, body.entries, strict=True):
        put_embedding(layer, mine)
    put(net.attention.norm, body.norm)
    for name in ("query", "key", "value"):
        flat = np.concatenate(list(getattr(body.attention, name)), axis=1).T
        getattr(net.attention, name[0]).weight.data = torch.tensor(flat.astype(np.float64))[..., None, None]
    out = np.concatenate(list(body.attention.output), axis=1)
    net.attention.out.weight.data = torch.tensor(out.astype(np.float64))[..., None, None]
    net.attention.out.bias.data = torch.tensor(np.array(body.attention.bias, np.float64))
    return net


@pytest.mark.parametrize(
    ("norm", "placement", "channels", "blocks"),
    [("group", "every", (8, 16), 2), ("layer", "downsampling", (4, 8, 8), 1)],
)
def test_a_unet_computes_what_torch_s_does(norm, placement, channels, blocks):
    size = {"channels": channels, "blocks": blocks, "heads": 2}
    draw = np.random.default_rng(0)
    model = jax.tree.map(
        lambda leaf: jnp.asarray(draw.normal(0.2, 1, leaf.shape) / np.sqrt(np.prod(leaf.shape[:-1])), jnp.float32),
        jax.eval_shape(
            lambda key: UNet((8, 8, 3), 4, key=key, norm=norm, groups=4, placement=placement, **size), jax.random.key(0)
        ),
    )  # no weight is zero, and nothing is compiled to draw them
    z, condition, gamma = draw.normal(size=(3, 8, 8, 3)), draw.normal(size=(3, 4)), np.array([-9.0, 1.3, 9.9])
    ours = jax.jit(jax.vmap(model))(*(jnp.asarray(x, jnp.float32) for x in (z, gamma, condition)))
    groups = 1 if norm == "layer" else 4
    net = in_torch(model, groups=groups, every=placement == "every", **size)
    with torch.no_grad():
        theirs = net(*map(torch.tensor, (z.transpose(0, 3, 1, 2), gamma, condition)))
    theirs = theirs.numpy().transpose(0, 2, 3, 1)
    assert np.abs(theirs - z).max() > 0.5
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_both_have_10_6_million_parameters():
    count = sum(parameter.numel() for parameter in unet_torch.UNet().parameters())
    shapes = jax.eval_shape(lambda key: UNet((32, 32, 3), key=key), jax.random.key(0))
    assert count == sum(leaf.size for leaf in jax.tree.leaves(shapes)) == 10_618_115
