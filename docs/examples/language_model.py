"""A pretrained language model with one of its matrices truncated, for a while."""

import sys

import dynascope as ds

if missing := ds.lm.missing_model("smollm2"):
    print(f"this example needs a model: {missing}")
    sys.exit(0)

# your own: a folder, a .gguf file, a name on a hub; or ds.lm.LanguageModel(model, tokenizer) around what is loaded
model = ds.lm.load_lm("smollm2")
prompts = ["Madrid is located in", "Krakow is a city in", "Osaka is a city in"]
words = [(" Spain", " the"), (" Poland", " the"), (" Japan", " the")]

with model.truncate(29, "up", rank=115):  # layers count from 1; at the end the old weights are back, bit by bit
    probabilities = model.next_token_probs(prompts)  # (prompt, vocabulary)
print([model.tokenizer.decode([token]) for token in probabilities.argmax(1)])

table = ds.lm.truncation_table(model, prompts, words, layers=(28, 29, 30), matrices=("up", "out"), ranks=(5, 115))
print(ds.lm.best_truncation(table))  # the layer, matrix and rank with the largest P(first word) / P(last word)
