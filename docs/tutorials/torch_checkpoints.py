# %% [markdown]
# # A folder of checkpoints of a small GPT
#
# The training is over, and what is left is a folder of checkpoints. `ds.torch.replay` measures each of them,
# natively in PyTorch and one at a time in memory. This tutorial trains a small GPT-2 of Hugging Face on characters
# of Shakespeare, forgets the training, and reads from the folder alone what happened. It needs `pip install
# 'dynascope[torch,lm]'`.

# %%
from pathlib import Path

import torch
import transformers

import dynascope as ds

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.manual_seed(0)
torch.set_num_threads(1)
tokens, alphabet = ds.tasks.data.text.characters()
tokens = torch.tensor(tokens[:100_000]).long()
length = 32
config = transformers.GPT2Config(
    vocab_size=len(alphabet), n_positions=length, n_embd=32, n_layer=2, n_head=4,
    bos_token_id=None, eos_token_id=None,
)  # fmt: skip


def windows(count, generator):
    """Pieces of the text, with the next characters as labels: transformers shifts them by itself."""
    starts = torch.randint(len(tokens) - length, (count,), generator=generator)
    ids = torch.stack([tokens[start : start + length] for start in starts])
    return {"input_ids": ids, "labels": ids}


# %% [markdown]
# ## Somebody's training
#
# It leaves folders `checkpoint-0`, `checkpoint-50`, ..., as the Hugging Face Trainer does, with the state of AdamW.

# %%
model, generator = transformers.GPT2LMHeadModel(config), torch.Generator().manual_seed(1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(401):
    if step % 50 == 0:
        model.save_pretrained(f"gpt/checkpoint-{step}")
        torch.save(optimizer.state_dict(), f"gpt/checkpoint-{step}/optimizer.pt")
    optimizer.zero_grad()
    model(**windows(16, generator)).loss.backward()
    optimizer.step()
sorted(path.name for path in Path("gpt").iterdir())

# %% [markdown]
# ## Probes over the folder
#
# The loss `None` takes the one that the model returns, `model(**data).loss`. Modules are named as in
# `model.named_modules()`, or by patterns. `sharpness(preconditioned=True)` measures in the geometry of Adam, for
# which `replay` loads the state of the optimizer.

# %%
data = windows(24, torch.Generator().manual_seed(2))
probes = {
    "loss": ds.torch.loss(),
    "sharpness": ds.torch.sharpness(tolerance=1e-2),
    "adam": ds.torch.sharpness(tolerance=1e-2, preconditioned=True, every=[100, 200, 300, 400]),
    "alike": ds.torch.cka(["transformer.h.0", "transformer.h.1"], to="last"),
    "rank": ds.torch.weight_ranks(change=True),
    "attention": ds.torch.attention_entropy(),
}
model = transformers.GPT2LMHeadModel(config)
trace = ds.torch.replay(model, "gpt", None, data, probes, optimizer=torch.optim.AdamW(model.parameters()))
trace[["loss", "sharpness", "sharpness_error"]].to_dataframe().round(4)

# %% [markdown]
# There is one panel per probe. The sharpness rises at first, then falls for the rest of the training. The
# outputs of both blocks (linear CKA with the last checkpoint) first move away from the end, then approach it. At the
# end all eight heads attend to fewer positions than at the start.

# %%
ds.figures.plot_trace(trace[["loss", "sharpness", "alike", "attention"]])

# %% [markdown]
# In the geometry of Adam, training with full batches is at its edge of stability if the sharpness is (2 + 2 β₁) /
# ((1 - β₁) η), here 38,000. With these small batches it is:

# %%
trace.adam.to_series().dropna().round(-1)

# %% [markdown]
# ## Which weights gain rank
#
# The stable rank of a change, Σσ²/σ₁², counts the directions in which a weight matrix has moved. The position
# embeddings and the second layers of the perceptrons gain the most. The first checkpoint has no change, and so no
# rank.

# %%
change = trace["rank"].to_pandas().round(1)
change.columns = change.columns.str.replace("transformer.", "").str.replace(".weight", "")
print(change.T.to_string())

# %% [markdown]
# ## Damaged checkpoints are left out
#
# A damaged file, or one of another architecture, causes a warning; the others are still measured.

# %%
import warnings

Path("gpt/checkpoint-150/model.safetensors").write_bytes(b"damaged")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    trace = ds.torch.replay(model, "gpt", None, data, {"loss": ds.torch.loss()})
print(*(str(warning.message) for warning in caught), sep="\n")
print("left out:", trace.attrs["left_out"])

# %% [markdown]
# The same from the shell, with the results in the [store](../store.md): `dynascope observe gpt --model
# FILE:FUNCTION --data FILE:FUNCTION`. All probes are on the page on [trainings in PyTorch](../torch.md); a loop
# that is still running is in [the tutorial before](torch_edge.py).
