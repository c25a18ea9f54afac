"""Criteria: functions that turn numbers into claims. A threshold is written once; it gives `expected`, the verdict and
`measured`.

Values may be numbers, arrays or labeled arrays. A comparison with NaN is false, so a NaN makes a claim fail; no values
at all make it fail too. Every criterion also takes `source` (the place in the document), `printed` (the words of the
document, if they are judged as they stand), `shown` (further numbers for the reader), `post_hoc` (the choices made
after seeing results, and why) and `seeds`.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import TypedDict, Unpack

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from dynascope.lab.claims import Claim, claim, share_of, shares_agree

Number = float | int
Values = ArrayLike | xr.DataArray


class About(TypedDict, total=False):
    """The arguments that every criterion takes besides its numbers."""

    source: str
    printed: str
    shown: Mapping[str, object]
    post_hoc: str
    seeds: int


def every(id: str, statement: str, flags: Values, *, cases: int = 1, **about: Unpack[About]) -> Claim:
    """Every flag is true, and there are at least `cases` of them. A flag that `DataArray.where` left out (NaN) does not
    count."""
    return share(id, statement, flags, 1.0, cases=cases, **about)


def share(id: str, statement: str, flags: Values, at_least: Number, *, cases: int = 1, **about: Unpack[About]) -> Claim:
    """At least this share of the flags is true, and there are at least `cases` of them."""
    values = np.asarray(flags, float).ravel()
    values = values[~np.isnan(values)]
    wanted = "share = 1" if at_least == 1 else f"share ≥ {at_least:g}"
    wanted += f", of ≥ {cases}" if cases > 1 else ""
    holds = len(values) >= cases and values.mean() >= at_least
    return claim(id, statement, measured=share_of(values), expected=wanted, holds=holds, **about)


def same_shares(
    id: str,
    statement: str,
    found: Mapping[str, Values],
    known: Mapping[str, tuple[float, int]],
    *,
    confidence: float = 0.999,
    **about: Unpack[About],
) -> Claim:
    """The shares of true flags agree with shares `(share, trials)` measured elsewhere, under the same names: the score
    test of equal proportions, all names together at this confidence."""
    flags = {name: np.asarray(found[name], bool).ravel() for name in known}
    z = NormalDist().inv_cdf(1 - (1 - confidence) / (2 * max(len(known), 1)))
    agree = [shares_agree(int(flags[name].sum()), flags[name].size, *known[name], z=z) for name in known]
    wanted = {name: f"{share:g} of {of}" for name, (share, of) in known.items()}
    measured = {name: share_of(values) for name, values in flags.items()}
    return claim(
        id,
        statement,
        measured=measured,
        expected={"at": f"{100 * confidence:g} %", **wanted},
        holds=len(known) > 0 and all(agree),
        **about,
    )


def below(
    id: str,
    statement: str,
    values: Values,
    largest: Number | None = None,
    *,
    median: Number | None = None,
    **about: Unpack[About],
) -> Claim:
    """All values are below `largest`, their median below `median`."""
    return _compare(id, statement, values, "<", {"largest": largest, "median": median}, about)


def above(
    id: str,
    statement: str,
    values: Values,
    smallest: Number | None = None,
    *,
    median: Number | None = None,
    **about: Unpack[About],
) -> Claim:
    """All values are above `smallest`, their median above `median`."""
    return _compare(id, statement, values, ">", {"smallest": smallest, "median": median}, about)


def within(id: str, statement: str, values: Values, low: Number, high: Number, **about: Unpack[About]) -> Claim:
    """All values lie from `low` to `high`, both included."""
    numbers = _numbers(values)
    holds = numbers.size > 0 and np.all((numbers >= low) & (numbers <= high))
    measured = _spread(values, numbers, ("smallest", "largest"))
    return claim(id, statement, measured=measured, expected=f"{low:g} to {high:g}", holds=holds, **about)


def agrees(
    id: str,
    statement: str,
    values: Values,
    expected: Values,
    *,
    relative: Number | None = None,
    absolute: Number | None = None,
    **about: Unpack[About],
) -> Claim:
    """All values equal `expected` (a number, or an array that broadcasts) to a `relative` or an `absolute` error."""
    if (relative is None) == (absolute is None):
        raise TypeError(f"agrees takes exactly one of relative= and absolute=; got {relative} and {absolute}")
    difference = np.abs(np.subtract(values, expected))
    difference = difference if relative is None else difference / np.abs(expected)
    limit = relative if absolute is None else absolute
    numbers = _numbers(difference)
    holds = numbers.size > 0 and np.all(numbers <= limit)
    if np.ndim(expected) == 0:
        bound = f"± {limit:.3g}" if relative is None else f"to {100 * relative:.3g} %"
        wanted, measured = (
            f"{float(np.asarray(expected)):.6g} {bound}",
            _spread(values, _numbers(values), ("smallest", "largest")),
        )
    else:
        what = "difference" if relative is None else "relative difference"
        wanted = f"{what} ≤ {limit:g}"
        measured = {f"largest {what}": float(numbers.max()) if numbers.size else np.nan}
    return claim(id, statement, measured=measured, expected=wanted, holds=holds, **about)


def falling(id: str, statement: str, values: Values, *, along: str | None = None, **about: Unpack[About]) -> Claim:
    """The values fall strictly along a dimension (the last by default), in every row of the others."""
    return _monotone(id, statement, values, along, -1, about)


def rising(id: str, statement: str, values: Values, *, along: str | None = None, **about: Unpack[About]) -> Claim:
    """The values rise strictly along a dimension (the last by default), in every row of the others."""
    return _monotone(id, statement, values, along, 1, about)


def slope(
    id: str, statement: str, values: xr.DataArray, along: str, *, low: Number, high: Number, **about: Unpack[About]
) -> Claim:
    """The values are a power of the coordinate `along`, with an exponent from `low` to `high`: the slope of a straight
    line through their logarithms, in every row of the other dimensions."""
    logs = np.log(values.transpose(..., along).values.reshape(-1, values.sizes[along]))
    slopes = np.polyfit(np.log(values[along].values.astype(float)), logs.T, 1)[0]
    return within(id, statement, slopes if values.ndim > 1 else slopes[0], low, high, **about)


def _compare(
    id: str, statement: str, values: Values, sign: str, limits: Mapping[str, Number | None], about: About
) -> Claim:
    given = {name: limit for name, limit in limits.items() if limit is not None}
    if not given:
        raise TypeError(f"{id}: give a limit, {' or '.join(limits)}")
    numbers = _numbers(values)
    found = {name: _STATISTICS[name](numbers) if numbers.size else np.nan for name in given}
    holds = all(found[name] < limit if sign == "<" else found[name] > limit for name, limit in given.items())
    alone = numbers.size == 1
    wanted = ", ".join(f"{'' if alone else name + ' '}{sign} {limit:g}" for name, limit in given.items())
    return claim(id, statement, measured=_spread(values, numbers, tuple(given)), expected=wanted, holds=holds, **about)


def _monotone(id: str, statement: str, values: Values, along: str | None, sign: int, about: About) -> Claim:
    ordered = values.transpose(..., along) if isinstance(values, xr.DataArray) and along else values
    steps = sign * np.diff(np.asarray(ordered, float), axis=-1)
    holds = steps.size > 0 and np.all(steps > 0)
    return claim(id, statement, measured=values, expected="rising" if sign > 0 else "falling", holds=holds, **about)


_STATISTICS = {"largest": np.max, "smallest": np.min, "median": np.median}


def _numbers(values: Values) -> np.ndarray:
    return np.asarray(values, float).ravel()


def _spread(values: Values, numbers: np.ndarray, names: tuple[str, ...]) -> object:
    """The value alone, the few values, or the statistics of these names."""
    if numbers.size == 1:
        return float(numbers[0])
    if 1 < numbers.size <= 8 and np.ndim(values) == 1:
        return values
    return {name: float(_STATISTICS[name](numbers)) if numbers.size else np.nan for name in names}
