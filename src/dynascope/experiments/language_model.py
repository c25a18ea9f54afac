"""The size of a language model, for the experiments that train one."""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveInt

from dynascope.lab.experiment import Fields


class Size(Fields):
    """The size of a GPT: by default GPT-2's."""

    dim: PositiveInt = 768
    depth: PositiveInt = 12
    heads: PositiveInt = 12
    hidden: PositiveInt = 3072
    compute: Literal["float32", "bfloat16"] = "float32"
