"""The numbers that the proof of Theorem 3.3 rests on, against plain loops in numpy, and with the science broken."""

from __future__ import annotations

import numpy as np
import pytest

from dynascope.theory.edge import quartic_orbit, quartic_proof


def twice(x, K):
    """Two steps of gradient descent on (x^2 - 1)^2 / 4 at the rate K."""
    for _ in range(2):
        x = x - K * (x**2 - 1) * x
    return x


def test_the_closed_form_is_an_orbit_with_its_multiplier_and_its_rate():
    errors = quartic_proof.closed_form_errors()
    assert errors["closed_residual"] < 1e-12
    assert errors["closed_multiplier"] < 1e-12
    assert errors["closed_implicit"] < 1e-6  # (3.4) divides by what vanishes as K tends to 1


def test_a_wrong_coefficient_is_seen(monkeypatch):
    right = quartic_orbit.multiplier
    monkeypatch.setattr(quartic_orbit, "multiplier", lambda K: 1.01 * right(K))
    assert quartic_proof.closed_form_errors()["closed_multiplier"] > 1e-3


def test_the_margins_are_positive_and_those_of_a_plain_loop():
    margins = quartic_proof.proof_margins()
    assert all(margin > 0 for margin in margins.values())
    rises, falls = [], []
    for K in np.linspace(1.0, quartic_orbit.SUPERSTABLE, 102)[1:-1]:
        low = float(quartic_orbit.normalized_orbit(K).low)
        critical = float(quartic_orbit.critical_point(1.0, K))
        for share in np.linspace(0.001, 0.999, 50):
            x = critical + share * (low - critical)
            rises.append(twice(x, K) - x)
            x = low + share * (1 - low)
            falls.append(x - twice(x, K))
    assert margins["rises"] == pytest.approx(min(rises), rel=1e-2, abs=1e-9)
    assert margins["falls"] == pytest.approx(min(falls), rel=1e-2, abs=1e-9)
