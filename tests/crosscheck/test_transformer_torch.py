"""The same transformer blocks in PyTorch, with the same weights."""

import jax
import numpy as np
import pytest

from dynascope.models import Transformer

torch = pytest.importorskip("torch", reason="the optional extra `torch` is not installed")


def tensor(array):
    return torch.tensor(np.array(array, dtype=np.float64))


def in_torch(trunk, dim, heads, hidden):
    """`torch.nn.TransformerEncoder` with the weights of the trunk."""
    pre_norm = trunk.norm is not None
    layer = torch.nn.TransformerEncoderLayer(
        dim, heads, hidden, dropout=0.0, activation="gelu", batch_first=True, norm_first=pre_norm, dtype=torch.float64
    )
    last = torch.nn.LayerNorm(dim, dtype=torch.float64) if pre_norm else None
    net = torch.nn.TransformerEncoder(layer, len(trunk.blocks), norm=last, enable_nested_tensor=False)
    for there, here in zip(net.layers, trunk.blocks, strict=True):
        flat = [
            np.concatenate(list(w), axis=1).T for w in (here.attention.query, here.attention.key, here.attention.value)
        ]
        there.self_attn.in_proj_weight.data = tensor(np.concatenate(flat))
        there.self_attn.in_proj_bias.data.zero_()
        there.self_attn.out_proj.weight.data = tensor(np.concatenate(list(here.attention.output), axis=1))
        there.self_attn.out_proj.bias.data = tensor(here.attention.bias)
        for name, linear in (("linear1", here.up), ("linear2", here.down)):
            getattr(there, name).weight.data = tensor(linear.weight.T)
            getattr(there, name).bias.data = tensor(linear.bias)
    return net


@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_a_transformer_computes_what_torch_s_does(pre_norm, causal):
    trunk = Transformer(12, 2, 3, 20, key=jax.random.key(0), pre_norm=pre_norm, causal=causal)
    x = jax.random.normal(jax.random.key(1), (5, 7, 12))
    mask = torch.nn.Transformer.generate_square_subsequent_mask(7, dtype=torch.float64) if causal else None
    with torch.no_grad():
        theirs = in_torch(trunk, 12, 3, 20)(tensor(x), mask=mask)
    np.testing.assert_allclose(jax.vmap(trunk)(x), theirs.numpy(), rtol=2e-4, atol=2e-5)
