"""A setting: what a run is, what it is called, how it is typed, and which failures are on record for it."""

from __future__ import annotations

import pickle
import shlex
from pathlib import Path

import numpy as np
import pytest

from dynascope.lab.errors import UsageError
from dynascope.lab.execute import execute
from dynascope.lab.fields import FieldError, assignment, once
from dynascope.lab.report.about import about
from dynascope.lab.report.pages import RunPage
from dynascope.lab.setting import MAIN, Setting
from dynascope.lab.store import Store

TOY = f"{Path(__file__).parent / 'toy.py'}::toy.walk"


@pytest.mark.parametrize(
    ("options", "kind", "command"),
    [
        ({}, "full", ""),
        ({"preset": "full"}, "full", ""),
        ({"preset": "quick"}, "quick", " --preset quick"),
        ({"changes": {"steps": 20}}, "quick", " --preset quick"),
        ({"preset": "quick", "changes": {"steps": 50}}, "full", ""),
        ({"changes": {"steps": 21}}, "full, changed", " --set steps=21"),
        ({"preset": "quick", "changes": {"members": 5}}, "quick, changed", " --preset quick --set members=5"),
        ({"control": True}, "control of full", " --control"),
        ({"changes": {"drift": 0}}, "control of full", " --control"),
        ({"changes": {"drift": 0, "steps": 20}}, "control of quick", " --preset quick --control"),
        ({"preset": "quick", "control": True, "seed": 3}, "control of quick", " --preset quick --control --seed 3"),
        (
            {"preset": "quick", "control": True, "changes": {"members": 5}},
            "control of quick, changed",
            " --preset quick --control --set members=5",
        ),
        ({"control": True, "changes": {"drift": 0.5}}, "full, changed", " --set drift=0.5"),
        ({"sweep": True, "changes": {"note": "two words"}}, "point of a sweep", " --set 'note=two words'"),
    ],
)
def test_the_same_fields_are_the_same_setting_however_they_are_asked_for(walk, options, kind, command):
    setting = Setting.parse(walk, **options)
    assert (setting.kind, setting.command) == (kind, f"dynascope run toy.py::toy.walk{command}")
    assert read(setting.command) == (setting.fields, setting.seed)


def read(command: str) -> tuple[dict, int]:
    """The fields and the seed that a command stands for."""
    words = shlex.split(command)[3:]
    option = {name: words[words.index(name) + 1] for name in ("--preset", "--seed") if name in words}
    changes = once((assignment(words[k + 1]) for k, word in enumerate(words) if word == "--set"), "--set")
    again = Setting.parse(
        TOY,
        preset=option.get("--preset"),
        control="--control" in words,
        changes=changes,
        seed=int(option.get("--seed", 0)),
    )
    return again.fields, again.seed


def test_the_python_of_a_setting_makes_it_again(monkeypatch: pytest.MonkeyPatch):
    setting = Setting.parse("edge.product", preset="quick", control=True, seed=3)
    told = []
    monkeypatch.setattr(
        "dynascope.lab.execute.execute", lambda setting: told.append(setting) or (_ for _ in ()).throw(KeyError)
    )
    with pytest.raises(KeyError):
        exec(compile(setting.python, "python", "exec"), {})
    assert told[0].digest == setting.digest


def test_every_mistake_is_one_line(walk):
    with pytest.raises(FieldError) as caught:
        Setting.parse(walk, changes={"steps": 0, "drift": "x"})
    assert list(caught.value.lines) == ["steps", "drift"]
    for seed in (-1, 2**32, True, 1.5, "3"):
        with pytest.raises(FieldError, match=r"^toy\.walk: seed must be an integer from 0 to 4294967295; got "):
            Setting.parse(walk, seed=seed)
    assert Setting.parse(walk, seed=np.int64(3)).seed == 3
    with pytest.raises(UsageError, match="has no preset 'quikc'"):
        Setting.parse(walk, preset="quikc")


def test_the_digest_is_of_the_fields_the_seed_and_the_data(walk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    digest = Setting.parse(walk).digest
    assert digest == Setting.parse(walk, preset="full").digest == Setting.parse(walk, sweep=True).digest
    assert digest != Setting.parse(walk, seed=1).digest
    monkeypatch.setenv("DYNASCOPE_DATA", str(tmp_path))
    monkeypatch.setattr(walk, "data_sets", lambda self: ("mine",))
    with pytest.raises(UsageError, match=r"^toy\.walk: .*mine\.npz"):
        _ = Setting.parse(walk).digest
    x = np.ones((2, 3))
    np.savez(tmp_path / "mine.npz", x_train=x, y_train=x[:, 0], x_test=x, y_test=x[:, 0])
    assert Setting.parse(walk).digest != digest


def test_a_setting_travels_to_another_process_by_its_address(walk):
    setting = Setting.parse(walk, preset="quick", changes={"members": 3}, seed=7, sweep=True)
    there = pickle.loads(pickle.dumps(setting))
    assert there == setting
    assert there.digest == setting.digest
    assert TOY.encode() in pickle.dumps(setting), "its class has another module there"


def test_what_is_on_record_depends_on_the_setting(walk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(walk, "known_failures", {"end": "everywhere", "quick/climbs": "there", "full/climbs": "here"})
    assert Setting.parse(walk).known_failures == {"end": "everywhere", "climbs": "here"}
    assert Setting.parse(walk, changes={"steps": 20}).known_failures == {"end": "everywhere", "climbs": "there"}
    assert Setting.parse(walk, changes={"steps": 21}).known_failures == {"end": "everywhere"}
    assert list(Setting.parse(walk, control=True, changes={"steps": 21}).known_failures) == [MAIN]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"preset": "quick"},
        {"preset": "quick", "control": True, "changes": {"steps": 15}},
        {"changes": {"note": "x"}},
    ],
)
def test_a_stored_run_gives_its_setting_back_and_the_report_agrees(walk, store: Store, options):
    setting = Setting.parse(walk, **options, seed=2)
    stored = execute(setting, store, draw=False)
    again = Setting.of_run(stored, walk)
    assert again is not None
    assert (again.kind, again.command, again.digest) == (setting.kind, setting.command, stored.digest)
    page = RunPage(stored, about("toy.walk", lambda _: walk, stored.manifest))
    gone = RunPage(stored, about("toy.walk", lambda _: None, stored.manifest))
    assert page.kind == gone.kind == stored.manifest["kind"] == setting.kind
    assert page.control == gone.control == setting.control
    assert stored.manifest["command"] == setting.command
    assert stored.manifest["claims"]["news"] == [], "of a control the main claim must fail, also of a changed one"


def test_a_run_whose_fields_are_no_more_still_has_a_kind(walk, store: Store, monkeypatch: pytest.MonkeyPatch):
    stored = execute(Setting.parse(walk, preset="quick"), store, draw=False)
    monkeypatch.setitem(stored.config, "gone", 1)
    assert Setting.of_run(stored, walk) is None
    assert RunPage(stored, about("toy.walk", lambda _: walk, stored.manifest)).kind == "quick"


def test_a_sweep_prints_a_command_like_any_run(walk):
    from dynascope.lab.sweeps.plan import plan

    asked = plan(walk, {"steps": [5, 6]}, base={"note": "two words"}, preset="quick", control=True, seeds=2)
    options = "--preset quick --control --grid steps=5,6 --set 'note=two words' --seeds 2"
    assert asked.command == f"dynascope sweep toy.py::toy.walk {options}"
    assert asked.setting(3).kind == "point of a sweep"
    assert (asked.setting(3).seed, asked.setting(3).experiment.steps) == (1, 6)
