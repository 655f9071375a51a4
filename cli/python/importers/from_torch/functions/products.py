"""Matrix products, contractions, convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import jax
import jax.numpy as jnp

Array = Any


def _linear(x: Array, weight: Array, bias: Any = None) -> Array:
    product = jnp.einsum("...i,oi->...o", x, weight)
    return product if bias is None else product + bias


def _addmm(added: Array, a: Array, b: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    product = a @ b if alpha == 1 else alpha * (a @ b)
    return (added if beta == 1 else beta * added) + product


def _einsum(equation: str, operands: Sequence[Array], path: Any = None) -> Array:
    return jnp.einsum(equation, *operands)


def _pair(of: Any, rank: int) -> tuple[int, ...]:
    sizes = tuple(of) if isinstance(of, (list, tuple)) else (of,)
    return sizes * rank if len(sizes) == 1 else sizes


def _convolution(
    x: Array,
    weight: Array,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Array:
    rank = weight.ndim - 2
    pads = padding.upper() if isinstance(padding, str) else [(it, it) for it in _pair(padding, rank)]
    letters = "DHW"[3 - rank :]
    result = jax.lax.conv_general_dilated(
        x, weight, _pair(stride, rank), pads, rhs_dilation=_pair(dilation, rank),
        dimension_numbers=(f"NC{letters}", f"OI{letters}", f"NC{letters}"),
        feature_group_count=groups,
    )  # fmt: skip
    return result if bias is None else result + jnp.reshape(bias, (-1, *[1] * rank))


TABLE: dict[str, Callable[..., Array]] = {
    "mm": jnp.matmul, "bmm": jnp.matmul, "matmul": jnp.matmul, "mv": jnp.matmul,
    "dot": jnp.matmul, "linear": _linear, "addmm": _addmm, "baddbmm": _addmm,
    "einsum": _einsum, "outer": jnp.outer, "conv1d": _convolution, "conv2d": _convolution,
    "conv3d": _convolution,
}  # fmt: skip
