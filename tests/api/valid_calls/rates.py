"""Valid calls of the schedules of learning rates."""

from __future__ import annotations

from dynascope.dynamics import rates
from valid_calls.shared import NOT_NEGATIVE, POSITIVE, Calls, loss


def calls() -> Calls:
    rate = dict.fromkeys(("low", "high", "rate", "factor", "learning_rate"), NOT_NEGATIVE)
    return {
        "scheduled": ({"schedule": rates.cyclic(0.1, 0.2, 4)}, {}),
        "cyclic": ({"low": 0.1, "high": 0.2, "period": 4}, rate | {"period": "2**62"}),
        "piecewise": ({"rates": (0.1, 0.2), "at": (3,)}, {}),
        "decay": ({"rate": 0.1, "factor": 0.5, "every": 3}, rate | {"every": "2**62"}),
        "catapults": (
            {"critical_rate": loss, "count": 1},
            {"count": "0 2**62", "factor": POSITIVE, "rise": POSITIVE, "warm": "0 2**62"}
            | dict.fromkeys(("refresh", "patience"), "2**62"),
        ),
        "optimizer": ({"name": "gd", "learning_rate": 0.1}, rate),
    }
