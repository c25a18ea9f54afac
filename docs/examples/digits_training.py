"""A training in PyTorch that leaves a folder of checkpoints, and the functions that `dynascope observe` asks for."""

import sys
from importlib.util import find_spec
from pathlib import Path

if find_spec("torch") is None:
    sys.exit(print("this example needs PyTorch: pip install 'dynascope[torch]'"))

import torch

from dynascope.tasks.data import datasets


def make_model(width=32):
    torch.manual_seed(0)
    first, second, last = torch.nn.Linear(196, width), torch.nn.Linear(width, width), torch.nn.Linear(width, 10)
    return torch.nn.Sequential(first, torch.nn.Tanh(), second, torch.nn.Tanh(), last)


def data():
    digits = datasets.load("digits")
    x = torch.tensor(digits.x_train[:300]).float()[:, ::2, ::2].flatten(1)
    y = torch.nn.functional.one_hot(torch.tensor(digits.y_train[:300]).long(), 10).float()
    return (x - x.mean(0)) / x.std(), y


def train(folder, learning_rate, steps=1500):
    model, (x, y) = make_model(), data()
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    folder.mkdir(exist_ok=True)
    for step in range(steps + 1):
        if step % 100 == 0:
            torch.save(model.state_dict(), folder / f"step_{step}.pt")
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


if __name__ == "__main__":
    train(Path("digits-fast"), 1.0)
    train(Path("digits-slow"), 0.5)
