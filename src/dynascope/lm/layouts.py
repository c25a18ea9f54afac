"""The places of the matrices of a layer in models of the `transformers` library.

| architecture | feed-forward | attention |
|---|---|---|
| GPT-2 | `c_fc`, `c_proj`, stored transposed | `c_attn` holds q, k and v one after another |
| GPT-NeoX (Pythia) | `dense_h_to_4h`, `dense_4h_to_h` | `query_key_value` holds q, k, v of head 1, of head 2, ... |
| Phi-3 | `gate_up_proj` holds gate, then up; `down_proj` | `qkv_proj` holds q, k and v one after another |
| Llama | `gate_proj`, `up_proj`, `down_proj` | `q_proj`, `k_proj`, `v_proj`, `o_proj` |

Matrices are (out, in) here, however they are stored. "in" is the input matrix of a feed-forward layer: one matrix in
GPT-2, GPT-NeoX and Phi-3 (there gate and up together), two in Llama, each truncated by itself. "out" is its output
matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynascope.checks import InputError

Rows = Callable[[Any], np.ndarray]
"""From a model's configuration to the rows of a stored matrix that belong together."""


@dataclass(frozen=True)
class Place:
    """A matrix in a layer: the submodule that holds it, and which of its rows it is."""

    path: str
    rows: Rows | None = None
    transposed: bool = False


@dataclass(frozen=True)
class Layout:
    """An architecture: the place of its layers, and those of their matrices by name."""

    name: str
    layers: str
    matrices: Mapping[str, tuple[Place, ...]]


def _part(sizes: Callable[[Any], tuple[int, ...]], number: int) -> Rows:
    """The rows of one of several parts that are stored one after another."""

    def rows(config: Any) -> np.ndarray:
        ends = np.cumsum((0, *sizes(config)))
        return np.arange(ends[number], ends[number + 1])

    return rows


def _of_heads(number: int) -> Rows:
    """The rows of q (0), k (1) or v (2) if each head has its three parts together."""

    def rows(config: Any) -> np.ndarray:
        heads, width = config.num_attention_heads, config.hidden_size
        return np.arange(3 * width).reshape(heads, 3, width // heads)[:, number].ravel()

    return rows


def _thirds(config: Any) -> tuple[int, ...]:
    return (config.hidden_size,) * 3


def _halves(config: Any) -> tuple[int, ...]:
    return (config.intermediate_size,) * 2


def _grouped(config: Any) -> tuple[int, ...]:
    """The sizes of q, k and v if several queries share a key."""
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return (config.num_attention_heads * head, *(config.num_key_value_heads * head,) * 2)


def _named(parts: str, rows: Callable[[int], Rows], path: str, transposed: bool = False) -> dict[str, tuple[Place]]:
    return {name: (Place(path, rows(number), transposed),) for number, name in enumerate(parts)}


LAYOUTS = (
    Layout(
        "GPT-2",
        "transformer.h",
        {
            "in": (Place("mlp.c_fc", transposed=True),),
            "out": (Place("mlp.c_proj", transposed=True),),
            **_named("qkv", lambda number: _part(_thirds, number), "attn.c_attn", True),
            "o": (Place("attn.c_proj", transposed=True),),
        },
    ),
    Layout(
        "GPT-NeoX",
        "gpt_neox.layers",
        {
            "in": (Place("mlp.dense_h_to_4h"),),
            "out": (Place("mlp.dense_4h_to_h"),),
            **_named("qkv", _of_heads, "attention.query_key_value"),
            "o": (Place("attention.dense"),),
        },
    ),
    Layout(
        "Phi-3",
        "model.layers",
        {
            "in": (Place("mlp.gate_up_proj"),),
            "gate": (Place("mlp.gate_up_proj", _part(_halves, 0)),),
            "up": (Place("mlp.gate_up_proj", _part(_halves, 1)),),
            "out": (Place("mlp.down_proj"),),
            **_named("qkv", lambda number: _part(_grouped, number), "self_attn.qkv_proj"),
            "o": (Place("self_attn.o_proj"),),
        },
    ),
    Layout(
        "Llama",
        "model.layers",
        {
            "in": (Place("mlp.gate_proj"), Place("mlp.up_proj")),
            "gate": (Place("mlp.gate_proj"),),
            "up": (Place("mlp.up_proj"),),
            "out": (Place("mlp.down_proj"),),
            **{name: (Place(f"self_attn.{name}_proj"),) for name in "qkvo"},
        },
    ),
)


def layout_of(model: Any) -> Layout:
    """The layout whose modules the model has: also of an architecture that is built like one of the four."""
    names = {name for name, _ in model.named_modules()}
    for layout in LAYOUTS:
        places = [place for group in layout.matrices.values() for place in group]
        if all(f"{layout.layers}.0.{place.path}" in names for place in places):
            return layout
    known = ", ".join(layout.name for layout in LAYOUTS)
    raise InputError(f"model must be built like one of {known}; got a {type(model).__name__}")
