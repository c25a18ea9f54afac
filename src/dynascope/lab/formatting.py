"""Numbers, shares, durations and dates for a reader. Plain text: the templates escape it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeGuard

SYSTEMS = {
    "concept": "Concept learning",
    "edge": "The edge of stability",
    "linearity": "Transition to linearity",
    "catapult": "Catapults",
    "features": "Feature learning",
    "rank": "Gradual rank increase",
    "graphs": "Graphs",
    "recall": "Recall",
    "observed": "Observed trainings",
}
"""The systems by the prefix of their experiments' ids; any other system is named after its prefix."""

GPU = "H200"
"""The key under which a cost has the seconds of the full setting on one such GPU."""
LONGEST_LIST = 8
DAY = 24 * 60 * 60
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SPOKEN = {"nan": "NaN", "inf": "∞", "-inf": "−∞"}


def system(experiment_id: str) -> str:
    """The name of the system that an experiment belongs to."""
    prefix = experiment_id.split(".")[0]
    return SYSTEMS.get(prefix, prefix.replace("-", " ").replace("_", " ").capitalize())


def number(value: int | float) -> str:
    """`value` to four digits, with a true minus sign and powers of ten: 0.05, 20 000, 3.2 × 10⁻¹²."""
    if not math.isfinite(value):
        return _SPOKEN[str(float(value))]
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e6):
        text = str(int(value)) if abs(value) < 10_000 else f"{int(value):,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
        return text.replace("-", "−")
    if 1e-3 <= abs(value) < 1e6:
        text = f"{value:.4g}"
        text = f"{value:.0f}" if "e" in text else text
        return text.replace("-", "−")
    mantissa, exponent = f"{value:.3e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".").replace("-", "−")
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPT)
    return power if mantissa == "1" else f"{mantissa} × {power}"


def count(number: int, one: str, several: str = "") -> str:
    """A number of things: 1 run, 2 runs. `several` is the plural if it is not `one` and an s."""
    return f"{number} {one if number == 1 else several or one + 's'}"


def share(value: Mapping[str, Any]) -> str:
    """A share of outcomes with its interval: 51 % [41, 61] of 100. More members give more decimals."""
    of = value.get("of")
    decimals = 0 if not isinstance(of, int) or of <= 200 else 1 if of <= 20_000 else 2
    text = f"{100 * value['share']:.{decimals}f} %"
    if value.get("interval"):
        low, high = value["interval"]
        text += f" [{100 * low:.{decimals}f}, {100 * high:.{decimals}f}]"
    return text + (f" of {number(of)}" if of is not None else "")


def errata(counts: Iterable[Mapping[str, int]]) -> str:
    """Errata by kind: 12 errors, 3 gaps, 20 misprints, 4 on programs."""
    total = sum((Counter(count) for count in counts), Counter())
    names = {"error": "error", "gap": "gap", "misprint": "misprint", "program": "on a program"}
    plural = {"error": "errors", "gap": "gaps", "misprint": "misprints", "program": "on programs"}
    return ", ".join(f"{total[k]} {(names if total[k] == 1 else plural)[k]}" for k in names if total[k])


def is_share(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether a claim's value is a share in the form of `claims.share_of`."""
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("share"), int | float)
        and set(value) <= {"share", "interval", "of"}
    )


def is_table(value: object) -> bool:
    """Whether a value needs rows: a mapping that is no share, or a list that holds one."""
    if isinstance(value, Mapping):
        return not is_share(value)
    return isinstance(value, Sequence) and not isinstance(value, str) and any(is_table(item) for item in value)


def text(value: object) -> str:
    """Any JSON value on one line: numbers rounded, shares with intervals, long lists cut in the middle."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, str):
        return _SPOKEN.get(value, value)
    if is_share(value):
        return share(value)
    if isinstance(value, Mapping):
        return "; ".join(f"{label(key)} {text(item)}" for key, item in value.items())
    values = value if isinstance(value, Iterable) else [value]
    items = [f"({text(item)})" if isinstance(item, list | tuple) else text(item) for item in values]
    if len(items) > LONGEST_LIST:
        return f"{', '.join(items[:4])}, …, {', '.join(items[-2:])} ({len(items)} values)"
    return ", ".join(items) if items else "none"


def label(key: str) -> str:
    """A key as words."""
    return str(key).replace("_", " ")


def duration(seconds: object) -> str:
    """Seconds in a suitable unit."""
    if not isinstance(seconds, int | float):
        return "–"
    if seconds < 10:
        return f"{seconds:.2g} s" if seconds < 1 else f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds >= 2 * DAY:
        return f"{seconds / DAY:.0f} days"
    minutes, rest = divmod(round(seconds), 60)
    high, low, units = (minutes, rest, ("min", "s")) if minutes < 60 else (*divmod(minutes, 60), ("h", "min"))
    return f"{high} {units[0]}" + (f" {low} {units[1]}" if low else "")


def needs_gpu(seconds: object) -> bool:
    """Whether a setting with this cost, in seconds on two CPU cores, is one for a GPU: more than a day."""
    return isinstance(seconds, int | float) and seconds > DAY


def costs(cost: Mapping[str, int | float]) -> str:
    """The stated costs of an experiment: quick 12 s, full 116 days on two CPU cores; full 7 min on one H200."""
    if not cost:
        return "not stated"
    on_cpu = {name: seconds for name, seconds in cost.items() if name != GPU}
    times = ", ".join(f"{name} {duration(seconds)}" for name, seconds in on_cpu.items())
    large = " and ".join(name for name, seconds in on_cpu.items() if needs_gpu(seconds))
    on_gpu = f"full {duration(cost[GPU])} on one {GPU}" if GPU in cost else f"{large} is for a GPU" if large else ""
    return f"{times} on two CPU cores" + (f"; {on_gpu}" if on_gpu else "")


def timestamp(stamp: str | None) -> str:
    """An ISO time stamp to the minute."""
    try:
        time = datetime.fromisoformat(stamp or "")
    except ValueError:
        return stamp or "–"
    return f"{time:%Y-%m-%d %H:%M}" + (" UTC" if time.utcoffset() is not None and not time.utcoffset() else "")


def age(seconds: int | float) -> str:
    """The time since an event, to one unit: just now, 5 min, 3 h, 12 d."""
    if seconds < 60:
        return "just now"
    for unit, length, most in (("min", 60, 60), ("h", 3600, 48), ("d", 86400, math.inf)):
        if seconds < length * most:
            return f"{int(seconds / length)} {unit}"
    return "–"


def size(count: int) -> str:
    """Bytes in a suitable unit: 980 B, 12 kB, 3.4 MB."""
    if count < 1000:
        return f"{count} B"
    value, units = count / 1000, ["kB", "MB", "GB", "TB"]
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.1f} {units[0]}" if value < 9.95 else f"{value:.0f} {units[0]}"
