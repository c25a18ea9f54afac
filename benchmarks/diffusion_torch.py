"""The diffusion model of pictures in PyTorch: milliseconds a step, for `diffusion_step`. It imports no JAX.

python -m benchmarks.diffusion_torch [published]
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.unet_torch import UNet

CONDITION, BATCH, IMAGES, RATE, REPEATS = 4, 128, 5222, 1e-3, 3
STEPS = 2 * (IMAGES // BATCH)
LOW, HIGH, NOISE = -5.0, 10.0, 1e-3


def milliseconds(published: bool) -> float:
    """As the published program runs it (PyTorch's defaults, deterministic convolutions, batches from four workers, the
    loss read at every step), or as fast as it goes eagerly."""
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = published, not published
    torch.backends.cuda.matmul.allow_tf32 = not published
    torch.backends.cudnn.allow_tf32 = True  # the default
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    pictures, told = torch.rand(IMAGES, 3, 32, 32), torch.rand(IMAGES, CONDITION)
    net = UNet(3, CONDITION).to(device)
    schedule = torch.nn.Parameter(torch.tensor([LOW, HIGH - LOW], device=device))
    parameters = [*net.parameters(), schedule]
    rule = torch.optim.AdamW(parameters, RATE, weight_decay=0.01)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        loader = DataLoader(TensorDataset(pictures, told), BATCH, shuffle=True, num_workers=4, drop_last=True)
        images, conditions = pictures.to(device), told.to(device)
        while True:
            if published:
                yield from loader
                continue
            for rows in torch.randperm(IMAGES, device=device)[: IMAGES // BATCH * BATCH].view(-1, BATCH):
                yield images[rows], conditions[rows]

    def loss(x: Tensor, c: Tensor) -> Tensor:
        e = torch.randn_like(x)
        times = (torch.rand(1, device=device) + torch.arange(BATCH, device=device)) / BATCH
        gamma = schedule[0] + schedule[1].abs() * times
        column = gamma[:, None, None, None]
        z = torch.sigmoid(-column).sqrt() * x + torch.sigmoid(column).sqrt() * e
        v = torch.sigmoid(schedule.sum())
        latent = v + (1 - v) * (x**2).mean() - v.log() - 1
        errors = (e - net(z, gamma, c)) ** 2
        return 0.5 * (schedule[1].abs() * errors.mean() + latent + schedule[0].exp() / NOISE**2) / math.log(2)

    def job() -> None:
        for _, (x, c) in zip(range(STEPS), batches(), strict=False):
            value = loss(x.to(device), c.to(device))
            rule.zero_grad(set_to_none=True)
            value.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 0.01)
            rule.step()
            if published:
                value.item()
        if device.type == "cuda":
            torch.cuda.synchronize()

    job()
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        job()
        seconds.append(time.perf_counter() - start)
    return 1e3 * statistics.median(seconds) / STEPS


if __name__ == "__main__":
    print(milliseconds("published" in sys.argv[1:]))
