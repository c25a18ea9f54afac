"""Folders of pictures."""

import numpy as np
import pytest
from PIL import Image

from dynascope.tasks.data.image_folder import image_folder


def write(folder, count, value, size=(4, 6)):
    folder.mkdir(parents=True)
    for number in range(count):
        Image.fromarray(np.full((*size, 3), value + number, np.uint8)).save(folder / f"{number:02}.png")


def test_one_subfolder_a_class_and_every_fifth_picture_for_the_test(tmp_path):
    write(tmp_path / "cat", 10, 0)
    write(tmp_path / "dog", 5, 100)
    found = image_folder(tmp_path)
    assert found.x_train.shape == (12, 4, 6, 3)
    assert found.y_train.tolist() == [0] * 8 + [1] * 4
    assert found.x_test[:, 0, 0, 0].tolist() == [4, 9, 104]
    assert found.y_test.tolist() == [0, 0, 1]


def test_folders_train_and_test_are_taken_as_they_are(tmp_path):
    for part, count in (("train", 3), ("test", 1)):
        for value, name in enumerate("ab"):
            write(tmp_path / part / name, count, 10 * value)
    found = image_folder(tmp_path)
    assert len(found.x_train) == 6
    assert found.y_test.tolist() == [0, 1]


def test_with_pixels_pictures_of_any_size_are_cut_to_their_central_square(tmp_path):
    write(tmp_path / "a", 5, 0, (4, 6))
    write(tmp_path / "b", 5, 100, (9, 3))
    wide = np.zeros((4, 8, 3), np.uint8)
    wide[:, 2:6] = 200
    Image.fromarray(wide).save(tmp_path / "a" / "00.png")
    found = image_folder(tmp_path, pixels=2)
    assert found.x_train.shape == (8, 2, 2, 3)
    assert (found.x_train[0] > 150).all()  # all of the wide picture, squeezed, would be 100


def wrong(tmp_path, kind):
    if kind == "nowhere":
        return tmp_path / "nowhere"
    if kind == "no classes":
        (tmp_path / "only").mkdir()
    if kind in ("sizes", "broken", "empty"):
        write(tmp_path / "a", 5, 0)
        if kind == "empty":
            (tmp_path / "b").mkdir()
        else:
            write(tmp_path / "b", 5, 0, (4, 6) if kind == "broken" else (5, 5))
        if kind == "broken":
            (tmp_path / "b" / "00.png").write_text("no picture")
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("nowhere", "folder must hold one subfolder of pictures for each class; .* is not a folder"),
        ("no classes", "must have at least two subfolders of pictures, one for each class; it has one, only"),
        ("sizes", "has 5 x 5 pixels and the first picture 6 x 4; pixels= resizes them"),
        ("broken", r"00\.png cannot be read as a picture"),
        ("empty", "b holds no pictures"),
    ],
)
def test_a_wrong_folder_gets_one_clear_line(tmp_path, kind, message):
    with pytest.raises(ValueError, match=message) as error:
        image_folder(wrong(tmp_path, kind))
    assert "\n" not in str(error.value)
