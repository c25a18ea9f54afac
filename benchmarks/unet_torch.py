"""The conditional U-Net in PyTorch: what the diffusion race runs against, and what `models.UNet` is checked against."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def mlp(dim: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(dim, out), nn.GELU(), nn.Linear(out, out), nn.GELU())


class Block(nn.Module):
    def __init__(self, fan_in: int, out: int, vectors: Sequence[int], groups: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(groups, fan_in, 1e-6), nn.GroupNorm(groups, out, 1e-6)
        self.conv1, self.conv2 = nn.Conv2d(fan_in, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
        nn.init.zeros_(self.conv2.weight)
        nn.init.zeros_(self.conv2.bias)
        self.vectors = nn.ModuleList(mlp(dim, out) for dim in vectors)
        self.dropout = nn.Dropout(dropout)
        self.skip = nn.Identity() if fan_in == out else nn.Conv2d(fan_in, out, 1)

    def forward(self, x: Tensor, vectors: Sequence[Tensor]) -> Tensor:
        y = self.conv1(F.gelu(self.norm1(x)))
        for net, vector in zip(self.vectors, vectors, strict=True):
            y = y + net(vector)[:, :, None, None]
        return self.skip(x) + self.conv2(self.dropout(F.gelu(self.norm2(y))))


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int, groups: int) -> None:
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(groups, dim, 1e-6), heads
        self.q, self.k, self.v = (nn.Conv2d(dim, dim, 1, bias=False) for _ in range(3))
        self.out = nn.Conv2d(dim, dim, 1)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        y = self.norm(x)
        q, k, v = (net(y).view(b, self.heads, c // self.heads, h * w) for net in (self.q, self.k, self.v))
        weights = torch.einsum("bncq,bnck->bnqk", q, k).div(math.sqrt(c // self.heads)).softmax(-1)
        return x + self.out(torch.einsum("bnqk,bnck->bncq", weights, v).reshape(b, c, h, w))


class UNet(nn.Module):
    """Called with a batch: images (n, channels, height, width), gammas (n,) and conditions (n, condition)."""

    def __init__(
        self,
        image_channels: int = 3,
        condition: int = 4,
        channels: Sequence[int] = (64, 128, 256),
        blocks: int = 2,
        groups: int = 8,
        every: bool = True,
        heads: int = 4,
        dropout: float = 0.1,
        gammas: tuple[float, float] = (-5.0, 10.0),
    ) -> None:
        super().__init__()
        self.gammas, self.every, levels = gammas, every, len(channels)
        vectors = (256, condition) if every else (256,)
        self.time = mlp(64, 256)
        self.stem = nn.Conv2d(image_channels, channels[0], 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        width = channels[0]
        for each in channels:
            widths = [width, *[each] * blocks]
            self.down.append(nn.ModuleList(Block(a, each, vectors, groups, dropout) for a in widths[:-1]))
            width = each
        self.halved = nn.ModuleList(nn.Conv2d(each, each, 2, stride=2) for each in channels[:-1])
        self.entries = nn.ModuleList([] if every else [mlp(condition, each) for each in channels[:-1]])
        self.middle = nn.ModuleList(Block(width, width, vectors, groups, dropout) for _ in range(2))
        self.attention = Attention(width, heads, groups)
        for level in reversed(range(levels)):
            each = channels[level]
            widths = [each if level == levels - 1 else 2 * each, *[each] * (blocks - 1)]
            self.up.append(nn.ModuleList(Block(a, each, vectors, groups, dropout) for a in widths))
        self.doubled = nn.ModuleList(
            nn.ConvTranspose2d(channels[level], channels[level - 1], 2, stride=2) for level in range(levels - 1, 0, -1)
        )
        self.norm, self.head = (
            nn.GroupNorm(groups, channels[0], 1e-6),
            nn.Conv2d(channels[0], image_channels, 3, padding=1),
        )
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, z: Tensor, gamma: Tensor, condition: Tensor) -> Tensor:
        low, high = self.gammas
        frequencies = torch.exp(-math.log(1e4) / 31 * torch.arange(32, device=z.device, dtype=z.dtype))
        angles = (gamma - low)[:, None] / (high - low) * 1000 * frequencies
        time = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        vectors = (time, condition) if self.every else (time,)
        x, skips = self.stem(z), []
        for level, blocks in enumerate(self.down):
            for block in blocks:
                x = block(x, vectors)
            if level < len(self.halved):
                skips.append(x)
                x = self.halved[level](x)
                if not self.every:
                    x = x + self.entries[level](condition)[:, :, None, None]
        x = self.middle[1](self.attention(self.middle[0](x, vectors)), vectors)
        for level, blocks in enumerate(self.up):
            for block in blocks:
                x = block(x, vectors)
            if level < len(self.doubled):
                x = torch.cat([self.doubled[level](x), skips.pop()], 1)
        return z + self.head(F.gelu(self.norm(x)))
