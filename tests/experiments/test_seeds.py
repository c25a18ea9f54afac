"""Seeds derived from the seed of a run: none shared, none overflowing."""

import numpy as np
import pytest

from dynascope.dynamics.ensemble import member_seeds
from dynascope.experiments.seeds import start_seeds


def test_the_members_of_a_run_are_numbered_from_its_block() -> None:
    np.testing.assert_array_equal(member_seeds(0, 3), [0, 1, 2])
    np.testing.assert_array_equal(member_seeds(21_473, 2), [2_147_300_000, 2_147_300_001])
    np.testing.assert_array_equal(member_seeds(2, 2, block=1000), [2000, 2001])


def test_runs_with_large_seeds_have_members_of_their_own() -> None:
    runs = [set(member_seeds(seed, 50).tolist()) for seed in (0, 21_474, 2**32, 2**32 + 21_474, 2**64)]
    assert len(set.union(*runs)) == 5 * 50


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="seed must be an integer, at least 0; got -1"):
        member_seeds(-1, 3)


def test_random_starts_share_no_seed_with_the_reference_or_another_run() -> None:
    first, second = start_seeds(0, 100_000), start_seeds(1, 100_000)
    assert min(first) > 40_000
    assert not set(first) & set(second)
    assert start_seeds(2**64, 2)[1] == 1_000_000 * (1 + 2**64) + 1
