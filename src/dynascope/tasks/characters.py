"""Text as characters: which one comes next?"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from dynascope.tasks import files
from dynascope.tasks.files import DataNotFoundError


class Characters(NamedTuple):
    """A text as numbers: places in its own sorted alphabet."""

    tokens: Int[np.ndarray, " n"]
    alphabet: tuple[str, ...]


def characters(text: str | Path = "tiny_shakespeare") -> Characters:
    """The characters of a text that `read_text` finds."""
    return encoded(read_text(text))


def read_text(text: str | Path = "tiny_shakespeare") -> str:
    """A file of UTF-8 text (gzipped if its name ends in .gz), or the name of one in $DYNASCOPE_DATA."""
    path = Path(text).expanduser()
    if not path.is_file():
        path = files.find(f"{text}.txt.gz") or files.find(f"{text}.txt")
    if path is None:
        there = f"put {Path(text).stem}.txt.gz into {files.folders()[0]}, or give the path of a text file"
        raise DataNotFoundError(f"no text '{text}'; {there}")
    raw = path.read_bytes()
    try:
        return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text (byte {error.start} is {error.object[error.start]:#04x})") from None
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} cannot be unpacked ({error})") from None


def encoded(text: str) -> Characters:
    """The text's characters by their places in its alphabet."""
    alphabet, tokens = np.unique(np.frombuffer(text.encode("utf-32-le"), np.uint32), return_inverse=True)
    return Characters(tokens.astype(np.int32), tuple(chr(code) for code in alphabet))


class NextToken(eqx.Module):
    """Mean cross-entropy of the next token, at every place of windows that begin anywhere in the text.

    The text stays on the device; a batch is drawn from a key, inside the compiled step.
    """

    tokens: Int[Array, " n"]
    context: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        if self.context < 1 or not jnp.issubdtype(self.tokens.dtype, jnp.integer):
            given = f"{self.tokens.dtype} and context={self.context}"
            raise ValueError(f"next tokens need whole numbers and a context of 1 or more; got {given}")
        if len(self.tokens) <= self.context:
            raise ValueError(f"the text has {len(self.tokens)} tokens; windows of {self.context} + 1 do not fit")

    def sample(self, key: PRNGKeyArray, count: int) -> Int[Array, "count window"]:
        """Windows of context + 1 tokens."""
        starts = jax.random.randint(key, (count, 1), 0, len(self.tokens) - self.context)
        return self.tokens[starts + jnp.arange(self.context + 1, dtype=starts.dtype)]

    def loss(self, model: Callable[[Any], Any], windows: Int[Array, "count window"]) -> Float[Array, ""]:
        scores = jax.nn.log_softmax(jax.vmap(model)(windows[:, :-1]))
        return -jnp.mean(jnp.take_along_axis(scores, windows[:, 1:, None], axis=2))
