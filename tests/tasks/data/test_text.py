"""Text as characters."""

import gzip

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynascope.tasks.data.files import DataNotFoundError
from dynascope.tasks.data.text import characters, encode
from dynascope.tasks.next_token import NextToken


def test_a_text_is_places_in_its_own_alphabet():
    read = encode("banän")
    assert read.alphabet == ("a", "b", "n", "ä")
    assert read.tokens.tolist() == [1, 0, 2, 3, 2]


def test_a_file_or_a_name_in_the_data_folder(tmp_path, monkeypatch):
    (tmp_path / "mine.txt").write_text("abba", encoding="utf-8")
    assert characters(tmp_path / "mine.txt").tokens.tolist() == [0, 1, 1, 0]
    (tmp_path / "named.txt.gz").write_bytes(gzip.compress(b"cab"))
    monkeypatch.setenv("DYNASCOPE_DATA", str(tmp_path))
    assert characters("named").tokens.tolist() == [2, 0, 1]


def test_what_is_not_utf_8_gets_one_line(tmp_path):
    (tmp_path / "latin.txt").write_bytes("für".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin\.txt is not UTF-8 text \(byte 1 is 0xfc\)") as error:
        characters(tmp_path / "latin.txt")
    assert "\n" not in str(error.value)


def test_what_is_not_there_gets_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNASCOPE_DATA", str(tmp_path))
    with pytest.raises(DataNotFoundError, match=r"no text 'nothing' on this machine; put nothing\.txt\.gz into"):
        characters("nothing")


def test_windows_are_pieces_of_the_text_from_anywhere_in_it():
    task = NextToken(jnp.arange(20), 4)
    windows = np.asarray(task.sample(jax.random.key(0), 300))
    assert windows.shape == (300, 5)
    np.testing.assert_array_equal(np.diff(windows, axis=1), 1)
    assert set(windows[:, 0]) == set(range(16))


def test_the_loss_is_that_of_the_token_after_each():
    task = NextToken(jnp.arange(20), 4)

    def knows(tokens):
        return 50.0 * jax.nn.one_hot(tokens + 1, 21)

    windows = task.sample(jax.random.key(0), 3)
    assert float(task.loss(knows, windows)) < 1e-6
    np.testing.assert_allclose(task.loss(lambda tokens: jnp.zeros((4, 21)), windows), np.log(21), rtol=1e-6)


def test_a_text_too_short_for_its_windows_gets_one_line():
    with pytest.raises(ValueError, match="context must be below the number of tokens, 4; got 4"):
        NextToken(jnp.arange(4), 4)


def test_packed_texts_that_cannot_be_read_are_named(tmp_path):
    packed = gzip.compress("café".encode("latin-1"))
    cases = {"latin.txt.gz": (packed, "is not UTF-8 text .byte 3 is 0xe9"), "not.txt.gz": (b"plain", "unpacked .Not a"),
             "cut.txt.gz": (packed[:-9], "unpacked .Compressed file ended")}  # fmt: skip
    for name, (raw, message) in cases.items():
        (tmp_path / name).write_bytes(raw)
        with pytest.raises(ValueError, match=f"{name} .*{message}"):
            characters(tmp_path / name)


def test_a_window_has_a_token_at_least():
    with pytest.raises(ValueError, match="context must be an integer, at least 1"):
        NextToken(jnp.arange(9), 0)
