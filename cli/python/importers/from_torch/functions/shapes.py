"""Operations that move elements or see them in another shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import jax.numpy as jnp

Array = Any


def _view(x: Array, size: Any) -> Array:
    return jnp.reshape(x, size)


def _expand(x: Array, size: Sequence[int], implicit: bool = False) -> Array:
    before = len(size) - x.ndim
    kept = [x.shape[at - before] if of == -1 else of for at, of in enumerate(size)]
    return jnp.broadcast_to(x, kept)


def _squeeze(x: Array, dim: Any = None) -> Array:
    dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    return jnp.squeeze(x, tuple(at for at in dims if x.shape[at] == 1))


def _flatten(x: Array, start: int = 0, end: int = -1) -> Array:
    start, end = start % x.ndim, end % x.ndim
    return jnp.reshape(x, (*x.shape[:start], -1, *x.shape[end + 1 :]))


def _unflatten(x: Array, dim: int, sizes: Sequence[int]) -> Array:
    dim %= x.ndim
    return jnp.reshape(x, (*x.shape[:dim], *sizes, *x.shape[dim + 1 :]))


def _slice(x: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Array:
    index = [slice(None)] * x.ndim
    index[dim] = slice(start, end, step)
    return x[tuple(index)]


def _select(x: Array, dim: int, index: int) -> Array:
    at = index if index >= 0 else index + x.shape[dim]
    return jnp.squeeze(_slice(x, dim, at, at + 1), dim)


def _split(x: Array, size: Any, dim: int = 0) -> list[Array]:
    sizes = size
    if isinstance(size, int):
        length = x.shape[dim]
        sizes = [min(size, length - start) for start in range(0, length, size)]
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    return [_slice(x, dim, start, start + of) for start, of in zip(starts, sizes)]


def _chunk(x: Array, chunks: int, dim: int = 0) -> list[Array]:
    return _split(x, -(-x.shape[dim] // chunks), dim)


def _unbind(x: Array, dim: int = 0) -> list[Array]:
    return [_select(x, dim, at) for at in range(x.shape[dim])]


def _repeat(x: Array, repeats: Sequence[int]) -> Array:
    return jnp.tile(x, repeats)


def _repeat_interleave(x: Array, repeats: int, dim: Any = None, **_: Any) -> Array:
    return jnp.repeat(x, repeats, axis=dim)


def _pad(x: Array, pad: Sequence[int], value: Any = 0.0) -> Array:
    pairs = list(zip(pad[::2], pad[1::2]))[::-1]
    widths = [(0, 0)] * (x.ndim - len(pairs)) + pairs
    return jnp.pad(x, widths, constant_values=value or 0)


def _pad_by_mode(
    x: Array, pad: Sequence[int], mode: str = "constant", value: Any = None
) -> Array:
    if mode != "constant":
        raise NotImplementedError(f"padding by `{mode}`")
    return _pad(x, pad, value)


def _pixel_shuffle(x: Array, factor: int) -> Array:
    *before, channels, height, width = x.shape
    split = jnp.reshape(
        x, (*before, channels // factor**2, factor, factor, height, width)
    )
    rank = len(before)
    order = (*range(rank), rank, rank + 3, rank + 1, rank + 4, rank + 2)
    return jnp.reshape(
        jnp.transpose(split, order),
        (*before, channels // factor**2, height * factor, width * factor),
    )


TABLE: dict[str, Callable[..., Any]] = {
    "view": _view, "reshape": _view, "_unsafe_view": _view, "expand": _expand,
    "expand_as": lambda x, other: jnp.broadcast_to(x, other.shape),
    "broadcast_to": lambda x, size: jnp.broadcast_to(x, size),
    "view_as": lambda x, other: jnp.reshape(x, other.shape),
    "unsqueeze": jnp.expand_dims, "squeeze": _squeeze, "permute": jnp.transpose,
    "transpose": jnp.swapaxes, "t": jnp.transpose, "movedim": jnp.moveaxis,
    "flatten": _flatten, "unflatten": _unflatten, "slice": _slice, "select": _select,
    "narrow": lambda x, dim, start, length: _slice(x, dim, start, start + length),
    "split": _split, "split_with_sizes": _split, "chunk": _chunk, "unbind": _unbind,
    "cat": lambda tensors, dim=0: jnp.concatenate(tensors, dim),
    "concat": lambda tensors, dim=0: jnp.concatenate(tensors, dim),
    "stack": lambda tensors, dim=0: jnp.stack(tensors, dim),
    "repeat": _repeat, "tile": _repeat, "repeat_interleave": _repeat_interleave,
    "constant_pad_nd": _pad, "pad": _pad_by_mode, "pixel_shuffle": _pixel_shuffle,
    "roll": lambda x, shifts, dims=None: jnp.roll(
        x, tuple(shifts) if isinstance(shifts, list) else shifts,
        tuple(dims) if dims else None,
    ),
    "flip": lambda x, dims: jnp.flip(x, tuple(dims)),
    "numpy_T": jnp.transpose, "mT": lambda x: jnp.swapaxes(x, -1, -2),
}  # fmt: skip
