"""Image data: where it is looked for, what is said when it is not there, and the two-class reduction."""

import os

import numpy as np
import pytest

from dynascope.tasks.data import images


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNASCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DYNASCOPE_DATA", raising=False)
    return tmp_path


def write(folder, name, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    arrays = dict(x_train=np.zeros((4, 2, 2), np.uint8), y_train=np.arange(4), x_test=np.ones((1, 2, 2)), y_test=[1])
    np.savez(folder / f"{name}.npz", **{k: v for k, v in {**arrays, **changes}.items() if v is not None})


def test_the_data_folder_comes_before_the_cache(nowhere, monkeypatch):
    write(nowhere / "cache" / "data", "toy")
    assert images.load("toy").y_train.tolist() == [0, 1, 2, 3]
    write(nowhere / "given", "toy", y_train=np.full(4, 7))
    monkeypatch.setenv("DYNASCOPE_DATA", str(nowhere / "given"))
    assert images.load("toy").y_train.tolist() == [7] * 4


def test_an_unknown_set_gets_one_line_that_says_where_its_file_goes(nowhere):
    with pytest.raises(images.DataNotFoundError) as error:
        images.load("nothing")
    message = str(error.value)
    assert "\n" not in message
    assert "nothing.npz" in message
    assert str(nowhere / "cache" / "data") in message


def test_a_file_without_its_arrays_is_named(nowhere):
    write(nowhere / "cache" / "data", "toy", y_test=None)
    with pytest.raises(ValueError, match=r"toy\.npz lacks y_test"):
        images.load("toy")


def test_reduction_keeps_the_varying_pixels():
    pixels = np.zeros((4, 2, 2), np.uint8)
    pixels[2:, 0, 1] = 255
    reduced = images.reduce_images(pixels, np.array([0, 0, 1, 1]), 110)
    assert reduced.channels.tolist() == [1]
    np.testing.assert_array_equal(reduced.x, [[0], [0], [1], [1]])
    np.testing.assert_array_equal(reduced.y, [[1, 0], [1, 0], [0, 1], [0, 1]])
    with pytest.raises(ValueError, match="1 pixels vary"):
        images.reduce_images(pixels, np.array([0, 0, 1, 1]), 110, expect=(65, 95))


@pytest.mark.skipif("DYNASCOPE_DATA" not in os.environ, reason="needs mnist.npz in $DYNASCOPE_DATA")
def test_two_digits_of_mnist_reduce_to_about_eighty_pixels():
    reduced = images.two_class_digits()
    assert reduced.x.shape[0] == 2000
    assert 65 <= reduced.x.shape[1] <= 95
    assert reduced.x.min() == 0
    assert reduced.x.max() == 1
    assert 0.3 < reduced.y[:, 0].mean() < 0.7
    with pytest.raises(ValueError, match="got count="):
        images.two_class_digits(10**6)


def test_a_damaged_file_is_named_and_nothing_is_unpickled(nowhere):
    folder = nowhere / "cache" / "data"
    write(folder, "objects", x_train=np.array([object()]))
    write(folder, "cut")
    whole = (folder / "cut.npz").read_bytes()
    (folder / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.npz").write_bytes(b"")
    for name in ("objects", "cut", "empty"):
        with pytest.raises(ValueError, match=rf"{name}.npz is damaged, or is not a file of plain arrays \(") as error:
            images.load(name)
        assert "\n" not in str(error.value)
