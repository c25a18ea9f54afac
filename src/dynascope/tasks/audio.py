"""Free spoken digits as small pictures: the logarithm of a mel spectrogram, pooled in time.

File: `free_spoken_digits.npz` with `audio` (int16 at 8 kHz), `offsets` (clip i is audio[offsets[i]:offsets[i + 1]]),
`label`, `take`; the official test clips are takes 0 to 4. "Toward Understanding the Dynamics of Over-parameterized
Neural Networks" does not state its features.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Shaped

from dynascope.tasks import files
from dynascope.tasks.image_sources import Images

RATE, FRAME, HOP = 8000, 256, 128
"""Samples a second, in a frame, and between two frames."""
TEST_TAKES = 5


@cache
def load(bands: int = 32, segments: int = 32) -> Images:
    """The digits as bands x segments pictures, classes 0..9."""
    with np.load(files.need("free_spoken_digits.npz", "free spoken digits"), allow_pickle=False) as stored:
        audio, offsets = stored["audio"].astype(float) / 2**15, stored["offsets"]
        label, take = stored["label"], stored["take"]
    clips = [pooled_spectrogram(audio[begin:end], bands, segments) for begin, end in pairwise(offsets)]
    x, test = np.stack(clips), take < TEST_TAKES
    return Images(x[~test], label[~test], x[test], label[test])


def pooled_spectrogram(clip: Float[np.ndarray, " t"], bands: int, segments: int) -> Float[np.ndarray, "bands segments"]:
    """log(power + 1e-6) in mel bands, averaged over `segments` equal parts of the clip (its length in time is lost)."""
    short = FRAME + HOP * (segments - 1) - len(clip)
    clip = np.pad(clip, (0, max(0, short)))  # a frame for each segment at least
    frames = np.lib.stride_tricks.sliding_window_view(clip, FRAME)[::HOP]
    power = np.abs(np.fft.rfft(frames * np.hanning(FRAME), axis=1)) ** 2
    loud = np.log(power @ mel_bands(bands).T + 1e-6)
    parts = np.array_split(loud, segments)
    return np.stack([part.mean(axis=0) for part in parts], axis=1)


@cache
def mel_bands(bands: int) -> Shaped[np.ndarray, "bands frequencies"]:
    """Triangles that are evenly spaced on the mel scale, 2595 log10(1 + f / 700), each with sum 1."""
    top = 2595 * np.log10(1 + RATE / 2 / 700)
    corners = 700 * (10 ** (np.linspace(0, top, bands + 2) / 2595) - 1)
    frequencies = np.fft.rfftfreq(FRAME, 1 / RATE)
    left, centre, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    spacing = RATE / FRAME  # a band narrower than that still takes in its nearest frequency
    rising = (frequencies - left) / np.maximum(centre - left, spacing)
    falling = (right - frequencies) / np.maximum(right - centre, spacing)
    triangles = np.maximum(0, np.minimum(rising, falling))
    nearest = np.argmin(np.abs(frequencies - centre), axis=1)
    triangles[np.arange(bands), nearest] = np.maximum(triangles[np.arange(bands), nearest], 1e-3)
    return triangles / triangles.sum(axis=1, keepdims=True)
