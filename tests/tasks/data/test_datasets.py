"""Two-class sets: of real files where they are, of made ones elsewhere; text, audio and CelebA features."""

import bz2
import gzip
import io
import os
import tarfile

import jax
import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from dynascope.tasks.data import ag_news, celeba, datasets, files, image_formats, spoken_digits

real = pytest.mark.skipif("DYNASCOPE_DATA" not in os.environ, reason="needs the real files in $DYNASCOPE_DATA")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNASCOPE_DATA", str(tmp_path))
    monkeypatch.setenv("DYNASCOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path


@real
@pytest.mark.parametrize(
    ("name", "classes", "count", "test", "size"),
    [("cifar10", (7, 9), 128, 200, 3072), ("mnist", (0, 1), 256, 100, 784), ("fashion_mnist", (0, 2), 64, None, 784),
     ("free_spoken_digits", (1, 3), 100, 50, 1024)],
)  # fmt: skip
def test_two_classes_of_real_data_are_standardized(name, classes, count, test, size):
    found = datasets.two_classes(name, classes, count, test, jax.random.key(0))
    assert found.x.shape == (count, size)
    assert test is None or found.x_test.shape == (test, size)
    assert set(found.y) == set(found.y_test) == {-1.0, 1.0}
    channels = found.x.reshape(count, -1, 3 if name == "cifar10" else 1)
    np.testing.assert_allclose(channels.mean(axis=(0, 1)), 0, atol=1e-10)
    np.testing.assert_allclose(channels.std(axis=(0, 1)), 1)
    assert 0.5 < found.x_test.std() < 1.5
    other = datasets.two_classes(name, classes, count, test, jax.random.key(1))
    assert not np.array_equal(other.x, found.x)


@real
def test_images_keep_their_shape_and_labels_can_be_flipped():
    key = jax.random.key(3)
    plain = datasets.two_classes("cifar10", (0, 2), 100, 20, key, flat=False)
    noisy = datasets.two_classes("cifar10", (0, 2), 100, 20, key, flat=False, flips=0.1)
    assert plain.x.shape == (100, 32, 32, 3)
    np.testing.assert_array_equal(plain.x, noisy.x)
    assert np.sum(plain.y != noisy.y) == 10
    np.testing.assert_array_equal(plain.y_test, noisy.y_test)


@real
def test_a_nearest_mean_tells_the_classes_apart_so_the_labels_belong_to_their_inputs():
    for name, classes in (("mnist", (0, 1)), ("ag_news", (0, 1)), ("free_spoken_digits", (1, 3))):
        data = datasets.two_classes(name, classes, 150, 60, jax.random.key(0))
        direction = data.x[data.y > 0].mean(axis=0) - data.x[data.y < 0].mean(axis=0)
        middle = (data.x[data.y > 0].mean(axis=0) + data.x[data.y < 0].mean(axis=0)) / 2
        right = np.sign((data.x_test - middle) @ direction) == data.y_test
        assert right.mean() > 0.7, name


@real
def test_ag_news_rows_have_length_root_d():
    data = datasets.load("ag_news")
    assert data.x_train.shape[1] == 1000
    length = np.linalg.norm(data.x_train, axis=1)
    assert np.mean(np.isclose(length, np.sqrt(1000))) > 0.999
    assert data.x_test.shape == (7600, 1000)
    assert set(data.y_train) == {0, 1, 2, 3}


def test_word_weights_are_those_of_the_formula():
    texts = ["The cat, the dog", "the bird", "a Cat"]
    vocabulary = ag_news.frequent_words(texts, 2)
    assert vocabulary == ["the", "cat"]
    weights = ag_news.inverse_frequencies(texts, vocabulary)
    np.testing.assert_allclose(weights, np.log(4 / 3) + 1)
    rows = ag_news.features(texts, vocabulary, weights)
    np.testing.assert_allclose(rows[0], np.sqrt(2) * np.array([2, 1]) / np.sqrt(5))
    np.testing.assert_allclose(rows[1], [np.sqrt(2), 0])


def test_a_tone_lights_up_its_own_mel_band():
    time = np.arange(4000) / spoken_digits.RATE
    bands = spoken_digits.mel_bands(16)
    np.testing.assert_allclose(bands.sum(axis=1), 1)
    for frequency in (300.0, 1000.0, 2500.0):
        picture = spoken_digits.pooled_spectrogram(np.sin(2 * np.pi * frequency * time), 16, 8)
        assert picture.shape == (16, 8)
        nearest = np.argmax(bands[:, round(frequency / spoken_digits.RATE * spoken_digits.FRAME)])
        assert np.all(np.argmax(picture, axis=0) == nearest)
    assert spoken_digits.pooled_spectrogram(np.zeros(10), 16, 8).shape == (16, 8)


def test_where_there_are_no_files_one_line_says_which(folder):
    absent = {"ag_news": "ag_news_csv/train.csv", "free_spoken_digits": "free_spoken_digits.npz", "celeba": "celeba"}
    for name, missing in absent.items():
        with pytest.raises(files.DataNotFoundError) as told:
            datasets.load(name)
        assert missing in str(told.value)
        assert str(folder) in str(told.value)
        assert "\n" not in str(told.value)


NEWS = b'"3","Fears for ""T N""","Unions say, so"\n"2","A goal","Two to one"\n'


def test_news_is_read_from_the_official_files_and_from_those_with_a_first_line(folder):
    (folder / "ag_news_csv").mkdir()
    for part in ("train.csv", "test.csv"):
        (folder / "ag_news_csv" / part).write_bytes(NEWS)
    data = datasets.load("ag_news")
    assert data.y_train.tolist() == [2, 1]
    named = folder / "named.csv.gz"
    named.write_bytes(gzip.compress(b"class,title,description\n" + NEWS))
    texts, classes = ag_news.read_rows(named)
    assert texts == ['Fears for "T N" Unions say, so', "A goal Two to one"]
    assert classes.tolist() == [2, 1]
    named.write_bytes(gzip.compress(b'"1","no description"\n'))
    with pytest.raises(ValueError, match=r"row 1 is not class \(1 to 4\), title, description"):
        ag_news.read_rows(named)


def test_too_few_examples_are_refused(folder):
    pictures = np.zeros((4, 2, 2))
    np.savez(folder / "toy.npz", x_train=pictures, y_train=[0, 1, 2, 0], x_test=pictures, y_test=[0, 1, 2, 0])
    with pytest.raises(ValueError, match="toy has 3 training examples of 0 and 1; got count=4"):
        datasets.two_classes("toy", (0, 1), 4, None, jax.random.key(0))


def test_celeba_is_read_from_a_folder(folder):
    place = folder / "celeba" / "img_align_celeba"
    place.mkdir(parents=True)
    lines = ["5", "Bald Eyeglasses"]
    for number in range(1, 6):
        glasses = number % 2
        Image.fromarray(np.full((20, 16, 3), 200 * glasses, np.uint8)).save(place / f"{number:06d}.jpg")
        lines.append(f"{number:06d}.jpg -1 {2 * glasses - 1}")
    (folder / "celeba" / celeba.LIST).write_text("\n".join(lines) + "\n")
    data = celeba.load(size=8)
    assert data.x_train.shape == (4, 8, 8, 3)
    assert data.y_train.tolist() == [1, 0, 1, 0]
    assert data.y_test.tolist() == [1]
    np.testing.assert_array_equal(data.x_train[:, 0, 0, 0] > 100, data.y_train)
    with pytest.raises(ValueError, match=r"attribute must be one of .*; got 'Hat'"):
        celeba.load("Hat")


def test_svhn_usps_and_cifar_formats_are_read():
    pixels, labels = np.arange(2 * 32 * 32 * 3).reshape(32, 32, 3, 2) % 251, np.array([[10], [3]])
    file = io.BytesIO()
    savemat(file, {"X": pixels.astype(np.uint8), "y": labels})
    svhn = image_formats.read_svhn({"train": file.getvalue(), "test": file.getvalue()})
    assert svhn.y_train.tolist() == [0, 3]
    np.testing.assert_array_equal(svhn.x_train[1], pixels[..., 1])

    usps = image_formats.read_usps({"a": bz2.compress(b"10 1:-1 2:1 256:0\n1 3:0.5\n"), "b": bz2.compress(b"2 1:1\n")})
    assert usps.y_train.tolist() == [9, 0]
    assert usps.x_train.shape == (2, 16, 16)
    assert [usps.x_train[0, 0, 0], usps.x_train[0, 0, 1], usps.x_train[1, 0, 2]] == [0, 255, 191]

    row = np.concatenate([[7, 42], np.repeat([10, 20, 30], 1024)]).astype(np.uint8)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in ("train", "test"):
            entry = tarfile.TarInfo(f"cifar-100-binary/{name}.bin")
            entry.size = row.size
            archive.addfile(entry, io.BytesIO(row.tobytes()))
    cifar = image_formats.read_cifar100({"x": packed.getvalue()})
    assert cifar.y_train.tolist() == [42]
    assert cifar.x_train[0, 5, 5].tolist() == [10, 20, 30]


def test_two_classes_are_two_that_are_there(folder):
    x, y = np.zeros((6, 2, 2), np.uint8), np.arange(6) % 3
    np.savez(folder / "mine.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    for classes in ((0, 9), (1, 1)):
        with pytest.raises(ValueError, match=f"must be different ones of 0, 1, 2; got {classes[0]} and {classes[1]}"):
            datasets.two_classes("mine", classes, 2, None, jax.random.key(0))
    with pytest.raises(ValueError, match="count must be an integer, at least 1"):
        datasets.two_classes("mine", (0, 1), -3, None, jax.random.key(0))


def test_more_than_two_classes_are_held_to_the_same_rules(folder):
    x = np.arange(24.0).reshape(6, 2, 2)
    np.savez(folder / "mine.npz", x_train=x, y_train=np.arange(6) % 3, x_test=x, y_test=np.arange(6) % 3)
    found = datasets.some_classes("mine", (2, 0, 1), 6, None, jax.random.key(0), flat=False)
    assert found.x.shape == (6, 2, 2, 1)
    order = np.argsort(found.x[:, 0, 0, 0])  # the six pictures as they lie in the file
    assert found.y[order].tolist() == [1, 2, 0, 1, 2, 0]
    with pytest.raises(ValueError, match="must be different ones of 0, 1, 2; got 0, 1 and 99"):
        datasets.some_classes("mine", (0, 1, 99), 2, None, jax.random.key(0))
    with pytest.raises(ValueError, match="mine has 6 training examples of 0, 1 and 2; got count=7"):
        datasets.some_classes("mine", (0, 1, 2), 7, None, jax.random.key(0))


def test_no_test_examples_may_be_asked_for(folder):
    pictures = np.arange(16.0).reshape(4, 2, 2)
    np.savez(folder / "toy.npz", x_train=pictures, y_train=[0, 1, 0, 1], x_test=pictures, y_test=[0, 1, 0, 1])
    found = datasets.two_classes("toy", (0, 1), 4, 0, jax.random.key(0))
    assert (found.x.shape, found.x_test.shape, found.y_test.shape) == ((4, 4), (0, 4), (0,))


def test_where_there_are_no_pictures_none_are_given(folder):
    np.savez(folder / "mine.npz", x_train=np.eye(4), y_train=[0, 1] * 2, x_test=np.eye(4), y_test=[0, 1] * 2)
    with pytest.raises(ValueError, match="flat must be True for mine, whose examples are vectors of 4 numbers"):
        datasets.two_classes("mine", (0, 1), 2, None, jax.random.key(0), flat=False)
