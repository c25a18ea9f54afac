"""Data sets: where their files are found and how they are read."""

from dynascope.tasks.data import (
    ag_news as ag_news,
    byte_pairs as byte_pairs,
    celeba as celeba,
    datasets as datasets,
    digit_pairs as digit_pairs,
    files as files,
    image_folder as image_folder,
    image_sources as image_sources,
    images as images,
    spoken_digits as spoken_digits,
    text as text,
)
