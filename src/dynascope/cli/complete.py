"""Completion in the shell: ids, presets and fields. No experiment is imported, and no error is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import typer

Context: Any = typer.Context.__mro__[1]  # click's own class, of which typer passes an instance


def _silent(complete: Callable[[Any, str], Iterator[str]]) -> Callable[[Any, str], list[str]]:
    """Suppress messages: an error during completion is reported when the command runs."""

    def completed(ctx: Context, incomplete: str) -> list[str]:
        try:
            return [word for word in complete(ctx, incomplete) if word.startswith(incomplete)]
        except Exception:
            return []

    return completed


@_silent
def complete_id(ctx: Any, incomplete: str) -> Iterator[str]:
    """The ids; the shell completes the names of files."""
    from dynascope.lab import registry

    yield from registry.ids()


@_silent
def complete_run(ctx: Any, incomplete: str) -> Iterator[str]:
    """The stored ids and digests."""
    from dynascope.lab.store import Store

    store = Store(ctx.params.get("runs"))
    for id in store.ids():
        yield id
        yield from dict.fromkeys(folder.name.partition(".")[0] for folder in store.folders(id))


@_silent
def complete_preset(ctx: Any, incomplete: str) -> Iterator[str]:
    """The presets of the experiments named before it, and full."""
    yield from dict.fromkeys([*(name for entry in _named(ctx) for name in entry.presets), "full"])


@_silent
def complete_change(ctx: Any, incomplete: str) -> Iterator[str]:
    """The fields of the experiments named before it, each with its equals sign."""
    from dynascope.lab.outline import outline

    kinds = [kind for kind in map(outline, _named(ctx)) if kind]
    yield from dict.fromkeys(f"{name}=" for kind in kinds for name in kind.model_fields)


def _named(ctx: Any) -> list[Any]:
    from dynascope.lab import registry

    named = (ctx.params.get(name) for name in ("ids", "id", "name"))
    given = next(filter(None, named), None) or ctx.args  # if an option follows, not yet parsed
    return registry.match([given] if isinstance(given, str) else [word for word in given if word[:1] != "-"])
