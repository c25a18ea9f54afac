"""Loading of models, and what is said where something is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynascope import lm
from dynascope.checks import InputError
from dynascope.lm import extra
from dynascope.tasks.data.files import DataNotFoundError


@pytest.fixture
def without_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extra, "PACKAGES", ("torch_that_is_not_there",))


def test_without_the_extra_one_line_says_what_to_install(without_extra):
    advice = "torch_that_is_not_there is missing; install with: pip install 'dynascope[lm]'"
    assert lm.missing_extra() == advice
    assert lm.missing_model("smollm2") == advice
    with pytest.raises(ImportError, match=r"pip install 'dynascope\[lm\]'"):
        lm.load_lm("smollm2")


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        ("name", 3, "name must be"),
        ("name", " ", "name must be"),
        ("dtype", "int8", "dtype must be one of"),
        ("revision", 3, "revision must be"),
        ("device", 3, "device must be"),
        ("offline", "yes", "offline must be"),
    ],
)
def test_malformed_arguments_are_refused_before_anything_is_imported(argument, value, said, without_extra, as_a_user):
    with pytest.raises((TypeError, ValueError), match=said):
        lm.load_lm(**{"name": "smollm2", argument: value})


def test_a_folder_without_weights_and_a_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(extra, "PACKAGES", ())
    (tmp_path / "config.json").write_text("{}")
    assert "must be a folder with weights (.safetensors, .bin, .gguf)" in lm.missing_model(str(tmp_path))
    monkeypatch.setenv("DYNASCOPE_CACHE", str(tmp_path))
    monkeypatch.delenv("DYNASCOPE_DATA", raising=False)
    assert "run `dynascope data fetch smollm2`" in lm.missing_model("smollm2")


@pytest.mark.filterwarnings("ignore")
def test_a_model_is_read_from_a_folder(tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    transformers = pytest.importorskip("transformers", reason="needs the extra lm")
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<unk>": 0, "a": 1, "b": 2}, unk_token="<unk>"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>").save_pretrained(tmp_path / "step1")
    wanted = tiny("GPT-NeoX")
    wanted.save_pretrained(tmp_path / "step1")
    model = lm.load_lm(tmp_path / "step1", device="cpu")
    probabilities = model.next_token_probs(["a b"])
    expected = lm.LanguageModel(wanted, model.tokenizer).next_token_probs(["a b"])
    assert abs(probabilities - expected).max() < 1e-6
    assert model.token_after("a", " b") == 2
    assert lm.load_lm(tmp_path / "step1", dtype="bfloat16", device="cpu").model.dtype.itemsize == 2
    for file in (tmp_path / "step1").glob("*.safetensors"):
        file.write_bytes(b"damaged")
        with pytest.raises(InputError, match="name must be a model that can be loaded"):
            lm.load_lm(tmp_path / "step1")
        file.unlink()
    with pytest.raises(ValueError, match="name must be a folder with weights"):
        lm.load_lm(tmp_path / "step1")
    with pytest.raises(ValueError, match=r"name must be a folder with a model, or a .gguf file"):
        lm.load_lm(tmp_path / "step2")
    with pytest.raises(ValueError, match="name must be a model that can be loaded; 'nobody/nothing' cannot"):
        lm.load_lm("nobody/nothing")
    monkeypatch.setenv("DYNASCOPE_CACHE", str(tmp_path))
    monkeypatch.delenv("DYNASCOPE_DATA", raising=False)
    with pytest.raises(DataNotFoundError, match="dynascope data fetch smollm2"):
        lm.load_lm("smollm2")
