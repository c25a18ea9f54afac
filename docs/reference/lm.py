"""Examples of the names of `dynascope.lm`, one for each cell. The models are tiny ones with random weights."""

import numpy as np
import xarray as xr

from dynascope import lm

prompt, words = "Madrid is located in", (" Spain", " the")

# %% LanguageModel
import transformers

config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=16, bos_token_id=None, eos_token_id=None)
tokenizer = lambda text: {"input_ids": [len(word) for word in text.split()]}
model = lm.LanguageModel(transformers.GPT2LMHeadModel(config), tokenizer)
with model.truncate(2, "out", rank=4):  # layers count from 1; at the end the old weights are back
    probabilities = model.next_token_probs([prompt, "Osaka is a city in"])
probabilities.shape  # (prompt, vocabulary)

# %% best_truncation
dims = ("layer", "matrix", "rank", "prompt", "word")
probability = np.array([[0.2, 0.4], [0.5, 0.1]]).reshape(2, 1, 1, 1, 2)
coords = {"layer": [28, 29], "matrix": ["up"], "rank": [5]}
table = xr.Dataset({"probability": (dims, probability), "full": (("prompt", "word"), [[0.3, 0.4]])}, coords)
lm.best_truncation(table)  # as `truncation_table` makes it

# %% load_lm
if not lm.missing_model("smollm2"):
    model = lm.load_lm("smollm2")  # or a folder, a .gguf file, the name of a model on a hub
    print(model.layers, model.matrices)

# %% missing_extra
if line := lm.missing_extra():  # "" where all packages of the extra are there
    assert "pip install 'dynascope[lm]'" in line

# %% missing_model
bool(lm.missing_model("a-model-that-is-not-here"))  # one line that says what to install or fetch

# %% rank_of_token
lm.rank_of_token(np.array([[0.1, 0.6, 0.3]]), 2)  # the second most likely

# %% ratio_gain
full = np.array([[0.2, 0.4], [0.3, 0.3], [0.1, 0.5]])
cut = np.array([[0.4, 0.2], [0.5, 0.1], [0.3, 0.3]])
lm.ratio_gain(full, cut)

# %% truncation_table
import transformers

config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=16, bos_token_id=None, eos_token_id=None)
tokenizer = lambda text: {"input_ids": [len(word) for word in text.split()]}
model = lm.LanguageModel(transformers.GPT2LMHeadModel(config), tokenizer)
table = lm.truncation_table(model, [prompt], [words], ranks=(2, 8))
dict(table.probability.sizes)
