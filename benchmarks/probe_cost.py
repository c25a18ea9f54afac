"""One training run with and without probes: what looking costs."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import optax

import dynascope as ds
from benchmarks.timing import cpu_seconds, tell

STEPS = 3120


class Training(eqx.Module):
    """The 4-layer network on 64 dimensions; a module, so that it is compiled once."""

    looking: bool = eqx.field(static=True)

    def __call__(self, seed: Any) -> ds.Descent:
        turn, init, draw, order = jax.random.split(jax.random.key(seed), 4)
        task = ds.tasks.StructuredIdentity((1.0, 2.0), 0.05, 64, rotation=ds.tasks.random_rotation(turn, 64))
        probes: dict[str, Any] = {
            "end": ds.probes.probe(lambda snapshot: snapshot.model.weights[0][0, 0], every=(STEPS,))
        }
        if self.looking:
            probes = {
                "output": ds.probes.output(task.test_point),
                "test_loss": task.test_loss,
                "jacobian": ds.probes.jacobian(task.test_point),
                "displacement": ds.probes.displacement(),
            }
        model, data = ds.models.MLP(64, 4, key=init), task.dataset(draw, 5000).x
        return ds.Descent(model, task, optax.sgd(0.1), data=data, batch=128, key=order, probes=probes)


def main() -> None:
    rows, base = [], 0.0
    for name, looking, record in (("no probes", False, STEPS), ("four probes, every 10th step", True, 10)):

        def job(looking: bool = looking, record: int = record) -> Any:
            return ds.ensemble(Training(looking), {"seed": [0]}, steps=STEPS, record=record).trace

        job()
        seconds = cpu_seconds(job, repeats=5)
        base = base or seconds
        rows.append({"run": name, "CPU s": round(seconds, 3), "extra": f"{100 * (seconds / base - 1):.1f} %"})
    tell(f"probes: one 4-layer d=64 training, {STEPS} steps, one thread", rows)


if __name__ == "__main__":
    main()
