"""Checkpoints of every kind, and those that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import dynascope as ds

LOSSES = {"loss": ds.torch.loss(), "first": lambda model: model[0].weight[0, 0]}
pytestmark = pytest.mark.usefixtures("as_a_user")


def network():
    return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))


@pytest.fixture
def data():
    return torch.randn(12, 4), torch.randn(12, 2)


def trained(count=3):
    """The weights at a few steps, told apart by their first number."""
    states = {}
    for step in range(0, 100 * count, 100):
        torch.manual_seed(step)
        states[step] = network().state_dict()
        states[step]["0.weight"][0, 0] = step
    return states


def save_plain(folder: Path, step: int, state):
    torch.save(state, folder / f"step_{step}.pt")


def save_nested(folder: Path, step: int, state):
    torch.save({"model_state_dict": state, "epoch": step, "loss": 0.5}, folder / f"v2-{step:05d}.pth")


def save_unnumbered(folder: Path, step: int, state):
    torch.save({"state_dict": state, "global_step": step}, folder / f"{'abcdef'[step // 100]}.pt")


def save_wrapped(folder: Path, step: int, state):
    torch.save({f"_orig_mod.module.{name}": value for name, value in state.items()}, folder / f"{step}.pt")


def save_lightning(folder: Path, step: int, state):
    content = {"state_dict": {f"model.{name}": value for name, value in state.items()}, "global_step": step}
    torch.save(content, folder / f"epoch=0-step={step}.ckpt")


def save_safetensors(folder: Path, step: int, state):
    pytest.importorskip("safetensors.torch").save_file(state, folder / f"step{step}.safetensors")


def save_folder(folder: Path, step: int, state):
    inside = folder / f"checkpoint-{step}"
    inside.mkdir()
    pytest.importorskip("safetensors.torch").save_file(state, inside / "model.safetensors")
    (inside / "trainer_state.json").write_text(json.dumps({"global_step": step}))


def save_parts(folder: Path, step: int, state):
    inside = folder / f"checkpoint-{step}"
    inside.mkdir()
    place = {}
    for number, (name, value) in enumerate(state.items()):
        place[name] = f"pytorch_model-{number}.bin"
        torch.save({name: value}, inside / place[name])
    (inside / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": place}))


@pytest.mark.parametrize(
    "save",
    [
        save_plain, save_nested, save_unnumbered, save_wrapped,
        save_lightning, save_safetensors, save_folder, save_parts,
    ],
)  # fmt: skip
def test_a_folder_of_checkpoints(save, tmp_path, data):
    for step, state in trained().items():
        save(tmp_path, step, state)
    (tmp_path / "notes.txt").write_text("no checkpoint")
    torch.save({}, tmp_path / "optimizer.pt")
    model = network()
    before = model[0].weight.detach().clone()
    trace = ds.torch.replay(model, tmp_path, "mse", data, LOSSES)
    np.testing.assert_array_equal(trace.step, [0, 100, 200])
    np.testing.assert_array_equal(trace["first"], [0, 100, 200])
    assert torch.equal(model[0].weight, before)
    assert trace.attrs["left_out"] == []


def test_lists_mappings_generators_modules_and_loaders(tmp_path, data):
    states = trained()
    modules = []
    for state in states.values():
        modules.append(network())
        modules[-1].load_state_dict(state)
    for step, state in states.items():
        torch.save({"weights": state}, tmp_path / f"{step}.pt")
    paths = [tmp_path / f"{step}.pt" for step in states]
    ways = [
        (states, {}, [0, 100, 200]),
        (list(states.values()), {}, [0, 1, 2]),
        ((state for state in states.values()), {}, [0, 1, 2]),
        (modules, {}, [0, 1, 2]),
        (paths, {"load": lambda path: torch.load(path)["weights"]}, [0, 100, 200]),
        ({7: paths[0]}, {"load": lambda path: torch.load(path)["weights"]}, [7]),
    ]
    for checkpoints, options, steps in ways:
        trace = ds.torch.replay(network(), checkpoints, "mse", data, LOSSES, **options)
        assert trace.step.values.tolist() == steps
        assert trace["first"].values.tolist() == [0, 100, 200][: len(steps)]


def test_the_state_of_the_optimizer_is_that_of_the_checkpoint(tmp_path, data):
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    live = ds.torch.Watch(model, "mse", data, {"s": ds.torch.sharpness(preconditioned=True)}, optimizer=optimizer)
    for step in range(1, 4):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(data[0]), data[1]).backward()
        optimizer.step()
        live.record(step)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / f"{step}.pt")
    other = network()
    probes = {"s": ds.torch.sharpness(preconditioned=True)}
    trace = ds.torch.replay(other, tmp_path, "mse", data, probes, optimizer=torch.optim.Adam(other.parameters()))
    np.testing.assert_allclose(trace.s, live.trace.s, rtol=1e-5)


def test_tied_weights_may_be_stored_once(tmp_path):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, x):
            return self.head(self.embed(x))

    model = Tied()
    state = {"embed.weight": torch.ones(5, 3)}
    data = torch.arange(5), torch.arange(5)
    trace = ds.torch.replay(model, {0: state}, "cross-entropy", data)
    assert float(trace.loss[0]) == pytest.approx(np.log(5), rel=1e-6)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_bytes(b"not a checkpoint"), r"step 100 is left out \(100\.pt cannot be read: "),
        (lambda path: path.unlink(), "there is no checkpoint"),
        (lambda path: torch.save({"0.weight": torch.ones(2, 2)}, path), "parameters are not those"),
        (lambda path: torch.save(torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
                                 .state_dict(), path), r"0\.weight is \(5, 3\), in the model \(5, 4\)"),
        (lambda path: torch.save([1, 2], path), "must hold a state dict"),
        (lambda path: torch.save({"epoch": 3}, path), "must hold a state dict"),
        (lambda path: torch.save(network().to("meta").state_dict(), path), "it is on the device meta"),
    ],
)  # fmt: skip
def test_a_checkpoint_that_cannot_be_used_is_left_out(spoil, message, tmp_path, data):
    paths = {}
    for step, state in trained().items():
        paths[step] = tmp_path / f"{step}.pt"
        torch.save(state, paths[step])
    spoil(paths[100])
    with pytest.warns(UserWarning, match=message) as caught:
        trace = ds.torch.replay(network(), paths, "mse", data, LOSSES)
    assert len(caught) == 1
    assert "\n" not in str(caught[0].message)
    assert trace.step.values.tolist() == [0, 200]
    assert trace.attrs["left_out"] == [100]


def test_a_file_that_would_run_code_is_not_read(tmp_path, data):
    torch.save(network(), tmp_path / "1.pt")
    with pytest.warns(UserWarning, match="left out"), pytest.raises(ValueError, match="all of them were left out"):
        ds.torch.replay(network(), tmp_path, "mse", data)


@pytest.mark.parametrize(
    ("where", "message"),
    [("nowhere", "there is no .*nowhere"), (".", "no checkpoints in"), (3, "checkpoints must be a folder")],
)
def test_where_there_is_nothing(where, message, tmp_path, data):
    given = tmp_path / where if isinstance(where, str) else where
    with pytest.raises((FileNotFoundError, TypeError), match=message):
        ds.torch.replay(network(), given, "mse", data)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("step_100_loss_0.53.pt", 100),
        ("epoch=3-step=400-val_loss=0.12.ckpt", 400),
        ("epoch=3-val_loss=0.12.ckpt", 3),
        ("gpt2_iter0020000.pth", 20000),
        ("model-v2-0300.bin", 300),
    ],
)
def test_the_step_in_a_name(name, step, tmp_path, data):
    torch.save(network().state_dict(), tmp_path / name)
    torch.save({"state_dict": network().state_dict(), "global_step": step}, tmp_path / "last.ckpt")
    trace = ds.torch.replay(network(), tmp_path, "mse", data)
    assert trace.step.values.tolist() == [step]


def test_the_last_checkpoint_that_can_be_read_is_the_last(tmp_path, data):
    states = trained()
    checkpoints = {**states, 300: tmp_path / "nowhere.pt"}
    with pytest.warns(UserWarning, match="step 300 is left out"):
        trace = ds.torch.replay(network(), checkpoints, "mse", data, {"last": ds.torch.cka("0", to="last")})
    assert float(trace["last"][-1, 0]) == pytest.approx(1)


def test_two_checkpoints_of_one_step(tmp_path, data):
    for name in ("a_5.pt", "b_5.pt"):
        torch.save(network().state_dict(), tmp_path / name)
    with pytest.raises(ValueError, match=r"a_5\.pt and b_5\.pt are both of step 5"):
        ds.torch.replay(network(), tmp_path, "mse", data)
