"""Tiny random models of each architecture, and a tokenizer of whole words. They need the extra `lm`."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from dynascope.lm import LanguageModel

ARCHITECTURES = ("GPT-2", "GPT-NeoX", "Phi-3", "Llama")


class Words:
    """A tokenizer: a word with the space before it is a token, and so is each part of a word with hyphens."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def __call__(self, text: str) -> dict[str, list[int]]:
        parts = re.findall(r" ?\w+|[^\w ]", text)
        return {"input_ids": [self.known.setdefault(part, len(self.known)) for part in parts]}

    def decode(self, tokens: Any, **_: Any) -> str:
        names = {number: part for part, number in self.known.items()}
        return "".join(names.get(int(token), " ?") for token in tokens)


def _tiny(architecture: str, **changes: Any) -> Any:
    """A model of three layers of width 32 with random weights."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
    shared = {"num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if architecture == "GPT-2":
            given = {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_inner": 48, "bos_token_id": 1, "eos_token_id": 2}
            model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**{"vocab_size": 64, **given, **changes}))
        elif architecture == "GPT-NeoX":
            config = transformers.GPTNeoXConfig(**{"vocab_size": 64, **sizes, **changes})
            model = transformers.GPTNeoXForCausalLM(config)
        elif architecture == "Phi-3":
            config = transformers.Phi3Config(**{"vocab_size": 64, **sizes, **shared, **changes})
            model = transformers.Phi3ForCausalLM(config)
        else:
            config = transformers.LlamaConfig(**{"vocab_size": 64, **sizes, **shared, **changes})
            model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4.0) if weight.ndim > 1 else None
    return model


@pytest.fixture
def tiny() -> Callable[..., Any]:
    """Makes tiny models of transformers."""
    return _tiny


@pytest.fixture
def made() -> Callable[..., LanguageModel]:
    """Makes tiny language models with a tokenizer."""
    return lambda architecture, **changes: LanguageModel(_tiny(architecture, **changes), Words())


@pytest.fixture(params=ARCHITECTURES)
def language_model(request: pytest.FixtureRequest) -> LanguageModel:
    """A tiny model of each architecture."""
    return LanguageModel(_tiny(request.param), Words())
