"""The additional packages that pretrained language models need: those of the extra `lm`."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

PACKAGES = ("torch", "transformers", "gguf", "accelerate")


def missing_extra() -> str:
    """A line that names the packages to install for pretrained language models; "" if nothing is missing."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    return _advice(missing) if missing else ""


def package(name: str) -> Any:
    """A package of the extra, imported when it is first needed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(_advice([name])) from error


def _advice(missing: list[str]) -> str:
    verb = "is" if len(missing) == 1 else "are"
    return f"{' and '.join(missing)} {verb} missing; install with: pip install 'dynascope[lm]'"
