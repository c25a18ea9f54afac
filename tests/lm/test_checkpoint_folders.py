"""`recall.checkpoints` on the checkpoints of a pretrained model: a tiny GPT-NeoX with random weights, saved twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynascope.experiments.recall.arithmetic import Arithmetic
from dynascope.experiments.recall.checkpoints import Checkpoints
from dynascope.experiments.recall.pretrained import Pretrained
from dynascope.experiments.recall.pretrained_checkpoints import OTHERS, WHOLE, missing_checkpoints
from dynascope.lab.errors import UsageError
from dynascope.lab.run import run
from dynascope.lm import extra, missing_extra
from dynascope.tasks.prompts import PREPOSITIONS, SENTENCES, indirect_objects

needs_the_extra = pytest.mark.skipif(bool(missing_extra()), reason="needs the extra lm")
STEPS, ASKED = (0, 8, 2500), 20


@pytest.fixture
def saved(tiny: Callable[..., Any], tmp_path: Path) -> tuple[Path, dict[int, Any], dict[str, int]]:
    """A folder of checkpoints, their models by step, and the vocabulary of whole words."""
    transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    torch = pytest.importorskip("torch")
    texts = [*PREPOSITIONS, *OTHERS, *SENTENCES, *(prompt.text for prompt in indirect_objects(ASKED)), "the <unk>"]
    words = dict.fromkeys(word for text in texts for word in text.replace(",", " ,").split())
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    models = {}
    for step in STEPS:
        models[step] = tiny("GPT-NeoX", vocab_size=len(vocabulary))
        with torch.no_grad():
            models[step].get_output_embeddings().weight *= 1 + step / 2500
        models[step].save_pretrained(tmp_path / f"step{step}")
        kept = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")
        kept.save_pretrained(tmp_path / f"step{step}")
    (tmp_path / "notes").mkdir()
    return tmp_path, models, vocabulary


def chances(model: Any, vocabulary: dict[str, int], text: str) -> np.ndarray:
    """The probabilities after a prompt, of transformers itself."""
    torch = pytest.importorskip("torch")
    ids = [[vocabulary[word] for word in text.replace(",", " ,").split()]]
    with torch.inference_mode():
        return torch.softmax(model.eval()(torch.tensor(ids)).logits[0, -1], -1).numpy()


@needs_the_extra
@pytest.mark.filterwarnings("ignore")
def test_what_is_measured_is_what_transformers_and_a_plain_singular_value_decomposition_give(saved):
    folder, models, vocabulary = saved
    measured = Checkpoints(checkpoints=str(folder), questions=ASKED, ranks=(2,)).measure(0).isel(seed=0)
    assert measured.step.values.tolist() == list(STEPS)
    model, the = models[2500], vocabulary["the"]
    after = np.stack([chances(model, vocabulary, word) for word in PREPOSITIONS])
    end = measured.sel(step=2500)
    assert float(end.word_the) == pytest.approx(after[:, the].mean(), rel=1e-4)
    assert float(end.word_rank) == pytest.approx(np.mean(1 + np.sum(after > after[:, [the]], axis=1)))
    prompts = indirect_objects(ASKED)
    names = [[vocabulary[name.strip()] for name in (prompt.target, prompt.subject)] for prompt in prompts]

    def wanted() -> np.ndarray:
        rows = [chances(model, vocabulary, prompt.text) for prompt in prompts]
        return np.array([row[[*pair, the]] for row, pair in zip(rows, names, strict=True)])

    def found(rank: int) -> np.ndarray:
        cut = end.sel(weight="3", rank=rank)
        return np.stack([cut.cut_right, cut.cut_subject, cut.cut_the], axis=-1)

    whole = wanted()
    np.testing.assert_allclose(found(WHOLE), whole, rtol=1e-4)
    assert float(end.context) == pytest.approx(np.mean(np.log(whole[:, 0] / whole[:, 1])), abs=1e-4)
    weight = model.gpt_neox.layers[2].mlp.dense_h_to_4h.weight
    left, sizes, right = np.linalg.svd(weight.detach().numpy())
    weight.data = weight.data.new_tensor((left[:, :2] * sizes[:2]) @ right[:2])
    np.testing.assert_allclose(found(2), wanted(), rtol=1e-3)
    assert np.max(np.abs(found(2) - whole)) > 1e-4


@needs_the_extra
@pytest.mark.filterwarnings("ignore")
def test_a_folder_of_checkpoints_is_run_judged_and_drawn(saved, store):
    folder, *_ = saved
    stored = run(Checkpoints(checkpoints=str(folder), questions=ASKED, ranks=(0, 2)), store=store)
    ids = [claim.id for claim in stored.claims]
    assert ids == ["association", "the-is-early", "frequency-first", "context-later", "cutting-helps"]
    assert all(path.stat().st_size for path in (stored.folder / "figures").iterdir())


@needs_the_extra
@pytest.mark.filterwarnings("ignore")
def test_a_layer_or_a_matrix_that_a_model_has_not_is_told_before_anything_is_asked(saved, store):
    model = str(saved[0] / "step0")
    with pytest.raises(UsageError, match="layer must be one of the 3 layers of this model; got 99"):
        run(Arithmetic(model=model, dtype="float32", problems="made", count=2, layer=99), store=store)
    with pytest.raises(UsageError, match="matrices of this model are in, out, q, k, v, o; got gate"):
        run(Pretrained(model=model, matrices=("gate",)), store=store)
    assert not list(store.root.glob("*/*.unfinished"))


def test_what_is_missing_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(extra, "PACKAGES", ())
    told = "checkpoints must be a folder with two folders or more called step0, step1, ..."
    assert missing_checkpoints(str(tmp_path / "nowhere")).startswith(told)
    for step in (0, 1):
        (tmp_path / f"step{step}").mkdir()
        (tmp_path / f"step{step}" / "model.safetensors").touch()
    assert missing_checkpoints(str(tmp_path)) == ""
    (tmp_path / "step1" / "model.safetensors").unlink()
    assert "checkpoints must be a folder with weights (.safetensors, .bin, .gguf)" in missing_checkpoints(str(tmp_path))
    assert Checkpoints(checkpoints=str(tmp_path)).missing()
    assert Checkpoints().missing() == ""
