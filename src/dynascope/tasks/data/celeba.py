"""CelebA from the user's folder: small pictures of faces with one attribute as their class.

The folder `celeba` (in $DYNASCOPE_DATA or the cache) holds `list_attr_celeba.txt` and the pictures, beside it or in
`img_align_celeba`, as published by the authors. The license forbids redistribution: nothing is downloaded.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from dynascope.checks import sizes
from dynascope.tasks.data import catalog, files
from dynascope.tasks.data.files import TrainTest

LIST, PICTURES = "list_attr_celeba.txt", "img_align_celeba"
TEST_FROM = 182_638
"""The number of the first picture of the official test split."""


def load(attribute: str = "Eyeglasses", size: int = 32, limit: int | None = None) -> TrainTest:
    """Faces as size x size x 3, class 1 with the attribute and 0 without; at most `limit` of each split.

    The split is the authors': pictures from 182638 on are the test set; in a folder without those, the last fifth.
    """
    sizes(size=size, limit=1 if limit is None else limit)
    (folder,) = catalog.find("celeba")
    files.record("celeba")
    return _load(folder, attribute, size, limit)


@cache
def _load(folder: Path, attribute: str, size: int, limit: int | None) -> TrainTest:
    names, has = read_attribute(folder / LIST, attribute)
    numbers = np.array([int(Path(name).stem) for name in names])
    test = numbers >= TEST_FROM
    if not test.any():
        test[-(-len(names) * 4 // 5) :] = True
    split = []
    for part in (~test, test):
        rows = np.flatnonzero(part)[:limit]
        split += [np.stack([read_picture(folder, names[row], size) for row in rows]), has[rows].astype(np.uint8)]
    return TrainTest(*split)


def read_attribute(file: Path, attribute: str) -> tuple[list[str], np.ndarray]:
    """The names of the pictures, and whether each has the attribute. The file has a count, the names of the attributes,
    and a line for each picture with 1 or -1 for each attribute."""
    if not file.is_file():
        raise files.DataNotFoundError(f"no {file.name} in {file.parent}; it comes with CelebA")
    _, header, *lines = file.read_text(encoding="ascii").splitlines()
    known = header.split()
    if attribute not in known:
        raise ValueError(f"attribute must be one of {', '.join(known)}; got {attribute!r}")
    column = known.index(attribute) + 1
    rows = [line.split() for line in lines if line]
    return [row[0] for row in rows], np.array([row[column] == "1" for row in rows])


def read_picture(folder: Path, name: str, size: int) -> np.ndarray:
    """One picture, cropped to its central square and resized."""
    from PIL import Image

    path = next((place / name for place in (folder / PICTURES, folder) if (place / name).is_file()), None)
    if path is None:
        raise files.DataNotFoundError(f"no {name} in {folder / PICTURES}; {LIST} names it")
    with Image.open(path) as picture:
        width, height = picture.size
        side = min(width, height)
        left, top = (width - side) // 2, (height - side) // 2
        square = picture.convert("RGB").crop((left, top, left + side, top + side))
        return np.asarray(square.resize((size, size), Image.Resampling.BOX))
