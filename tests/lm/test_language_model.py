"""Next-token probabilities and truncation, on tiny random models of four architectures."""

from __future__ import annotations

import numpy as np
import pytest

from dynascope.lm import LanguageModel, truncation_table

torch = pytest.importorskip("torch", reason="needs the extra lm")
pytest.importorskip("transformers", reason="needs the extra lm")
pytestmark = pytest.mark.filterwarnings("ignore")

PROMPTS = ["a b c", "d e f", "a b", "c d e f g"]
FIRST_IN = {
    "GPT-2": lambda model: model.transformer.h[0].mlp.c_fc.weight.T,
    "GPT-NeoX": lambda model: model.gpt_neox.layers[0].mlp.dense_h_to_4h.weight,
    "Phi-3": lambda model: model.model.layers[0].mlp.gate_up_proj.weight,
    "Llama": lambda model: torch.cat(
        [model.model.layers[0].mlp.gate_proj.weight, model.model.layers[0].mlp.up_proj.weight]
    ),
}


def bits(model):
    return {name: value.detach().clone() for name, value in model.model.state_dict().items()}


def same_bits(model, before):
    return all(torch.equal(value, before[name]) for name, value in model.model.state_dict().items())


def attention(model):
    block = model.blocks[0]
    return next(getattr(block, name) for name in ("attn", "attention", "self_attn") if hasattr(block, name))


def test_layers_count_from_one(language_model):
    found = language_model.weight(1, "in")
    np.testing.assert_array_equal(found, FIRST_IN[language_model.layout.name](language_model.model).detach().numpy())
    assert language_model.layers == 3
    for layer in (0, 4, -1):
        with pytest.raises(ValueError, match="layer must be"):
            language_model.weight(layer, "in")
    with pytest.raises(ValueError, match=r"matrix must be one of"):
        language_model.weight(1, "middle")


def test_probabilities_are_the_models_whatever_the_batch(language_model):
    found = language_model.next_token_probs(PROMPTS)
    assert found.shape == (4, 64)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)
    for prompt, row in zip(PROMPTS, found, strict=True):
        ids = torch.tensor([language_model.tokenizer(prompt)["input_ids"]])
        with torch.no_grad():
            alone = language_model.model(ids).logits[0, -1].softmax(-1).numpy()
        np.testing.assert_allclose(row, alone, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(language_model.next_token_probs(PROMPTS, batch=1), found, rtol=1e-4, atol=1e-7)


def test_a_matrix_has_the_rank_it_is_cut_to_and_nothing_else_changes(language_model):
    for matrix in language_model.matrices:
        before, whole = bits(language_model), language_model.weight(2, matrix)
        with language_model.truncate(2, matrix, rank=3):
            cut = language_model.weight(2, matrix)
            changed = [
                name
                for name, value in language_model.model.state_dict().items()
                if not torch.equal(value, before[name])
            ]
            others = {name: language_model.weight(2, name) for name in "qkvo" if name != matrix}
        parts = np.split(np.arange(len(whole)), 2) if len(changed) == 2 else [np.arange(len(whole))]
        for rows in parts:
            u, s, v = np.linalg.svd(whole[rows].astype(float), full_matrices=False)
            np.testing.assert_allclose(cut[rows], (u[:, :3] * s[:3]) @ v[:3], atol=2e-6)
            assert np.linalg.matrix_rank(cut[rows], tol=1e-4) == 3
        assert len(changed) == (2 if language_model.layout.name == "Llama" and matrix == "in" else 1)
        for name, value in others.items():
            np.testing.assert_array_equal(value, language_model.weight(2, name))
        assert same_bits(language_model, before)


def test_bits_come_back_after_an_exception_and_after_nested_cuts(language_model):
    before = bits(language_model)

    def fail():
        with language_model.truncate(3, "out", share=0.5), language_model.truncate(1, "q", rank=1):
            assert not same_bits(language_model, before)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert same_bits(language_model, before)
    with pytest.raises(ValueError, match="rank must be"), language_model.truncate(1, "in", rank=33):
        pass
    with pytest.raises(TypeError, match="rank and share"), language_model.truncate(1, "in"):
        pass
    assert same_bits(language_model, before)


def test_the_whole_rank_leaves_every_bit(language_model):
    whole = language_model.next_token_probs(PROMPTS)
    with language_model.truncate(1, "in", share=1):
        np.testing.assert_array_equal(language_model.next_token_probs(PROMPTS), whole)


def test_fused_matrices_are_taken_apart_rightly(language_model):
    """Without values attention adds nothing; without queries or without keys it is the same, uniform."""
    if language_model.layout.name == "GPT-2":
        assert language_model.weight(1, "q").shape == (32, 32)
    outputs = []
    hook = attention(language_model).register_forward_hook(lambda *call: outputs.append(call[2][0]))
    with language_model.truncate(1, "v", rank=0):
        language_model.next_token_probs(["a b c"])
    hook.remove()
    assert float(outputs[0].abs().max()) == 0
    with language_model.truncate(1, "q", rank=0):
        no_queries = language_model.next_token_probs(PROMPTS)
    with language_model.truncate(1, "k", rank=0):
        no_keys = language_model.next_token_probs(PROMPTS)
    np.testing.assert_allclose(no_queries, no_keys, rtol=1e-5)
    assert np.abs(no_queries - language_model.next_token_probs(PROMPTS)).max() > 1e-4


def test_gate_is_before_up_where_they_are_one_matrix(made):
    model, llama = made("Phi-3"), made("Llama")
    fused = model.weight(1, "in")
    np.testing.assert_array_equal(model.weight(1, "gate"), fused[:48])
    np.testing.assert_array_equal(model.weight(1, "up"), fused[48:])
    np.testing.assert_array_equal(
        np.concatenate([llama.weight(1, "gate"), llama.weight(1, "up")]), llama.weight(1, "in")
    )


def test_tied_weights_stay_as_they_are(made):
    model = made("Llama", tie_word_embeddings=True)
    blocks = model.blocks
    blocks[1].mlp.up_proj.weight = blocks[0].mlp.up_proj.weight
    embeddings = model.model.get_input_embeddings().weight
    assert embeddings is model.model.get_output_embeddings().weight
    before, kept = blocks[1].mlp.up_proj.weight.detach().clone(), embeddings.detach().clone()
    with model.truncate(1, "up", rank=1):
        assert torch.equal(blocks[1].mlp.up_proj.weight, before)
        assert torch.equal(model.model.get_output_embeddings().weight, kept)
    assert blocks[0].mlp.up_proj.weight is blocks[1].mlp.up_proj.weight


def test_half_precision_stays_and_changed_weights_are_seen(made):
    model = made("GPT-NeoX")
    model.model.to(torch.bfloat16)
    with model.truncate(1, "in", rank=2):
        assert model.blocks[0].mlp.dense_h_to_4h.weight.dtype == torch.bfloat16
        assert np.linalg.matrix_rank(model.weight(1, "in"), tol=0.1) == 2
    assert model.next_token_probs(PROMPTS).dtype == np.float32
    with torch.no_grad():
        model.blocks[0].mlp.dense_h_to_4h.weight.copy_(torch.randn(48, 32))
    with model.truncate(1, "in", rank=2):
        cut = model.weight(1, "in")
    u, s, v = np.linalg.svd(model.weight(1, "in"), full_matrices=False)
    np.testing.assert_allclose(cut, (u[:, :2] * s[:2]) @ v[:2], atol=0.05)


def test_the_table_is_what_each_truncation_gives_alone(language_model):
    words = [(" x", " y")] * len(PROMPTS)
    table = truncation_table(language_model, PROMPTS, words, matrices=("in", "out"), ranks=(0, 4))
    token = language_model.token_after("a", " y")
    for layer in (1, 2, 3):
        with language_model.truncate(layer, "out", rank=4):
            alone = language_model.next_token_probs(PROMPTS)[:, token]
        found = table.probability.sel(layer=layer, matrix="out", rank=4).isel(word=1)
        np.testing.assert_allclose(found, alone, rtol=1e-4, atol=1e-7)
    whole = language_model.next_token_probs(PROMPTS)[:, token]
    np.testing.assert_allclose(table.full.isel(word=1), whole, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(language_model.next_token_probs(PROMPTS)[:, token], whole, rtol=1e-6)


def test_a_target_is_one_token(made):
    model = made("GPT-2")
    assert model.token_after("a b", " c") == model.tokenizer(" c")["input_ids"][0]
    with pytest.raises(ValueError, match="text must be one token after the prompt; ' New-York' is 3 after 'a b'"):
        model.token_after("a b", " New-York")
    assert model.token_after("a b", " New-York", first=True) == model.tokenizer(" New")["input_ids"][0]
    with pytest.raises(ValueError, match="as a word of its own"):
        model.token_after("a b", "c")
    with pytest.raises(ValueError, match="one token after the prompt"):
        truncation_table(model, ["a b"], [(" New-York",)])


def test_malformed_calls_are_told_in_one_line(made, as_a_user):
    model = made("GPT-2")
    for prompts in ("a b", [], [3], None):
        with pytest.raises(TypeError, match="prompts must be"):
            model.next_token_probs(prompts)
    with pytest.raises(ValueError, match="prompts must have a token each"):
        model.next_token_probs(["a", ""])
    with pytest.raises(TypeError, match="model must be"):
        LanguageModel(3, model.tokenizer)
    with pytest.raises(ValueError, match="built like one of GPT-2"):
        LanguageModel(torch.nn.Linear(2, 2), model.tokenizer)
    with pytest.raises(ValueError, match="each of layers must be"):
        truncation_table(model, ["a b"], [(" c",)], layers=(4,))
    with pytest.raises(ValueError, match="words must have"):
        truncation_table(model, ["a b", "c"], [(" c",)])


def test_continuations_are_the_likeliest_tokens(made):
    model = made("Llama")
    prompts = ["a b c d e f g", "a b c"]
    written = model.continuations(prompts, tokens=3)
    first = model.next_token_probs(prompts).argmax(1)
    for text, token in zip(written, first, strict=True):
        assert text.startswith(model.tokenizer.decode([token]))
    assert written == model.continuations(prompts, tokens=3, batch=1), "padding changes nothing"
