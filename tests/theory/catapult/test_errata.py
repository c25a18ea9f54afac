"""The numbers of the counter-examples, where the answer is known."""

import pytest

from dynascope.theory.catapult import errata
from dynascope.theory.linearity import errata as chapter_2


def test_every_counter_example_is_numbers_under_names_of_their_own():
    found = [*errata.COUNTER_EXAMPLES.values(), *chapter_2.COUNTER_EXAMPLES.values()]
    assert len({one.__name__ for one in found}) == len(found)
    numbers = errata.kernel_weights()
    assert all(name.isidentifier() and isinstance(value, float) for name, value in numbers.items())


def test_the_corrected_threshold_is_where_the_kernel_turns():
    numbers = errata.falling_kernel()
    assert numbers["corrected"] == pytest.approx(4.23e-4, rel=2e-3)
    assert numbers["printed"] == pytest.approx(8.1e-5, rel=5e-3)
    assert numbers["just_below"] > 0 > numbers["just_above"]


def test_where_printed_and_right_agree_nothing_is_refuted():
    assert errata.falling_kernel(label_size=0.25)["change"] < 0
    assert errata.kernel_recursion(curvature=0.0)["printed"] < 1e-12
    assert abs(errata.turning_point(width=20.0)["height"] - 4) > 0.1, "u m/C^2 tends to 4 in wide networks only"


def test_after_a_catapult_both_directions_are_stable_and_the_rest_stands_still():
    found = errata.after_catapult()
    assert max(found["first"], found["second"]) < 2
    assert found["norm"] == pytest.approx(1)


def test_the_mean_gradient_of_a_chain_is_below_one():
    found = chapter_2.mean_gradient(depth=1)
    assert found["identity"] == pytest.approx(found["one_layer"], abs=5 * found["identity_error"])


def test_w_of_networks_of_another_scale_has_another_order(monkeypatch):
    """Outputs divided by m^(3/4) in the place of m^(1/2): at the same eta lambda_0 the rate grows with the width."""

    class Smaller(errata.GatedNetwork):
        def __init__(self, x, y, width, seed=0):
            super().__init__(x, y, width, seed)
            self.scale = self.scale / width**0.25

    assert errata.start_of_w()["slope"] == pytest.approx(-1, abs=0.05)
    monkeypatch.setattr(errata, "GatedNetwork", Smaller)
    assert errata.start_of_w()["slope"] == pytest.approx(-0.5, abs=0.05)
