"""Parsing of probes on the command line: `sharpness`, `weight_ranks(change=True)`, `ranks=weight_ranks()`."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from dynascope.lab.errors import UsageError, nearest, one_line, plain
from dynascope.probes import Probe


class ProbeText(NamedTuple):
    """A requested probe: its name in the trace, its function, and the arguments."""

    text: str
    name: str
    function: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]


def read_probe(text: str) -> ProbeText:
    """Parse a probe: a name, a call with literal arguments, or `NAME=` before either.

    Args:
        text: Such as `sharpness`, `top_eigenvalues(k=5)` or `drift=weight_ranks(change=True)`.
    """
    form = f"--probe {plain(text)} must be a probe, such as sharpness or 'top_eigenvalues(k=5)', or NAME=PROBE"
    try:
        (line,) = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(form) from None
    name = None
    if isinstance(line, ast.Assign) and len(line.targets) == 1 and isinstance(line.targets[0], ast.Name):
        name = line.targets[0].id
    elif not isinstance(line, ast.Expr):
        raise UsageError(form)
    call = line.value
    function, args, kwargs = (call.func, call.args, call.keywords) if isinstance(call, ast.Call) else (call, [], [])
    if not isinstance(function, ast.Name):
        raise UsageError(form)
    try:
        values = [ast.literal_eval(arg) for arg in args]
        named = {str(one.arg): ast.literal_eval(one.value) for one in kwargs if one.arg}
    except (ValueError, TypeError):
        raise UsageError(f"--probe {plain(text)}: options must be numbers, strings or lists of these") from None
    return ProbeText(text, name or function.id, function.id, values, named)


def read_probes(texts: Sequence[str], rooms: Sequence[ModuleType]) -> list[ProbeText]:
    """Parse all probes, and check that each is in one of the modules and has a name of its own.

    Args:
        texts: The probes as typed.
        rooms: Modules of probes.
    """
    known = {name for room in rooms for name in probes_of(room)}
    found = [read_probe(text) for text in texts]
    for one in found:
        if one.function not in known:
            hint = nearest(one.function, known) or f"; there are {', '.join(sorted(known))}"
            raise UsageError(f"--probe {plain(one.text)}: no probe {plain(one.function)!r}{hint}")
        if twice := [other for other in found if other.name == one.name and other is not one]:
            raise UsageError(
                f"--probe {plain(one.text)} and --probe {plain(twice[0].text)} share a name: give one as NAME=PROBE"
            )
    return found


def probes_of(room: ModuleType) -> dict[str, Callable[..., Probe]]:
    """The public functions of a module that return a probe."""
    functions = {name: one for name, one in vars(room).items() if inspect.isfunction(one) and name != "probe"}
    return {name: one for name, one in functions.items() if inspect.signature(one).return_annotation == "Probe"}


def make_probe(asked: ProbeText, room: ModuleType, inputs: Any) -> Probe:
    """Call the function of a probe. An argument `x` that is omitted is set to the inputs; a number takes that many of
    them.

    Args:
        asked: The probe.
        room: The module of the probe.
        inputs: The inputs of the data, one row for each example; None if there are no data.
    """
    functions = probes_of(room)
    label = f"--probe {plain(asked.text)}"
    if asked.function not in functions:
        raise UsageError(f"{label}: {asked.function} is not among the probes of {room.__name__} for this model")
    make = functions[asked.function]
    signature = inspect.signature(make)
    allowed = [name for name in signature.parameters if name != "apply"]
    for option in asked.kwargs:
        if option not in allowed:
            hint = nearest(option, allowed) or f"; it has {', '.join(allowed)}"
            raise UsageError(f"{label}: {asked.function} has no option {plain(option)!r}{hint}")
    try:
        given = signature.bind_partial(*asked.args, **asked.kwargs).arguments
    except TypeError as error:
        raise UsageError(f"{label}: {error}") from None
    x = signature.parameters.get("x")
    wanted = given.get("x")
    if x is not None and (isinstance(wanted, int) or (wanted is None and x.default is x.empty)):
        if inputs is None or isinstance(inputs, dict):
            raise UsageError(f"{label} needs examples: give --data with arrays x and y")
        given["x"] = inputs if wanted is None else inputs[:wanted]
    for name, parameter in signature.parameters.items():
        if parameter.default is parameter.empty and name not in given:
            raise UsageError(f"{label}: {asked.function} needs {name}, as in '{asked.function}({name}=...)'")
    try:
        return make(**given)
    except Exception as error:
        raise UsageError(f"{label}: {one_line(error)}") from None
