"""On an accelerator: one Adam step of a ViT, against the same ViT in PyTorch under torch.compile; what probes cost.

python -m benchmarks.vision_step [float32 | bfloat16]...
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import dynascope as ds
from benchmarks.timing import on_accelerator, tell
from dynascope.tasks.classification import Labeled, classification

SHAPE = {"patch": 4, "dim": 512, "depth": 6, "heads": 8, "head_dim": 128, "hidden": 512}
BATCH, STEPS, IMAGES, RATE = 512, 480, 20_480, 1e-4


class Training(eqx.Module):
    """The ViT of the CIFAR-10 figures, trained by Adam."""

    compute: str = eqx.field(static=True)
    probed: bool = eqx.field(static=True)
    augmented: bool = eqx.field(static=True)

    def __call__(self, seed: Any, x: Any, y: Any) -> ds.Descent:
        init, order = jax.random.split(jax.random.key(seed))
        task = classification(np.zeros((1, 1, 1, 3), np.uint8), *((4, True) if self.augmented else (0, False)))
        model = ds.models.ViT((32, 32, 3), 10, key=init, compute=self.compute, **SHAPE)
        probes: dict[str, Any] = {"end": ds.probes.probe(lambda snapshot: snapshot.model.places[0, 0], every=(STEPS,))}
        if self.probed:
            probes["spectrum"] = ds.probes.perturbation_spectrum(lambda model: model.products())
        return ds.Descent(model, task, optax.adam(RATE), data=Labeled(x, y), batch=BATCH, key=order, probes=probes)


def in_jax(compute: str, data: tuple[Any, Any], probed: bool = False, augmented: bool = False) -> float:
    """Milliseconds a step, the median of three runs; with the spectra of all heads once an epoch, if `probed`."""
    per_epoch = IMAGES // BATCH
    runs = [
        ds.ensemble(
            Training(compute, probed, augmented), {}, steps=STEPS, record=np.arange(per_epoch, STEPS + 1, per_epoch),
            fixed={"seed": 0, "x": data[0], "y": data[1]},
        ).trace
        for _ in range(3)
    ]  # fmt: skip
    return 1e3 * statistics.median(run.run_seconds for run in runs) / STEPS


def in_torch(compute: str, data: tuple[Any, Any]) -> float:
    """Milliseconds a step of the same network with torch.compile, fused Adam and fused attention."""
    import torch
    from torch import nn

    torch.set_float32_matmul_precision("high")  # TF32, as JAX has it on this device
    heads, head_dim, dim = SHAPE["heads"], SHAPE["head_dim"], SHAPE["dim"]

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.into = nn.Linear(dim, 3 * heads * head_dim, bias=False)
            self.out = nn.Linear(heads * head_dim, dim)

        def forward(self, x: Any) -> Any:
            b, t, _ = x.shape
            q, k, v = self.into(x).view(b, t, 3, heads, head_dim).permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v)
            return self.out(mixed.transpose(1, 2).reshape(b, t, heads * head_dim))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.attention = nn.LayerNorm(dim), nn.LayerNorm(dim), Attention()
            self.up, self.down = nn.Linear(dim, SHAPE["hidden"]), nn.Linear(SHAPE["hidden"], dim)

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.first(x))
            return x + self.down(nn.functional.gelu(self.up(self.second(x))))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches, self.classifier = nn.Linear(48, dim), nn.Linear(dim, 10)
            self.places, self.extra = nn.Parameter(torch.randn(65, dim)), nn.Parameter(torch.randn(1, 1, dim))
            self.blocks = nn.Sequential(*(Block() for _ in range(SHAPE["depth"])))
            self.norm = nn.LayerNorm(dim)

        def forward(self, x: Any) -> Any:
            b = len(x)
            x = x.view(b, 8, 4, 8, 4, 3).transpose(2, 3).reshape(b, 64, 48)
            x = torch.cat([self.extra.expand(b, -1, -1), self.patches(x)], 1) + self.places
            if compute == "bfloat16":
                x = x.bfloat16()
            return self.classifier(self.norm(self.blocks(x))[:, 0])

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = Net().to(device)
    compiled = torch.compile(net)
    adam = torch.optim.Adam(net.parameters(), lr=RATE, fused=device.type == "cuda")
    images, labels = torch.tensor(np.asarray(data[0])).to(device), torch.tensor(np.asarray(data[1])).long().to(device)

    def steps(count: int) -> None:
        for _ in range(count):
            rows = torch.randint(len(images), (BATCH,), device=device)
            x = images[rows].float() / 255
            with torch.autocast(device.type, torch.bfloat16, enabled=compute == "bfloat16"):
                loss = nn.functional.cross_entropy(compiled(x).float(), labels[rows])
            adam.zero_grad(set_to_none=True)
            loss.backward()
            adam.step()

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    steps(10)
    times = []
    for _ in range(3):
        wait()
        start = time.perf_counter()
        steps(STEPS)
        wait()
        times.append(1e3 * (time.perf_counter() - start) / STEPS)
    return statistics.median(times)


def main() -> None:
    if not on_accelerator("vision-step"):
        return
    rows = []
    draw = np.random.default_rng(0)
    data = draw.integers(0, 256, (IMAGES, 32, 32, 3), dtype=np.uint8), draw.integers(0, 10, IMAGES, dtype=np.int32)
    on_device = jnp.asarray(data[0]), jnp.asarray(data[1])
    for compute in sys.argv[1:] or ("bfloat16", "float32"):
        plain = in_jax(compute, on_device)
        print(f"{compute}: {plain:.2f} ms a step", flush=True)
        peer = in_torch(compute, data)
        print(f"PyTorch: {peer:.2f} ms", flush=True)
        rows.append({"compute": compute, "step": "PyTorch, torch.compile", "ms": round(peer, 2), "ratio": 1.0})
        rows.append({"compute": compute, "step": "dynascope", "ms": round(plain, 2), "ratio": round(plain / peer, 3)})
        for name, options in (
            ("with crops and flips", {"augmented": True}),
            ("with spectra each epoch", {"probed": True}),
        ):
            found = in_jax(compute, on_device, **options)
            print(f"{name}: {found:.2f} ms", flush=True)
            rows.append({"compute": compute, "step": name, "ms": round(found, 2), "extra": f"{found / plain - 1:.1%}"})
    names = dict.fromkeys((name for row in rows for name in row), "")
    device = jax.devices()[0].device_kind
    tell(f"vision-step: ViT 6 x 8 heads, 512/128, batch {BATCH}, Adam, {device}", [names | row for row in rows])


if __name__ == "__main__":
    main()
