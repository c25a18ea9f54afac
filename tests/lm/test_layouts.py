"""Which rows of a fused matrix are queries, keys and values: without PyTorch, from the sizes alone."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from dynascope.lm.layouts import LAYOUTS

CONFIG = SimpleNamespace(hidden_size=8, num_attention_heads=4, num_key_value_heads=2, intermediate_size=5)


def rows(layout: str, matrix: str) -> list[int]:
    (place,) = next(each for each in LAYOUTS if each.name == layout).matrices[matrix]
    assert place.rows is not None
    return place.rows(CONFIG).tolist()


def test_gpt2_has_queries_then_keys_then_values():
    assert [rows("GPT-2", matrix) for matrix in "qkv"] == np.arange(24).reshape(3, 8).tolist()


def test_pythia_has_the_three_of_each_head_together():
    assert rows("GPT-NeoX", "q") == [0, 1, 6, 7, 12, 13, 18, 19]
    assert rows("GPT-NeoX", "k") == [2, 3, 8, 9, 14, 15, 20, 21]
    assert rows("GPT-NeoX", "v") == [4, 5, 10, 11, 16, 17, 22, 23]


def test_phi3_has_fewer_keys_than_queries_and_the_gate_first():
    assert [len(rows("Phi-3", matrix)) for matrix in "qkv"] == [8, 4, 4]
    assert sorted(row for matrix in "qkv" for row in rows("Phi-3", matrix)) == list(range(16))
    assert rows("Phi-3", "gate") == list(range(5))
    assert rows("Phi-3", "up") == list(range(5, 10))


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_every_layout_has_the_same_names(layout):
    assert {"in", "out", "q", "k", "v", "o"} <= set(layout.matrices)
