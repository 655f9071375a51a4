"""Masks that compare places, `iota_T() >= iota_S()` in any of its forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .dims import Dim, same_dim
from .graph import Node


@dataclass(frozen=True)
class Near:
    """The mask of the places where `later - earlier < bound`."""

    later: Dim
    earlier: Dim
    bound: int


def conjuncts(mask: Node) -> list[Node]:
    """The masks that all have to hold: `a` and `b` is `select(a, b, a)`."""
    if mask.kind == "call" and mask.name == "select":
        a, b, otherwise = mask.arguments
        if a is otherwise:
            return [*conjuncts(a), *conjuncts(b)]
    return [mask]


def near(mask: Node) -> Optional[Near]:
    """What a mask compares, if these are the places along two dimensions."""
    if mask.kind != "infix" or mask.name not in ("<", "<=", ">", ">="):
        return None
    a, b = mask.arguments if mask.name.startswith("<") else mask.arguments[::-1]
    difference = _Sum()
    if not (difference.add(a, 1) and difference.add(b, -1)):
        return None
    later = [dim for dim, count in difference.counts if count == 1]
    earlier = [dim for dim, count in difference.counts if count == -1]
    if len(later) != 1 or len(earlier) != 1 or len(difference.counts) != 2:
        return None
    bound = -difference.number + mask.name.endswith("=")
    return Near(later[0], earlier[0], bound)


class _Sum:
    """A sum of places and a whole number."""

    def __init__(self) -> None:
        self.counts: list[tuple[Dim, int]] = []
        self.number = 0

    def add(self, node: Node, sign: int) -> bool:
        """Adds a node, if it is such a sum."""
        if node.dtype != "int32":
            return False
        if node.is_number:
            self.number += sign * int(node.number)
            return True
        if node.kind == "along" and node.name == "iota":
            self._count(node.dims[0].root, sign)
            return True
        if node.kind == "infix" and node.name in ("+", "-"):
            a, b = node.arguments
            return self.add(a, sign) and self.add(b, sign if node.name == "+" else -sign)
        return False

    def _count(self, dim: Dim, sign: int) -> None:
        known = sum(count for of, count in self.counts if same_dim(of, dim))
        self.counts = [(of, count) for of, count in self.counts if not same_dim(of, dim)]
        if known + sign:
            self.counts.append((dim, known + sign))
