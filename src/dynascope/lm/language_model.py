"""A pretrained language model: next-token probabilities, its matrices by layer and name, and truncation of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from jaxtyping import Float

from dynascope import checks
from dynascope.geometry.truncation import rank_of
from dynascope.lm.extra import package
from dynascope.lm.layouts import Place, layout_of

KEPT = 4
"""Number of matrices whose singular vectors are kept."""


class LanguageModel:
    """A causal model of the `transformers` library with its tokenizer. Layers count from 1.

    `matrices` are the names of the matrices of a layer: "in" and "out" of the feed-forward layer, "gate" and "up" if it
    has them, "q", "k", "v" and "o" of attention (see `dynascope.lm.layouts`). The model is put into evaluation mode; no
    method changes its weights permanently.

    Args:
        model: The model of `transformers`.
        tokenizer: Its tokenizer.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        torch = package("torch")
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"model must be a causal language model of transformers; got {checks.shown(model)}")
        if not callable(tokenizer):
            raise TypeError(f"tokenizer must be a tokenizer of transformers; got {checks.shown(tokenizer)}")
        self.layout = layout_of(model)
        self.model: Any = model.eval()
        self.tokenizer: Any = tokenizer
        self.blocks = model.get_submodule(self.layout.layers)
        self._vectors: dict[tuple[int, Place], tuple[tuple[float, float], Any]] = {}

    @property
    def layers(self) -> int:
        """The number of layers."""
        return len(self.blocks)

    @property
    def matrices(self) -> tuple[str, ...]:
        """The names of the matrices of every layer."""
        return tuple(self.layout.matrices)

    def next_token_probs(self, prompts: Sequence[str], *, batch: int = 32) -> Float[np.ndarray, "prompt vocab"]:
        """The probabilities of the token after each prompt.

        Args:
            prompts: The prompts.
            batch: Number of prompts of one length at a time.
        """
        checks.whole("batch", batch, at_least=1)
        found: dict[int, np.ndarray] = {}
        for rows, ids in self.batches(prompts, batch):
            found.update(zip(rows, self.probabilities(ids), strict=True))
        return np.stack([found[row] for row in range(len(found))])

    def token_after(self, prompt: str, text: str, *, first: bool = False) -> int:
        """The token of a word after a prompt.

        Args:
            prompt: The prompt.
            text: The word, with its leading space.
            first: Take the first token if there are several; otherwise that is an error.
        """
        before, after = self.tokens(prompt), self.tokens(prompt + _string("text", text))
        added = after[len(before) :]
        if after[: len(before)] != before or not added:
            raise ValueError(f"text must follow the prompt as a word of its own; {text!r} after {prompt!r} does not")
        if len(added) > 1 and not first:
            raise ValueError(f"text must be one token after the prompt; {text!r} is {len(added)} after {prompt!r}")
        return added[0]

    def weight(self, layer: int, matrix: str) -> Float[np.ndarray, "out in"]:
        """A matrix of a layer.

        Args:
            layer: The layer, from 1.
            matrix: Its name; "in" of Llama is the gate and the up matrix, one above the other.
        """
        parts = [self._matrix(layer, place).float().cpu().numpy() for place in self._places(layer, matrix)]
        return np.concatenate(parts)

    @contextmanager
    def truncate(
        self, layer: int, matrix: str, *, rank: int | None = None, share: float | None = None
    ) -> Iterator[LanguageModel]:
        """Truncate a matrix of a layer to a lower rank inside a `with`.

        Biases stay. The truncated matrix is a new tensor: weights that are tied to the old one stay as they are, and at
        the end, also after an exception, the old tensor is restored. Singular vectors are found in float64, once for
        each matrix.

        Args:
            layer: The layer, from 1.
            matrix: The name of the matrix.
            rank: The rank. Give this or `share`.
            share: The rank as a share of the largest one (rounded down).

        Yields:
            The model.
        """
        nn = package("torch").nn
        places = self._places(layer, matrix)
        sizes = [min(self._matrix(layer, place).shape) for place in places]
        kept = [rank_of(size, rank, share) for size in sizes]
        owners = [self.blocks[layer - 1].get_submodule(place.path) for place in places]
        whole = [owner.weight for owner in owners]
        try:
            for owner, place, size, each in zip(owners, places, sizes, kept, strict=True):
                if each < size:
                    owner.weight = nn.Parameter(self._cut(layer, place, each), requires_grad=owner.weight.requires_grad)
            yield self
        finally:
            for owner, weight in zip(owners, whole, strict=True):
                owner.weight = weight

    def continuations(self, prompts: Sequence[str], *, tokens: int, until: str = "", batch: int = 8) -> list[str]:
        """The model's continuation of each prompt, by the likeliest token each time.

        Args:
            prompts: The prompts.
            tokens: The largest number of tokens to write.
            until: The text at which a continuation ends.
            batch: Number of prompts at a time, the shorter ones padded on the left.
        """
        checks.whole("tokens", tokens, at_least=1)
        checks.whole("batch", batch, at_least=1)
        torch, texts = package("torch"), _strings(prompts)
        stop = {"stop_strings": [until], "tokenizer": self.tokenizer} if _string("until", until) else {}
        options = {"max_new_tokens": tokens, "do_sample": False, "pad_token_id": 0, **stop}
        written = []
        for start in range(0, len(texts), batch):
            rows = [self.tokens(text) for text in texts[start : start + batch]]
            length = max(map(len, rows))
            ids = self._tensor([[0] * (length - len(row)) + row for row in rows])
            mask = self._tensor([[0] * (length - len(row)) + [1] * len(row) for row in rows])
            with torch.inference_mode():
                whole = self.model.generate(ids, attention_mask=mask, **options)
            for row in whole[:, length:]:
                text = self.tokenizer.decode(row, skip_special_tokens=True)
                written.append(text.partition(until)[0] if until else text)
        return written

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text, with the special ones that the tokenizer adds by itself.

        Args:
            text: The text.
        """
        return list(self.tokenizer(_string("text", text))["input_ids"])

    def batches(self, prompts: Sequence[str], batch: int = 32) -> Iterator[tuple[list[int], Any]]:
        """The indices of prompts of equal length and their tokens (b, length), so that none is padded.

        Args:
            prompts: The prompts.
            batch: The largest number of prompts at a time.
        """
        tokens = [self.tokens(prompt) for prompt in _strings(prompts)]
        if not all(tokens):
            raise ValueError(f"prompts must have a token each; {prompts[tokens.index([])]!r} has none")
        for length in sorted({len(each) for each in tokens}):
            rows = [row for row, each in enumerate(tokens) if len(each) == length]
            for start in range(0, len(rows), batch):
                chosen = rows[start : start + batch]
                yield chosen, self._tensor([tokens[row] for row in chosen])

    def probabilities(self, ids: Any) -> Float[np.ndarray, "b vocab"]:
        """The probabilities of the token after each row of tokens.

        Args:
            ids: Tokens, (b, length).
        """
        torch = package("torch")
        with torch.inference_mode():
            logits = self.model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[:, -1]
            return torch.softmax(logits.float(), -1).cpu().numpy()

    def _tensor(self, rows: list[list[int]]) -> Any:
        return package("torch").tensor(rows, device=next(self.model.parameters()).device)

    def _places(self, layer: int, matrix: str) -> tuple[Place, ...]:
        checks.whole("layer", layer, at_least=1, at_most=self.layers)
        return self.layout.matrices[checks.one_of("matrix", matrix, self.matrices)]

    def _matrix(self, layer: int, place: Place) -> Any:
        """The matrix (out, in) at a place."""
        weight = self.blocks[layer - 1].get_submodule(place.path).weight.detach()
        weight = weight.T if place.transposed else weight
        return weight if place.rows is None else weight[self._rows(place)]

    def _rows(self, place: Place) -> Any:
        rows = place.rows(self.model.config) if place.rows else None
        return package("torch").from_numpy(rows)

    def _cut(self, layer: int, place: Place, rank: int) -> Any:
        """The stored weight with the matrix at a place cut to a rank."""
        matrix, whole = self._matrix(layer, place), self.blocks[layer - 1].get_submodule(place.path).weight.detach()
        wide = matrix.double()
        tall = wide if wide.shape[0] >= wide.shape[1] else wide.T
        vectors = self._directions((layer, place), tall)[:, :rank]
        low = tall @ vectors @ vectors.T
        low = (low if tall is wide else low.T).to(whole.dtype)
        if place.rows is not None:
            full = (whole.T if place.transposed else whole).clone()
            full[self._rows(place)] = low
            low = full
        return (low.T if place.transposed else low).contiguous()

    def _directions(self, key: tuple[int, Place], tall: Any) -> Any:
        """The right singular vectors in columns, the largest first; those of the last few matrices are kept."""
        state = (float(tall.sum()), float(tall.norm()))
        if key not in self._vectors or self._vectors[key][0] != state:
            found = package("torch").linalg.eigh(tall.T @ tall)[1].flip(-1)
            for old in list(self._vectors)[: 1 - KEPT]:
                del self._vectors[old]
            self._vectors[key] = (state, found)
        return self._vectors[key][1]


def _string(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string; got {checks.shown(value)}")
    return value


def _strings(prompts: Any) -> Sequence[str]:
    if isinstance(prompts, str) or not isinstance(prompts, Sequence) or not prompts:
        raise TypeError(f"prompts must be a list of strings; got {checks.shown(prompts)}")
    return [_string("each of prompts", prompt) for prompt in prompts]
