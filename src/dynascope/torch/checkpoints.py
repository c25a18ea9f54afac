"""Checkpoints of PyTorch trainings on disk: finding them, their steps, and reading them."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dynascope import checks

FILES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")
WEIGHTS = ("model.safetensors", "pytorch_model.bin", "adapter_model.safetensors")
"""The names of weights in a folder of Hugging Face; large ones are in parts, with an index."""
BESIDE = ("optimizer", "scheduler", "rng_state", "scaler", "training_args")
"""Files beside the weights that are not checkpoints."""
INSIDE = ("state_dict", "model_state_dict", "model", "module", "network", "net")
"""The keys under which a file may keep the weights."""
OPTIMIZER_INSIDE = ("optimizer_state_dict", "optimizer", "optimizer_states")
STEP_INSIDE = ("global_step", "step", "iteration", "iter", "epoch")
STEP_WORDS = ("step", "iter", "checkpoint", "ckpt", "epoch")
"""The words before the step in a name, the first that is there."""


@dataclass(frozen=True)
class Checkpoint:
    """The weights of a model at one time of its training."""

    weights: Mapping[str, Tensor]
    optimizer: Mapping[str, Any] | None = None
    """The state of the optimizer, if it was kept."""
    step: int | None = None
    """The step that the file itself names."""


def find_checkpoints(where: Any) -> list[tuple[int, Path]]:
    """The checkpoints of a folder or a list with their steps, in the order of these.

    The step is the number after a word such as step, iter, checkpoint or epoch in a name, such as `step_2000.pt` or
    `checkpoint-500`, else its last number; without one, the step that the file holds. A file without a number whose
    step has a file of its own, such as `last.ckpt`, is left out.

    Args:
        where: A folder, or paths.

    Returns:
        Steps and paths, in increasing order.
    """
    paths = _in_folder(Path(where)) if isinstance(where, str | Path) else [Path(path) for path in where]
    if not paths:
        raise FileNotFoundError(f"no checkpoints in {where}: {', '.join(FILES)}, or folders with {WEIGHTS[0]}")
    numbered = [(number, path) for path in paths if (number := _number(path)) is not None]
    taken = {number for number, _ in numbered}
    others = [(_step_inside(path), path) for path in paths if _number(path) is None]
    numbered = sorted(numbered + [(step, path) for step, path in others if step not in taken])
    for (one, first), (other, second) in itertools.pairwise(numbered):
        if one == other:
            raise ValueError(
                f"{first.name} and {second.name} are both of step {one}: give a mapping from steps to paths"
            )
    return numbered


def _in_folder(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise FileNotFoundError(f"checkpoints must be a folder, a list, or a mapping from steps; there is no {folder}")
    return [
        path
        for path in sorted(folder.iterdir())
        if (path.suffix in FILES and not path.name.startswith(BESIDE)) or (path.is_dir() and _weight_files(path))
    ]


def _number(path: Path) -> int | None:
    name = path.name.removesuffix(path.suffix) if path.suffix in FILES else path.name
    for word in STEP_WORDS:
        if found := re.search(rf"{word}[a-z]*[-_=. ]?(\d+)", name, re.IGNORECASE):
            return int(found[1])
    found = re.findall(r"\d+", name)
    return int(found[-1]) if found else None


def _step_inside(path: Path) -> int:
    step = read_checkpoint(path).step
    if step is None:
        raise ValueError(f"{path.name} names no step: give a mapping from steps to paths")
    return step


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint onto the host: a state dict, safetensors, or a file of Lightning or Hugging Face.

    Files of PyTorch are read with `weights_only=True`, so that they run no code.

    Args:
        path: A file or a folder.

    Returns:
        The weights, and the state of the optimizer and the step if they are there.
    """
    path = Path(path)
    if path.is_dir():
        return _read_folder(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no checkpoint {path}")
    try:
        if path.suffix == ".safetensors":
            return Checkpoint(_read_safetensors(path))
        content = torch.load(path, map_location="cpu", weights_only=True)
    except ModuleNotFoundError:
        raise
    except Exception as error:  # damaged files raise errors of many kinds
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(f"{path.name} cannot be read: {reason}") from error
    return unpack(content, path.name)


def unpack(content: Any, name: str) -> Checkpoint:
    """The weights in the content of a PyTorch file.

    Args:
        content: A state dict, or a mapping with one among other things.
        name: The name in errors.
    """
    if not isinstance(content, Mapping):
        raise ValueError(f"{name} must hold a state dict; got {checks.shown(content)}")
    weights = next((content[key] for key in INSIDE if isinstance(content.get(key), Mapping)), content)
    weights = {key: value for key, value in weights.items() if isinstance(value, Tensor)}
    if not weights:
        raise ValueError(f"{name} must hold a state dict, maybe under {', '.join(INSIDE)}; got {checks.shown(content)}")
    optimizer = next((content[key] for key in OPTIMIZER_INSIDE if content.get(key)), None)
    optimizer = optimizer[0] if isinstance(optimizer, list) else optimizer
    step = next((content[key] for key in STEP_INSIDE if isinstance(content.get(key), int)), None)
    return Checkpoint(weights, optimizer if isinstance(optimizer, Mapping) else None, step)


def fit_names(weights: Mapping[str, Tensor], wanted: Iterable[str]) -> dict[str, Tensor]:
    """The weights under the names of a model, which may be a part of the saved model, or contain it.

    Wrappers put `module.`, `_orig_mod.` or the name of an attribute before the names of a model.

    Args:
        weights: The weights of a checkpoint.
        wanted: The names in the model's own state dict.
    """
    wanted = set(wanted)
    candidates = [dict(weights)]
    for prefix in _prefixes(weights, wanted):
        inside = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
        candidates.append(inside)
    for prefix in _prefixes(wanted, weights):
        candidates.append({prefix + name: value for name, value in weights.items()})
    return max(candidates, key=lambda found: len(wanted & found.keys()))


def _prefixes(long: Iterable[str], short: Iterable[str]) -> set[str]:
    """The prefix of a short name in a long one."""
    last = min(short, default="")
    return {name.removesuffix(last) for name in long if last and name.endswith(f".{last}")}


def _read_folder(folder: Path) -> Checkpoint:
    weights: dict[str, Tensor] = {}
    files = _weight_files(folder)
    if not files:
        raise FileNotFoundError(f"{folder} holds no {' or '.join(WEIGHTS)}")
    for file in files:
        weights |= read_checkpoint(file).weights
    kept = folder / "optimizer.pt"
    optimizer = torch.load(kept, map_location="cpu", weights_only=True) if kept.exists() else None
    state = folder / "trainer_state.json"
    step = json.loads(state.read_text())["global_step"] if state.exists() else None
    return Checkpoint(weights, optimizer, step)


def _weight_files(folder: Path) -> list[Path]:
    """The files of the weights in a folder, several if they are in parts."""
    for name in WEIGHTS:
        if (folder / name).exists():
            return [folder / name]
        index = folder / f"{name}.index.json"
        if index.exists():
            parts = sorted(set(json.loads(index.read_text())["weight_map"].values()))
            return [folder / Path(part).name for part in parts]
    return []


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        from safetensors.torch import load_file
    except ImportError:
        raise ModuleNotFoundError("files .safetensors need the package safetensors: pip install safetensors") from None
    return load_file(path)
