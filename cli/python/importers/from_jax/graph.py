"""The program while it is built: nodes, the blocks that they are in, and arrays as views of nodes.

A node has dimensions without an order, as values in a program have. An array of the JAX function is
a view of a node: it says which dimension each of its axes is. An axis that the node lacks (of size
one, or along which the array is the same everywhere) is `None`. So transposes, new axes and
broadcasts are other views of one node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional, Union

from ..failure import Source
from .dims import Dim, keep_apart

Number = Union[bool, int, float]
# The axes of the mesh that an axis is split over; `None` leaves it open.
Split = Optional[tuple[str, ...]]


@dataclass(eq=False)
class Block:
    """A part of the program: all of it, or the body of a loop."""

    kind: str  # "program", "repeat" or "scan"
    parent: Optional[Block] = None
    count: int = 1
    # Of a scan, the dimension that it goes along. Values in its body lack it.
    dim: Optional[Dim] = None
    body: list[Union[Node, Block]] = field(default_factory=list)
    carries: list[Carry] = field(default_factory=list)
    name: str = ""

    def is_inside(self, other: Block) -> bool:
        """Whether this is the other block, or in it."""
        block: Optional[Block] = self
        while block is not None:
            if block is other:
                return True
            block = block.parent
        return False


@dataclass(eq=False)
class Carry:
    """A value that a loop hands from step to step: before the loop, in a step, after the step, and
    after the loop."""

    before: Node
    entering: Node
    leaving: Optional[Node] = None
    after: Optional[Node] = None


@dataclass(eq=False)
class Node:
    """A value of the program."""

    # What it is: "declared", "number", "fill", "call", "infix", "product", "along", "reshape",
    # "step", "carried", "after", "stack".
    kind: str
    # The function, operator or role.
    name: str
    arguments: list[Node]
    dims: tuple[Dim, ...]
    dtype: str
    block: Block
    # What a subscript lists: `{S->P}` has one in each.
    sources: tuple[Dim, ...] = ()
    results: tuple[Dim, ...] = ()
    number: Number = 0
    # Arguments that are no values: numbers, and options by name.
    trailing: tuple[Union[int, str], ...] = ()
    hint: Optional[str] = None
    source: Optional[Source] = None
    # The axes of the mesh for each dimension that is split as the user says.
    sharding: dict[Dim, tuple[str, ...]] = field(default_factory=dict)
    text: str = ""

    def __post_init__(self) -> None:
        keep_apart(self.dims)
        block: Optional[Block] = self.block
        while block is not None:
            if block.kind == "scan" and block.dim is not None:
                for dim in self.dims:
                    keep_apart([dim, block.dim])
            block = block.parent

    def has(self, dim: Dim) -> bool:
        """Whether a dimension is one of its own."""
        return any(it.root is dim.root for it in self.dims)

    @property
    def is_number(self) -> bool:
        return self.kind == "number"


@dataclass(frozen=True)
class Array:
    """A view of a node with the axes of an array in JAX. Of keys of random numbers a node has a
    dimension that is no axis."""

    node: Node
    axes: tuple[Optional[Dim], ...]
    shape: tuple[int, ...]

    @property
    def dtype(self) -> str:
        return self.node.dtype


@dataclass(eq=False)
class Leaf:
    """An argument, which is declared where it is first read: per layer in the block of a loop, if
    only that reads it."""

    name: str
    role: str
    shape: tuple[int, ...]
    dtype: str
    dims: tuple[Optional[str], ...]
    sharding: Optional[tuple[Split, ...]]
    block: Block
    # Whether elements are keys of random numbers.
    is_key: bool = False

    def of_layer(self, block: Block) -> Leaf:
        """What a layer has of it: all but the first axis."""
        sharding = None if self.sharding is None else self.sharding[1:]
        shape, dims = self.shape[1:], self.dims[1:]
        return Leaf(self.name, "param", shape, self.dtype, dims, sharding, block, self.is_key)
