"""Numbers of counter-examples to statements of "Transformers learn through gradual rank increase" as they are printed,
all from the linear example of `tasks.diagonal.exit_and_return`."""

from __future__ import annotations

import jax.numpy as jnp

from dynascope.tasks.diagonal import exit_and_return
from dynascope.theory.domains import check_arguments
from dynascope.theory.rank.assumptions import grows_quadratically, strict_minimum
from dynascope.theory.rank.greedy_ranks import greedy_stages


@check_arguments
def first_times(start: float) -> dict[str, float]:
    """T_1, T_2 and T_3 of Algorithm 1.

    Args:
        start: b at time 0: 0 as printed in its line 1, 1 as in Appendix C.
    """
    stages = greedy_stages(exit_and_return().loss(), 4, most=4, start=start)
    return {f"T_{k}": stage.time for k, stage in enumerate(stages) if k}


def printed_minimum() -> dict[str, float]:
    """Whether Assumption 4.4 holds (1) or not (0), as printed and as meant: at half of the first plateau, no minimum,
    for the loss itself (its least value set to 0), and on that plateau for the loss less a constant.
    """
    task = exit_and_return().loss()
    stages = greedy_stages(task, 4)
    plateau, least = stages[1].beta, stages[-1].loss
    c = strict_minimum(task, stages[1]).number / 4
    half = grows_quadratically(lambda beta: float(task(beta)) - least, plateau / 2, c)
    whole = grows_quadratically(lambda beta: float(task(beta)), plateau, c)
    return {f"half_{name}": float(holds) for name, holds in half.items()} | {
        f"plateau_{name}": float(holds) for name, holds in whole.items()
    }


def sign_convention() -> dict[str, float]:
    """The loss at u * v, if u and v are made positive as printed, and if both are multiplied by sgn(u)."""
    example = exit_and_return()
    task, u, v = example.loss(), jnp.asarray(example.u), jnp.asarray(example.v)
    points = {"own": u * v, "printed": jnp.abs(u) * jnp.abs(v), "both": jnp.abs(u) * (jnp.sign(u) * v)}
    return {name: float(task(beta)) for name, beta in points.items()}
