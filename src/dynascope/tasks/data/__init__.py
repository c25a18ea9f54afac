"""Data sets: where their files are found and how they are read."""

from dynascope.tasks.data import (
    ag_news as ag_news,
    byte_pairs as byte_pairs,
    catalog as catalog,
    celeba as celeba,
    citation_graphs as citation_graphs,
    datasets as datasets,
    digit_pairs as digit_pairs,
    download as download,
    files as files,
    graph_files as graph_files,
    graph_sets as graph_sets,
    gsm8k as gsm8k,
    image_folder as image_folder,
    image_formats as image_formats,
    images as images,
    known as known,
    language_models as language_models,
    spoken_digits as spoken_digits,
    text as text,
    words as words,
)
