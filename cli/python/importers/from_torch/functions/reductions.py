"""Sums, extrema, statistics, and what is computed along a dimension."""

from __future__ import annotations

from typing import Any, Callable

import jax
import jax.numpy as jnp

Array = Any


def _axes(dim: Any) -> Any:
    return tuple(dim) if isinstance(dim, (list, tuple)) and len(dim) > 0 else dim or None


def _reduced(function: Callable[..., Array]) -> Callable[..., Array]:
    def along(x: Array, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Array:
        axes = dim if isinstance(dim, int) else _axes(dim)
        x = x if dtype is None else x.astype(dtype)
        return function(x, axis=axes, keepdims=keepdim)

    return along


def _extremum(best: Callable[..., Array], where: Callable[..., Array]) -> Callable[..., Any]:
    def along(x: Array, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is None:
            return best(x)
        if hasattr(dim, "shape"):
            return jnp.maximum(x, dim) if best is jnp.max else jnp.minimum(x, dim)
        return best(x, axis=dim, keepdims=keepdim), where(x, axis=dim, keepdims=keepdim)

    return along


def _variance(
    x: Array, dim: Any = None, correction: Any = 1, keepdim: bool = False, **_: Any
) -> Array:
    if isinstance(correction, bool):
        correction = int(correction)
    axes = dim if isinstance(dim, int) else _axes(dim)
    return jnp.var(x, axis=axes, ddof=correction, keepdims=keepdim)


def _deviation(x: Array, *given: Any, **named: Any) -> Array:
    return jnp.sqrt(_variance(x, *given, **named))


def _softmax(x: Array, dim: int, dtype: Any = None) -> Array:
    return jax.nn.softmax(x if dtype is None or dtype is False else x.astype(dtype), axis=dim)


def _log_softmax(x: Array, dim: int, dtype: Any = None) -> Array:
    return jax.nn.log_softmax(x if dtype is None or dtype is False else x.astype(dtype), axis=dim)


def _norm(x: Array, order: Any = 2, dim: Any = None, keepdim: bool = False, **_: Any) -> Array:
    axes = dim if isinstance(dim, int) else _axes(dim)
    if order not in (2, 2.0, None):
        raise NotImplementedError(f"a norm of order {order}")
    return jnp.sqrt(jnp.sum(x * x, axis=axes, keepdims=keepdim))


def _topk(x: Array, k: int, dim: int = -1, largest: bool = True, is_sorted: bool = True) -> Any:
    if not largest or dim % x.ndim != x.ndim - 1:
        raise NotImplementedError("`topk` of the smallest, or not along the last dimension")
    return jax.lax.top_k(x, k)


def _diff(x: Array, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Array:
    return jnp.diff(x, n, dim, prepend, append)


TABLE: dict[str, Callable[..., Any]] = {
    "sum": _reduced(jnp.sum), "mean": _reduced(jnp.mean), "amax": _reduced(jnp.max),
    "amin": _reduced(jnp.min), "prod": _reduced(jnp.prod), "any": _reduced(jnp.any),
    "all": _reduced(jnp.all), "logsumexp": _reduced(jax.nn.logsumexp),
    "argmax": _reduced(jnp.argmax), "argmin": _reduced(jnp.argmin),
    "max": _extremum(jnp.max, jnp.argmax), "min": _extremum(jnp.min, jnp.argmin),
    "var": _variance, "std": _deviation, "softmax": _softmax, "_softmax": _softmax,
    "log_softmax": _log_softmax, "_log_softmax": _log_softmax, "linalg_vector_norm": _norm,
    "norm": _norm, "cumsum": lambda x, dim, dtype=None: jnp.cumsum(x, dim, dtype=dtype),
    "topk": _topk, "diff": _diff,
}  # fmt: skip
