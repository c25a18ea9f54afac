"""Values as JSON text, the same text for the same value, and digests of it."""

from __future__ import annotations

import json
import math
from typing import Any

from dynascope.lab.files import checksum


def plain_json(value: object) -> Any:
    """The value with infinities and NaN as words, which every JSON reader accepts and pydantic reads as numbers."""
    if isinstance(value, dict):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def canonical(value: object) -> str:
    """JSON that is the same text for the same value; digests are taken of it."""
    return json.dumps(plain_json(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def pretty(value: object) -> str:
    """JSON for human readers."""
    return json.dumps(plain_json(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def digest_of(value: object) -> str:
    """Twelve hex digits that identify a configuration."""
    return checksum(canonical(value).encode())[:12]
