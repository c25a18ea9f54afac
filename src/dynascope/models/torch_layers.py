"""Layers of PyTorch in JAX, with PyTorch's arguments: embedding, normalization, convolution, pooling, attention.

Arrays are (batch, channels, *space), as in PyTorch. What an option asks for and is not here is an error, not ignored.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

Each = int | tuple[int, ...] | list[int]
"""One number for every axis of space, or a number for each."""


def embedding(
    input: Int[Array, ...],
    weight: Float[Array, "rows d"],
    padding_idx: int | None = None,
    max_norm: None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Float[Array, "... d"]:
    """No gradient reaches the row of `padding_idx`."""
    _refuse(max_norm=max_norm, scale_grad_by_freq=scale_grad_by_freq)
    if padding_idx is not None:
        weight = weight.at[padding_idx].set(lax.stop_gradient(weight[padding_idx]))
    return weight[input]


def group_norm(
    input: Float[Array, "b c *space"], num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Float[Array, "b c *space"]:
    groups = input.reshape(input.shape[0], num_groups, -1)
    groups = groups - groups.mean(-1, keepdims=True)
    result = (groups * lax.rsqrt(jnp.mean(groups**2, -1, keepdims=True) + eps)).reshape(input.shape)
    columns = (-1, *[1] * (input.ndim - 2))
    result = result if weight is None else result * weight.reshape(columns)
    return result if bias is None else result + bias.reshape(columns)


def rms_norm(
    input: Float[Array, ...], normalized_shape: Any, weight: Any = None, eps: float | None = None
) -> Float[Array, ...]:
    axes = tuple(range(-len(normalized_shape), 0))
    eps = float(jnp.finfo(input.dtype).eps) if eps is None else eps
    result = input * lax.rsqrt(jnp.mean(input**2, axes, keepdims=True) + eps)
    return result if weight is None else result * weight


def convolution(
    input: Float[Array, "b c *space"],
    weight: Float[Array, "out c_per_group *window"],
    bias: Any = None,
    stride: Each = 1,
    padding: Each | str = 0,
    dilation: Each = 1,
    groups: int = 1,
) -> Float[Array, "b out *positions"]:
    """In one, two or three dimensions."""
    n = input.ndim - 2
    pads = padding.upper() if isinstance(padding, str) else [(p, p) for p in _each(padding, n)]
    result = lax.conv_general_dilated(
        input, weight, _each(stride, n), pads, rhs_dilation=_each(dilation, n), feature_group_count=groups
    )
    return result if bias is None else result + bias.reshape(-1, *[1] * n)


def transposed_convolution(
    input: Float[Array, "b c *space"],
    weight: Float[Array, "c out *window"],
    bias: Any = None,
    stride: Each = 1,
    padding: Each = 0,
    output_padding: Each = 0,
    groups: int = 1,
    dilation: Each = 1,
) -> Float[Array, "b out *positions"]:
    """The transpose of `convolution` as a linear map, as a convolution of the input spread out by the stride."""
    _refuse(groups=groups != 1)
    n = input.ndim - 2
    reach = [d * (k - 1) for d, k in zip(_each(dilation, n), weight.shape[2:], strict=True)]
    pads = [
        (r - p, r - p + extra) for r, p, extra in zip(reach, _each(padding, n), _each(output_padding, n), strict=True)
    ]
    kernel = jnp.flip(jnp.swapaxes(weight, 0, 1), tuple(range(2, n + 2)))
    result = lax.conv_general_dilated(
        input, kernel, (1,) * n, pads, lhs_dilation=_each(stride, n), rhs_dilation=_each(dilation, n)
    )
    return result if bias is None else result + bias.reshape(-1, *[1] * n)


def max_pool(
    input: Float[Array, "b c *space"],
    kernel_size: Each,
    stride: Any = None,
    padding: Each = 0,
    dilation: Each = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Float[Array, "b c *positions"]:
    """Of equal numbers in a window the first gets the gradient, as in PyTorch.

    Comparisons of shifted inputs have derivatives of every order that are as fast as they are; XLA's reduction over
    windows has not.
    """
    _refuse(ceil_mode=ceil_mode, return_indices=return_indices)
    n = input.ndim - 2
    kernel, step, around, spread = (
        _each(value, n) for value in (kernel_size, stride or kernel_size, padding, dilation)
    )
    padded = jnp.pad(input, [(0, 0), (0, 0), *((p, p) for p in around)], constant_values=-np.inf)
    reach = [(size - 1) * d for size, d in zip(kernel, spread, strict=True)]
    counts = [(was - r - 1) // s + 1 for was, r, s in zip(padded.shape[2:], reach, step, strict=True)]
    if min(counts) < 1:
        raise ValueError(f"the window is larger than the input {input.shape[2:]}")
    largest = jnp.zeros(())
    for number, place in enumerate(itertools.product(*(range(size) for size in kernel))):
        first = [i * d for i, d in zip(place, spread, strict=True)]
        last = [f + (count - 1) * s + 1 for f, count, s in zip(first, counts, step, strict=True)]
        shifted = lax.slice(padded, (0, 0, *first), (*input.shape[:2], *last), (1, 1, *step))
        larger = (shifted > largest) | jnp.isnan(shifted)
        largest = jnp.where(larger, shifted, largest) if number else shifted
    return largest


def avg_pool(
    input: Float[Array, "b c *space"],
    kernel_size: Each,
    stride: Any = None,
    padding: Each = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: Any = None,
) -> Float[Array, "b c *positions"]:
    _refuse(ceil_mode=ceil_mode, divisor_override=divisor_override)
    totals = _window_sums(input, kernel_size, stride, padding)
    if count_include_pad:
        return totals / math.prod(_each(kernel_size, input.ndim - 2))
    return totals / _window_sums(jnp.ones_like(input), kernel_size, stride, padding)


def adaptive_avg_pool(input: Float[Array, "b c *space"], output_size: Any) -> Float[Array, "b c *positions"]:
    """Means over equal blocks: each length must be a multiple of the one asked for."""
    space = input.shape[2:]
    sizes = [size or was for was, size in zip(space, _each(output_size, len(space)), strict=True)]
    if any(was % size for was, size in zip(space, sizes, strict=True)):
        raise ValueError(f"{space} is no multiple of {tuple(sizes)}")
    return avg_pool(input, tuple(was // size for was, size in zip(space, sizes, strict=True)))


def scaled_dot_product_attention(
    query: Float[Array, "... l e"],
    key: Float[Array, "... s e"],
    value: Float[Array, "... s v"],
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Float[Array, "... l v"]:
    """softmax(query key' / sqrt(e)) value; a mask of booleans says what is seen, one of numbers is added.

    With `enable_gqa`, several heads of queries share one of keys and values.
    """
    _refuse(dropout_p=dropout_p)
    if enable_gqa:
        key, value = (jnp.repeat(x, query.shape[-3] // x.shape[-3], axis=-3) for x in (key, value))
    return _weights(query, key, attn_mask, is_causal, scale) @ value


def multi_head_attention_forward(
    query: Float[Array, "l b e"],
    key: Float[Array, "s b e"],
    value: Float[Array, "s b e"],
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    average_attn_weights: bool = True,
    is_causal: bool = False,
    **others: Any,
) -> tuple[Float[Array, "l b e"], Any]:
    """`nn.MultiheadAttention` with one width for queries, keys and values; also the weights, if asked for.

    Its masks of booleans say what is hidden, unlike those of `scaled_dot_product_attention`.
    """
    _refuse(
        bias_k=bias_k is not None,
        bias_v=bias_v is not None,
        add_zero_attn=add_zero_attn,
        training=training,
        key_padding_mask=key_padding_mask is not None,
        missing_batch_axis=query.ndim != 3,
        use_separate_proj_weight=use_separate_proj_weight,
        static_k=others.get("static_k") is not None,
        static_v=others.get("static_v") is not None,
    )
    width = query.shape[-1]

    def heads(x: Float[Array, "t b e"], part: int) -> Float[Array, "b h t d"]:
        rows = slice(part * width, (part + 1) * width)
        x = x @ in_proj_weight[rows].T
        x = x if in_proj_bias is None else x + in_proj_bias[rows]
        return x.reshape(*x.shape[:2], num_heads, -1).transpose(1, 2, 0, 3)

    if attn_mask is not None:
        attn_mask = ~attn_mask if attn_mask.dtype == bool else attn_mask
        if attn_mask.ndim == 3:
            attn_mask = attn_mask.reshape(-1, num_heads, *attn_mask.shape[1:])
    causal = is_causal and attn_mask is None
    weights = _weights(heads(query, 0), heads(key, 1), attn_mask, causal, None)
    out = (weights @ heads(value, 2)).transpose(2, 0, 1, 3).reshape(query.shape) @ out_proj_weight.T
    out = out if out_proj_bias is None else out + out_proj_bias
    return out, (weights.mean(1) if average_attn_weights else weights) if need_weights else None


def _weights(
    query: Float[Array, "... l e"], key: Float[Array, "... s e"], mask: Any, causal: bool, scale: float | None
) -> Float[Array, "... l s"]:
    scores = query @ jnp.swapaxes(key, -2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    if mask is not None:
        scores = jnp.where(mask, scores, -jnp.inf) if mask.dtype == bool else scores + mask
    return jax.nn.softmax(scores, -1)


def _window_sums(input: Array, kernel: Each, stride: Any, padding: Each) -> Array:
    n = input.ndim - 2
    return lax.reduce_window(
        input,
        np.zeros((), input.dtype),
        lax.add,
        (1, 1, *_each(kernel, n)),
        (1, 1, *_each(stride or kernel, n)),
        [(0, 0), (0, 0), *((p, p) for p in _each(padding, n))],
    )


def _each(value: Any, n: int) -> tuple[Any, ...]:
    if not isinstance(value, tuple | list):
        return (value,) * n
    return tuple(value) * n if len(value) == 1 else tuple(value)


def _refuse(**options: Any) -> None:
    for name, value in options.items():
        if value:
            raise ValueError(f"its {name} is not supported")
