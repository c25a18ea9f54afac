"""Free spoken digits as small pictures: the logarithm of a mel spectrogram, pooled in time.

File: `free_spoken_digits.npz` with `audio` (int16 at 8 kHz), `offsets` (clip i is audio[offsets[i]:offsets[i + 1]]),
`label`, `take`; the official test clips are takes 0 to 4. The download, version 1.0.10 (50 takes of 10 digits by 6
speakers), is kept in this form. "Toward Understanding the Dynamics of
Over-parameterized Neural Networks" does not state its features.
"""

from __future__ import annotations

import io
import wave
import zipfile
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from jaxtyping import Float, Shaped

from dynascope.checks import sizes
from dynascope.tasks.data import catalog, files, packed
from dynascope.tasks.data.files import TrainTest

RATE, FRAME, HOP = 8000, 256, 128
"""Samples per second, per frame, and between two frames."""
TEST_TAKES = 5
NAME = "free_spoken_digits"


def load(bands: int = 32, segments: int = 32) -> TrainTest:
    """The digits as bands x segments pictures, classes 0 to 9."""
    sizes(bands=bands, segments=segments)
    (file,) = catalog.find(NAME)
    files.record(NAME)
    return _load(files.stamp(file), bands, segments)


@cache
def _load(file: tuple[Path, int, int], bands: int, segments: int) -> TrainTest:
    stored = packed.read_arrays(file[0])
    audio, label, take = stored["audio"].astype(float) / 2**15, stored["label"], stored["take"]
    clips = [pooled_spectrogram(audio[begin:end], bands, segments) for begin, end in pairwise(stored["offsets"])]
    x, test = np.stack(clips), take < TEST_TAKES
    return TrainTest(x[~test], label[~test], x[test], label[test])


def keep(contents: Mapping[str, bytes]) -> None:
    """Put the recordings of the downloaded archive into the cache."""
    (content,) = contents.values()
    files.keep_arrays(NAME, read_archive(content))


def read_archive(content: bytes) -> dict[str, np.ndarray]:
    """The clips `{digit}_{speaker}_{take}.wav` (8 kHz, 16 bits) of a zip file, sorted by digit, speaker and take."""
    clips = []
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for path in archive.namelist():
            if path.endswith(".wav"):
                digit, speaker, take = Path(path).stem.split("_")
                with wave.open(io.BytesIO(archive.read(path))) as clip:
                    sound = np.frombuffer(clip.readframes(clip.getnframes()), "<i2")
                clips.append((int(digit), speaker, int(take), sound))
    clips.sort(key=lambda clip: clip[:3])
    sounds = [sound for *_, sound in clips]
    return {
        "audio": np.concatenate(sounds),
        "offsets": np.cumsum([0, *map(len, sounds)]),
        "label": np.array([clip[0] for clip in clips], np.uint8),
        "take": np.array([clip[2] for clip in clips], np.uint8),
    }


def pooled_spectrogram(clip: Float[np.ndarray, " t"], bands: int, segments: int) -> Float[np.ndarray, "bands segments"]:
    """log(power + 1e-6) in mel bands, averaged over `segments` equal parts of the clip."""
    short = FRAME + HOP * (segments - 1) - len(clip)
    clip = np.pad(clip, (0, max(0, short)))  # at least one frame per segment
    frames = np.lib.stride_tricks.sliding_window_view(clip, FRAME)[::HOP]
    power = np.abs(np.fft.rfft(frames * np.hanning(FRAME), axis=1)) ** 2
    loud = np.log(power @ mel_bands(bands).T + 1e-6)
    parts = np.array_split(loud, segments)
    return np.stack([part.mean(axis=0) for part in parts], axis=1)


@cache
def mel_bands(bands: int) -> Shaped[np.ndarray, "bands frequencies"]:
    """Triangular filters evenly spaced on the mel scale, 2595 log10(1 + f / 700), each with sum 1."""
    top = 2595 * np.log10(1 + RATE / 2 / 700)
    corners = 700 * (10 ** (np.linspace(0, top, bands + 2) / 2595) - 1)
    frequencies = np.fft.rfftfreq(FRAME, 1 / RATE)
    left, center, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    spacing = RATE / FRAME  # a narrower band still includes its nearest frequency
    rising = (frequencies - left) / np.maximum(center - left, spacing)
    falling = (right - frequencies) / np.maximum(right - center, spacing)
    triangles = np.maximum(0, np.minimum(rising, falling))
    nearest = np.argmin(np.abs(frequencies - center), axis=1)
    triangles[np.arange(bands), nearest] = np.maximum(triangles[np.arange(bands), nearest], 1e-3)
    return triangles / triangles.sum(axis=1, keepdims=True)
