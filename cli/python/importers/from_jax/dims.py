"""Dimensions: which axes of arrays are one dimension of the program.

Arrays in JAX have axes by place, values in a program have dimensions by name. Every axis begins as
a dimension of its own. Operations tie axes together (the summed axes of a product, equal places of
a sum), and tied dimensions become one, unless a value would then have one dimension twice: such
dimensions are kept apart, and the value is renamed instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Union


class Dim:
    """A dimension. Dimensions that were tied are one class, known by its `root`."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.hint: Union[str, None] = None
        # The sizes that were given for it, and thereby its name, which the user wrote.
        self.is_given = False
        self.factors: tuple[Dim, ...] = ()
        self.name = ""
        self._parent: Union[Dim, None] = None
        self._apart: set[Dim] = set()
        self._aliases: list[Dim] = []

    @property
    def root(self) -> Dim:
        """The dimension that stands for its class."""
        found = self
        while found._parent is not None:
            found = found._parent
        if found is not self:
            self._parent = found
        return found

    def is_apart(self, other: Dim) -> bool:
        """Whether a value has both, so that they cannot be one."""
        mine, other = self.root, other.root
        return any(it.root is other for it in mine._apart)

    def alias(self, avoid: Iterable[Dim]) -> Dim:
        """Another dimension of the same size, which is none of `avoid`."""
        root = self.root
        roots = {dim.root for dim in avoid}
        for known in root._aliases:
            if known.root not in roots and known.root is not root:
                return known.root
        created = Dim(root.size)
        root._aliases.append(created)
        keep_apart([root, created])
        return created


def keep_apart(dims: Sequence[Dim]) -> None:
    """Notes that one value has all of them."""
    roots = [dim.root for dim in dims]
    for dim in roots:
        dim._apart.update(other for other in roots if other is not dim)


def same_dim(a: Dim, b: Dim) -> bool:
    return a.root is b.root


def can_tie(a: Dim, b: Dim) -> bool:
    """Whether two dimensions can become one: of equal size, in no value together, and with factors
    that can."""
    a, b = a.root, b.root
    if a is b:
        return True
    if a.size != b.size or a.is_apart(b):
        return False
    if a.is_given and b.is_given and a.hint != b.hint:
        return False
    if a.factors and b.factors:
        if [it.size for it in a.factors] != [it.size for it in b.factors]:
            return False
        return all(can_tie(x, y) for x, y in zip(a.factors, b.factors))
    return True


def tie(a: Dim, b: Dim) -> bool:
    """Makes two dimensions one, if they can be; whether they are."""
    if not can_tie(a, b):
        return False
    a, b = a.root, b.root
    if a is b:
        return True
    # The factors of one may hold those of the other apart by now: then these stay two dimensions.
    for x, y in zip(a.factors, b.factors):
        if not tie(x, y):
            return False
    if b.is_given and not a.is_given:
        a, b = b, a
    b._parent = a
    a.hint = a.hint or b.hint
    a.factors = a.factors or b.factors
    a._apart |= b._apart
    a._aliases += b._aliases
    for other in b._apart:
        other.root._apart.add(a)
    return True
