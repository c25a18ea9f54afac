"""Watch a Trainer of Hugging Face: a small GPT-2 on random words."""

import sys
from importlib.util import find_spec

if any(find_spec(name) is None for name in ("torch", "transformers", "accelerate")):
    sys.exit(print("this example needs transformers: pip install 'dynascope[lm]'"))

import torch
import transformers

import dynascope as ds

torch.manual_seed(0)
torch.set_num_threads(1)
sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 20, "n_positions": 16}
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, bos_token_id=None, eos_token_id=None))
ids = torch.randint(20, (32, 8))
data = {"input_ids": ids[:8], "labels": ids[:8]}
probes = {"sharpness": ds.torch.sharpness(), "entropy": ds.torch.attention_entropy()}
trainer = transformers.Trainer(
    model,
    transformers.TrainingArguments("trained", max_steps=4, use_cpu=True, report_to=[], disable_tqdm=True),
    train_dataset=[{"input_ids": row, "labels": row} for row in ids],
)

# the trainer as it was, watched
from dynascope.torch.huggingface import watch_trainer

watch = watch_trainer(trainer, data, probes, every=2)
trainer.train()

print(watch.trace)
