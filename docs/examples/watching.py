"""Watch a training in PyTorch, and replay its checkpoints."""

import sys
from importlib.util import find_spec
from pathlib import Path

if find_spec("torch") is None:
    sys.exit(print("this example needs PyTorch: pip install 'dynascope[torch]'"))

import torch

import dynascope as ds

torch.manual_seed(0)
torch.set_num_threads(1)
x = torch.randn(128, 8)
y = torch.sin(2 * x[:, :1]) * x[:, 1:2]
model = torch.nn.Sequential(torch.nn.Linear(8, 48), torch.nn.Tanh(), torch.nn.Linear(48, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
folder = Path("checkpoints")
folder.mkdir(exist_ok=True)

probes = {
    "loss": ds.torch.loss(),
    "sharpness": ds.torch.sharpness(),
    "kernel": ds.torch.kernel_distance(x[:32]),
    "ranks": ds.torch.weight_ranks(change=True),
    "hidden": ds.torch.cka("1"),
}

# the loop as it was, with one line more
watch = ds.torch.Watch(model, "mse", (x, y), probes)
for step in range(301):
    if step % 50 == 0:
        watch.record(step)
        torch.save(model.state_dict(), folder / f"step_{step}.pt")
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()

print(watch.trace)
watch.plot().savefig("watched.png")

# a training that is over: the same probes over its checkpoints
trace = ds.torch.replay(model, folder, "mse", (x, y), probes)
assert (trace.sharpness == watch.trace.sharpness).all()
