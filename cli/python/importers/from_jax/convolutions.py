"""Convolutions: windows along each axis of space, and a product over windows and channels."""

from __future__ import annotations

from collections.abc import Sequence

from .builder import Builder
from .dims import Dim, keep_apart
from .flatten import Equation
from .graph import Array
from .products import contracted
from .rearrange import reshaped, strided, window


def convolution(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """`conv_general_dilated`, without dilation; with groups of channels."""
    params = equation.params
    _check(build, equation)
    x_axes, kernel_axes, result_axes = params["dimension_numbers"]
    x, kernel = (_permuted(it, axes) for it, axes in zip(inputs, (x_axes, kernel_axes)))
    groups, space = int(params["feature_group_count"]), len(x.shape) - 2
    batch, channels, *_ = x.shape
    # Groups are an axis of both operands: [B, G, C, space], [G, K, C, space].
    x = reshaped(build, x, (batch, groups, channels // groups, *x.shape[2:]))
    outputs = kernel.shape[0]
    kernel = reshaped(build, kernel, (groups, outputs // groups, *kernel.shape[1:]))
    for at in range(space):
        stride, pads = int(params["window_strides"][at]), params["padding"][at]
        x = _windows(build, x, 3 + at, kernel.shape[3 + at], stride, (int(pads[0]), int(pads[1])))
    summed = [(2, 2)] + [(3 + space + at, 3 + at) for at in range(space)]
    dtype = build.dtype(equation.outputs[0].dtype)
    # [G, B, space, K], then [B, G, K, space].
    found = contracted(build, x, kernel, summed, [(1, 0)], dtype)
    found = _permuted(found, [1, 0, 2 + space, *range(2, 2 + space)])
    found = reshaped(build, found, (batch, outputs, *found.shape[3:]))
    places = sorted(range(2 + space), key=[int(it) for it in result_axes].__getitem__)
    return _permuted(found, places)


def _check(build: Builder, equation: Equation) -> None:
    params = equation.params
    is_plain = int(params["batch_group_count"]) == 1
    for name in ("lhs_dilation", "rhs_dilation"):
        is_plain &= all(int(it) == 1 for it in params[name])
    if not is_plain:
        raise build.fail(
            "a convolution with dilation, or groups of the batch, is not in the language",
            "use one without, or write it as products",
        )


def _permuted(array: Array, axes: Sequence[int]) -> Array:
    """The array with its axes in another order."""
    order = [int(axis) for axis in axes]
    return Array(
        array.node, tuple(array.axes[it] for it in order), tuple(array.shape[it] for it in order)
    )


def _windows(
    build: Builder, x: Array, axis: int, size: int, stride: int, pads: tuple[int, int]
) -> Array:
    """What a kernel covers along an axis, at each place; the kernel's elements are a new last
    axis."""
    low, high = pads
    if low != high or low < 0 or (size == 1 and low):
        x, low = _padded(build, x, axis, low, high), 0
    if size == 1:
        x = strided(build, x, axis, 0, x.shape[axis], stride)
        return build.unit(x, len(x.shape))
    x = build.fill(x, [axis])
    dim = x.axes[axis]
    assert dim is not None
    places, kernel = (dim.size + 2 * low - size) // stride + 1, Dim(size)
    result = dim if places == dim.size else Dim(places)
    options = [f"stride={stride}"] if stride != 1 else []
    options += [f"padding={low}"] if low != (size - 1) // 2 else []
    dims = [result if it.root is dim.root else it for it in x.node.dims]
    keep_apart([*dims, kernel, dim])
    node = build.node(
        "along", "windows", [x.node], [*dims, kernel], x.dtype, [dim], [result, kernel], options
    )
    axes, shape = list(x.axes), list(x.shape)
    axes[axis], shape[axis] = result, places
    return Array(node, (*axes, kernel), (*shape, size))


def _padded(build: Builder, x: Array, axis: int, low: int, high: int) -> Array:
    """The array with zeros around it, or without what is cut off."""
    start, end = max(-low, 0), x.shape[axis] - max(-high, 0)
    x = window(build, x, axis, start, end - start)
    low, high = max(low, 0), max(high, 0)
    if not low and not high:
        return x
    x = build.fill(x, [axis])
    return build.along("pad", x, axis, Dim(x.shape[axis] + low + high), [low])
