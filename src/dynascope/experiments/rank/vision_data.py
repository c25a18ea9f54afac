"""The image sets of the vision experiments, by name."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Int, Shaped

from dynascope.tasks.data import images
from dynascope.tasks.data.digit_pairs import digit_pairs
from dynascope.tasks.data.image_folder import image_folder
from dynascope.tasks.data.image_sources import Images

Data = Literal["cifar10", "cifar100", "digit-pairs", "folder"]


class Vision(NamedTuple):
    """Training and test images (channels last, 0..255), the number of classes, and what they are."""

    x: Shaped[np.ndarray, "n height width channels"]
    y: Int[np.ndarray, " n"]
    x_test: Shaped[np.ndarray, "t height width channels"]
    y_test: Int[np.ndarray, " t"]
    classes: int
    name: str


def vision_data(data: Data, count: int | None, folder: str = "", pixels: int | None = None) -> Vision:
    """The first `count` training images of a set (all of them: None) and its test images; of digit pairs, so many
    are made. The pictures of a folder are brought to `pixels` x `pixels`, if given."""
    if data == "digit-pairs":
        found, name = digit_pairs(count or 6000)
    elif data == "folder":
        if not folder:
            raise ValueError("data=folder needs folder=, the path of a folder with one subfolder of pictures a class")
        found, name = mixed(image_folder(folder, pixels)), f"the pictures of {folder}"
    else:
        found, name = images.load(data), {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}[data]
    if count is not None and count > len(found.x_train):
        raise ValueError(f"{name}: {len(found.x_train)} training images; asked for {count}")
    found = Images(found.x_train[:count], found.y_train[:count], found.x_test, found.y_test)
    return Vision(
        found.x_train,
        found.y_train.astype(np.int32),
        found.x_test,
        found.y_test.astype(np.int32),
        int(max(found.y_train.max(), found.y_test.max())) + 1,
        f"{len(found.x_train)} images of {name}" if data != "digit-pairs" else f"{len(found.x_train)} {name}",
    )


def mixed(found: Images) -> Images:
    """The training images in an order that has nothing to do with their classes, always the same: a folder gives one
    class after the other, and the first of them would be of one class only."""
    order = np.random.default_rng(0).permutation(len(found.x_train))
    return found._replace(x_train=found.x_train[order], y_train=found.y_train[order])
