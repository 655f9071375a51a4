"""Operations that make tensors of nothing but numbers."""

from __future__ import annotations

from typing import Any, Callable

import jax.numpy as jnp

Array = Any


def _arange(*bounds: Any, dtype: Any = None, **_: Any) -> Array:
    numbers = jnp.arange(*bounds)
    return numbers if dtype is None else numbers.astype(dtype)


def _full(size: Any, value: Any, dtype: Any = None, **_: Any) -> Array:
    return jnp.full(size, value, dtype)


def _full_like(x: Array, value: Any, dtype: Any = None, **_: Any) -> Array:
    return jnp.full(x.shape, value, dtype or x.dtype)


def _filled(value: Any) -> Callable[..., Array]:
    return lambda size, dtype=None, **_: jnp.full(size, value, dtype or jnp.float32)


def _filled_like(value: Any) -> Callable[..., Array]:
    return lambda x, dtype=None, **_: jnp.full(x.shape, value, dtype or x.dtype)


def _new_filled(value: Any) -> Callable[..., Array]:
    return lambda x, size, dtype=None, **_: jnp.full(size, value, dtype or x.dtype)


def _new_full(x: Array, size: Any, value: Any, dtype: Any = None, **_: Any) -> Array:
    return jnp.full(size, value, dtype or x.dtype)


TABLE: dict[str, Callable[..., Array]] = {
    "arange": _arange, "full": _full, "full_like": _full_like, "new_full": _new_full,
    "zeros": _filled(0), "ones": _filled(1), "empty": _filled(0),
    "zeros_like": _filled_like(0), "ones_like": _filled_like(1), "empty_like": _filled_like(0),
    "new_zeros": _new_filled(0), "new_ones": _new_filled(1), "new_empty": _new_filled(0),
    "scalar_tensor": lambda value, dtype=None, **_: jnp.asarray(value, dtype),
    "eye": lambda rows, columns=None, dtype=None, **_: jnp.eye(rows, columns, dtype=dtype),
    "tril": lambda x, diagonal=0: jnp.tril(x, diagonal),
    "triu": lambda x, diagonal=0: jnp.triu(x, diagonal),
}  # fmt: skip
