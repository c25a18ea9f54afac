"""The way of an ensemble through the engine stays short enough to be read."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import jax
import optax

import dynascope as ds

ENGINE = str(Path(ds.__file__).with_name("dynamics"))


def member(seed) -> ds.Descent:
    task = ds.tasks.StructuredIdentity((1.0, 2.0), 0.05, 2)
    return ds.Descent(ds.models.MLP(2, 2, key=jax.random.key(seed)), task, optax.sgd(0.1))


def test_a_compiled_ensemble_goes_through_ten_files_of_the_engine():
    files, calls = set(), set()

    def listen(frame: FrameType, event: str, argument: Any) -> None:
        here, caller = frame.f_code, frame.f_back
        if event != "call" or not here.co_filename.startswith(ENGINE):
            return
        files.add(here.co_filename)
        while caller is not None and not caller.f_code.co_filename.startswith(ENGINE):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != here.co_filename:
            calls.add((caller.f_code.co_filename, caller.f_code.co_name, here.co_filename, here.co_name))

    ds.ensemble(member, {"seed": range(8)}, steps=100)
    before = sys.getprofile()
    sys.setprofile(listen)
    try:
        ds.ensemble(member, {"seed": range(8)}, steps=100)
    finally:
        sys.setprofile(before)
    assert len(files) <= 10, sorted(files)
    assert len(calls) <= 22, sorted(calls)
