"""Pairs of digits."""

import numpy as np
import pytest

from dynascope.tasks.data import files, images
from dynascope.tasks.data.digit_pairs import digit_pairs, small_digits
from dynascope.tasks.data.files import TrainTest


@pytest.fixture
def mnist(monkeypatch):
    """Digits whose every pixel says which one they are."""
    x = np.arange(60)[:, None, None] * np.ones((60, 28, 28), np.uint8)
    stored = TrainTest(x.astype(np.uint8), np.arange(60) % 10, x[:1], np.zeros(1))
    monkeypatch.setattr(images, "load", lambda name: stored)


def test_the_class_is_that_of_left_and_right_and_the_pools_are_apart(mnist):
    made = digit_pairs(200, 50, digits=40, held_out=20)
    assert made.images.x_train.shape == (200, 8, 16, 1)
    assert "MNIST" in made.name
    train, test = made.images[:2], made.images[2:]
    for (x, y), pool in ((train, range(40)), (test, range(40, 60))):
        left, right = x[:, 4, 4, 0].astype(int), x[:, 4, 12, 0].astype(int)
        np.testing.assert_array_equal(y, 10 * (left % 10) + right % 10)
        assert set(left) | set(right) <= set(pool)


def test_small_digits_are_means_over_blocks():
    x = np.zeros((1, 28, 28), np.uint8)
    x[0, 2:6, 2:6] = 160  # with the margin: rows and columns 4 to 7, the second block
    small = small_digits(x)
    assert small[0, 1, 1] == 160
    assert small.sum() == 160


def test_they_are_made_from_the_digits_of_the_package():
    with files.record_reads() as read:
        made = digit_pairs(100, 20)
    assert read == {"digits"}
    assert made.images.x_train.shape == (100, 8, 16, 1)
    assert len(np.unique(made.images.y_train)) > 40


def test_more_digits_than_there_are_get_one_line(mnist):
    with pytest.raises(ValueError, match=r"digits \+ held_out must be at most 60; got 1400 \+ 397"):
        digit_pairs()
