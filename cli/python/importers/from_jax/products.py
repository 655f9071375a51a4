"""Products, and reductions of one array."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .builder import Builder
from .dims import Dim, same_dim
from .flatten import Equation
from .graph import Array

REDUCTIONS = {"reduce_sum": "sum", "reduce_max": "max", "reduce_min": "min"}
SUMS_ALONG = {False: "cumsum", True: "revcumsum"}


def reduction(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """`reduce_sum`, `reduce_max`, `reduce_min`."""
    name = REDUCTIONS[equation.primitive]
    return build.reduce(name, inputs[0], [int(it) for it in equation.params["axes"]])


def any_or_all(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """`reduce_or` and `reduce_and` of masks: the largest and the smallest of zeros and ones."""
    (mask,) = inputs
    if mask.dtype != "bool":
        raise build.fail(
            f"`{equation.primitive}` of integers is not in the language",
            "compute it before, and pass the result as an argument",
        )
    name = "max" if equation.primitive == "reduce_or" else "min"
    numbers = build.cast(mask, "int32")
    found = build.reduce(name, numbers, [int(it) for it in equation.params["axes"]])
    return build.infix("!=", found, build.constant(0, found.shape, "int32"), "bool")


def cumsum(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """Running sums."""
    axis = int(equation.params["axis"])
    array = build.fill(inputs[0], [axis] if inputs[0].shape[axis] != 1 else [])
    if array.axes[axis] is None:
        return array
    return build.along(SUMS_ALONG[bool(equation.params["reverse"])], array, axis)


def argmax(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """The index of the largest element."""
    (axis,) = equation.params["axes"]
    array = build.fill(inputs[0], [axis])
    dim = array.axes[axis]
    assert dim is not None
    left = [it for it in array.node.dims if not same_dim(it, dim)]
    node = build.node("along", "argmax", [array.node], left, "int32", sources=[dim])
    keep = [at for at in range(len(array.shape)) if at != axis]
    return Array(node, tuple(array.axes[at] for at in keep), equation.outputs[0].shape)


def argmin(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """The index of the smallest element."""
    numbers = build.cast(inputs[0], "int32") if inputs[0].dtype == "bool" else inputs[0]
    return argmax(build, equation, [build.call("neg", numbers)])


def top_k(build: Builder, equation: Equation, inputs: list[Array]) -> list[Array]:
    """The largest elements and their indices."""
    axis, count = int(equation.params.get("axis", inputs[0].shape[-1])), int(equation.params["k"])
    axis = axis % len(inputs[0].shape)
    array = build.fill(inputs[0], [axis])
    result = Dim(count)
    values = build.along("topk", array, axis, result)
    indices = build.along("argtopk", array, axis, result, dtype="int32")
    if count != 1:
        return [values, indices]
    return [build.unit(build.dropped(of, axis), axis) for of in (values, indices)]


def sort(build: Builder, equation: Equation, inputs: list[Array]) -> list[Array]:
    """`sort` and `argsort`: the largest of the negated elements, all of them."""
    axis, keys = int(equation.params["dimension"]), int(equation.params["num_keys"])
    is_indices = len(inputs) == 2 and _counts_along(inputs[1], axis)
    if keys != 1 or not (len(inputs) == 1 or is_indices) or inputs[0].dtype == "bool":
        raise build.fail(
            "a `sort` of several arrays is not in the language", "sort one array, or use `argsort`"
        )
    array = build.fill(build.call("neg", inputs[0]), [axis])
    dim = array.axes[axis]
    assert dim is not None
    order = dim.alias(array.node.dims)
    found = [build.call("neg", build.along("topk", array, axis, order))]
    if is_indices:
        found.append(build.along("argtopk", array, axis, order, dtype="int32"))
    return found


def _counts_along(array: Array, axis: int) -> bool:
    """Whether an array is 0, 1, 2, … along an axis."""
    node, dim = array.node, array.axes[axis]
    while node.kind == "along" and node.name == "broadcast":
        node = node.arguments[0]
    return node.kind == "along" and node.name == "iota" and dim is not None and node.has(dim)


def product(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """`dot_general`."""
    (summed_a, summed_b), (batch_a, batch_b) = equation.params["dimension_numbers"]
    summed = list(zip(map(int, summed_a), map(int, summed_b)))
    batch = list(zip(map(int, batch_a), map(int, batch_b)))
    dtype = build.dtype(equation.outputs[0].dtype)
    return contracted(build, inputs[0], inputs[1], summed, batch, dtype)


def contracted(
    build: Builder,
    a: Array,
    b: Array,
    summed: Sequence[tuple[int, int]],
    batch: Sequence[tuple[int, int]],
    dtype: str,
) -> Array:
    """A product: axes that are summed and those of a batch are one dimension of both operands; the
    others, those of `a` first, are dimensions of one of them."""
    gone_a, gone_b = ([pair[which] for pair in (*summed, *batch)] for which in (0, 1))
    summed = [pair for pair in summed if a.shape[pair[0]] != 1]
    a = build.fill(a, [i for i, _ in summed])
    b = build.fill(b, [j for _, j in summed])
    tied = [(i, j) for i, j in batch if a.axes[i] is not None and b.axes[j] is not None]
    a, b = _tied(build, a, b, [*summed, *tied])
    free_a = [i for i in range(len(a.shape)) if i not in gone_a]
    free_b = [j for j in range(len(b.shape)) if j not in gone_b]
    # The smaller operand is renamed: of scores, the keys.
    if math.prod(a.shape) < math.prod(b.shape):
        a = _distinct(build, b, a, free_a)
    b = _distinct(build, a, b, free_b)
    a = _distinct(build, b, a, free_a)
    gone = [dim for i, _ in summed if (dim := a.axes[i]) is not None]
    axes = [a.axes[i] if a.axes[i] is not None else b.axes[j] for i, j in batch]
    axes += [a.axes[i] for i in free_a] + [b.axes[j] for j in free_b]
    shape = [max(a.shape[i], b.shape[j]) for i, j in batch]
    shape += [a.shape[i] for i in free_a] + [b.shape[j] for j in free_b]
    dims = [dim for dim in axes if dim is not None]
    node = build.node("product", "*", [a.node, b.node], dims, dtype, sources=gone)
    return Array(node, tuple(axes), tuple(shape))


def _tied(
    build: Builder, a: Array, b: Array, pairs: Sequence[tuple[int, int]]
) -> tuple[Array, Array]:
    """Operands whose paired axes are one dimension."""
    for i, j in pairs:
        mine, other = a.axes[i], b.axes[j]
        assert mine is not None and other is not None
        # The operand is renamed that does not have the other's name already.
        if b.node.has(mine) and not same_dim(mine, other) and not a.node.has(other):
            a = build.with_axes(a, {i: other})
        else:
            b = build.with_axes(b, {j: mine})
    # A later pair may have moved an earlier one.
    wanted = {j: dim for i, j in pairs if (dim := a.axes[i]) is not None}
    return a, build.with_axes(b, wanted)


def _distinct(build: Builder, fixed: Array, array: Array, free: Sequence[int]) -> Array:
    """The array without dimensions of the other operand at axes that are its own."""
    changes: list[tuple[Dim, Dim]] = []
    for axis in free:
        dim = array.axes[axis]
        if dim is not None and fixed.node.has(dim):
            avoid = [*fixed.node.dims, *array.node.dims, *(new for _, new in changes)]
            changes.append((dim, dim.alias(avoid)))
    return build.renamed(array, changes) if changes else array
