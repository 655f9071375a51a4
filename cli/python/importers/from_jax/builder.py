"""Makes nodes from arrays: ties the dimensions of operands, and renames where these must differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Optional, Union

import numpy as np

from ..failure import Source, Unsupported
from .dims import Dim, keep_apart, same_dim, tie
from .graph import Array, Block, Node, Number

# Element types of the language, by those of JAX.
DTYPES = {
    "bool": "bool", "int4": "int4", "int8": "int8", "int32": "int32", "float16": "f16",
    "bfloat16": "bf16", "float32": "f32", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8",
    "float4_e2m1fn": "fp4",
}  # fmt: skip
# Types that only the width of differs: numbers are computed without rounding by `verify`.
NEAREST = {
    "float64": "f32", "int64": "int32", "int16": "int32", "uint8": "int32", "uint16": "int32",
    "uint32": "int32", "uint64": "int32",
}  # fmt: skip


def is_generated(node: Node) -> bool:
    """Whether it is made from indices and numbers alone, so that it has any names for nothing."""
    left, seen = [node], set()
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.kind in ("call", "infix"):
            left.extend(node.arguments)
        elif node.kind not in ("number", "fill") and (node.kind, node.name) != ("along", "iota"):
            return False
    return True


class Builder:
    """The program so far: the block that statements are added to, and what to warn of."""

    def __init__(self, is_strict: bool = False) -> None:
        # Whether what the language does not have is an error.
        self.is_strict = is_strict
        self.block = Block("program")
        self.warnings: list[str] = []
        # Dimensions that were merged from factors.
        self.merged: list[Dim] = []
        # The numbers of a key of random numbers.
        self.of_key = Dim(2)
        self.of_key.hint = "Key"
        self.source: Optional[Source] = None
        self.hint: Optional[str] = None

    def warn(self, text: str) -> None:
        """Notes what the user should know, once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def fail(self, message: str, help_: str) -> Unsupported:
        """Why the equation that is converted cannot be written in the language."""
        return Unsupported(message, help_, self.source)

    def dtype(self, of: Any) -> str:
        """The element type of the language for one of JAX."""
        name = str(of)
        if name.startswith("key<"):
            self.warn("a key of random numbers is two whole numbers in the program")
            return "int32"
        if name in NEAREST:
            self.warn(f"{name} is {NEAREST[name]} in the program")
            return NEAREST[name]
        if name not in DTYPES:
            raise self.fail(f"elements of type {name} are not in the language", "use a real type")
        return DTYPES[name]

    # Nodes

    def node(
        self,
        kind: str,
        name: str,
        arguments: Sequence[Node],
        dims: Sequence[Dim],
        dtype: str,
        sources: Sequence[Dim] = (),
        results: Sequence[Dim] = (),
        trailing: Sequence[Union[int, str]] = (),
    ) -> Node:
        """A statement at the end of the block."""
        made = Node(
            kind,
            name,
            list(arguments),
            tuple(dims),
            dtype,
            self.block,
            tuple(sources),
            tuple(results),
            trailing=tuple(trailing),
            hint=self.hint,
            source=self.source,
        )
        self.block.body.append(made)
        return made

    def number(self, value: Any, dtype: str) -> Node:
        """A number: no statement, but an operand."""
        number = np.asarray(value).item()
        return Node("number", "", [], (), dtype, self.block, number=number, source=self.source)

    # Views

    def fill(self, array: Array, axes: Iterable[int]) -> Array:
        """The array with a dimension of its own for axes that it lacks."""
        for axis in axes:
            if array.axes[axis] is None:
                array = self._broadcast(array, axis, Dim(array.shape[axis]))
        return array

    def _broadcast(self, array: Array, axis: int, dim: Dim) -> Array:
        node = array.node
        if node.kind in ("number", "fill"):
            made = self.node("fill", "", [], [*node.dims, dim], node.dtype)
            made.number = node.number
        else:
            made = self.node(
                "along", "broadcast", [node], [*node.dims, dim], node.dtype, sources=[dim]
            )
        axes = list(array.axes)
        axes[axis] = dim
        return Array(made, tuple(axes), array.shape)

    def filled(self, array: Array) -> Array:
        """The array with all axes that are longer than one."""
        return self.fill(array, [axis for axis, size in enumerate(array.shape) if size != 1])

    def renamed(self, array: Array, changes: Sequence[tuple[Dim, Dim]]) -> Array:
        """The array with other names of dimensions: no value has one dimension twice in between."""
        changes = [(old.root, new.root) for old, new in changes if not same_dim(old, new)]
        if changes and is_generated(array.node):
            return self._regenerated(array, changes)
        while changes:
            free = [it for it in changes if not array.node.has(it[1])]
            if not free:
                old, new = changes[0]
                between = old.alias([*array.node.dims, *(it for pair in changes for it in pair)])
                array = self._rename(array, old, between)
                changes[0] = (between.root, new)
                continue
            old, new = free[0]
            changes.remove(free[0])
            array = self._rename(array, old, new)
        return array

    def _rename(self, array: Array, old: Dim, new: Dim) -> Array:
        dims = [new if same_dim(dim, old) else dim for dim in array.node.dims]
        made = self.node("along", "rename", [array.node], dims, array.dtype, [old], [new])
        # It is no value that the user has a name for: it stands where it is read, if it can.
        made.hint = None
        axes = [new if dim is not None and same_dim(dim, old) else dim for dim in array.axes]
        return Array(made, tuple(axes), array.shape)

    def _regenerated(self, array: Array, changes: Sequence[tuple[Dim, Dim]]) -> Array:
        """What is made from indices and numbers, made again along other dimensions."""

        def changed(dim: Dim) -> Dim:
            return next((new for old, new in changes if same_dim(dim, old)), dim)

        def made(node: Node) -> Node:
            if node.is_number:
                return node
            again = self.node(
                node.kind, node.name, [made(it) for it in node.arguments],
                [changed(dim) for dim in node.dims], node.dtype,
                [changed(dim) for dim in node.sources], trailing=node.trailing,
            )  # fmt: skip
            again.number, again.hint, again.source = node.number, node.hint, node.source
            return again

        axes = tuple(None if dim is None else changed(dim) for dim in array.axes)
        return Array(made(array.node), axes, array.shape)

    def with_axes(self, array: Array, wanted: dict[int, Dim]) -> Array:
        """The array with these dimensions at these axes: tied where they can be, else renamed."""
        changes = []
        for axis, dim in wanted.items():
            own = array.axes[axis]
            if own is None:
                array = self._broadcast(array, axis, self._unheld(array, dim))
                own = array.axes[axis]
            assert own is not None
            if not tie(own, dim):
                changes.append((own, dim))
        if not changes:
            return array
        # A dimension that is not renamed itself and is in the way is renamed, too.
        moved = [old for old, _ in changes]
        for kept in array.node.dims:
            is_kept = not any(same_dim(kept, old) for old in moved)
            if is_kept and any(same_dim(kept, new) for _, new in changes):
                avoid = [*array.node.dims, *(new for _, new in changes), *wanted.values()]
                changes.append((kept, kept.alias(avoid)))
        return self.renamed(array, changes)

    def _unheld(self, array: Array, dim: Dim) -> Dim:
        return Dim(dim.size) if array.node.has(dim) else dim

    def aligned(self, arrays: Sequence[Array]) -> tuple[list[Array], tuple[Optional[Dim], ...]]:
        """Arrays of one shape with the same dimension at the same axis, and these dimensions."""
        rank = max((len(array.axes) for array in arrays), default=0)
        chosen: list[Optional[Dim]] = [None] * rank
        arrays = list(arrays)
        order = sorted(range(len(arrays)), key=lambda place: is_generated(arrays[place].node))
        for axis in range(rank):
            for place in order:
                array = arrays[place]
                own = array.axes[axis] if array.axes else None
                if own is None:
                    continue
                others = [dim for at, dim in enumerate(chosen) if dim is not None and at != axis]
                if chosen[axis] is None:
                    held = any(same_dim(own, dim) for dim in others)
                    chosen[axis] = own.alias([*others, *array.node.dims]) if held else own
                target = chosen[axis]
                assert target is not None
                arrays[place] = self.with_axes(array, {axis: target})
        # Renaming an axis may have moved another one: everything is as chosen once nothing moves.
        for place, array in enumerate(arrays):
            wanted = {
                axis: want
                for axis, (own, want) in enumerate(zip(array.axes, chosen))
                if own is not None and want is not None
            }
            arrays[place] = self.with_axes(array, wanted)
        keep_apart([dim for dim in chosen if dim is not None])
        return arrays, tuple(chosen)

    # Operations

    def elementwise(
        self, kind: str, name: str, arrays: Sequence[Array], shape: Sequence[int], dtype: str
    ) -> Array:
        """A function of elements at equal places."""
        if all(array.node.is_number for array in arrays):
            # A number alone is no value of a program; one that has a name is.
            arrays = [self.named_number(arrays[0]), *arrays[1:]]
        aligned, axes = self.aligned(arrays)
        axes = axes if axes else (None,) * len(shape)
        dims = [dim for dim in axes if dim is not None]
        made = self.node(kind, name, [array.node for array in aligned], dims, dtype)
        return Array(made, axes, tuple(shape))

    def named_number(self, array: Array) -> Array:
        """A number as a statement of its own."""
        made = self.node("fill", "", [], [], array.dtype)
        made.number = array.node.number
        return Array(made, array.axes, array.shape)

    def named_like(self, array: Array, value: Number) -> Array:
        """The same number in the shape of an array, as a statement of its own."""
        made = self.node("fill", "", [], array.node.dims, array.dtype)
        made.number = value
        return Array(made, array.axes, array.shape)

    def call(self, name: str, *arrays: Array, dtype: Optional[str] = None) -> Array:
        """A function by its name, with the shape of the largest operand."""
        shape = max((array.shape for array in arrays), key=len)
        return self.elementwise("call", name, arrays, shape, dtype or arrays[0].dtype)

    def infix(self, sign: str, a: Array, b: Array, dtype: Optional[str] = None) -> Array:
        """An operator between two arrays."""
        shape = max((a.shape, b.shape), key=len)
        return self.elementwise("infix", sign, [a, b], shape, dtype or a.dtype)

    def constant(self, value: Any, shape: Sequence[int], dtype: str) -> Array:
        """The same number everywhere."""
        return Array(self.number(value, dtype), (None,) * len(shape), tuple(shape))

    def cast(self, array: Array, dtype: str) -> Array:
        """The array in another element type."""
        if array.dtype == dtype:
            return array
        if array.node.is_number:
            value = array.node.number
            value = value if dtype in ("int32", "bool") else float(value)
            return Array(self.number(value, dtype), array.axes, array.shape)
        made = self.node("call", f"cast<{dtype}>", [array.node], array.node.dims, dtype)
        return Array(made, array.axes, array.shape)

    def reduce(self, name: str, array: Array, axes: Sequence[int]) -> Array:
        """A reduction of some axes, which the result lacks."""
        gone = [dim for axis in axes if (dim := array.axes[axis]) is not None]
        kept = [axis for axis in range(len(array.axes)) if axis not in axes]
        view = Array(
            array.node, tuple(array.axes[it] for it in kept), tuple(array.shape[it] for it in kept)
        )
        if gone:
            left = [dim for dim in array.node.dims if not any(same_dim(dim, it) for it in gone)]
            made = self.node("along", name, [array.node], left, array.dtype, sources=gone)
            view = Array(made, view.axes, view.shape)
        lacking = math.prod(array.shape[axis] for axis in axes if array.axes[axis] is None)
        if name == "sum" and lacking != 1:
            view = self.infix("*", view, self.constant(lacking, (), array.dtype))
        return view

    def along(
        self, name: str, array: Array, axis: int, result: Optional[Dim] = None,
        trailing: Sequence[Union[int, str]] = (), dtype: Optional[str] = None,
    ) -> Array:  # fmt: skip
        """A function along one axis, which the array has; `result` is what it becomes."""
        dim = array.axes[axis]
        assert dim is not None
        new = dim if result is None else result
        dims = [new if same_dim(it, dim) else it for it in array.node.dims]
        made = self.node(
            "along", name, [array.node], dims, dtype or array.dtype, [dim],
            [] if result is None else [result], trailing,
        )  # fmt: skip
        axes, shape = list(array.axes), list(array.shape)
        axes[axis], shape[axis] = new, new.size
        return Array(made, tuple(axes), tuple(shape))

    def iota(self, size: int) -> Array:
        """The indices along a dimension of its own."""
        dim = Dim(size)
        return Array(self.node("along", "iota", [], [dim], "int32", [dim]), (dim,), (size,))

    def dropped(self, array: Array, axis: int) -> Array:
        """The array without an axis of length one, which may be a dimension."""
        dim = array.axes[axis]
        if dim is not None:
            left = [it for it in array.node.dims if not same_dim(it, dim)]
            node = self.node("along", "sum", [array.node], left, array.dtype, sources=[dim])
            array = Array(node, array.axes, array.shape)
        return Array(
            array.node, array.axes[:axis] + array.axes[axis + 1 :],
            array.shape[:axis] + array.shape[axis + 1 :],
        )  # fmt: skip

    def unit(self, array: Array, axis: int) -> Array:
        """The array with an axis of length one put in, which it lacks."""
        return Array(
            array.node, array.axes[:axis] + (None,) + array.axes[axis:],
            array.shape[:axis] + (1,) + array.shape[axis:],
        )  # fmt: skip
