"""PyTorch's functions in JAX, by name and with PyTorch's arguments, if torch2jax has none or a different one.

torch2jax 0.1.0 has 47 functions, without division, softmax or an embedding; its `gelu` is the approximate one.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from dynascope.models import torch_layers as layers


def gelu(input: Array, approximate: str = "none") -> Array:
    return jax.nn.gelu(input, approximate=approximate == "tanh")


def softplus(input: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    return jnp.where(beta * input > threshold, input, jnp.logaddexp(beta * input, 0) / beta)


def dropout(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False) -> Array:
    if training and p:
        raise ValueError("it is random in evaluation mode too, and a model is a deterministic function")
    return input


def softmax(input: Array, dim: int, _stacklevel: int = 3, dtype: Any = None) -> Array:
    return jax.nn.softmax(to(input, dtype=dtype), operator.index(dim))


def log_softmax(input: Array, dim: int, _stacklevel: int = 3, dtype: Any = None) -> Array:
    return jax.nn.log_softmax(to(input, dtype=dtype), operator.index(dim))


def flatten(input: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    first, last = start_dim % max(input.ndim, 1), end_dim % max(input.ndim, 1)
    return input.reshape(*input.shape[:first], -1, *input.shape[last + 1 :])


def expand(input: Array, *sizes: Any) -> Array:
    """-1 keeps a length."""
    wanted = _sequence(sizes)
    old = (1,) * (len(wanted) - input.ndim) + input.shape
    return jnp.broadcast_to(input, [was if size == -1 else size for was, size in zip(old, wanted, strict=True)])


def squeeze(input: Array, dim: Any = None) -> Array:
    axes = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    return jnp.squeeze(input, tuple(axis for axis in axes if input.shape[axis] == 1))


def split(tensor: Array, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Array, ...]:
    """Pieces of one length (the last may be shorter), or of the lengths given."""
    step = split_size_or_sections
    if isinstance(step, int):
        edges = list(range(step, tensor.shape[dim], step))
    else:
        edges = [sum(step[: i + 1]) for i in range(len(step) - 1)]
    return tuple(jnp.split(tensor, edges, axis=dim))


def chunk(input: Array, chunks: int, dim: int = 0) -> tuple[Array, ...]:
    return split(input, math.ceil(input.shape[dim] / chunks), dim)


def pad(input: Array, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Array:
    """`pad`: how many before and after, of the last axis, then of the last but one, ..."""
    if mode != "constant":
        raise ValueError(f"its mode {mode} is not supported")
    widths = [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    return jnp.pad(input, [(0, 0)] * (input.ndim - len(widths)) + widths, constant_values=value or 0)


def to(input: Array, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False) -> Array:
    """Only the dtype counts: JAX decides on the device."""
    for wanted in (*args, dtype):
        if isinstance(wanted, jax.Array):
            input = input.astype(wanted.dtype)
        elif isinstance(wanted, jnp.dtype):
            input = input.astype(wanted)
    return input


def var(input: Array, dim: Any = None, *, unbiased: bool = True, correction: Any = None, keepdim: bool = False):
    return jnp.var(input, dim, ddof=int(unbiased) if correction is None else correction, keepdims=keepdim)


def getitem(input: Array, key: Any) -> Array:
    keys = key if isinstance(key, tuple) else (key,)
    return input[tuple(jnp.asarray(part) if isinstance(part, list) else part for part in keys)]


def cat(tensors: Sequence[Array], dim: int = 0) -> Array:
    """An empty tensor of one axis goes with any shape, as in PyTorch."""
    return jnp.concatenate([tensor for tensor in tensors if tensor.shape != (0,)] or tensors, dim)


def addmm(input: Array, mat1: Array, mat2: Array, *, beta: float = 1, alpha: float = 1) -> Array:
    return beta * input + alpha * (mat1 @ mat2)


def gather(input: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    """Along the other axes, `index` may be shorter than `input`, as in PyTorch."""
    kept = tuple(slice(None) if i == dim % input.ndim else slice(0, n) for i, n in enumerate(index.shape))
    return jnp.take_along_axis(input[kept], index, dim)


def spatial(layer: Callable, n: int) -> Callable:
    """The same for inputs with `n` axes of space, after those of batch and channels, only."""

    def checked(input: Array, *args: Any, **options: Any) -> Array:
        if input.ndim != n + 2:
            raise ValueError(f"it needs an input (batch, channels, {n} of space); got the shape {input.shape}")
        return layer(input, *args, **options)

    return checked


def _sequence(values: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes or axes, given one by one or as one sequence."""
    return tuple(values[0]) if isinstance(values[0], tuple | list) else values


FUNCTIONS: dict[str, Callable] = {
    **{name: getattr(jnp, name) for name in ("exp", "log", "log1p", "sin", "cos", "sqrt", "square", "sign", "tanh")},
    **{name: getattr(jnp, name) for name in ("abs", "matmul", "pow", "where", "maximum", "minimum", "einsum")},
    "add": lambda input, other: jnp.add(input, other),
    "sub": lambda input, other: jnp.subtract(input, other),
    "mul": lambda input, other: jnp.multiply(input, other),
    "div": lambda input, other: jnp.true_divide(input, other),
    "bmm": jnp.matmul,
    "addmm": addmm,
    "gather": gather,
    "neg": jnp.negative,
    "rsqrt": lax.rsqrt,
    "erf": jax.scipy.special.erf,
    "sigmoid": jax.nn.sigmoid,
    "log_sigmoid": jax.nn.log_sigmoid,
    "softsign": jax.nn.soft_sign,
    "relu": lambda input, inplace=False: jax.nn.relu(input),
    "relu6": lambda input, inplace=False: jax.nn.relu6(input),
    "silu": lambda input, inplace=False: jax.nn.silu(input),
    "mish": lambda input, inplace=False: jax.nn.mish(input),
    "selu": lambda input, inplace=False: jax.nn.selu(input),
    "elu": lambda input, alpha=1.0, inplace=False: jax.nn.elu(input, alpha),
    "leaky_relu": lambda input, negative_slope=0.01, inplace=False: jax.nn.leaky_relu(input, negative_slope),
    "hardtanh": lambda input, min_val=-1.0, max_val=1.0, inplace=False: jnp.clip(input, min_val, max_val),
    "clamp": lambda input, min=None, max=None: jnp.clip(input, min, max),
    **{function.__name__: function for function in (gelu, softplus, dropout, softmax, log_softmax)},
    "sum": lambda input, dim=None, keepdim=False: jnp.sum(input, dim, keepdims=keepdim),
    "mean": lambda input, dim=None, keepdim=False: jnp.mean(input, dim, keepdims=keepdim),
    "amax": lambda input, dim=None, keepdim=False: jnp.max(input, dim, keepdims=keepdim),
    "amin": lambda input, dim=None, keepdim=False: jnp.min(input, dim, keepdims=keepdim),
    "logsumexp": lambda input, dim, keepdim=False: jax.nn.logsumexp(input, dim, keepdims=keepdim),
    "reshape": lambda input, *shape: input.reshape(_sequence(shape)),
    "view": lambda input, *shape: input.reshape(_sequence(shape)),
    "permute": lambda input, *dims: jnp.transpose(input, _sequence(dims)),
    "repeat": lambda input, *sizes: jnp.tile(input, _sequence(sizes)),
    "transpose": lambda input, dim0, dim1: jnp.swapaxes(input, dim0, dim1),
    "t": lambda input: input.T,
    "unsqueeze": lambda input, dim: jnp.expand_dims(input, dim),
    "stack": lambda tensors, dim=0: jnp.stack(tensors, dim),
    "cat": cat,
    "unbind": lambda input, dim=0: tuple(jnp.moveaxis(input, dim, 0)),
    **{function.__name__: function for function in (flatten, expand, squeeze, split, chunk, pad, to, var)},
    "tril": lambda input, diagonal=0: jnp.tril(input, diagonal),
    "triu": lambda input, diagonal=0: jnp.triu(input, diagonal),
    "masked_fill": lambda input, mask, value: jnp.where(mask, value, input),
    "zeros_like": lambda input, dtype=None, device=None: jnp.zeros_like(input, dtype),
    "ones_like": lambda input, dtype=None, device=None: jnp.ones_like(input, dtype),
    "contiguous": lambda input: input,
    "clone": lambda input: input,
    "detach": lax.stop_gradient,
    "float": lambda input: input.astype(jnp.float32),
    "long": lambda input: input.astype(jax.dtypes.canonicalize_dtype(jnp.int64)),
    "bool": lambda input: input.astype(bool),
    "type": lambda input, dtype: to(input, dtype),
    "type_as": lambda input, other: input.astype(other.dtype),
    "size": lambda input, dim=None: input.shape if dim is None else input.shape[dim],
    **{f"conv{n}d": spatial(layers.convolution, n) for n in (1, 2, 3)},
    **{f"max_pool{n}d": spatial(layers.max_pool, n) for n in (1, 2, 3)},
    **{f"avg_pool{n}d": spatial(layers.avg_pool, n) for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": spatial(layers.adaptive_avg_pool, n) for n in (1, 2, 3)},
    "conv_transpose2d": spatial(layers.transposed_convolution, 2),
    "embedding": layers.embedding,
    "group_norm": layers.group_norm,
    "rms_norm": layers.rms_norm,
    "scaled_dot_product_attention": layers.scaled_dot_product_attention,
    "multi_head_attention_forward": layers.multi_head_attention_forward,
    "__getitem__": getitem,
    "__neg__": operator.neg,
    "__invert__": operator.invert,
    **{f"__{name}__": getattr(operator, f"__{name}__") for name in ("lt", "le", "gt", "ge", "eq", "ne")},
}

for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"):
    _function = getattr(operator, f"__{_name}__")
    FUNCTIONS[f"__{_name}__"] = _function
    FUNCTIONS[f"__r{_name}__"] = lambda input, other, function=_function: function(other, input)
