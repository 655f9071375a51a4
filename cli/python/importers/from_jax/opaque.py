"""Primitives that the language does not have, as opaque statements.

All that such a statement says is which dimensions the function needs whole. Of a primitive that
nothing is known of, these are all of them: each device computes all of it, so that no plan is
wrong, and the user is told. Others are known to work along some axes, or element by element.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from ..failure import Failure, Unsupported
from . import elementwise
from .builder import Builder
from .dims import Dim, same_dim
from .flatten import Equation, is_key
from .graph import Array

# What to do about primitives that users meet.
ADVICE = {
    "shard_map": "import the function without it, which says what the whole mesh computes",
    "while": "write a loop with a fixed number of steps: `jax.lax.scan` or `fori_loop`",
    "scatter": "use `jnp.where`, or `jax.lax.dynamic_update_slice` for a cache",
}

# Primitives of each element, whatever the others are.
OF_ELEMENTS = {
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "bessel_i0e", "bessel_i1e", "cbrt",
    "clz", "cosh", "digamma", "erf_inv", "igamma", "igammac", "lgamma", "nextafter", "polygamma",
    "population_count", "random_gamma_grad", "regularized_incomplete_beta", "shift_left",
    "shift_right_arithmetic", "shift_right_logical", "sinh", "tan", "zeta",
}  # fmt: skip

# The axes of their operand that primitives need whole, by the rank and their parameters; they do
# the same for each element of the others.
AxesOf = Callable[[int, Mapping[str, Any]], Sequence[int]]


def _axis(rank: int, params: Mapping[str, Any]) -> Sequence[int]:
    return [int(params["axis"])]


def _axes(rank: int, params: Mapping[str, Any]) -> Sequence[int]:
    return [int(axis) for axis in params["axes"]]


def _last_two(rank: int, params: Mapping[str, Any]) -> Sequence[int]:
    return [rank - 2, rank - 1]


ALONG: dict[str, AxesOf] = {
    **dict.fromkeys(["cummax", "cummin", "cumprod", "cumlogsumexp"], _axis),
    **dict.fromkeys(["reduce_prod", "reduce_xor"], _axes),
    **dict.fromkeys(["cholesky", "eig", "eigh", "lu", "qr", "svd", "schur"], _last_two),
    "sort": lambda rank, params: [int(params["dimension"])],
    "fft": lambda rank, params: range(rank - len(params["fft_lengths"]), rank),
}


def convert(
    build: Builder, equation: Equation, inputs: Sequence[Array], reason: Unsupported
) -> list[Optional[Array]]:
    """The results of a primitive, one opaque statement each, and a warning with the reason; `None`
    for those without elements."""
    # Numbers are no operands: they belong to the name.
    numbers = [it.node.number for it in inputs if it.node.is_number]
    name = ".".join([function_name(equation), *(re.sub(r"[^\w.]", "", str(it)) for it in numbers)])
    operands = [build.filled(it) for it in inputs if not it.node.is_number]
    dtypes = [_dtype(build, var.dtype, reason) for var in equation.outputs]
    has_dims = any(operand.node.dims for operand in operands)
    if not operands or (not has_dims and any(var.shape for var in equation.outputs)):
        raise _error(reason)
    axes = _whole_axes(equation, operands)
    if axes is None:
        how = f"all of which each device computes: {reason.help}"
    else:
        operands, _ = build.aligned(operands)
        how = "whose FLOPs are not counted"
    source = build.source
    place = f"{os.path.basename(source.path)}:{source.line}: " if source else ""
    build.warn(f"{place}{reason.message}; it is `opaque<{name}>`, {how}")
    found: list[Optional[Array]] = []
    for number, (var, dtype) in enumerate(zip(equation.outputs, dtypes)):
        if 0 in var.shape:
            found.append(None)
            continue
        part = f"{name}.{number + 1}" if len(equation.outputs) > 1 else name
        result = (var.shape, dtype, is_key(var.dtype))
        found.append(_statement(build, part, operands, axes, result))
    return found


def _whole_axes(equation: Equation, operands: Sequence[Array]) -> Optional[Sequence[int]]:
    """The axes of operands that a primitive needs whole; `None` where all may be."""
    name = equation.primitive
    is_known = name in OF_ELEMENTS or name in elementwise.names()
    if is_known or equation.params.get("is_of_elements"):
        return ()
    if name in ALONG and len({operand.shape for operand in operands}) == 1:
        return ALONG[name](len(operands[0].shape), equation.params)
    return None


def unknown(build: Builder, equation: Equation) -> Unsupported:
    """Why a primitive without a rule cannot be written in the language."""
    what = equation.params.get("operation", "primitive")
    advice = ADVICE.get(equation.primitive, "compute it before, and pass the result as an argument")
    if any(is_key(it.dtype) for it in (*equation.inputs, *equation.outputs)):
        advice = "draw outside of the function, and pass the numbers as an argument"
    return build.fail(f"the {what} `{function_name(equation)}` is not in the language", advice)


def _error(reason: Unsupported) -> Failure:
    return Failure(reason.message, reason.help, reason.source)


def function_name(equation: Equation) -> str:
    """What users call the function: a kernel or another operation by its own name."""
    keys = ("name", "name_and_src_info", "target_name")
    given = next((equation.params[key] for key in keys if equation.params.get(key)), None)
    name = str(getattr(given, "name", given) or equation.primitive)
    return re.sub(r"\W+", "_", name).strip("_")


def _dtype(build: Builder, dtype: Any, reason: Unsupported) -> str:
    try:
        return build.dtype(dtype)
    except Unsupported:
        raise _error(reason) from None


def _statement(
    build: Builder,
    name: str,
    operands: Sequence[Array],
    axes: Optional[Sequence[int]],
    result: tuple[Sequence[int], str, bool],
) -> Array:
    """One result, of operands that are whole along these axes, or along all. It has a shape and a
    type; its elements may be keys."""
    shape, dtype, holds_keys = result
    whole: list[Dim] = []
    for operand in operands:
        needed = operand.node.dims if axes is None else [operand.axes[axis] for axis in axes]
        for dim in needed:
            if dim is not None and not any(same_dim(dim, it) for it in whole):
                whole.append(dim)
    kept = _kept(max(operands, key=lambda it: len(it.shape)), axes, shape)
    made = [
        kept.get(axis) or (Dim(size) if size != 1 else None) for axis, size in enumerate(shape)
    ]
    dims = [dim for dim in made if dim is not None]
    dims += [build.of_key] if holds_keys else []
    had = [dim for operand in operands for dim in operand.node.dims]
    apart = [dim for dim in had if not any(same_dim(dim, it) for it in whole)]
    new = [dim for dim in dims if not any(same_dim(dim, it) for it in apart)]
    node = build.node(
        "along", f"opaque<{name}>", [it.node for it in operands], dims, dtype, whole, new
    )
    return Array(node, tuple(made), tuple(shape))


def _kept(
    operand: Array, axes: Optional[Sequence[int]], shape: Sequence[int]
) -> dict[int, Optional[Dim]]:
    """The dimensions of the result that are those of the operand, by their axis in the result: all
    that are as long, of an array of as many; else those that are not needed whole, the first."""
    if len(shape) == len(operand.shape):
        sizes = enumerate(zip(shape, operand.shape))
        return {axis: operand.axes[axis] for axis, (size, old) in sizes if size == old}
    whole = range(len(operand.shape)) if axes is None else axes
    apart = [axis for axis in range(len(operand.shape)) if axis not in whole]
    return {place: operand.axes[axis] for place, axis in enumerate(apart)}
