"""The geometry of an adaptive optimizer, from its state."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dynascope.torch.snapshot import Snapshot

ADAPTIVE = "Adam, AdamW, RMSprop or Adagrad"


def preconditioner(snapshot: Snapshot) -> Tensor:
    """The diagonal P by which the optimizer divides gradients, `(n,)`.

    With Adam it is (1 - beta1^t) (sqrt(v / (1 - beta2^t)) + eps), where v is the average of squared gradients; the
    first factor belongs to the average of gradients, whose bias Adam corrects (Cohen et al. 2022, Adaptive gradient
    methods at the edge of stability).

    Args:
        snapshot: A snapshot with an optimizer that has taken a step.

    Returns:
        P in the flat order of the parameters.
    """
    optimizer, objective = snapshot.optimizer, snapshot.objective
    if optimizer is None:
        raise ValueError(f"a preconditioned probe needs the optimizer: give optimizer=, {ADAPTIVE}")
    if isinstance(optimizer, torch.optim.NAdam | torch.optim.RAdam):  # whose steps have other factors
        raise ValueError(f"a preconditioned probe knows {ADAPTIVE}; got {type(optimizer).__name__}")
    named = dict(objective.model.named_parameters())
    options = {id(parameter): group for group in optimizer.param_groups for parameter in group["params"]}
    parts = []
    for name in objective.names:
        parameter = named[name]
        state = optimizer.state.get(parameter)
        if not state:
            raise ValueError(f"the optimizer must hold a state of {name}: take a step before the first recording")
        diagonal = _diagonal(state, options[id(parameter)])
        parts.append(diagonal.expand(parameter.shape).reshape(-1).to(objective.device, objective.dtype))
    return torch.cat(parts)


def _diagonal(state: dict[str, Any], group: dict[str, Any]) -> Tensor:
    if "exp_avg_sq" in state and "betas" in group:
        step = float(state["step"])
        first, second = (1 - beta**step for beta in group["betas"])
        squares = state.get("max_exp_avg_sq", state["exp_avg_sq"])
        return first * ((squares / second).sqrt() + group["eps"])
    if "square_avg" in state:
        squares = state["square_avg"] - state["grad_avg"] ** 2 if group.get("centered") else state["square_avg"]
        return squares.sqrt() + group["eps"]
    if "sum" in state:
        return state["sum"].sqrt() + group["eps"]
    raise ValueError(
        f"a preconditioned probe knows {ADAPTIVE}; this optimizer's state has {', '.join(map(str, state))}"
    )
