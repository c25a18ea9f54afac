"""Members of ensembles: compiled-in settings are fields, numbers that vary are arguments of the call."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, dataclass_transform

from dynascope import checks


@dataclass_transform(frozen_default=True)
class Member:
    """Base of an ensemble's members. A subclass is a frozen dataclass, and its `__call__` returns a process.

    Fields are compiled in: shapes, names, options. Members with equal fields share one compiled program for as long as
    Python runs; other values compile another one. Numbers and arrays that vary are arguments of `__call__`: give them
    to `ensemble` as `over` or `fixed`.

    Raises:
        TypeError: If a field cannot be compared, as arrays cannot, or is a function made inside another one, which is
            a new one every time: the program would be compiled again at every call.

    Example:
        >>> class Learner(ds.Member):
        ...     width: int
        ...
        ...     def __call__(self, seed, learning_rate):
        ...         model = ds.models.MLP(2, 2, width=self.width, key=jax.random.key(seed))
        ...         return ds.Descent(model, task, optax.sgd(learning_rate))
        >>> ds.ensemble(Learner(width=64), {"seed": range(8), "learning_rate": [0.1, 0.2]}, steps=100)
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(frozen=True)(cls)

    def __post_init__(self) -> None:
        for field in fields(self):  # pyright: ignore[reportArgumentType]
            value = getattr(self, field.name)
            where = f"{type(self).__name__}.{field.name} is compiled in"
            try:
                hash(value)
            except TypeError:
                what = "a number, a word or a tuple of these, not"
                raise TypeError(f"{where}: it must be {what} {checks.shown(value)}; pass arrays to the call") from None
            if "<locals>" in getattr(value, "__qualname__", ""):
                raise TypeError(f"{where}: it must be a function of a module, not {checks.shown(value)}")
