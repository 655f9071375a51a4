"""Operations that read or write at indices."""

from __future__ import annotations

from typing import Any, Callable

import jax
import jax.numpy as jnp

Array = Any


def _embedding(weight: Array, indices: Array, *_: Any) -> Array:
    return jnp.take(weight, indices, axis=0, mode="clip")


def _index(x: Array, indices: Any) -> Array:
    """Elements at indices, which count from the start."""
    index = tuple(slice(None) if it is None else it for it in indices)
    return jnp.asarray(x).at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _gather(x: Array, dim: int, index: Array, sparse_grad: bool = False) -> Array:
    return jnp.take_along_axis(x, index, dim, "promise_in_bounds", wrap_negative_indices=False)


def _one_hot(index: Array, classes: int = -1) -> Array:
    return jax.nn.one_hot(index, classes, dtype=jnp.int32)


def _index_copy(x: Array, dim: int, index: Array, source: Array) -> Array:
    if index.shape != (1,):
        raise NotImplementedError("`index_copy` at more than one index")
    return jax.lax.dynamic_update_slice_in_dim(x, source, index[0], dim)


def _slice_scatter(
    x: Array, source: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Array:
    start, end, step = slice(start, end, step).indices(x.shape[dim])
    if step != 1:
        raise NotImplementedError("`slice_scatter` with a step")
    parts = [jax.lax.slice_in_dim(x, 0, start, axis=dim), source.astype(x.dtype)]
    parts.append(jax.lax.slice_in_dim(x, end, x.shape[dim], axis=dim))
    return jnp.concatenate([it for it in parts if it.shape[dim]], dim)


TABLE: dict[str, Callable[..., Array]] = {
    "embedding": _embedding, "index": _index, "gather": _gather, "one_hot": _one_hot,
    "index_select": lambda x, dim, index: jnp.take(x, index, axis=dim),
    "index_copy": _index_copy, "slice_scatter": _slice_scatter,
    "copy": lambda x, source, non_blocking=False: jnp.broadcast_to(
        source, x.shape
    ).astype(x.dtype),
}  # fmt: skip
