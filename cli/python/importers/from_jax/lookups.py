"""Primitives that read or write at indices that are computed."""

from __future__ import annotations

from collections.abc import Sequence

from .builder import Builder
from .dims import same_dim
from .flatten import Equation
from .graph import Array
from .rearrange import window


def gather(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """Rows of a table at indices, or one element of each row."""
    table, indices = inputs
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    starts = [int(it) for it in numbers.start_index_map]
    batch = [int(it) for it in numbers.operand_batching_dims]
    of_batch = [int(it) for it in numbers.start_indices_batching_dims]
    collapsed = [int(it) for it in numbers.collapsed_slice_dims]
    columns = [_column(build, indices, at) for at in range(len(starts))]
    # An index that counts along one of its own axes is a batch: `x[jnp.arange(B), ids]`.
    for at in reversed(range(len(starts))):
        place = _counts(columns[at], table.shape[starts[at]])
        if place is not None and len(starts) > 1:
            batch.append(starts.pop(at))
            of_batch.append(place)
            columns.pop(at)
            collapsed.remove(batch[-1])
    is_whole = all(
        int(size) == table.shape[axis] for axis, size in enumerate(sizes)
        if axis not in starts and axis not in batch
    )  # fmt: skip
    if len(starts) != 1 or int(sizes[starts[0]]) != 1 or collapsed != starts or not is_whole:
        raise build.fail(
            "this `gather` is not in the language: one axis may be read at indices",
            "write the lookup as `table[ids]`, `jnp.take_along_axis` or `one_hot(ids) @ table`",
        )
    if not batch:
        return _rows(build, equation, table, columns[0], starts[0])
    return _elements(build, equation, table, columns[0], starts[0], (batch, of_batch))


def _column(build: Builder, indices: Array, at: int) -> Array:
    """One of the indices that are side by side along the last axis."""
    last = len(indices.shape) - 1
    node = indices.node
    if node.kind == "along" and node.name == "concat" and len(node.arguments) > 1:
        dim = indices.axes[last]
        if dim is not None and same_dim(node.results[0], dim):
            part = node.arguments[at]
            if part.kind == "along" and part.name == "broadcast":
                inner = part.arguments[0]
                axes = [it if it is not None and inner.has(it) else None for it in indices.axes]
                return Array(inner, tuple(axes[:last]), indices.shape[:last])
    return build.dropped(window(build, indices, last, at, 1), last)


def _counts(index: Array, size: int) -> "int | None":
    """The axis along which an index is 0, 1, 2, … up to the size of what it reads."""
    node = index.node
    while node.kind == "call" and node.name == "stop_gradient":
        node = node.arguments[0]
    if node.kind != "along" or node.name != "iota" or node.dims[0].size != size:
        return None
    for axis, dim in enumerate(index.axes):
        if dim is not None and same_dim(dim, node.dims[0]):
            return axis
    return None


def _rows(build: Builder, equation: Equation, table: Array, index: Array, axis: int) -> Array:
    """`take`: the table's axis becomes those of the indices."""
    offsets = [int(it) for it in equation.params["dimension_numbers"].offset_dims]
    shape = equation.outputs[0].shape
    table = build.fill(table, [axis])
    dim = table.axes[axis]
    assert dim is not None
    # The dimensions of the indices are none of the table.
    table_dims = list(table.node.dims)
    changes = [
        (own, own.alias([*table_dims, *index.node.dims]))
        for own in index.axes
        if own is not None and table.node.has(own)
    ]
    index = build.renamed(index, changes)
    index = build.named_number(index) if index.node.is_number else index
    left = [it for it in table.node.dims if not same_dim(it, dim)]
    dims = [*index.node.dims, *left]
    node = build.node("along", "take", [table.node, index.node], dims, table.dtype, sources=[dim])
    of_table = iter([own for at, own in enumerate(table.axes) if at != axis])
    of_index = iter(index.axes)
    axes = tuple(next(of_table) if at in offsets else next(of_index) for at in range(len(shape)))
    return Array(node, axes, shape)


def _elements(
    build: Builder,
    equation: Equation,
    table: Array,
    index: Array,
    axis: int,
    batch: tuple[Sequence[int], Sequence[int]],
) -> Array:
    """`take_along_axis`, and rows of each element of a batch: a product with the indices one-hot."""
    offsets = [int(it) for it in equation.params["dimension_numbers"].offset_dims]
    own = [at for at in range(len(table.shape)) if at not in batch[0] and at != axis]
    rank, size = len(index.shape), table.shape[axis]
    last = rank + len(own)
    # The table as if it had the axes of the indices, those of a row, and the one that is read last.
    axes = [None] * rank + [table.axes[at] for at in [*own, axis]]
    shape = [1] * rank + [table.shape[at] for at in [*own, axis]]
    for mine, other in zip(*batch):
        axes[other], shape[other] = table.axes[mine], table.shape[mine]
    view = build.fill(Array(table.node, tuple(axes), tuple(shape)), [last])
    places = build.iota(size)
    counted = Array(places.node, (None,) * last + places.axes, (1,) * last + places.shape)
    ones = (1,) * len(own)
    wide = Array(index.node, index.axes + (None,) * (len(own) + 1), index.shape + ones + (size,))
    hot = build.cast(build.infix("==", wide, counted, "bool"), table.dtype)
    (hot, view), _ = build.aligned([hot, view])
    dim = hot.axes[last]
    assert dim is not None
    both = [it for it in (*hot.node.dims, *view.node.dims) if not same_dim(it, dim)]
    dims = [it for at, it in enumerate(both) if not any(same_dim(it, of) for of in both[:at])]
    node = build.node("product", "*", [hot.node, view.node], dims, table.dtype, sources=[dim])
    of_index = iter([a if a is not None else b for a, b in zip(hot.axes[:rank], view.axes)])
    of_row, result = iter(view.axes[rank:last]), equation.outputs[0].shape
    found = tuple(next(of_row) if at in offsets else next(of_index) for at in range(len(result)))
    return Array(node, found, result)


def _place(build: Builder, start: Array, size: int, length: int) -> Array:
    """A start that is moved so that the part is inside, as JAX does."""
    zero, last = (build.constant(number, (), "int32") for number in (0, length - size))
    start = build.cast(start, "int32")
    if start.node.is_number:
        place = min(max(int(start.node.number), 0), length - size)
        return build.constant(place, (), "int32")
    return build.call("minimum", build.call("maximum", start, zero), last)


def dynamic_slice(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """A part that begins at an index which may be computed."""
    array, *starts = inputs
    for axis, (start, size) in enumerate(zip(starts, equation.params["slice_sizes"])):
        length = array.shape[axis]
        if int(size) == length:
            continue
        place = _place(build, start, int(size), length)
        if place.node.is_number:
            array = window(build, array, axis, int(place.node.number), int(size))
        else:
            array = _taken(build, array, axis, place, int(size))
    return array


def _taken(build: Builder, array: Array, axis: int, place: Array, size: int) -> Array:
    shape = array.shape[:axis] + (size,) + array.shape[axis + 1 :]
    if array.axes[axis] is None:
        return Array(array.node, array.axes, shape)
    dim = array.axes[axis]
    assert dim is not None
    left = [it for it in array.node.dims if not same_dim(it, dim)]
    index = place if size == 1 else build.infix("+", build.iota(size), place)
    dims = [*index.node.dims, *left]
    node = build.node("along", "take", [array.node, index.node], dims, array.dtype, sources=[dim])
    own = index.axes[0] if size != 1 else None
    return Array(node, array.axes[:axis] + (own,) + array.axes[axis + 1 :], shape)


def dynamic_update_slice(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """`update`: rows of a cache, overwritten along one axis."""
    cache, rows, *starts = inputs
    moved = [at for at, size in enumerate(rows.shape) if size != cache.shape[at]]
    if len(moved) != 1:
        raise build.fail(
            "this `dynamic_update_slice` is not in the language: one axis may be a part",
            "update one axis at a time",
        )
    (axis,) = moved
    cache = build.filled(cache)
    place = _place(build, starts[axis], rows.shape[axis], cache.shape[axis])
    others = [at for at, size in enumerate(rows.shape) if at != axis and size != 1]
    rows = build.fill(rows, others)
    rows = build.with_axes(rows, {at: dim for at in others if (dim := cache.axes[at]) is not None})
    dim = cache.axes[axis]
    assert dim is not None
    if rows.shape[axis] == 1:
        rows = build.dropped(rows, axis)
        index = place.node
        if index.is_number:
            index = build.named_number(place).node
    else:
        rows = build.fill(rows, [axis])
        own = rows.axes[axis]
        assert own is not None
        counted = build.iota(rows.shape[axis])
        counted = build.with_axes(counted, {0: own})
        index = build.infix("+", counted, place).node
    rows = build.cast(rows, cache.dtype)
    node = build.node(
        "along", "update", [cache.node, index, rows.node], cache.node.dims, cache.dtype, [dim]
    )
    return Array(node, cache.axes, cache.shape)


def scatter_add(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """`put`: rows that are added up at their indices."""
    table, indices, rows = inputs
    numbers = equation.params["dimension_numbers"]
    scattered = [int(it) for it in numbers.scatter_dims_to_operand_dims]
    inserted = [int(it) for it in numbers.inserted_window_dims]
    if len(scattered) != 1 or inserted != scattered or numbers.operand_batching_dims:
        raise build.fail(
            "this `scatter` is not in the language: rows may be added at indices along one axis",
            "add along one axis at a time: `x.at[ids].add(rows)`",
        )
    (axis,) = scattered
    index = _column(build, indices, 0)
    windows = [int(it) for it in numbers.update_window_dims]
    batch = [at for at in range(len(rows.shape)) if at not in windows]
    table = build.filled(table)
    rows = build.filled(rows)
    others = [at for at in range(len(table.shape)) if at != axis]
    wanted = {mine: table.axes[of] for mine, of in zip(windows, others)}
    rows = build.with_axes(rows, {at: dim for at, dim in wanted.items() if dim is not None})
    index = build.fill(index, [at for at, place in enumerate(batch) if rows.shape[place] != 1])
    tied = {at: rows.axes[place] for at, place in enumerate(batch)}
    index = build.with_axes(index, {at: dim for at, dim in tied.items() if dim is not None})
    index = build.named_number(index) if index.node.is_number else index
    dim = table.axes[axis]
    assert dim is not None
    if table.node.kind in ("number", "fill") and table.node.number == 0:
        like = table.node
    else:
        like = build.named_like(table, 0).node
    added = build.node(
        "along", "put", [rows.node, index.node, like], table.node.dims, table.dtype, [dim]
    )
    result = Array(added, table.axes, table.shape)
    return result if like is table.node else build.infix("+", table, result)
