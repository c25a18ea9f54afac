"""Noise in the form of the data sets that the package does not carry, to run what would read them."""

from __future__ import annotations

import gzip
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image

from dynascope.tasks.data.files import PACKAGE

PICTURES = {
    "mnist": (28, 28),
    "fashion_mnist": (28, 28),
    "usps": (16, 16),
    "cifar10": (32, 32, 3),
    "cifar100": (32, 32, 3),
    "svhn": (32, 32, 3),
}
SETS_OF_GRAPHS = ("IMDBBINARY", "IMDBMULTI", "REDDIT-BINARY", "REDDIT-MULTI-5K", "COLLAB")
COUNT = 300


def write_noise(folder: Path) -> None:
    """Write every data set that is known and not in the package, but for pretrained models and their prompts; and a
    folder of pictures."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for name, shape in PICTURES.items():
        _write_pictures(folder / f"{name}.npz", shape, 100 if name == "cifar100" else 10, rng)
    for name in SETS_OF_GRAPHS:
        _write_graphs(folder / f"tu_{name}.npz", rng)
    for name in ("citeseer", "pubmed"):
        shutil.copyfile(PACKAGE / "cora.npz", folder / f"{name}.npz")
    _write_news(folder / "ag_news_csv", rng)
    _write_speech(folder / "free_spoken_digits.npz", rng)
    _write_faces(folder / "celeba", rng)
    for place in range(60):
        _write_picture(folder / "pictures" / str(place % 3) / f"{place}.png", rng)
    plays = gzip.decompress((PACKAGE / "tiny_shakespeare.txt.gz").read_bytes())
    for name in ("wikitext103", "wikitext103_train_first_articles"):
        (folder / f"{name}.txt").write_bytes(plays[:20_000])


def _write_pictures(file: Path, shape: tuple[int, ...], classes: int, rng: np.random.Generator) -> None:
    """Gray noise, and in the middle 81 pixels of black or white, about as many as vary among real zeros and ones."""
    x, half = rng.integers(0, 100, (COUNT, *shape), dtype=np.uint8), COUNT // 2
    x[:, 5:14, 4:13] = rng.choice(np.array([0, 255], np.uint8), (COUNT, 9, 9, *shape[2:]))
    y = np.arange(COUNT) % classes
    np.savez(file, x_train=x[:half], y_train=y[:half], x_test=x[half:], y_test=y[half:])


def _write_graphs(file: Path, rng: np.random.Generator, graphs: int = 12) -> None:
    offsets = np.cumsum([0, *rng.integers(4, 8, graphs)])
    pairs = [np.stack(np.triu_indices(stop - start, 1), 1) + start for start, stop in pairwise(offsets)]
    edges = np.concatenate([each[rng.random(len(each)) < 0.5] for each in pairs])
    np.savez(file, node_offset=offsets, edges=edges, graph_label=np.arange(graphs) % 2)


def _write_news(folder: Path, rng: np.random.Generator) -> None:
    folder.mkdir()
    for part in ("train", "test"):
        words = [" ".join(f"w{word}" for word in row) for row in rng.integers(0, 40, (COUNT, 8))]
        rows = [f'"{1 + place % 4}","{text}","{text}"' for place, text in enumerate(words)]
        (folder / f"{part}.csv").write_text("\n".join(rows), encoding="utf-8")


def _write_speech(file: Path, rng: np.random.Generator, samples: int = 512) -> None:
    audio = rng.integers(-(2**12), 2**12, COUNT * samples).astype(np.int16)
    offsets = samples * np.arange(COUNT + 1)
    np.savez(file, audio=audio, offsets=offsets, label=np.arange(COUNT) % 10, take=np.arange(COUNT) // 10)


def _write_faces(folder: Path, rng: np.random.Generator, count: int = 100) -> None:
    names = [f"{number:06d}.png" for number in range(1, count + 1)]
    for name in names:
        _write_picture(folder / "img_align_celeba" / name, rng)
    rows = [f"{name} {1 if place % 2 else -1}" for place, name in enumerate(names)]
    (folder / "list_attr_celeba.txt").write_text("\n".join([str(count), "Eyeglasses", *rows]), encoding="ascii")


def _write_picture(file: Path, rng: np.random.Generator) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(file)
