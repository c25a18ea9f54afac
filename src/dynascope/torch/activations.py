"""Probes of the inside of a PyTorch model: representations by the names of modules, attention."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dynascope import checks
from dynascope.probes.descriptions import describe_probe
from dynascope.probes.probe import Coords, Every, Probe, probe
from dynascope.torch.snapshot import Snapshot
from dynascope.torch.undisturbed import undisturbed
from dynascope.torch.weights import ranks_of

Modules = str | Sequence[str]
"""Names of modules, or patterns such as "transformer.h.*.mlp"."""


def cka(features: Modules | Callable[[torch.nn.Module], Tensor], *, to: str = "first", every: Every = None) -> Probe:
    """How alike representations are to those of another time of the same training: linear CKA, between 0 and 1.

    It does not change under rotations and scalings of a representation (Kornblith et al. 2019).

    Args:
        features: Names of modules, or patterns of names, whose outputs on the data are compared; or a function from
            the model to a representation, `(n, ...)`.
        to: "first" or "previous" recording; or "last", the trained model, when checkpoints are replayed.
        every: The cadence, in steps; None follows the recordings.

    Returns:
        A probe with the dimension `module`; without it for a function.
    """
    checks.one_of("to", to, ("first", "previous", "last"))
    named = not callable(features)
    if named:
        checks.texts("features", features, "names of modules, or a function of the model")

    def represent(snapshot: Snapshot, model: torch.nn.Module | None = None) -> dict[str, Tensor]:
        if callable(features):
            with torch.no_grad():
                return {"": features(snapshot.model if model is None else model)}
        return snapshot.features(find_modules(snapshot.model, features), model)

    def start(snapshot: Snapshot) -> dict[str, Tensor]:
        if to != "last":
            return represent(snapshot)
        if snapshot.last is None:
            raise ValueError('to="last" needs the trained model: replay checkpoints, or give Watch(..., last=)')
        with undisturbed(snapshot.last, training=snapshot.model.training):
            return represent(snapshot, snapshot.last)

    def measure(snapshot: Snapshot, other: dict[str, Tensor]) -> tuple[Any, dict[str, Tensor]]:
        now = represent(snapshot)
        values = [linear_cka(now[name], other[name]) for name in now]
        return np.array(values) if named else np.float64(values[0]), now if to == "previous" else other

    def labels(snapshot: Snapshot) -> Coords:
        return {} if callable(features) else {"module": list(represent(snapshot))}

    return describe_probe(
        _Compared(measure, ("module",) if named else (), labels, every, start, wants_last=to == "last"), "cka"
    )


@dataclass(frozen=True, eq=False)
class _Compared(Probe[dict[str, Tensor]]):
    """A probe that may need the trained model."""

    wants_last: bool = False


def linear_cka(x: Tensor, y: Tensor) -> float:
    """Linear centered kernel alignment of two representations of the same examples, `(n, ...)`."""
    a, b = _centered(x), _centered(y)
    if len(a) != len(b):
        raise ValueError(f"representations must have one row for each example; got {len(a)} and {len(b)} rows")
    if len(a) < min(a.shape[1], b.shape[1]):  # n x n matrices are smaller
        left, right = a @ a.T, b @ b.T
        return float((left * right).sum() / (left.norm() * right.norm()))
    return float((a.T @ b).square().sum() / ((a.T @ a).norm() * (b.T @ b).norm()))


def _centered(values: Tensor) -> Tensor:
    flat = values.detach().cpu().double().reshape(len(values), -1)
    flat = flat - flat.mean(dim=0)
    size = flat.abs().max()
    return flat / torch.where(size > 0, size, torch.nan)


def activations(modules: Modules, *, every: Every = None) -> Probe:
    """The effective number of directions of the outputs of modules.

    Args:
        modules: Names of modules, or patterns of names. Axes of an output after the first are laid end to end.
        every: The cadence, in steps; None follows the recordings.

    Returns:
        A probe with the dimension `module`: the effective rank, exp of the entropy of the shares σ²/Σσ² of the
        centered outputs; further entries: `stable`, their stable rank; `sparsity`, the share of outputs that are 0;
        `norm`, the root mean square of an example's output.
    """

    checks.texts("modules", modules, "names of modules, or patterns of names")

    def measure(snapshot: Snapshot) -> Mapping[str, Any]:
        rows = []
        for found in snapshot.features(find_modules(snapshot.model, modules)).values():
            flat = found.reshape(len(found), -1)
            values = torch.linalg.svdvals((flat - flat.mean(dim=0)).float()).numpy()
            stable, effective, _ = ranks_of(values)
            norm = float(flat.double().square().sum(dim=1).mean().sqrt())
            rows.append((effective, stable, float((flat == 0).double().mean()), norm))
        return dict(zip(("value", "stable", "sparsity", "norm"), np.array(rows).T, strict=True))

    def labels(snapshot: Snapshot) -> Coords:
        return {"module": list(snapshot.features(find_modules(snapshot.model, modules)))}

    return describe_probe(
        probe(measure, dict.fromkeys(("value", "stable", "sparsity", "norm"), ("module",)), coords=labels, every=every),
        "activations",
    )


def attention_entropy(*, every: Every = None) -> Probe:
    """The entropy of attention, in nats, the mean over examples and positions: 0 if every position attends to one.

    For models of Hugging Face transformers, and for `torch.nn.MultiheadAttention`.

    Args:
        every: The cadence, in steps; None follows the recordings.

    Returns:
        A probe with the dimensions `layer` and `head`; a layer with fewer heads than others has NaN behind them.
    """

    def measure(snapshot: Snapshot) -> np.ndarray:
        sums: list[Tensor] = []
        counts: list[int] = []
        with _attention(snapshot.model, sums, counts):
            snapshot.objective.forward(snapshot.model)
        if not sums:
            raise ValueError(
                "attention_entropy needs a model of transformers that returns attentions, or with "
                "torch.nn.MultiheadAttention"
            )
        width = max(len(entry) for entry in sums)
        table = np.full((len(sums), width), np.nan)
        for row, total, count in zip(table, sums, counts, strict=True):
            row[: len(total)] = total.numpy() / count
        return table

    return describe_probe(probe(measure, ("layer", "head"), every=every), "attention_entropy")


@contextmanager
def _attention(model: torch.nn.Module, sums: list[Tensor], counts: list[int]) -> Iterator[None]:
    """Collect the summed entropies of each layer's heads in every evaluation inside."""

    def add(place: int, weights: Tensor) -> None:
        shares = weights.detach().float()
        entropy = -(shares * torch.where(shares > 0, shares, 1).log()).sum(dim=-1)  # (n, heads, positions)
        while len(sums) <= place:
            sums.append(torch.zeros(shares.shape[1], dtype=torch.float64, device="cpu"))
            counts.append(0)
        sums[place] += entropy.sum(dim=(0, 2)).cpu().double()
        counts[place] += entropy.shape[0] * entropy.shape[2]

    with ExitStack() as stack:
        layers = [module for module in model.modules() if isinstance(module, torch.nn.MultiheadAttention)]
        for place, layer in enumerate(layers):
            ask = layer.register_forward_pre_hook(_ask_for_weights, with_kwargs=True)
            stack.callback(ask.remove)
            keep = layer.register_forward_hook(lambda module, inputs, output, at=place: add(at, output[1]))  # pyright: ignore[reportArgumentType]
            stack.callback(keep.remove)
        family: Any = model  # of transformers
        if not layers and hasattr(family, "config") and hasattr(family, "set_attn_implementation"):
            before = family.config._attn_implementation
            family.set_attn_implementation("eager")
            stack.callback(family.set_attn_implementation, before)
            stack.callback(model.register_forward_pre_hook(_ask_for_attentions, with_kwargs=True).remove)

            def collect(module: Any, inputs: Any, output: Any) -> None:
                for place, weights in enumerate(getattr(output, "attentions", None) or ()):
                    add(place, weights)

            stack.callback(model.register_forward_hook(collect).remove)
        yield


def _ask_for_weights(module: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return args, {**kwargs, "need_weights": True, "average_attn_weights": False}


def _ask_for_attentions(module: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return args, {**kwargs, "output_attentions": True}


def find_modules(model: torch.nn.Module, modules: Modules) -> list[str]:
    """The names of modules that match, in the order of the model."""
    patterns = [modules] if isinstance(modules, str) else list(modules)
    names = [name for name, _ in model.named_modules() if name]
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"modules must match a module, such as {', '.join(names[:3])}; got {pattern!r}")
    return [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
