"""The search for the fastest kernel: begun only if the steps cost more, and not repeated."""

from __future__ import annotations

import json
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import dynascope as ds
from dynascope.dynamics.backends import tuning
from dynascope.dynamics.backends.kernel import Kernel
from dynascope.dynamics.backends.ordinary import Ordinary
from dynascope.dynamics.program import Members, Program, Progress
from dynascope.dynamics.schedule import Request, make_schedule

SCHEDULE = make_schedule(Request(40, 10), "step", {"loss": ds.probes.loss()}, stop=None, since=None)
PROGRESS = Progress({"weights": jax.numpy.zeros(3)}, {}, jax.numpy.asarray(-1), {})


class Trial(Program):
    """A program that tells which backend ran, and takes as long as it is told."""

    def steps_text(self, members, state, steps):
        members.settings.check()
        return "a program"

    def take_steps(self, members, state, steps):
        members.settings.tried.append(self.backend)
        return members.settings.check()

    def advance(self, members, progress, first, end):
        members.settings.tried.append("first kernel")
        return members.settings.check()


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """The file in which findings are kept; a clean memory."""
    monkeypatch.setattr(tuning, "_FOUND", {})
    monkeypatch.setattr(tuning, "_spent", {})
    monkeypatch.setattr(tuning, "_file", lambda: tmp_path / "found.json")
    return tmp_path / "found.json"


@pytest.fixture
def long_run(monkeypatch):
    """Every run is worth a search."""
    monkeypatch.setattr(tuning, "_is_cheap", lambda *given: False)


def seconds_by(rule, monkeypatch, members):
    """Let the time that a backend takes be `rule(backend)`."""
    monkeypatch.setattr(tuning, "_seconds", lambda run: (run(), rule(members.settings.tried[-1]))[1])


def members(error=None):
    def check():
        if error is not None:
            raise error

    return Members(SimpleNamespace(tried=[], check=check), None)


def tuned(kernel, given):
    program = Trial(lambda: None, {}, SCHEDULE.ticks, {}, {}, None, True, tuple(jax.devices()), 3, kernel)
    return tuning.tune(program, given, PROGRESS, SCHEDULE, 1).backend


def test_a_kernel_that_does_not_compile_gives_way_to_the_ordinary_loop(kept):
    broken = members(NotImplementedError("no rule for this operation\nsecond line"))
    backend = tuned(Kernel(4), broken)
    assert backend == Ordinary()
    assert backend.description == "ordinary: the kernel does not compile (no rule for this operation)"
    with pytest.raises(ValueError, match="no rule for this operation"):
        tuned(Kernel(4, required=True), broken)


def test_the_fastest_kernel_is_found_once(kept, long_run, monkeypatch):
    given = members()
    seconds_by(lambda each: float(abs(each.warps - 2)) if isinstance(each, Kernel) else 8.0, monkeypatch, given)
    assert tuned(Kernel(4, warps=1), given) == Kernel(4, warps=2)
    monkeypatch.setattr(tuning, "_FOUND", {})
    assert tuned(Kernel(4, warps=1), given) == Kernel(4, warps=2)
    warps = [each.warps if isinstance(each, Kernel) else None for each in given.settings.tried]
    assert warps == [1, 2, 4, 2, 4, None]  # four warps are slower: eight are not tried; then with split products


def test_if_the_ordinary_loop_is_faster_it_runs_unless_the_chip_is_required(kept, long_run, monkeypatch):
    given = members()
    seconds_by(lambda each: 1 / each.warps if isinstance(each, Kernel) else 0.01, monkeypatch, given)
    assert tuned(Kernel(4), given).description == "ordinary: measured to be faster than the kernel"
    assert tuned(Kernel(4, required=True), given) == Kernel(4, warps=16, required=True)


def test_if_no_kernel_runs_none_is_tried_again_in_this_process(kept, long_run, monkeypatch):
    given = members()
    seconds_by(lambda each: RuntimeError("too much shared memory"), monkeypatch, given)
    for _ in range(2):
        reason = tuned(Kernel(4, warps=16), given).description
        assert reason == "ordinary: the kernel does not compile (too much shared memory)"
        assert len(given.settings.tried) == 4  # 8 and 16 warps, both kinds of products
    assert not kept.exists()  # another process, with more memory, may do better


@pytest.mark.parametrize("text", ["[]", "null", "{", '{"KEY": 99}', '{"KEY": -1}', '{"KEY": 1.5}', '{"KEY": null}'])
def test_a_damaged_file_of_found_kernels_is_measured_again(text, kept, long_run, monkeypatch):
    given = members()
    seconds_by(lambda each: float(each.warps) if isinstance(each, Kernel) else 9.0, monkeypatch, given)
    assert tuned(Kernel(4, warps=2), given) == Kernel(4, warps=1)
    (key,) = json.loads(kept.read_text())
    kept.write_text(text.replace("KEY", key))
    monkeypatch.setattr(tuning, "_FOUND", {})
    assert tuned(Kernel(4, warps=2), given) == Kernel(4, warps=1)
    assert json.loads(kept.read_text()) == {key: 0}


def test_a_full_device_is_no_reason_against_the_kernel():
    def full():
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes")

    with pytest.raises(jax.errors.JaxRuntimeError, match="Out of memory"):
        tuning._seconds(full)


def test_a_short_run_takes_the_first_kernel_and_searches_for_no_other(kept):
    given = members()
    assert tuned(Kernel(4), given) == Kernel(4)
    assert given.settings.tried == ["first kernel", "first kernel"]  # compiled, then timed
    assert not kept.exists()


def test_runs_that_are_repeated_begin_the_search_once_they_have_cost_as_much(kept, monkeypatch):
    clock = iter(np.cumsum([0.0, 1.0, 0.0, 0.9] * 9))  # compiles in one second, an interval of ten steps in 0.9
    monkeypatch.setattr(tuning.time, "perf_counter", lambda: float(next(clock)))
    given = members()
    monkeypatch.setattr(tuning, "_search", lambda *given: 0)
    found = [tuned(Kernel(4, warps=4), given) for _ in range(4)]
    assert found == [Kernel(4, warps=4)] * 2 + [Kernel(4, warps=2)] * 2  # 3.6 s each, a search takes 10 s
