"""Criteria: one threshold gives the verdict, what was expected and what was measured."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from dynascope.lab.claims import Claim, claim, erratum, plain
from dynascope.lab.criteria import above, agrees, below, every, falling, rising, same_shares, share, slope, within

WIDTHS = xr.DataArray([16.0, 64.0, 256.0], dims="width", coords={"width": [16, 64, 256]})


def verdicts(*claims: Claim) -> list[bool]:
    return [one.verdict == "holds" for one in claims]


def test_every_flag_and_a_share_of_them():
    flags = np.array([True] * 19 + [False])
    assert verdicts(every("a", "", flags), share("a", "", flags, 0.95), share("a", "", flags, 0.96)) == [
        False,
        True,
        False,
    ]
    made = share("a", "", flags, 0.95)
    assert made.measured == {"share": 0.95, "interval": [0.7639, 0.9911], "of": 20}
    assert made.expected == "share ≥ 0.95"
    assert every("a", "", flags[:2], cases=3).verdict == "fails"
    assert every("a", "", flags[:3], cases=3).expected == "share = 1, of ≥ 3"


def test_flags_that_where_left_out_do_not_count():
    flags = xr.DataArray([True, False, True], dims="seed")
    assert every("a", "", flags.where([True, False, True])).verdict == "holds"
    assert every("a", "", flags.where(False)).verdict == "fails", "no flag at all shows nothing"


def test_bounds_on_the_largest_and_on_the_median():
    values = [0.01, 0.02, 0.09]
    assert verdicts(below("a", "", values, 0.1), below("a", "", values, 0.09)) == [True, False]
    made = below("a", "", np.array(values * 4), 0.1, median=0.03)
    assert made.expected == "largest < 0.1, median < 0.03"
    assert made.measured == {"largest": 0.09, "median": 0.02}
    assert below("a", "", values, 0.1, median=0.01).verdict == "fails"
    assert verdicts(above("a", "", values, 0.005), above("a", "", values, 0.01)) == [True, False]
    assert below("a", "", 0.5, 1).expected == "< 1"
    with pytest.raises(TypeError, match="a: give a limit, largest or median"):
        below("a", "", values)


@pytest.mark.parametrize("criterion", [
    lambda values: below("a", "", values, 1), lambda values: above("a", "", values, 0),
    lambda values: within("a", "", values, 0, 1), lambda values: agrees("a", "", values, 0.5, absolute=1),
    lambda values: rising("a", "", values), lambda values: every("a", "", values > 0),
])  # fmt: skip
@pytest.mark.parametrize("values", [np.array([0.5, np.nan]), np.array([])])
def test_nan_and_nothing_make_a_claim_fail(criterion, values):
    assert criterion(values).verdict == "fails"


def test_an_interval_includes_its_ends():
    assert verdicts(within("a", "", [1, 2], 1, 2), within("a", "", [1, 2.01], 1, 2)) == [True, False]
    assert within("a", "", 1.5, 1, 2).expected == "1 to 2"


def test_agreement_to_a_relative_or_an_absolute_error():
    values = np.array([1.0, 2.1])
    found = [agrees("a", "", values, [1, 2], relative=limit) for limit in (0.051, 0.049)]
    assert verdicts(*found) == [True, False]
    assert agrees("a", "", 3.05, 3, absolute=0.1).expected == "3 ± 0.1"
    assert agrees("a", "", 3.05, 3, relative=0.02).expected == "3 to 2 %"
    with pytest.raises(TypeError, match="exactly one of relative= and absolute="):
        agrees("a", "", 1, 1)


def test_values_that_fall_or_rise_along_a_dimension():
    grid = xr.concat([WIDTHS, 2 * WIDTHS], "seed")
    assert verdicts(rising("a", "", grid, along="width"), falling("a", "", -grid, along="width")) == [True, True]
    assert rising("a", "", grid.transpose(), along="seed").verdict == "holds"
    flat = WIDTHS.copy(data=[1, 2, 2])
    assert rising("a", "", flat, along="width").verdict == "fails", "strictly"
    assert rising("a", "", WIDTHS).measured == {"16": 16.0, "64": 64.0, "256": 256.0}


def test_an_exponent():
    assert slope("a", "", WIDTHS**-0.5, "width", low=-0.51, high=-0.49).measured == pytest.approx(-0.5)
    assert slope("a", "", WIDTHS**-0.5, "width", low=-0.4, high=0).verdict == "fails"
    both = xr.concat([WIDTHS**-0.5, WIDTHS**-1.0], "seed")
    assert slope("a", "", both, "width", low=-1.1, high=-0.9).verdict == "fails"


def test_shares_measured_elsewhere():
    flags = {"x": np.arange(100) < 50}
    found = [same_shares("a", "", flags, {"x": (known, 1000)}) for known in (0.52, 0.9)]
    assert verdicts(*found) == [True, False]


def test_further_numbers_stand_beside_the_measured_ones():
    assert below("a", "", 0.5, 1, shown={"of": 3}).measured == {"measured": 0.5, "of": 3}
    assert every("a", "", [True], shown={"at step": 7}).measured["at step"] == 7


def test_an_erratum_has_a_kind_and_the_printed_words():
    counter = below("a", "It is 2, not 3", 0.5, 1)
    made = erratum(counter, kind="misprint", printed="it is 3", at="eq. (7)")
    assert (made.verdict, made.kind, made.printed, made.source) == ("erratum", "misprint", "it is 3", "eq. (7)")
    assert erratum(below("a", "", 2, 1), kind="error", printed="x", at="y").verdict == "fails"
    with pytest.raises((ValueError, TypeError), match="typo"):
        erratum(counter, kind="typo", printed="x", at="y")  # pyright: ignore[reportArgumentType]


def test_short_labeled_arrays_are_written_with_their_labels():
    assert plain(WIDTHS) == {"16": 16.0, "64": 64.0, "256": 256.0}
    assert plain(WIDTHS.rename(width="seed")) == [16.0, 64.0, 256.0]
    assert plain({"a": np.array([np.nan, 1 / 3])}) == {"a": ["nan", 0.333333]}
    assert claim("a", "", measured=WIDTHS[0], expected=None, holds=1).measured == 16.0
