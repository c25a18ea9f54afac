"""Findings on traces that were made by hand, with known answers; and on traces in which there is nothing."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from dynascope.lab.trace_findings import Finding, findings

STEPS = np.arange(0, 1001, 50)


def trace(rate: float | None = None, **curves: np.ndarray) -> xr.Dataset:
    made = xr.Dataset({name: ("step", np.asarray(values, float)) for name, values in curves.items()}, {"step": STEPS})
    return made.assign_attrs({} if rate is None else {"learning_rate": rate})


def only(found: list[Finding]) -> Finding:
    assert len(found) == 1, found
    return found[0]


def test_the_sharpness_reaches_the_edge_between_two_recordings_and_stays():
    sharpness = np.minimum(4 + STEPS / 25, 20.0)  # 20 at step 400
    sharpness[STEPS > 500] = 21
    found = only(findings(trace(0.1, sharpness=sharpness, sharpness_error=np.full(21, 0.01))))
    assert (found.kind, found.numbers["before"], found.numbers["reached"]) == ("edge", 350, 400)
    assert (found.numbers["within"], found.numbers["recordings"]) == (3, 13)
    assert found.numbers["median"] == pytest.approx(1.05)
    assert "reaches 2/η = 20 between steps 350 and 400" in found.text
    assert "within its error in 3 of 13 recordings" in found.text


def test_an_error_that_reaches_the_edge_counts():
    sharpness = np.full(21, 19.9)
    assert only(findings(trace(0.1, sharpness=sharpness, sharpness_error=np.full(21, 0.2)))).numbers["within"] == 21
    below = only(findings(trace(0.1, sharpness=sharpness, sharpness_error=np.full(21, 0.01))))
    assert "does not reach 2/η = 20: it is 19.9 ± 0.01 at most" in below.text


def test_the_learning_rate_may_be_recorded_and_change():
    rate = np.where(STEPS < 500, 0.05, 0.2)  # 2/η falls from 40 to 10
    found = only(findings(trace(sharpness=np.full(21, 15.0), learning_rate=rate)))
    assert (found.numbers["before"], found.numbers["reached"]) == (450, 500)


def test_without_a_learning_rate_nothing_is_said_of_the_edge():
    assert findings(trace(sharpness=np.linspace(1, 100, 21))) == []


def test_the_largest_spike_has_its_factor_and_its_end():
    loss = np.exp(-STEPS / 500)
    loss[8], loss[9], loss[15] = 4.0 * loss[7], 1.5 * loss[7], 2.5 * loss[14]
    found = only(findings(trace(loss=loss)))
    assert (found.kind, found.numbers["spikes"], found.numbers["at"]) == ("spikes", 2, 400)
    assert found.numbers["factor"] == pytest.approx(4.0)
    assert found.numbers["back"] == 500
    assert "the largest by a factor of 4 at step 400" in found.text


def test_a_loss_that_does_not_come_back_says_so():
    loss = np.where(STEPS < 600, 0.1, 0.5)
    assert (
        "spikes by a factor of 5 at step 600, from 0.1 to 0.5; it does not come back"
        in findings(trace(loss=loss))[0].text
    )


def test_stages_lie_between_plateaus():
    loss = np.select([STEPS < 300, STEPS < 700], [1.0, 0.6], 0.1)
    found = only(findings(trace(loss=loss)))
    assert (found.kind, found.numbers["stages"]) == ("stages", 2)
    assert found.numbers["at 1"] == pytest.approx(275)
    assert found.numbers["at 2"] == pytest.approx(675)


@pytest.mark.parametrize(
    "loss", [np.exp(-STEPS / 200), 1 - STEPS / 1000, np.ones(21), 1 - STEPS / 2000 + 0.01 * np.cos(STEPS)]
)
def test_a_loss_that_just_falls_has_no_findings(loss: np.ndarray):
    assert findings(trace(loss=loss)) == []


def ranks(*curves: np.ndarray) -> xr.Dataset:
    names = [f"layers.{k}" for k in range(len(curves))]
    coords = {"step": STEPS, "weight": names}
    return xr.Dataset({"weight_ranks": (("step", "weight"), np.stack(curves, axis=1))}, coords)


def test_weights_that_gain_and_lose_rank_are_named_the_largest_change_first():
    up, down, still = 2 + 2 * STEPS / 1000, 9 - 6 * STEPS / 1000, np.full(21, 3.0)
    gone, gained = findings(ranks(up, down, still))
    assert gone.text.startswith("layers.1 loses rank: its stable rank goes from 9 to 3, half of the loss by step 500")
    assert gained.text.startswith("layers.0 gains rank: its stable rank goes from 2 to 4")
    assert [gained.numbers[name] for name in ("tenth", "half", "nine tenths")] == pytest.approx([100, 500, 900])


def test_a_rank_that_begins_as_nan_and_one_that_hardly_moves():
    from_nan = 1 + STEPS / 100
    from_nan[0] = np.nan
    assert only(findings(ranks(from_nan, 3 + 0.9 * STEPS / 1000))).numbers["from"] == pytest.approx(1.5)


def test_many_weights_are_counted():
    found = findings(ranks(*(2 + k * STEPS / 1000 for k in range(2, 11))))
    assert len(found) == 7
    assert found[-1].numbers == {"more": 3}


def test_the_kernel_stops_where_its_distance_stays():
    distance = np.minimum(STEPS / 400, 1.0)
    found = only(findings(trace(kernel_distance=distance)))
    assert (found.numbers["at"], found.numbers["distance"]) == (400, 1)  # 0.95 would be reached at 380
    assert "still moves at the end" in only(findings(trace(kernel_distance=STEPS / 1000))).text
    assert findings(trace(kernel_distance=np.zeros(21))) == []


def test_a_training_that_diverges_is_said_first():
    made = trace(kernel_distance=np.zeros(21)).assign(diverged_at=300)
    assert only(findings(made)).text == "A parameter is not finite from step 300 on."


def test_a_variable_is_known_by_its_long_name():
    made = trace(0.1, curvature=np.full(21, 25.0))
    assert findings(made) == []
    made.curvature.attrs["long_name"] = "sharpness"
    assert "The sharpness (curvature) is at 2/η = 20 or above from the first recording" in only(findings(made)).text
    made.curvature.attrs["long_name"] = "preconditioned sharpness"  # whose edge is elsewhere
    assert findings(made) == []


def test_the_rank_of_a_change_is_called_so():
    made = ranks(1 + STEPS / 100)
    made.weight_ranks.attrs["long_name"] = "stable rank of the change"
    assert "gains rank: the stable rank of its change goes from 1 to" in only(findings(made)).text


def test_an_ensemble_has_none():
    made = xr.Dataset(
        {"loss": (("seed", "step"), np.ones((2, 21))), "diverged_at": ("seed", [-1, -1])}, {"step": STEPS}
    )
    assert findings(made) == []
