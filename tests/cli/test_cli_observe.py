"""The command `observe`: checkpoints of PyTorch and of JAX, and one line for each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest

from dynascope.lab import observations
from dynascope.lab.store import Store

JAX_FILE = """
import equinox as eqx, jax

def model(width=4):
    return eqx.nn.MLP(3, 1, width, 1, activation=jax.numpy.tanh, key=jax.random.key(0))

def odd(model, batch):
    return model.layers[0].bias

def broken():
    raise RuntimeError("no such thing\\nsecond line")

number = 3
"""
TORCH_FILE = """
import torch

def model(width=4):
    return torch.nn.Sequential(torch.nn.Linear(3, width), torch.nn.Tanh(), torch.nn.Linear(width, 1))

def data():
    return torch.ones(5, 3), torch.zeros(5, 1)

def adam(model):
    return torch.optim.Adam(model.parameters())
"""
pytestmark = pytest.mark.usefixtures("as_a_user")


@pytest.fixture
def files(dynascope, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A file with functions, data and three checkpoints of JAX in the current folder."""
    monkeypatch.setattr(observations, "_draw", lambda trace: {})
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    (tmp_path / "net.py").write_text(JAX_FILE)
    x = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
    np.savez(tmp_path / "data.npz", x=x, y=x[:, :1])
    (tmp_path / "mine").mkdir()
    model = eqx.nn.MLP(3, 1, 4, 1, activation=jax.numpy.tanh, key=jax.random.key(0))
    for step in (0, 10, 20):
        scaled = jax.tree.map(lambda leaf: leaf * (1 + step / 10) if eqx.is_array(leaf) else leaf, model)  # noqa: B023
        eqx.tree_serialise_leaves(tmp_path / f"mine/step_{step}.eqx", scaled)
    return tmp_path


COMMAND = ("observe", "mine", "--model", "net.py:model", "--data", "data.npz")


def test_checkpoints_of_equinox_are_measured_and_stored(dynascope, files: Path):
    status, out, lines = dynascope(
        *COMMAND, "--probe", "loss", "--probe", "ranks=weight_ranks(change=True)", "--probe", "kernel_distance(x=2)",
        "--learning-rate", "0.5",
    )  # fmt: skip
    assert (status, lines) == (0, [])
    assert out.startswith("observed.mine  3 recordings, steps 0 to 20\n")
    stored = Store("runs").latest()[0]["observed.mine"]
    measured = stored.measured()
    assert {"loss", "ranks", "ranks_effective", "kernel_distance"} <= set(measured)
    assert measured.step.values.tolist() == [0, 10, 20]
    assert stored.config["loss"] == "mse"
    assert stored.config["learning_rate"] == 0.5
    assert stored.manifest["command"].startswith("dynascope observe mine --model net.py:model")
    status, out, _ = dynascope("runs", "observed.*")
    assert "observed.mine" in out
    assert "3 recordings" in out


def test_arrays_by_name_or_in_order_are_checkpoints_too(dynascope, files: Path):
    model = eqx.nn.MLP(3, 1, 4, 1, activation=jax.numpy.tanh, key=jax.random.key(0))
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(model, eqx.is_array))
    by_name = {jax.tree_util.keystr(place, simple=True, separator="."): np.asarray(leaf) for place, leaf in leaves}
    for name in ("named", "ordered"):
        (files / name).mkdir()
    np.savez(files / "named/7.npz", **by_name)  # pyright: ignore[reportArgumentType]
    np.savez(files / "ordered/7.npz", *by_name.values())
    for name in ("mine", "named", "ordered"):
        status, *_ = dynascope("observe", name, *COMMAND[2:], "--json")
        assert status == 0
    losses = [Store("runs").latest()[0][f"observed.{name}"].measured().loss.values for name in ("named", "ordered")]
    assert losses[0] == losses[1] == Store("runs").latest()[0]["observed.mine"].measured().loss.values[0]


def test_checkpoints_of_pytorch_are_measured(dynascope, files: Path):
    torch = pytest.importorskip("torch", reason="the optional extra `torch` is not installed")
    (files / "torchnet.py").write_text(TORCH_FILE)
    (files / "torched").mkdir()
    for step in (0, 100):
        net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1))
        torch.save(net.state_dict(), files / f"torched/step_{step}.pt")
    (files / "torched/step_200.pt").write_bytes(b"nothing")
    ask = ("observe", "torched", "--model", "torchnet.py:model", "--data", "torchnet.py:data", "--name", "wide")
    status, out, lines = dynascope(*ask, "--set", "width=2", "--probe", "sharpness", "--json")
    assert status == 0
    assert len(lines) == 1
    assert "the checkpoint of step 200 is left out (step_200.pt cannot be read: " in lines[0]
    found = json.loads(out)
    assert (found["id"], found["recordings"]) == ("observed.wide", "2 recordings, steps 0 to 100")
    status, out, lines = dynascope(*ask)
    assert (status, out) == (2, "")
    assert (
        "one that fits the model; all of them were left out; replay: the checkpoint of step 0 is left out (0.weight is"
        in lines[0]
    )


def test_a_preconditioned_probe_takes_the_optimizer_of_the_checkpoints(dynascope, files: Path):
    torch = pytest.importorskip("torch", reason="the optional extra `torch` is not installed")
    (files / "torchnet.py").write_text(TORCH_FILE)
    (files / "torched").mkdir()
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    net(torch.ones(5, 3)).square().mean().backward()
    optimizer.step()
    kept = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(kept, files / "torched/step_1.pt")
    words = ("--model", "torchnet.py:model", "--data", "torchnet.py:data", "--optimizer", "torchnet.py:adam")
    status, _, lines = dynascope("observe", "torched", *words, "--probe", "adam=sharpness(preconditioned=True)")
    assert (status, lines) == (0, [])
    assert np.isfinite(Store("runs").latest()[0]["observed.torched"].measured().adam).all()
    status, _, lines = dynascope(*COMMAND, "--optimizer", "net.py:model")
    assert status == 2
    assert "--optimizer is for models of PyTorch" in lines[0]


MISTAKES = {
    ("observe", "nowhere", *COMMAND[2:]): "the checkpoints must be a folder; there is no nowhere",
    (*COMMAND, "--probe", "sharpnes"): "--probe sharpnes: no probe 'sharpnes'; did you mean 'sharpness'?",
    (*COMMAND, "--probe", "sharpness("): "--probe sharpness( must be a probe, such as sharpness or",
    (*COMMAND, "--probe", "sharpness(evry=3)"): "sharpness has no option 'evry'; did you mean 'every'?",
    (*COMMAND, "--probe", "sharpness(every=0)"): "--probe sharpness(every=0): ValueError: every must be",
    (*COMMAND, "--probe", "sharpness(every=open)"): "options must be numbers, strings or lists of these",
    (*COMMAND, "--probe", "top_eigenvalues"): "top_eigenvalues needs k, as in 'top_eigenvalues(k=...)'",
    (*COMMAND, "--probe", "loss", "--probe", "loss()"): "share a name: give one as NAME=PROBE",
    (*COMMAND, "--learning-rate", "0"): "--learning-rate must be positive; got 0",
    (
        *COMMAND,
        "--name",
        "My Net",
    ): "name must be lower-case words with dots and dashes, such as digits-cnn; got 'My Net'",
    (*COMMAND, "--loss", "mze"): "--loss must be mse, cross-entropy or FILE:FUNCTION; got 'mze'; did you mean 'mse'?",
    (*COMMAND, "--loss", "net.py:odd"): "the loss must return one real number, shape (); got (4,)",
    (*COMMAND, "--set", "widht=3"): "--model net.py:model: it fails (TypeError:",
    (
        *COMMAND,
        "--set",
        "width=3",
    ): "models must hold at least one model; got none; observe: the model of step 0 is left out",
    (*COMMAND[:3], "net.py", *COMMAND[4:]): "--model must be FILE:FUNCTION, such as train.py:make_model; got 'net.py'",
    (*COMMAND[:3], "nat.py:model", *COMMAND[4:]): "--model nat.py:model: there is no file nat.py",
    (*COMMAND[:3], "net.py:modle", *COMMAND[4:]): "the file has no function 'modle'; did you mean 'model'?",
    (*COMMAND[:3], "net.py:number", *COMMAND[4:]): "the file has no function 'number'",
    (*COMMAND[:3], "net.py:broken", *COMMAND[4:]): "--model net.py:broken: it fails (RuntimeError: no such thing)",
    (*COMMAND[:5], "nothing.npz"): "--data nothing.npz: there is no such file",
    (*COMMAND[:5], "net.py"): "--data must be FILE:FUNCTION",
    (
        *COMMAND[:4],
        "--probe",
        "kernel_distance",
    ): "--probe kernel_distance needs examples: give --data with arrays x and y",
    (*COMMAND[:4], "--probe", "loss"): "this probe needs a loss",
    COMMAND[:2]: "Missing option '--model'",
}


@pytest.mark.parametrize("words", MISTAKES, ids=lambda words: " ".join(words[2:]))
def test_a_mistake_is_one_line_and_stores_nothing(dynascope, files: Path, words: tuple[str, ...]):
    status, out, lines = dynascope(*words)
    assert (status, out) == (2, "")
    assert len(lines) == 1
    assert MISTAKES[words] in lines[0]
    assert not (files / "runs").exists()


def test_a_store_that_is_a_file_is_one_line(dynascope, files: Path):
    (files / "stored").write_text("")
    status, _, lines = dynascope(*COMMAND, "--runs", "stored")
    assert (status, lines) == (2, ["dynascope: the run store must be a folder; got the file stored"])
