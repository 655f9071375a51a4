"""Operations that read or write at indices."""

from __future__ import annotations

from typing import Any, Callable, Optional

import jax
import jax.numpy as jnp
import numpy as np

Array = Any


def _embedding(weight: Array, indices: Array, *_: Any) -> Array:
    return jnp.take(weight, indices, axis=0, mode="clip")


def _embedding_bag(
    weight: Array, indices: Array, offsets: Array, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Optional[Array] = None,
    include_last_offset: bool = False, padding_idx: Optional[int] = None,
) -> tuple[Array]:  # fmt: skip
    """The sum, mean or maximum of the rows of each bag. Bags are equally long: those of indices of
    two axes, which PyTorch merges, are so."""
    length = _length_of_bags(indices.shape[0], offsets, include_last_offset)
    if length is None:
        raise NotImplementedError(
            "`embedding_bag` with bags of several lengths",
            "give it indices of two axes, a bag in each row, filled up with `padding_idx`",
        )
    bags = indices.reshape(-1, length)
    count: Any = length
    rows = jnp.take(weight, bags, axis=0, mode="clip")
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(bags.shape)[..., None]
    if padding_idx is not None and padding_idx >= 0:
        if mode == 2:
            raise NotImplementedError(
                "`embedding_bag` of maxima with a `padding_idx`", "take the sum or mean of rows"
            )
        kept = (bags != padding_idx).astype(rows.dtype)[..., None]
        rows, count = rows * kept, jnp.maximum(kept.sum(1), 1)
    return (rows.max(1) if mode == 2 else rows.sum(1) / count if mode == 1 else rows.sum(1),)


def _length_of_bags(size: int, offsets: Array, include_last_offset: bool) -> Optional[int]:
    """How many indices each bag has; `None` where they differ, or depend on an argument."""
    if not isinstance(offsets, np.ndarray):
        return None
    ends = offsets if include_last_offset else np.append(offsets, size)
    length = int(ends[1]) if len(ends) > 1 else 0
    is_alike = length > 0 and np.array_equal(ends, np.arange(0, size + length, length))
    return length if is_alike else None


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
    "embedding": _embedding, "embedding_bag": _embedding_bag, "index": _index, "gather": _gather,
    "one_hot": _one_hot,
    "index_select": lambda x, dim, index: jnp.take(x, index, axis=dim),
    "index_copy": _index_copy, "slice_scatter": _slice_scatter,
    "copy": lambda x, source, non_blocking=False: jnp.broadcast_to(
        source, x.shape
    ).astype(x.dtype),
}  # fmt: skip
