"""Vision transformers: an image as a row of patches."""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope.models.linear import Init, Linear, Scale
from dynascope.models.transformer import Compute, Products, Transformer

Pool = Literal["cls", "mean"]


class ViT(eqx.Module):
    """A transformer on the patches of one image (height, width, channels); `jax.vmap` it over images.

    Patches are mapped to `dim` numbers, each place adds a learned vector (standard normal at the start), and a linear
    classifier reads an extra token (`pool="cls"`) or the mean over patches. The defaults are those of the usual small
    ViT for 32 x 32 images. `scale` multiplies the initial attention, networks and classifier; patch map, places and
    extra token are left alone. ViT-4 of the catapult experiments: `ViT((32, 32, 3), 10, dim=256, depth=4, heads=4,
    hidden=256, pool="mean", init="ntk", bias=False, key=key)`.
    """

    patches: Linear
    places: Float[Array, "tokens dim"]
    extra: Float[Array, " dim"] | None
    trunk: Transformer
    classifier: Linear
    shape: tuple[int, int, int] = eqx.field(static=True)
    patch: int = eqx.field(static=True)

    def __init__(
        self,
        shape: tuple[int, int, int],
        classes: int,
        *,
        key: PRNGKeyArray,
        patch: int = 4,
        dim: int = 512,
        depth: int = 6,
        heads: int = 8,
        head_dim: int | None = None,
        hidden: int = 512,
        pool: Pool | str = "cls",
        pre_norm: bool = True,
        init: Init | str = "framework",
        scale: Scale = 1.0,
        bias: bool = True,
        compute: Compute | str = "float32",
    ) -> None:
        if len(shape) != 3 or min(*shape, classes) < 1:
            raise ValueError(f"a ViT needs shape (height, width, channels) and classes >= 1; got {shape} and {classes}")
        height, width, channels = shape
        if patch < 1 or height % patch or width % patch:
            raise ValueError(f"the patch must divide height and width; got patch={patch} for {height} x {width} pixels")
        if pool not in ("cls", "mean"):
            raise ValueError(f"pool must be cls or mean; got {pool!r}")
        keys = jax.random.split(key, 5)
        tokens = (height // patch) * (width // patch) + (pool == "cls")
        self.patches = Linear(patch * patch * channels, dim, key=keys[0], init=init, bias=bias)
        self.places = jax.random.normal(keys[1], (tokens, dim))
        self.extra = jax.random.normal(keys[2], (dim,)) if pool == "cls" else None
        self.trunk = Transformer(
            dim, depth, heads, hidden, head_dim,
            key=keys[3], pre_norm=pre_norm, init=init, scale=scale, bias=bias, compute=compute,
        )  # fmt: skip
        self.classifier = Linear(dim, classes, key=keys[4], init=init, scale=scale, bias=bias)
        self.shape, self.patch = (height, width, channels), patch

    def __call__(self, image: Float[Array, "height width channels"]) -> Float[Array, " classes"]:
        if image.shape != self.shape:
            raise ValueError(f"this ViT takes one image of shape {self.shape} (jax.vmap it); got {image.shape}")
        height, width, channels = self.shape
        p = self.patch
        cut = image.reshape(height // p, p, width // p, p, channels).swapaxes(1, 2)
        tokens = self.patches(cut.reshape(-1, p * p * channels))
        if self.extra is not None:
            tokens = jnp.concatenate([self.extra[None], tokens])
        out = self.trunk(tokens + self.places)
        pooled = out.mean(axis=0) if self.extra is None else out[0]
        return self.classifier(pooled.astype(self.places.dtype))

    def products(self) -> Products:
        """Of every layer and head: (W_K, W_Q) and (W_V, W_O)."""
        return self.trunk.products()
