"""Recognises attention: two products with a softmax between them, and what may stand there besides.

    softmax_S(causal_{T,S}(q *H k * 0.088388346)) *S v

is `attention_H(q, k, v, causal, scale=0.088388346)`. The softmax and the scores must be read by
nothing else, and every statement between the products must be one that `attention` stands for, in
its order: a scale, a soft cap, masks. What else there is, a bias or a mask of the user's, leaves
all of it written out. The rule runs when everything is built, since only then it is known what
reads the scores.

A scale of the queries or keys alone is one of their product. Types may differ: softmaxes are
computed in f32 between products of bf16, as a kernel for attention does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Optional, Union

import numpy as np

from .dims import Dim, same_dim
from .fold import MASKED
from .graph import Node
from .masks import Near, conjuncts, near

# Conversions between them round, and change nothing else.
FLOATS = ("f32", "bf16", "f16")


def fold(nodes: Iterable[Node], uses: Mapping[Node, int]) -> None:
    """Makes products that end an attention that attention; `uses` counts what reads a node."""
    for node in nodes:
        if node.kind == "product":
            _fold_one(node, uses)


def _fold_one(node: Node, uses: Mapping[Node, int]) -> None:
    for weights, values in (node.arguments, node.arguments[::-1]):
        found = _Reader(node, uses).scores(weights)
        if found is not None and _is_sayable(node, found, values):
            q, k = found.operands
            node.kind, node.name, node.arguments = "along", "attention", [q, k, values]
            node.sources, node.trailing = found.summed, found.options()
            return


@dataclass
class _Scores:
    """The weights of an attention, before which there is nothing but its operands."""

    keys: Sequence[Dim]
    operands: list[Node]
    summed: tuple[Dim, ...] = ()
    # All of them have to hold.
    masks: list[Near] = field(default_factory=list)
    cap: Optional[float] = None
    scale: float = 1.0

    def ahead(self) -> list[int]:
        """Bounds of how far a key is ahead of its query; 1 is causal."""
        return [mask.bound for mask in self.masks if _has(self.keys, mask.later)]

    def windows(self) -> list[int]:
        """Bounds of how far a key is before its query."""
        return [mask.bound for mask in self.masks if _has(self.keys, mask.earlier)]

    def options(self) -> tuple[Union[int, str], ...]:
        """What follows the operands."""
        found = ["causal"] if self.ahead() else []
        if self.windows():
            found.append(f"window={min(self.windows())}")
        if self.cap is not None:
            found.append(f"cap={_number(self.cap)}")
        # The scale that is left out is written with six digits.
        usual = round(1 / math.sqrt(math.prod(dim.size for dim in self.summed)), 6)
        if np.float32(usual) != np.float32(self.scale):
            found.append(f"scale={_number(self.scale)}")
        return tuple(found)


class _Reader:
    """Reads what is before the last product of an attention."""

    def __init__(self, node: Node, uses: Mapping[Node, int]) -> None:
        self.node = node
        self.uses = uses

    def _own(self, node: Node) -> bool:
        """Whether nothing else reads a node, so that it need not be a value."""
        return self.uses.get(node) == 1 and not node.sharding and node.block is self.node.block

    def _inner(self, node: Node) -> Optional[Node]:
        """The node, or what it is the conversion of."""
        while self._own(node):
            if not _is_conversion(node):
                return node
            node = node.arguments[0]
        return None

    def scores(self, weights: Node) -> Optional[_Scores]:
        """The scores of these weights of an attention."""
        softmax = self._inner(weights)
        if softmax is None or softmax.kind != "along" or softmax.name != "softmax":
            return None
        if not _are_same(softmax.sources, self.node.sources):
            return None
        found = _Scores(softmax.sources, [])
        inner: Optional[Node] = softmax.arguments[0]
        for read in (self._masks, self._cap, self._scale):
            inner = None if inner is None else self._inner(inner)
            inner = None if inner is None else read(inner, found)
        inner = None if inner is None else self._inner(inner)
        if inner is None or inner.kind != "product" or found.scale <= 0:
            return None
        found.summed = inner.sources
        found.operands = [self._unscaled(it, found) for it in inner.arguments]
        return found if found.scale > 0 else None

    def _masks(self, scores: Node, found: _Scores) -> Optional[Node]:
        """What is masked by places, in any number of steps."""
        node: Optional[Node] = scores
        while node is not None:
            if node.kind == "along" and node.name == "causal":
                query, key = node.sources
                found.masks.append(Near(key, query, 1))
                node = self._inner(node.arguments[0])
            elif node.kind == "call" and node.name == "select":
                mask, then, far = node.arguments
                masks = [near(it) for it in conjuncts(mask)]
                if None in masks or not far.is_number or far.number > MASKED:
                    return None
                found.masks += [it for it in masks if it is not None]
                node = self._inner(then)
            else:
                return node
        return None

    def _cap(self, node: Node, found: _Scores) -> Optional[Node]:
        """What is capped by `cap * tanh(x / cap)`, if it is."""
        cap, tanh = _with_number(node)
        inner = self._inner(tanh) if cap is not None else None
        if inner is None or inner.kind != "call" or inner.name != "tanh":
            return node
        scaled = self._inner(inner.arguments[0])
        if scaled is None or cap is None or cap <= 0:
            return None
        rate, scores = _with_number(scaled)
        # Another rate than one over the cap is a scale, too.
        found.cap, found.scale = cap, (1.0 if rate is None else rate) * cap
        return scores

    def _scale(self, node: Node, found: _Scores) -> Optional[Node]:
        """What is multiplied by numbers."""
        inner: Optional[Node] = node
        while inner is not None:
            factor, scaled = _with_number(inner)
            if factor is None:
                return inner
            found.scale *= factor
            inner = self._inner(scaled)
        return None

    def _unscaled(self, operand: Node, found: _Scores) -> Node:
        """Queries or keys without a number that they are multiplied by, in their own type."""
        inner = self._inner(operand)
        factor, scaled = (None, operand) if inner is None else _with_number(inner)
        if factor is not None:
            found.scale *= factor
            operand = scaled
        while _is_conversion(operand) and operand.dtype != self.node.dtype:
            operand = operand.arguments[0]
        return operand


def _number(value: float) -> str:
    return str(np.float32(value))


def _with_number(node: Node) -> tuple[Optional[float], Node]:
    """The number that a node is multiplied by, and the node without it."""
    if node.kind == "infix" and node.name in ("*", "/"):
        a, b = node.arguments
        if b.is_number:
            number = float(b.number)
            return (number if node.name == "*" else 1 / number), a
        if a.is_number and node.name == "*":
            return float(a.number), b
    return None, node


def _is_conversion(node: Node) -> bool:
    is_cast = node.kind == "call" and node.name.startswith("cast<")
    return is_cast and node.dtype in FLOATS and node.arguments[0].dtype in FLOATS


def _has(dims: Sequence[Dim], dim: Dim) -> bool:
    return any(same_dim(it, dim) for it in dims)


def _are_same(some: Sequence[Dim], others: Sequence[Dim]) -> bool:
    return len(some) == len(others) and all(_has(others, dim) for dim in some)


def _is_sayable(node: Node, found: _Scores, values: Node) -> bool:
    """Whether the language finds the same roles of dimensions, of which it has no names."""
    for q, k in (found.operands, found.operands[::-1]):
        keys = [dim for dim in k.dims if not q.has(dim)]
        if _are_same(keys, found.keys) and all(values.has(dim) for dim in keys):
            found.operands = [q, k]
            break
    else:
        return False
    if {q.dtype, k.dtype, values.dtype} != {node.dtype} or any(it.is_number for it in (q, k)):
        return False
    return not found.masks or _are_masks_sayable(found, values)


def _are_masks_sayable(found: _Scores, values: Node) -> bool:
    """Whether `attention` masks the same dimensions: that of queries that keys and values lack, or
    of several the one that is as long as the keys. It has masks of what is ahead from the next
    place on, and windows of what is before."""
    q, k = found.operands
    rows = [dim for dim in q.dims if not k.has(dim) and not values.has(dim)]
    length = math.prod(key.size for key in found.keys)
    as_long = [dim for dim in rows if dim.size == length]
    rows = as_long or rows
    if len(rows) != 1 or len(found.keys) != 1:
        return False
    pairs = [[rows[0], found.keys[0]]] * len(found.masks)
    if not all(map(_are_same, pairs, ([it.later, it.earlier] for it in found.masks))):
        return False
    ahead, windows = found.ahead(), found.windows()
    is_causal = not ahead or (min(ahead) == 1 and bool(as_long))
    return is_causal and min(windows, default=1) >= 1
