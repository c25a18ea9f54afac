"""Every probe on the architectures that people train: transformers of four families, a ResNet with BatchNorm."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
import torch

import dynascope as ds
from dynascope.torch.objective import Objective


def language_model(family):
    transformers = pytest.importorskip("transformers", reason="the optional extra `lm` is not installed")
    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    configs = {
        "gpt2": lambda: transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=20, n_positions=16),
        "llama": lambda: transformers.LlamaConfig(**small, num_key_value_heads=1, vocab_size=20),
        "neox": lambda: transformers.GPTNeoXConfig(**small, vocab_size=20),
        "bert": lambda: transformers.BertConfig(**small, vocab_size=20, max_position_embeddings=16),
    }
    kind = "AutoModelForMaskedLM" if family == "bert" else "AutoModelForCausalLM"
    return getattr(transformers, kind).from_config(configs[family]())


class ResNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 6, 3, padding=1)
        self.block = torch.nn.Sequential(
            torch.nn.BatchNorm2d(6), torch.nn.ReLU(), torch.nn.Conv2d(6, 6, 3, padding=1), torch.nn.BatchNorm2d(6)
        )
        self.readout = torch.nn.Linear(6, 4)

    def forward(self, x):
        x = self.first(x)
        x = torch.relu(x + self.block(x))
        return self.readout(x.mean(dim=(2, 3)))


def every_probe(x, apply=None):
    """Probes by their public names, some in two forms; those that depend on the model are added to it."""
    return {
        "loss": ds.torch.loss(),
        "sharpness": ds.torch.sharpness(),
        "sharpness:adam": ds.torch.sharpness(preconditioned=True, every=[2]),
        "top_eigenvalues": ds.torch.top_eigenvalues(2),
        "hessian_density": ds.torch.hessian_density(np.linspace(-1, 1, 3), 0.5, draws=2, degree=4),
        "batch_sharpness": ds.torch.batch_sharpness(3, draws=2),
        "gradient_noise": ds.torch.gradient_noise(rows=2),
        "weight_ranks": ds.torch.weight_ranks(),
        "weight_ranks:change": ds.torch.weight_ranks(change=True),
        "singular_values": ds.torch.singular_values(3),
        "weight_updates": ds.torch.weight_updates(),
        "displacement": ds.torch.displacement(),
        "learning_rate": ds.torch.learning_rate(),
        "kernel_norm": ds.torch.kernel_norm(x, apply=apply),
        "kernel_distance": ds.torch.kernel_distance(x, apply=apply),
    }


def is_complete(probes, *, but=()):
    """Whether every public probe is among these."""
    public = {
        name
        for name, value in vars(ds.torch).items()
        if inspect.isfunction(value) and inspect.signature(value).return_annotation == "Probe"
    }
    return {name.partition(":")[0] for name in probes} == public - set(but)


def train(model, loss, data, probes):
    """Two steps of Adam under a watch; a step of the loss is one of training, with its mode and its gradients."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    watch = ds.torch.Watch(model, loss, data, probes, optimizer=optimizer)
    objective = Objective(model, loss, data)
    for step in range(3):
        buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
        watch.record(step)
        assert all(torch.equal(buffer, buffers[name]) for name, buffer in model.named_buffers())
        optimizer.zero_grad()
        vector = objective.gradient()
        sizes = [p.numel() for p in model.parameters()]
        for parameter, part in zip(model.parameters(), vector.split(sizes), strict=True):
            parameter.grad = part.view_as(parameter)
        optimizer.step()
    return watch.trace


def finite_all_along(trace, probes):
    """Every value is a number, with four exceptions: nothing has changed at the first recording; noise may hide the
    gradient, whose parts are numbers then; small matrices have fewer singular values than others; an embedding that is
    the same for all examples has no CKA."""
    for name in probes:
        values = trace["gradient_noise_variance" if name == "gradient_noise" else name]
        if name in ("weight_updates", "weight_ranks:change"):
            values = values[1:]
        elif name == "singular_values":
            values = values[..., 0]
        elif name == "cka":
            alike_for_all = ("position_embeddings", "token_type_embeddings")
            values = values[:, [not module.endswith(alike_for_all) for module in values.module.values]]
        assert np.isfinite(values).all(), name


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt2", "llama", "neox", "bert"])
def test_a_language_model(family):
    model = language_model(family).train()
    ids = torch.randint(20, (6, 7))

    def last_logits(model, ids):
        return model(input_ids=ids).logits[:, -1, :4]

    def of_embeddings(model, vectors):
        return model(inputs_embeds=vectors).logits[:, -1, :4]

    probes = every_probe(ids[:3], last_logits) | {
        "cka": ds.torch.cka("*"),
        "activations": ds.torch.activations("*mlp*" if family != "bert" else "*output*"),
        "attention_entropy": ds.torch.attention_entropy(),
        "agop_alignment": ds.torch.agop_alignment("previous", torch.randn(3, 7, 16), apply=of_embeddings),
    }
    assert is_complete(probes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        implementation = model.config._attn_implementation
        trace = train(model, None, {"input_ids": ids, "labels": ids}, probes)
    assert trace.attrs.get("failed") is None
    assert model.config._attn_implementation == implementation
    finite_all_along(trace, probes)
    assert trace.attention_entropy.shape == (3, 2, 2)
    assert np.all((trace.attention_entropy > 0) & (trace.attention_entropy < np.log(7)))
    assert trace.loss[-1] < trace.loss[0]
    assert trace.displacement[-1] > 0


def test_a_network_with_the_statistics_of_batches():
    model = ResNet().train()
    data = torch.randn(8, 3, 6, 6), torch.randint(4, (8,))
    probes = every_probe(data[0][:4]) | {
        "agop_alignment": ds.torch.agop_alignment(),
        "cka": ds.torch.cka("block.*"),
        "activations": ds.torch.activations("block.*"),
    }
    assert is_complete(probes, but=["attention_entropy"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace = train(model, "cross-entropy", data, probes)
    assert trace.attrs.get("failed") is None
    finite_all_along(trace, probes)
    assert trace.module.values.tolist() == ["block.0", "block.1", "block.2", "block.3"]


def test_the_entropy_of_attention_is_that_of_its_weights():
    layer = torch.nn.TransformerEncoderLayer(8, 2, 6, batch_first=True, dropout=0.0)
    model = torch.nn.Sequential(layer, torch.nn.Flatten(), torch.nn.Linear(32, 3))
    x = torch.randn(5, 4, 8)
    watch = ds.torch.Watch(model, "mse", (x, torch.randn(5, 3)), {"attention": ds.torch.attention_entropy()}, rows=2)
    watch.record(0)
    weights = layer.self_attn(x, x, x, average_attn_weights=False)[1].detach().double()
    expected = -(weights * weights.log()).sum(-1).mean(dim=(0, 2))
    np.testing.assert_allclose(watch.trace.attention[0, 0], expected, rtol=1e-5)
