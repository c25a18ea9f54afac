"""Vision transformers: an image as a sequence of patches."""

from __future__ import annotations

from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from dynascope import checks
from dynascope.models.transformer import Compute, Init, Linear, Products, Scale, Transformer

Pool = Literal["cls", "mean"]


class ViT(eqx.Module):
    """A transformer on the patches of one image (height, width, channels), with logits (classes,).

    Patches are mapped to `dim` numbers, each position adds a learned vector (standard normal at first), and a linear
    classifier reads the result. The defaults are those of the usual small ViT for 32 x 32 images. ViT-4 of the catapult
    experiments is `ViT((32, 32, 3), 10, dim=256, depth=4, heads=4, hidden=256, pool="mean", init="ntk", bias=False,
    key=key)`.

    Args:
        shape: Height, width and channels of an image.
        classes: Number of classes.
        key: Key of the weights.
        patch: Side of a patch, in pixels.
        dim: Width of a token.
        depth: Number of blocks.
        heads: Number of attention heads.
        head_dim: Width of a head. Default: dim / heads.
        hidden: Number of hidden neurons of a block.
        pool: The classifier reads an extra token ("cls") or the mean over patches ("mean").
        pre_norm: Layer norm at the input of each part of a block; otherwise after each sum.
        init: "framework", "normal" or "ntk"; see `Transformer`.
        scale: Factor of the initial attention, networks and classifier, but not of the embedding of patches.
        bias: Whether the networks and the attention's output have biases.
        compute: "bfloat16" for matrix products in that precision; see `Transformer`.
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
        pool: Pool = "cls",
        pre_norm: bool = True,
        init: Init = "framework",
        scale: Scale = 1.0,
        bias: bool = True,
        compute: Compute = "float32",
    ) -> None:
        height, width, channels = checks.image_shape(shape)
        checks.sizes(classes=classes, patch=patch, dim=dim)
        checks.flags(pre_norm=pre_norm, bias=bias)
        if height % patch or width % patch:
            raise ValueError(f"patch must divide height and width; got patch={patch} for {height} x {width} pixels")
        checks.one_of("pool", pool, get_args(Pool))
        keys = jax.random.split(checks.key("key", key), 5)
        tokens = (height // patch) * (width // patch) + (pool == "cls")
        self.patches = Linear(patch * patch * channels, dim, key=keys[0], init=init, bias=bias)
        self.places = jax.random.normal(keys[1], (tokens, dim))
        self.extra = jax.random.normal(keys[2], (dim,)) if pool == "cls" else None
        self.trunk = Transformer(
            dim,
            depth,
            heads,
            hidden,
            head_dim,
            key=keys[3],
            pre_norm=pre_norm,
            init=init,
            scale=scale,
            bias=bias,
            compute=compute,
        )
        self.classifier = Linear(dim, classes, key=keys[4], init=init, scale=scale, bias=bias)
        self.shape, self.patch = (height, width, channels), patch

    def __call__(self, image: Float[Array, "height width channels"]) -> Float[Array, " classes"]:
        checks.example(self, image, self.shape)
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
        """(W_K, W_Q) and (W_V, W_O) of every layer and head."""
        return self.trunk.products()
