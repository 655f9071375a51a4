"""Attention, norms and losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Callable, Optional

import jax
import jax.numpy as jnp
import numpy as np

Array = Any


def _attention(
    query: Array,
    key: Array,
    value: Array,
    mask: Optional[Array] = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
) -> Array:
    """Attention of `[…, N, T, H]` to `[…, K, S, H]`; where K is less, N/K heads share one."""
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1])
    if enable_gqa and query.shape[-3] != key.shape[-3]:
        groups = query.shape[-3] // key.shape[-3]
        query = _split_heads(query, groups)
        key, value = key[..., :, None, :, :], value[..., :, None, :, :]
        mask = mask if mask is None or mask.ndim < 3 else jnp.expand_dims(mask, -3)
    scores = jnp.matmul(query, jnp.swapaxes(key, -1, -2)) * scale
    if is_causal:
        mask = jnp.asarray(np.tri(*scores.shape[-2:], dtype=bool))
    if mask is not None and mask.dtype == bool:
        scores = jnp.where(mask, scores, float(np.finfo(np.float32).min))
    elif mask is not None:
        scores = scores + mask
    found = jnp.matmul(jax.nn.softmax(scores, axis=-1), value)
    if found.ndim > 4:
        found = jnp.reshape(found, (*found.shape[:-4], -1, *found.shape[-2:]))
    return found


def _split_heads(query: Array, groups: int) -> Array:
    *before, heads, length, width = query.shape
    return jnp.reshape(query, (*before, heads // groups, groups, length, width))


def _last(x: Array, shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(range(x.ndim - len(shape), x.ndim))


def _scaled(x: Array, weight: Any, bias: Any) -> Array:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def _layer_norm(
    x: Array, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Array:
    axes = _last(x, shape)
    mean = jnp.mean(x, axis=axes, keepdims=True)
    variance = jnp.var(x, axis=axes, keepdims=True)
    return _scaled((x - mean) * jax.lax.rsqrt(variance + eps), weight, bias)


def _rms_norm(
    x: Array, shape: Sequence[int], weight: Any = None, eps: Optional[float] = None
) -> Array:
    eps = float(np.finfo(np.float32).eps) if eps is None else eps
    mean = jnp.mean(x * x, axis=_last(x, shape), keepdims=True)
    return _scaled(x * jax.lax.rsqrt(mean + eps), weight, None)


def _group_norm(
    x: Array, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Array:
    batch, channels, *rest = x.shape
    split = jnp.reshape(x, (batch, groups, channels // groups, *rest))
    axes = tuple(range(2, split.ndim))
    mean = jnp.mean(split, axis=axes, keepdims=True)
    variance = jnp.var(split, axis=axes, keepdims=True)
    normal = jnp.reshape((split - mean) * jax.lax.rsqrt(variance + eps), x.shape)
    return _per_channel(normal, weight, bias)


def _per_channel(x: Array, weight: Any, bias: Any) -> Array:
    places = (-1, *[1] * (x.ndim - 2))
    weight = None if weight is None else jnp.reshape(weight, places)
    return _scaled(x, weight, None if bias is None else jnp.reshape(bias, places))


def _batch_norm(
    x: Array, weight: Any, bias: Any, mean: Array, variance: Array, *rest: Any
) -> Array:
    is_training, _, eps = rest[0], rest[1], rest[2]
    if is_training:
        raise NotImplementedError("a batch norm that is training")
    return _normalized_by(x, weight, bias, mean, variance, eps)


def _batch_norm_outside_training(
    x: Array, weight: Any, bias: Any, mean: Array, variance: Array, _: float, eps: float
) -> tuple[Array, Array, Array]:
    """What exported programs have for it; what training would keep is empty."""
    kept = jnp.zeros(0, x.dtype)
    return _normalized_by(x, weight, bias, mean, variance, eps), kept, kept


def _normalized_by(
    x: Array, weight: Any, bias: Any, mean: Array, variance: Array, eps: float
) -> Array:
    places = (-1, *[1] * (x.ndim - 2))
    normal = (x - jnp.reshape(mean, places)) * jax.lax.rsqrt(jnp.reshape(variance, places) + eps)
    return _per_channel(normal, weight, bias)


def _reduce(loss: Array, reduction: int) -> Array:
    return (loss, jnp.mean(loss), jnp.sum(loss))[reduction]


def _cross_entropy(
    scores: Array,
    target: Array,
    weight: Any = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Array:
    """Cross entropy of classes along dimension 1."""
    logs = jax.nn.log_softmax(scores, axis=1 if scores.ndim > 1 else 0)
    return _nll(logs, target, weight, reduction, ignore_index, label_smoothing)


def _nll(
    logs: Array,
    target: Array,
    weight: Any = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Array:
    if weight is not None or label_smoothing or target.shape == logs.shape:
        raise NotImplementedError("a loss with weights, smoothing, or targets that are no classes")
    logs = jnp.moveaxis(logs, 1, -1) if logs.ndim > 1 else logs
    # What is no class chooses nothing; a class that is ignored must not, either.
    counts = (target != ignore_index).astype(logs.dtype)
    chosen = jax.nn.one_hot(target, logs.shape[-1], dtype=logs.dtype)
    loss = -jnp.einsum("...v,...v->...", logs, chosen)
    if 0 <= ignore_index < logs.shape[-1]:
        loss = loss * counts
    return jnp.sum(loss) / jnp.sum(counts) if reduction == 1 else _reduce(loss, reduction)


def _mse(a: Array, b: Array, reduction: int = 1) -> Array:
    return _reduce((a - b) * (a - b), reduction)


TABLE: dict[str, Callable[..., Array]] = {
    "scaled_dot_product_attention": _attention, "layer_norm": _layer_norm, "rms_norm": _rms_norm,
    "group_norm": _group_norm, "batch_norm": _batch_norm, "cross_entropy_loss": _cross_entropy,
    "_native_batch_norm_legit_no_training": _batch_norm_outside_training,
    "nll_loss": _nll, "nll_loss_nd": _nll, "mse_loss": _mse,
}  # fmt: skip
