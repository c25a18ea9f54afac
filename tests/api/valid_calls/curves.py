"""Valid calls of the curve readers."""

from __future__ import annotations

import numpy as np
import xarray as xr

from valid_calls.shared import ARRAYS, CURVE, NODES, NOT_NEGATIVE, PAIRS, POSITIVE, REAL, SHARE, TIMES, Calls


def calls() -> Calls:
    reading = {"curve": ARRAYS, "loss": ARRAYS, "level": REAL, "values": ARRAYS}
    reading |= dict.fromkeys(("tolerance", "noise"), NOT_NEGATIVE)
    shares = {"share": SHARE, "values": ARRAYS, "curve": ARRAYS}
    flat = dict.fromkeys(("flat", "shortest", "window", "smallest"), NOT_NEGATIVE) | {"size": POSITIVE}
    spectrum = xr.DataArray(np.ones((3, 2)), dims=("step", "singular"), coords={"step": [0, 1, 2]})
    spike = {"curve": ARRAYS, "factor": POSITIVE, "before": "0"}
    z = np.linspace(0, 1, 12).reshape(6, 2)
    return {
        "last_cycle": ({"orbit": CURVE, "length": 2}, {"orbit": "shaped"}),
        "period": (
            {"orbit": np.zeros(8), "periods": (1, 2)},
            {"burn_in": "0", "tolerance": POSITIVE, "orbit": "shaped"},
        ),
        "transverse_exponent": ({"factors": CURVE}, {"factors": ARRAYS}),
        "comparable_pairs": ({"nodes": NODES}, {}),
        "cover_pairs": ({"nodes": NODES}, {}),
        "hierarchy": ({"concepts": 2}, {}),
        "level_means": ({"losses": CURVE[:4], "nodes": NODES}, {}),
        "share_in_order": ({"learning_times": CURVE[:4], "pairs": PAIRS}, {"learning_times": "shaped"}),
        "violation_share": ({"losses": CURVE[:4], "pairs": PAIRS}, {"losses": "shaped", "tolerance": NOT_NEGATIVE}),
        "half_times": ({"z": z}, {"z": ARRAYS}),
        "illusion_gap": ({"outputs": z, "at": 2, "strongest_mean": np.ones(2), "target": np.ones(2)}, {"at": "-1 0"}),
        "largest_difference": ({"z_1": CURVE, "z_2": CURVE}, {}),
        "reversal": ({"z": CURVE}, {"z": ARRAYS}),
        "signed_area": ({"z_1": CURVE, "z_2": CURVE}, {}),
        "terminal_rate": (
            {"outputs": z, "times": TIMES, "loss": CURVE},
            {"loss_share": POSITIVE, "speed_share": NOT_NEGATIVE},
        ),
        "jumps": ({"curve": CURVE, "times": TIMES}, flat),
        "plateaus": ({"curve": CURVE, "times": TIMES}, flat),
        "support_size": ({"entries": CURVE}, {"entries": ARRAYS, "threshold": NOT_NEGATIVE}),
        "switches": ({"entries": z, "times": TIMES}, {"threshold": POSITIVE}),
        "count_above": ({"values": CURVE}, shares),
        "effective_rank": ({"values": CURVE}, shares),
        "energy_rank": ({"values": CURVE}, shares),
        "stable_rank": ({"values": CURVE}, shares),
        "rise_steps": ({"values": spectrum}, {"share": ""}),
        "descents": ({"loss": CURVE}, reading),
        "first_crossing": ({"curve": CURVE, "level": 0.5}, reading),
        "memorization_depth": ({"loss": CURVE}, reading),
        "memorization_peak": ({"loss": CURVE}, reading),
        "peak": ({"curve": CURVE}, reading),
        "rises": ({"loss": CURVE}, reading | {"loss": ""}),
        "stage_log": ({"W": np.ones((6, 2, 2)), "concepts": 1}, {"phase": REAL, "tolerance": NOT_NEGATIVE}),
        "time_below_peak": ({"curve": CURVE}, shares),
        "turning_points": ({"loss": CURVE}, reading | {"loss": ""}),
        "scaling_exponent": ({"x": TIMES + 1, "y": CURVE}, {}),
        "first_spike": (
            {"curve": CURVE, "factor": 1.5, "within": 2},
            {"curve": ARRAYS, "factor": POSITIVE, "within": "0 2**62"},
        ),
        "largest_rise": ({"curve": CURVE}, {"curve": ARRAYS}),
        "spikes": ({"curve": CURVE, "factor": 1.5}, spike | {"after": "0"}),
        "troughs": ({"curve": CURVE}, spike),
        "correlation": ({"one": CURVE, "other": TIMES}, {}),
        "paired_difference": ({"after": CURVE, "before": TIMES}, {}),
    }
