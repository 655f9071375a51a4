"""Walks the equations of a function, and hands each to the module that knows its primitive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Optional, Union

import numpy as np

from ..failure import Failure, Unsupported
from . import convolutions, elementwise, keys, lookups, loops, opaque, products, rearrange
from .builder import Builder
from .dims import Dim
from .flatten import Atom, Constant, Equation, Function, Var, reads
from .graph import Array, Leaf, Node, Split

Rule = Callable[[Builder, Equation, list[Array]], Union[Array, list[Array]]]

RULES: dict[str, Rule] = {
    **dict.fromkeys(elementwise.names(), elementwise.convert),
    **dict.fromkeys(products.REDUCTIONS, products.reduction),
    **dict.fromkeys(elementwise.IDENTITIES, lambda build, equation, inputs: inputs),
    "argmax": products.argmax,
    "argmin": products.argmin,
    "broadcast_in_dim": rearrange.broadcast_in_dim,
    "concatenate": rearrange.concatenate,
    "conv_general_dilated": convolutions.convolution,
    "cumsum": products.cumsum,
    "dot_general": products.product,
    "dynamic_slice": lookups.dynamic_slice,
    "dynamic_update_slice": lookups.dynamic_update_slice,
    "expand_dims": rearrange.expand_dims,
    "gather": lookups.gather,
    "iota": rearrange.iota,
    "pad": rearrange.pad,
    "reshape": rearrange.reshape,
    "reduce_and": products.any_or_all,
    "reduce_or": products.any_or_all,
    "random_unwrap": keys.unwrap,
    "random_wrap": keys.wrap,
    "rev": rearrange.rev,
    "scatter-add": lookups.scatter_add,
    "slice": rearrange.slice_,
    "sort": products.sort,
    "split": rearrange.split,
    "squeeze": rearrange.squeeze,
    "stack": rearrange.stack,
    "tile": rearrange.tile,
    "top_k": products.top_k,
    "transpose": rearrange.transpose,
}

# Primitives that say how an array is sharded, and which parameter has the sharding.
CONSTRAINTS = {"sharding_constraint": "sharding", "reshard": "dst_sharding"}

# Nodes that a constraint is written on; others have a sharding of their own, or in other blocks.
SHARDED_THEMSELVES = ("call", "infix", "product", "along", "reshape")


class Converter:
    """Converts functions into one program."""

    def __init__(self, is_strict: bool = False) -> None:
        self.build = Builder(is_strict)
        self.known: dict[Var, Union[Array, Leaf]] = {}
        # Variables without elements, and what makes them.
        self.empty: dict[Atom, Equation] = {}
        self.constants: dict[str, Any] = {}
        self.program = self.build.block
        self._named: dict[str, Dim] = {}

    def run(self, function: Function) -> None:
        """Adds the statements of a function, whose inputs are known."""
        count = reads(function)
        for equation in function.equations:
            self.build.source, self.build.hint = equation.source, equation.hint
            empty = [var for var in equation.outputs if 0 in var.shape]
            self.empty.update(dict.fromkeys(empty, equation))
            if empty and len(empty) == len(equation.outputs):
                continue
            results: Sequence[Optional[Array]]
            try:
                if equation.primitive == "scan":
                    results = loops.scan(self, equation, count)
                else:
                    results = self._results(equation)
            except Unsupported as reason:
                if self.build.is_strict:
                    raise
                inputs = self._inputs(equation)
                results = opaque.convert(self.build, equation, inputs, reason)
            for var, array in zip(equation.outputs, results):
                if array is None or var in self.empty:
                    continue
                if array.shape != var.shape:
                    raise Failure(
                        f"`{equation.primitive}` was read as {array.shape}, and is {var.shape}",
                        "this is an error of the importer: please report it",
                        equation.source,
                    )
                self.known[var] = array

    def _results(self, equation: Equation) -> Sequence[Array]:
        name = equation.primitive
        inputs = self._inputs(equation)
        if name in CONSTRAINTS:
            return [self.constrained(inputs[0], equation.params[CONSTRAINTS[name]])]
        if name not in RULES:
            raise opaque.unknown(self.build, equation)
        found = RULES[name](self.build, equation, inputs)
        return found if isinstance(found, list) else [found]

    # Operands

    def _inputs(self, equation: Equation) -> list[Array]:
        """What an equation reads; a concatenation has no part of what is empty."""
        joins = equation.primitive == "concatenate"
        kept = [atom for atom in equation.inputs if not (joins and atom in self.empty)]
        return [self.read(atom) for atom in kept]

    def read(self, atom: Atom) -> Array:
        """The array of a variable or constant."""
        if isinstance(atom, Constant):
            return self._constant(atom.value, atom.dtype)
        if atom in self.empty:
            made = self.empty[atom]
            raise Failure(
                f"a result of `{made.primitive}` has no elements: its shape is {list(atom.shape)}",
                "leave it out",
                made.source,
            )
        known = self.known[atom]
        if isinstance(known, Leaf):
            known = self.known[atom] = self.declare(known)
        return known

    def declare(self, leaf: Leaf) -> Array:
        """An argument, as a declaration of its block."""
        axes: list[Optional[Dim]] = []
        for size, name in zip(leaf.shape, leaf.dims):
            dim = Dim(size) if size != 1 else None
            if dim is not None and name is not None:
                dim = self.named_dim(name, size)
            axes.append(dim)
        dims = [dim for dim in axes if dim is not None]
        dims += [self.build.of_key] if leaf.is_key else []
        node = Node("declared", leaf.role, [], tuple(dims), leaf.dtype, leaf.block)
        node.hint = leaf.name
        for dim, split in zip(axes, leaf.sharding or ()):
            if dim is not None and split is not None:
                node.sharding[dim] = split
        leaf.block.body.append(node)
        return Array(node, tuple(axes), leaf.shape)

    def named_dim(self, name: str, size: int) -> Dim:
        """The dimension that the user calls so; each has one size."""
        dim = self._named.setdefault(name, Dim(size))
        if dim.size != size:
            raise Failure(
                f"the dimension `{name}` is {dim.size} in one argument and {size} in another",
                "give them different names",
            )
        dim.hint, dim.is_given = name, True
        return dim

    def _constant(self, value: Any, of: Any) -> Array:
        array = np.asarray(value)
        dtype = self.build.dtype(of)
        if array.dtype.kind not in "fiub":
            array = array.astype(np.float32)
        if array.ndim == 0 or array.size and (array == array.reshape(-1)[0]).all():
            return self.build.constant(array.reshape(-1)[0], array.shape, dtype)
        counted = self._counted(array, dtype)
        return counted if counted is not None else self._captured(value, array, dtype)

    def _counted(self, array: Any, dtype: str) -> Optional[Array]:
        """Consecutive numbers along an axis, or a mask that places before and after decide."""
        for axis, size in enumerate(array.shape):
            shape = [size if at == axis else 1 for at in range(array.ndim)]
            first = array.reshape(-1)[0]
            if size > 1 and (array == np.arange(size).reshape(shape) + first).all():
                indices = self.build.iota(size)
                axes = tuple(indices.axes[0] if at == axis else None for at in range(array.ndim))
                found = Array(indices.node, axes, array.shape)
                if first != 0:
                    found = self.build.infix("+", found, self.build.constant(first, (), "int32"))
                return self.build.cast(found, dtype)
        if array.ndim < 2 or min(array.shape[-2:]) == 1:
            return None
        return self._band(array) if array.dtype == bool else self._added_mask(array, dtype)

    def _added_mask(self, array: Any, dtype: str) -> Optional[Array]:
        """A mask that is added to scores: zero where they count, else a number far below."""
        low = array.min()
        if not ((array == 0) | (array == low)).all():
            return None
        mask = self._band(array == 0)
        if mask is None:
            return None
        zero, far = (self.build.constant(it, array.shape, dtype) for it in (0, low))
        return elementwise.chosen(self.build, [mask, zero, far], array.shape, dtype)

    def _band(self, array: Any) -> Optional[Array]:
        """A mask of the places whose distance is in a range: causal, also with a window."""
        height, width = array.shape[-2:]
        distance = np.arange(height)[:, None] - np.arange(width)
        inside = distance[array.reshape(-1, height, width)[0]]
        if not inside.size:
            return None
        least, most = int(inside.min()), int(inside.max())
        if not (array == ((distance >= least) & (distance <= most))).all():
            return None
        rows, columns = (self._places(array, axis) for axis in (-2, -1))
        bounds = []
        if least == 0:
            bounds.append(self.build.infix(">=", rows, columns, "bool"))
        elif least > 1 - width:
            bounds.append(self._at_distance(rows, columns, ">=", least))
        if most < height - 1:
            bounds.append(self._at_distance(rows, columns, "<=", most))
        if len(bounds) != 2:
            return bounds[0]
        return self.build.elementwise("call", "select", [*bounds, bounds[0]], array.shape, "bool")

    def _places(self, array: Any, axis: int) -> Array:
        """The indices along an axis of a mask."""
        indices = self.build.iota(array.shape[axis])
        axes: list[Optional[Dim]] = [None] * array.ndim
        axes[axis] = indices.axes[0]
        return Array(indices.node, tuple(axes), array.shape)

    def _at_distance(self, rows: Array, columns: Array, sign: str, distance: int) -> Array:
        apart = self.build.infix("-", rows, columns)
        bound = self.build.constant(distance, apart.shape, "int32")
        return self.build.infix(sign, apart, bound, "bool")

    def _captured(self, value: Any, array: Any, dtype: str) -> Array:
        name = f"captured.{len(self.constants) + 1}"
        self.constants[name] = value
        self.build.warn(
            f"an array of shape {list(array.shape)} that the function has captured is the input "
            f"`{name}`; pass it as an argument to give it a name"
        )
        dims = (None,) * array.ndim
        return self.declare(Leaf(name, "input", array.shape, dtype, dims, None, self.program))

    # Shardings

    def constrained(self, array: Array, sharding: Any) -> Array:
        """The array in the sharding of a constraint."""
        wanted = splits(sharding, len(array.shape))
        if wanted is None:
            return array
        array = self.build.filled(array)
        made = array.node
        if made.kind not in SHARDED_THEMSELVES or made.sharding:
            made = self.build.node("call", "identity", [made], made.dims, made.dtype)
        for dim, split in zip(array.axes, wanted):
            if dim is not None and split is not None:
                made.sharding[dim] = split
        return Array(made, array.axes, array.shape)


def splits(sharding: Any, rank: int) -> Optional[tuple[Split, ...]]:
    """The axes of the mesh for each axis of an array, or `None` if there is no sharding by name."""
    spec = getattr(sharding, "spec", None)
    if spec is None:
        return None
    found: list[Split] = []
    for entry in (*spec, *[None] * (rank - len(spec))):
        if entry is None:
            found.append(())
        elif isinstance(entry, str):
            found.append((entry,))
        elif isinstance(entry, tuple):
            found.append(tuple(map(str, entry)))
        else:
            found.append(None)
    return tuple(found)
