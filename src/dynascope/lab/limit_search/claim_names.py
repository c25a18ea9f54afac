"""Which claims an experiment can make, from the code of its `judge`, so that a wrong name is refused before any run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dynascope.lab.errors import UsageError, nearest
from dynascope.lab.experiment import Experiment
from dynascope.lab.fields import shown
from dynascope.lab.fingerprint import code_of

MAIN = "main"
"""The name of the first claim, whichever it is."""
SLUG = re.compile(r"[a-z0-9][a-z0-9-]*")


def check_claim(kind: type[Experiment], claim: str) -> None:
    """Raise a `UsageError` if no text in the code that judges can be this claim's id. Ids that are composed when a run
    is judged pass if they fit; `missing_claim` is for those.

    Args:
        kind: The class of the experiment.
        claim: The id of a claim, or `main`.
    """
    code = list(code_of(kind, "judge"))
    patterns = [pattern for statement in code for pattern in _patterns(statement)]
    if claim == MAIN or not patterns or any(re.fullmatch(pattern, claim) for pattern in patterns):
        return
    raise missing_claim(kind, claim, [id for statement in code for id in _ids(statement)])


def is_named(kind: type[Experiment], claim: str) -> bool:
    """Whether the code that judges has a claim of exactly this id, though not every setting may make it.

    Args:
        kind: The class of the experiment.
        claim: The id of a claim.
    """
    return any(claim == id for statement in code_of(kind, "judge") for id in _ids(statement))


def missing_claim(kind: type[Experiment], claim: str, ids: list[str]) -> UsageError:
    """The error for a claim that an experiment does not make.

    Args:
        kind: The class of the experiment.
        claim: The name that was given.
        ids: The ids of its claims, as far as they are known.
    """
    known = sorted(dict.fromkeys(ids))
    hint = nearest(claim, known) or f"; its claims: {', '.join(known)}" * bool(known)
    return UsageError(f"{kind.id} has no claim {shown(claim)}{hint}")


def _patterns(statement: ast.stmt) -> Iterator[str]:
    """The pattern of each text in the code."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.escape(node.value)
        elif isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else None for part in node.values]
            if any(isinstance(part, str) and part.strip() for part in parts):
                yield "".join("[^ ]+" if part is None else re.escape(str(part)) for part in parts)


def _ids(statement: ast.stmt) -> Iterator[str]:
    """The first arguments of calls that pass an id and a statement, as criteria take them."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and len(node.args) >= 2 and isinstance(node.args[0], ast.Constant):
            id = node.args[0].value
            if isinstance(id, str) and SLUG.fullmatch(id):
                yield id
