"""A watch puts what it recorded into the store, and never ends the training."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import dynascope as ds
from dynascope.lab import observations
from dynascope.lab.store import Store

pytestmark = pytest.mark.usefixtures("as_a_user")


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(observations, "_draw", lambda trace: {})
    model = torch.nn.Linear(3, 2)
    return ds.torch.Watch(model, "mse", (torch.randn(6, 3), torch.randn(6, 2)))


def test_a_watch_that_goes_on_replaces_what_it_has_saved(watch, tmp_path: Path):
    watch.record(0)
    first = watch.save("mine", learning_rate=0.1, store=tmp_path)
    watch.record(5)
    second = watch.save("mine", store=tmp_path)
    assert first.folder == second.folder
    (only,) = Store(tmp_path).runs()[0]
    assert only.measured().equals(watch.trace)
    assert only.config == {"model": "Linear", "loss": "mse", "rows": 6, "parameters": 8}
    assert only.manifest["device"].startswith("cpu")
    assert "torch" in only.manifest["versions"]


def test_what_cannot_be_saved_is_a_warning_and_the_training_goes_on(watch, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.warns(RuntimeWarning, match=r"watch\.save stores nothing: trace must have a variable recorded"):
        assert watch.save("mine", store=tmp_path) is None
    watch.record(0)
    with pytest.warns(
        RuntimeWarning, match=r"watch\.save stores nothing: the run store must be a folder; got the file"
    ):
        assert watch.save("mine", store=tmp_path / "file") is None
    with pytest.warns(RuntimeWarning, match=r"watch\.save stores nothing: name must be lower-case words"):
        assert watch.save("My Net", store=tmp_path) is None
    watch.record(1)
    assert watch.steps.tolist() == [0, 1]
