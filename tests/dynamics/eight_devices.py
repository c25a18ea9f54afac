"""Ensembles that the tests run on their one device, and this script on eight: `python eight_devices.py FOLDER`.

The folder holds a checkpoint of one device. Here it is resumed, another is left, and the results are written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import dynascope as ds
from dynascope.dynamics import driver
from dynascope.dynamics.checkpoint import Checkpoint, as_numpy
from dynascope.dynamics.program import Program
from dynascope.lab.monitor import LabMonitor, Progress

PLAN: dict[str, Any] = {"steps": 200, "record": 20}


def member(seed, rate) -> ds.Descent:
    """Linear regression on examples of the member's own, with a key in its state; it diverges at the larger rate."""
    key = jax.random.key(seed)
    rows, noisy = jax.random.normal(key, (8, 2)), optax.chain(optax.add_noise(1e-6, 0.5, key), optax.sgd(rate))
    return ds.Descent(
        jnp.ones(2), lambda w, rows: jnp.mean((rows @ w - rows[:, 0]) ** 2), noisy,
        data=rows, batch=4, key=key, probes={"w": lambda w: w, "loss": ds.probes.loss()},
    )  # fmt: skip


def factorized(seed) -> ds.Map:
    """Its probe calls LAPACK."""
    return ds.Map(
        lambda x: 0.5 * (x + x.T), jax.random.normal(jax.random.key(seed), (3, 3)),
        probes={"values": lambda x: jnp.linalg.eigvalsh(x + x.T)},
    )  # fmt: skip


def over(seeds: int, *rates: float) -> dict[str, Any]:
    return {"seed": range(seeds), "rate": np.float32(rates or [0.05])}


def thirteen(**options: Any) -> ds.Trajectory:
    return ds.ensemble(member, over(13), **PLAN, **options)


RUNS: dict[str, Callable[[], ds.Trajectory]] = {
    "thousand": lambda: ds.ensemble(member, over(512, 0.05, 30.0), **PLAN),
    "thirteen": thirteen,
    "three": lambda: ds.ensemble(member, over(3), **PLAN),
    "one after another": lambda: thirteen(width=1),
    "dropped": lambda: thirteen(keep=False),
    "stopped": lambda: thirteen(stop=lambda snapshot: snapshot.loss() < 1e-3),
    "resumed": lambda: thirteen().resume(steps=20),
    "a member resumed": lambda: thirteen().member(seed=12, rate=0.05).resume(steps=20),
    "factorized": lambda: ds.ensemble(factorized, {"seed": range(64)}, steps=20, record=5),
}


def table(trajectory: ds.Trajectory) -> dict[str, np.ndarray]:
    """Its numbers by name: what was recorded, the state in which it ended, the devices it took, and those that hold the
    state."""
    state = jax.tree_util.tree_leaves_with_path(trajectory.state)
    held = [leaf.sharding.device_set for _, leaf in state if isinstance(leaf, jax.Array)]
    return {
        **{str(name): variable.values for name, variable in trajectory.trace.data_vars.items()},
        **{f"state{jax.tree_util.keystr(place)}": as_numpy(leaf) for place, leaf in state},
        "devices": np.asarray(trajectory.statistics["devices"]),
        "held": np.asarray(max(map(len, held), default=0)),
    }


def interrupted(run: Callable[[], Any], folder: Path, at: float = 0.6) -> None:
    """Run it until so much of it is done: what is left is in the folder."""

    def tell(progress: Progress) -> None:
        if progress.done >= at * progress.total:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt), ds.monitored_by(LabMonitor(folder, tell, keep_every=0.0)):
        run()
        raise AssertionError("it was not interrupted")


def taken_up(run: Callable[[], ds.Trajectory], folder: Path) -> tuple[ds.Trajectory, list[int]]:
    """Go on from what is in the folder; and for each batch how many recordings were done (-1: it begins anew)."""
    real, done = Checkpoint.read, []

    class Listener(LabMonitor):
        def restore(self, name: str) -> Any:
            kept = super().restore(name)
            return kept if kept is not None else done.append(-1)

    def read(*arguments: Any) -> Any:
        found = real(*arguments)
        done.append(-1 if found is None else found[0])
        return found

    Checkpoint.read = read
    try:
        with ds.monitored_by(Listener(folder, keep_every=0.0)):
            return run(), done
    finally:
        Checkpoint.read = real


@contextmanager
def small_devices(members: int) -> Iterator[list[int]]:
    """No more than so many members fit on one device; the sizes that were tried are told."""
    real, tried = Program.begin, []

    def begin(program: Program, settings: Any, rows: np.ndarray, state: Any) -> Any:
        tried.append(len(rows))
        if len(rows) > members * len(program.devices):
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")
        return real(program, settings, rows, state)

    Program.begin = begin
    try:
        yield tried
    finally:
        Program.begin = real


def main(folder: Path) -> None:
    def keep(name: str, trajectory: ds.Trajectory, **more: Any) -> None:
        np.savez(folder / f"{name}.npz", allow_pickle=False, **table(trajectory), **more)

    for name, run in RUNS.items():
        keep(name, run())
    with small_devices(1) as tried:
        keep("split", thirteen(), tried=np.asarray(tried))
    with jax.default_device(jax.devices()[3]):
        keep("on one", thirteen())
    driver.SLICE_SECONDS = 1e-9  # a slice per recording
    trajectory, done = taken_up(thirteen, folder / "one")
    keep("taken up from one", trajectory, done=np.asarray(done))
    for place in ("eight", "eight again"):
        interrupted(thirteen, folder / place)
    trajectory, done = taken_up(thirteen, folder / "eight again")
    keep("taken up from eight", trajectory, done=np.asarray(done))


if __name__ == "__main__":
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    main(Path(sys.argv[1]))
