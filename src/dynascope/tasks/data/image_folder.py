"""A folder of pictures, one subfolder for each class, as arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Int, Shaped

from dynascope.checks import sizes
from dynascope.tasks.data import files
from dynascope.tasks.data.files import TrainTest

KINDS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
HELD_OUT = 5
"""Without folders `train` and `test`, every fifth picture of a class is a test picture."""


def image_folder(folder: str | Path, pixels: int | None = None) -> TrainTest:
    """Pictures of `folder/<class>/*`, or of `folder/train/<class>/*` and `folder/test/<class>/*`, all of one size.

    With `pixels` they may have any size: each is cropped to its central square and resized to `pixels` x `pixels`.
    Classes are numbered in the order of their names, and pictures are sorted by class; they have three channels.
    """
    if pixels is not None:
        sizes(pixels=pixels)
    root = Path(folder).expanduser()
    if not root.is_dir():
        raise ValueError(f"folder must hold one subfolder of pictures for each class; {root} is not a folder")
    files.record(str(folder))
    if (root / "train").is_dir() and (root / "test").is_dir():
        names = _classes(root / "train")
        train, test = (_read(root / part, names, pixels) for part in ("train", "test"))
        return TrainTest(*train, *test)
    x, y = _read(root, _classes(root), pixels)
    place_in_class = np.concatenate([np.arange(size) for size in np.bincount(y)])
    kept = place_in_class % HELD_OUT == HELD_OUT - 1
    if not kept.any():
        raise ValueError(f"{root} has fewer than {HELD_OUT} pictures in each class; the test needs one of {HELD_OUT}")
    return TrainTest(x[~kept], y[~kept], x[kept], y[kept])


def _classes(root: Path) -> list[str]:
    names = sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    if len(names) < 2:
        found = f"one, {names[0]}" if names else "none"
        raise ValueError(f"{root} must have at least two subfolders of pictures, one for each class; it has {found}")
    return names


def _read(
    root: Path, names: list[str], pixels: int | None
) -> tuple[Shaped[np.ndarray, "n h w 3"], Int[np.ndarray, " n"]]:
    from PIL import Image, ImageOps, UnidentifiedImageError  # matplotlib brings it along

    pictures, labels = [], []
    for label, name in enumerate(names):
        paths = sorted(path for path in (root / name).glob("*") if path.suffix.lower() in KINDS)
        if not paths:
            raise ValueError(f"{root / name} holds no pictures ({', '.join(KINDS)})")
        for path in paths:
            try:
                with Image.open(path) as picture:
                    colored = picture.convert("RGB")
                    square = colored if pixels is None else ImageOps.fit(colored, (pixels, pixels))
                    pictures.append(np.asarray(square))
            except (UnidentifiedImageError, OSError) as error:
                raise ValueError(f"{path} cannot be read as a picture ({error})") from None
            if pictures[-1].shape != pictures[0].shape:
                found = ["{1} x {0}".format(*picture.shape) for picture in (pictures[-1], pictures[0])]
                raise ValueError(f"{path} has {found[0]} pixels and the first picture {found[1]}; pixels= resizes them")
            labels.append(label)
    return np.stack(pictures), np.asarray(labels)
