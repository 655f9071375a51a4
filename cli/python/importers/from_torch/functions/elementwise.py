"""Operations of elements at equal places."""

from __future__ import annotations

from typing import Any, Callable

import jax
import jax.numpy as jnp

Array = Any


def _with_alpha(function: Callable[..., Array]) -> Callable[..., Array]:
    def scaled(a: Array, b: Array, alpha: Any = 1) -> Array:
        return function(a, b if alpha == 1 else b * alpha)

    return scaled


def _div(a: Array, b: Array, rounding_mode: Any = None) -> Array:
    if rounding_mode == "floor":
        return jnp.floor_divide(a, b)
    if rounding_mode == "trunc":
        return jnp.trunc(jnp.divide(a, b))
    return jnp.divide(a, b)


def _gelu(x: Array, approximate: str = "none") -> Array:
    return jax.nn.gelu(x, approximate=approximate == "tanh")


def _clamp(x: Array, least: Any = None, most: Any = None) -> Array:
    if least is not None:
        x = jnp.maximum(x, least)
    return x if most is None else jnp.minimum(x, most)


def _pow(a: Array, b: Any) -> Array:
    return jnp.power(a, b) if not isinstance(b, float) or b != int(b) else jnp.power(a, int(b))


def _hardtanh(x: Array, least: Any = -1.0, most: Any = 1.0) -> Array:
    return jnp.clip(x, least, most)


def _softplus(x: Array, beta: Any = 1, threshold: Any = 20) -> Array:
    return jax.nn.softplus(x * beta) / beta if beta != 1 else jax.nn.softplus(x)


def _leaky_relu(x: Array, slope: Any = 0.01) -> Array:
    return jnp.where(x > 0, x, x * slope)


def _elu(x: Array, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Array:
    return jnp.where(x > 0, x, alpha * jnp.expm1(x * input_scale)) * scale


def _lerp(a: Array, b: Array, weight: Any) -> Array:
    return a + weight * (b - a)


def _masked_fill(x: Array, mask: Array, value: Any) -> Array:
    return jnp.where(mask, value, x)


def _cast(x: Array, *_: Any, dtype: Any = None, **__: Any) -> Array:
    return x if dtype is None else jnp.asarray(x).astype(dtype)


TABLE: dict[str, Callable[..., Array]] = {
    "abs": jnp.abs, "neg": jnp.negative, "exp": jnp.exp, "exp2": jnp.exp2, "expm1": jnp.expm1,
    "log": jnp.log, "log2": jnp.log2, "log1p": jnp.log1p, "sqrt": jnp.sqrt,
    "rsqrt": jax.lax.rsqrt, "sin": jnp.sin, "cos": jnp.cos, "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid, "relu": jax.nn.relu, "silu": jax.nn.silu, "erf": jax.lax.erf,
    "relu6": jax.nn.relu6, "hardtanh": _hardtanh, "mish": jax.nn.mish, "square": jnp.square,
    "reciprocal": jnp.reciprocal, "sign": jnp.sign, "round": jnp.round, "floor": jnp.floor,
    "ceil": jnp.ceil, "logical_not": jnp.logical_not, "bitwise_not": jnp.invert,
    "isnan": jnp.isnan, "isinf": jnp.isinf, "hardswish": jax.nn.hard_swish,
    "log_sigmoid": jax.nn.log_sigmoid, "softplus": _softplus, "gelu": _gelu,
    "leaky_relu": _leaky_relu, "elu": _elu, "clamp": _clamp, "clip": _clamp,
    "clamp_min": jnp.maximum, "clamp_max": jnp.minimum,
    "add": _with_alpha(jnp.add), "sub": _with_alpha(jnp.subtract), "mul": jnp.multiply,
    "div": _div, "true_divide": jnp.divide, "floor_divide": jnp.floor_divide,
    "remainder": jnp.remainder, "pow": _pow, "rsub": lambda a, b, alpha=1: b - a * alpha,
    "maximum": jnp.maximum, "minimum": jnp.minimum, "eq": jnp.equal, "ne": jnp.not_equal,
    "lt": jnp.less, "le": jnp.less_equal, "gt": jnp.greater, "ge": jnp.greater_equal,
    "logical_and": jnp.logical_and, "logical_or": jnp.logical_or, "logical_xor": jnp.logical_xor,
    "bitwise_and": jnp.bitwise_and, "bitwise_or": jnp.bitwise_or, "__and__": jnp.bitwise_and,
    "__or__": jnp.bitwise_or, "where": jnp.where, "masked_fill": _masked_fill, "lerp": _lerp,
    "addcmul": lambda x, a, b, value=1: x + value * a * b,
    "_to_copy": _cast, "to": _cast, "type_as": lambda x, other: jnp.asarray(x).astype(other.dtype),
    "clone": _cast, "contiguous": _cast, "detach": _cast, "detach_": _cast, "alias": _cast,
    "lift_fresh_copy": _cast, "dropout": lambda x, *_: x, "positive": _cast,
}  # fmt: skip
