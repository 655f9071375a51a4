"""Primitives that move elements: views where they can be, since dimensions have no order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .builder import Builder
from .dims import Dim, same_dim
from .elementwise import chosen
from .flatten import Equation
from .graph import Array, Node


def transpose(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """Another view."""
    (x,), order = inputs, [int(it) for it in equation.params["permutation"]]
    return Array(x.node, tuple(x.axes[it] for it in order), tuple(x.shape[it] for it in order))


def broadcast_in_dim(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """A view that lacks the new axes."""
    x, shape = inputs[0], equation.outputs[0].shape
    axes: list[object] = [None] * len(shape)
    for axis, to in enumerate(equation.params["broadcast_dimensions"]):
        if x.shape[axis] == shape[int(to)]:
            axes[int(to)] = x.axes[axis]
    return Array(x.node, tuple(axes), shape)  # type: ignore[arg-type]


def squeeze(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """A view without axes of length one."""
    array = inputs[0]
    for axis in sorted((int(it) for it in equation.params["dimensions"]), reverse=True):
        array = build.dropped(array, axis)
    return array


def expand_dims(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """A view with further axes of length one."""
    array = inputs[0]
    for axis in sorted(int(it) for it in equation.params["dimensions"]):
        array = build.unit(array, axis)
    return array


# Reshapes


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Axes of both shapes in the smallest groups that have the same elements."""
    groups, i, j = [], 0, 0
    while i < len(old) or j < len(new):
        mine, others = ([i] if i < len(old) else []), ([j] if j < len(new) else [])
        i, j = i + len(mine), j + len(others)
        sizes = [math.prod(old[it] for it in mine), math.prod(new[it] for it in others)]
        while sizes[0] != sizes[1]:
            if sizes[0] < sizes[1]:
                mine.append(i)
                sizes[0] *= old[i]
                i += 1
            else:
                others.append(j)
                sizes[1] *= new[j]
                j += 1
        groups.append((mine, others))
    return groups


def reshape(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """Dimensions split into factors, or merged from them."""
    if equation.params.get("dimensions") is not None:
        raise build.fail("`reshape` with an order of axes is not in the language", "transpose first")
    return reshaped(build, inputs[0], equation.outputs[0].shape)


def reshaped(build: Builder, array: Array, shape: Sequence[int]) -> Array:
    """The array in another shape of as many elements."""
    if 0 in shape:
        raise build.fail("an array has no elements", "use sizes above zero")
    long = [axis for axis, size in enumerate(array.shape) if size != 1]
    for axis in [axis for axis, size in enumerate(array.shape) if size == 1]:
        if array.axes[axis] is not None:
            dropped = build.dropped(array, axis)
            array = build.unit(dropped, axis)
    array = Array(
        array.node, tuple(array.axes[it] for it in long), tuple(array.shape[it] for it in long)
    )
    new = [size for size in shape if size != 1]
    axes: list[object] = []
    for mine, others in _groups(array.shape, new):
        if all(array.axes[it] is None for it in mine):
            axes += [None] * len(others)
            continue
        if len(mine) == 1 == len(others):
            axes.append(array.axes[mine[0]])
            continue
        array = build.fill(array, mine)
        array, dims = _regrouped(build, array, mine, [new[it] for it in others])
        axes += dims
    found = iter(axes)
    full = tuple(next(found) if size != 1 else None for size in shape)
    return Array(array.node, full, tuple(shape))  # type: ignore[arg-type]


def _regrouped(
    build: Builder, array: Array, mine: Sequence[int], sizes: Sequence[int]
) -> tuple[Array, list[Dim]]:
    """Merges axes, then splits the product; the dimensions that it is split into."""
    old = [dim for it in mine if (dim := array.axes[it]) is not None]
    node = array.node
    whole = old[0].root if len(old) == 1 else _product_of(build, old)
    if len(old) > 1:
        node = _reshape(build, node, old, [whole])
    if len(sizes) == 1:
        return Array(node, array.axes, array.shape), [whole]
    whole, node = _with_factors(build, whole, node, sizes)
    parts = [it.root for it in whole.factors]
    node = _reshape(build, node, [whole], parts)
    return Array(node, array.axes, array.shape), parts


def _reshape(build: Builder, node: Node, old: Sequence[Dim], new: Sequence[Dim]) -> Node:
    left = [dim for dim in node.dims if not any(same_dim(dim, it) for it in old)]
    place = next(at for at, dim in enumerate(node.dims) if any(same_dim(dim, it) for it in old))
    before = [dim for dim in node.dims[:place] if any(same_dim(dim, it) for it in left)]
    after = [dim for dim in left if dim not in before]
    dims = [*before, *new, *after]
    if node.kind == "reshape" and not node.sharding:
        (source,) = node.arguments
        if len(source.dims) == len(dims) and all(map(source.has, dims)):
            return source  # There and back.
    return build.node("reshape", "reshape", [node], dims, node.dtype)


def _product_of(build: Builder, factors: Sequence[Dim]) -> Dim:
    """The dimension that is the product of others."""
    for known in build.merged:
        parts = known.root.factors
        if len(parts) == len(factors) and all(map(same_dim, parts, factors)):
            return known.root
    whole = Dim(math.prod(dim.size for dim in factors))
    whole.factors = tuple(dim.root for dim in factors)
    build.merged.append(whole)
    return whole


def _with_factors(build: Builder, dim: Dim, node: Node, sizes: Sequence[int]) -> tuple[Dim, Node]:
    """A dimension with factors of these sizes, none of which the node has: itself, or another
    name of it."""
    dim = dim.root
    others = [it for it in node.dims if not same_dim(it, dim)]
    if not dim.factors:
        dim.factors = tuple(Dim(size) for size in sizes)
    fits = [it.size for it in dim.factors] == list(sizes)
    if fits and not any(same_dim(it, other) for it in dim.factors for other in others):
        return dim, node
    view = Array(node, (dim,), (dim.size,))
    renamed = Dim(dim.size)
    renamed.factors = tuple(Dim(size) for size in sizes)
    for known in dim.root._aliases:
        known = known.root
        if [it.size for it in known.factors] == list(sizes) and not node.has(known):
            if not any(same_dim(it, other) for it in known.factors for other in others):
                renamed = known
                break
    else:
        dim.root._aliases.append(renamed)
    return renamed, build.renamed(view, [(dim, renamed)]).node


# Parts


def window(build: Builder, array: Array, axis: int, start: int, size: int) -> Array:
    """`size` elements along an axis, from `start` on."""
    if size == array.shape[axis]:
        return array
    shape = array.shape[:axis] + (size,) + array.shape[axis + 1 :]
    if array.axes[axis] is None:
        return Array(array.node, array.axes, shape)
    part = build.along("slice", array, axis, Dim(size), [start])
    if size != 1:
        return part
    return build.unit(build.dropped(part, axis), axis)


def slice_(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """Parts along each axis; of strides, one place of each group."""
    array = inputs[0]
    starts, limits = equation.params["start_indices"], equation.params["limit_indices"]
    strides = equation.params["strides"] or [1] * len(starts)
    for axis, (start, limit, stride) in enumerate(zip(starts, limits, strides)):
        if stride == 1:
            array = window(build, array, axis, int(start), int(limit) - int(start))
        else:
            array = strided(build, array, axis, int(start), int(limit), int(stride))
    return array


def strided(build: Builder, array: Array, axis: int, start: int, limit: int, stride: int) -> Array:
    """Every so many elements along an axis: one place of each group of as many."""
    count, size = -(-(limit - start) // stride), array.shape[axis]
    if count == 1 or array.axes[axis] is None:
        return window(build, array, axis, start, count)
    whole = count * stride
    if size < whole:
        array, first = _padded(build, array, axis, (0, whole - size)), 0
    else:
        first = min(start, size - whole)
        array = window(build, array, axis, first, whole)
    shape = array.shape[:axis] + (count, stride) + array.shape[axis + 1 :]
    part = window(build, reshaped(build, array, shape), axis + 1, start - first, 1)
    return build.dropped(part, axis + 1)


def split(build: Builder, equation: Equation, inputs: list[Array]) -> list[Array]:
    """Parts of these sizes, one after another."""
    axis, start, parts = int(equation.params["axis"]), 0, []
    for size in map(int, equation.params["sizes"]):
        parts.append(window(build, inputs[0], axis, start, size))
        start += size
    return parts


def concatenate(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """Arrays one after another along an axis."""
    if len(inputs) == 1:
        return inputs[0]
    return joined(build, inputs, int(equation.params["dimension"]), equation.outputs[0].shape)


def stack(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """Arrays beside each other along a new axis."""
    axis = int(equation.params["axis"]) % len(equation.outputs[0].shape)
    units = [build.unit(array, axis) for array in inputs]
    return joined(build, units, axis, equation.outputs[0].shape)


def joined(build: Builder, arrays: Sequence[Array], axis: int, shape: tuple[int, ...]) -> Array:
    """The concatenation: all operands have all dimensions of the others."""
    result = Dim(shape[axis])
    parts = [build.fill(array, [axis]) for array in arrays]
    wanted: dict[int, Dim] = {}
    for at in range(len(shape)):
        if at == axis:
            continue
        for place, part in enumerate(parts):
            own = part.axes[at]
            if own is None:
                continue
            wanted.setdefault(at, own)
            parts[place] = build.with_axes(part, {at: wanted[at]})
    # A part may have the dimension of another part's axis as its own: then it has another name.
    for place, part in enumerate(parts):
        part = build.with_axes(part, wanted)
        own = part.axes[axis]
        assert own is not None
        if any(same_dim(own, dim) for dim in wanted.values()):
            part = build.renamed(part, [(own, own.alias([*part.node.dims, *wanted.values()]))])
        parts[place] = part
    sources = [dim for part in parts if (dim := part.axes[axis]) is not None]
    axes = tuple(result if at == axis else wanted.get(at) for at in range(len(shape)))
    dims = [dim for dim in axes if dim is not None]
    node = build.node(
        "along", "concat", [it.node for it in parts], dims, parts[0].dtype, sources, [result]
    )
    return Array(node, axes, shape)


def tile(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """Copies one after another along axes."""
    array, repeats = inputs[0], [int(it) for it in equation.params["reps"]]
    for axis, count in enumerate(repeats):
        if count != 1:
            shape = array.shape
            unit = build.unit(array, axis)
            view = Array(unit.node, unit.axes, shape[:axis] + (count,) + shape[axis:])
            merged = shape[:axis] + (count * shape[axis],) + shape[axis + 1 :]
            array = reshaped(build, view, merged)
    return array


def pad(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """A number around an array."""
    array, value = inputs
    if not value.node.is_number:
        raise build.fail("`pad` with an array is not in the language", "pad with a number")
    for axis, (low, high, inner) in enumerate(equation.params["padding_config"]):
        if int(inner) and array.shape[axis] > 1:
            array = _between(build, array, axis, int(inner), value)
        if int(low) < 0 or int(high) < 0:
            start, end = max(-int(low), 0), array.shape[axis] - max(-int(high), 0)
            array = window(build, array, axis, start, end - start)
        low, high = max(int(low), 0), max(int(high), 0)
        if low or high:
            size = array.shape[axis]
            array = _padded(build, array, axis, (low, high))
            if value.node.number != 0:
                array = _kept(build, array, axis, (low, low + size), value)
    return array


def _padded(build: Builder, array: Array, axis: int, around: tuple[int, int]) -> Array:
    """The array with zeros before and after it along an axis."""
    low, high = around
    whole = Dim(array.shape[axis] + low + high)
    return build.along("pad", build.fill(array, [axis]), axis, whole, [low])


def _between(build: Builder, array: Array, axis: int, inner: int, value: Array) -> Array:
    """So many copies of a number between the elements along an axis."""
    size, left, right = array.shape[axis], array.shape[:axis], array.shape[axis + 1 :]
    unit = build.unit(build.filled(array), axis + 1)
    numbers = build.constant(value.node.number, left + (size, inner) + right, array.dtype)
    groups = joined(build, [unit, numbers], axis + 1, left + (size, 1 + inner) + right)
    apart = reshaped(build, groups, left + (size * (1 + inner),) + right)
    return window(build, apart, axis, 0, apart.shape[axis] - inner)


def _kept(
    build: Builder, array: Array, axis: int, places: tuple[int, int], value: Array
) -> Array:
    """An array whose elements at the other places of an axis are a number."""
    size = array.shape[axis]
    indices = build.iota(size)
    axes = tuple(indices.axes[0] if at == axis else None for at in range(len(array.shape)))
    shape = tuple(size if at == axis else 1 for at in range(len(array.shape)))
    position = Array(indices.node, axes, shape)
    bounds = [(">=", places[0])] if places[0] else []
    bounds += [("<", places[1])] if places[1] < size else []
    for sign, bound in bounds:
        number = build.constant(bound, shape, "int32")
        inside = build.elementwise("infix", sign, [position, number], shape, "bool")
        array = chosen(build, [inside, array, value], array.shape, array.dtype)
    return array


def iota(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """The indices along one axis of a shape."""
    shape, axis = equation.outputs[0].shape, int(equation.params["dimension"])
    dtype = build.dtype(equation.outputs[0].dtype)
    if shape[axis] == 1:
        return build.constant(0, shape, dtype)
    indices = build.iota(shape[axis])
    axes = tuple(indices.axes[0] if at == axis else None for at in range(len(shape)))
    return build.cast(Array(indices.node, axes, shape), dtype)


def rev(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """The elements from the last to the first, along some axes."""
    array = inputs[0]
    for axis in equation.params["dimensions"]:
        array = reversed_along(build, array, int(axis))
    return array


def reversed_along(build: Builder, array: Array, axis: int) -> Array:
    """The rows at indices that count down."""
    dim = array.axes[axis]
    if dim is None:
        return array
    indices = build.iota(dim.size)
    indices = build.with_axes(indices, {0: dim.alias(array.node.dims)})
    last = build.constant(dim.size - 1, indices.shape, "int32")
    down = build.infix("-", last, indices, "int32")
    order = down.axes[0]
    assert order is not None
    dims = [order if same_dim(it, dim) else it for it in array.node.dims]
    node = build.node(
        "along", "take", [array.node, down.node], dims, array.dtype, sources=[dim]
    )
    axes = tuple(order if at == axis else it for at, it in enumerate(array.axes))
    return Array(node, axes, array.shape)
