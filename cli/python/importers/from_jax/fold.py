"""Recognises what the language has a name for: softmax, norms, activations, masks.

Every rule replaces an expression by one of the same value, rounding apart; what does not match
exactly stays as it is written out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional

import numpy as np

from .builder import Builder
from .dims import Dim, same_dim
from .graph import Array, Node
from .masks import conjuncts, near

# What the normalisations of the language add to a variance.
EPSILON = 1e-6
# Scores at or below this are zero after a softmax with any score that is not masked.
MASKED = -1e8


def _is(node: Node, kind: str, *names: str) -> bool:
    return node.kind == kind and node.name in names


def _near(node: Node, number: float) -> bool:
    return node.is_number and _close(float(node.number), number, node.dtype)


def _close(a: float, b: float, dtype: str) -> bool:
    """Whether numbers are equal but for the rounding to the type of what they stand beside."""
    rounding = {"bf16": 8e-3, "f16": 1e-3}.get(dtype, 1e-5)
    return math.isclose(a, b, rel_tol=rounding)


def same(a: Node, b: Node, depth: int = 12) -> bool:
    """Whether two nodes have the same value: one node, or the same function of the same values."""
    if a is b:
        return True
    if depth == 0 or a.kind != b.kind or a.name != b.name or a.dtype != b.dtype:
        return False
    if a.kind not in ("number", "fill", "call", "infix", "product", "along"):
        return False
    if a.block is not b.block and not a.is_number:
        return False
    pairs = [(a.dims, b.dims), (a.sources, b.sources), (a.results, b.results)]
    for mine, others in pairs:
        if len(mine) != len(others) or not all(map(same_dim, mine, others)):
            return False
    if a.number != b.number or a.trailing != b.trailing:
        return False
    if len(a.arguments) != len(b.arguments):
        return False
    return all(same(x, y, depth - 1) for x, y in zip(a.arguments, b.arguments))


def _bare(node: Node) -> Node:
    """The operand of functions that do not change a value."""
    while _is(node, "call", "stop_gradient"):
        node = node.arguments[0]
    return node


def is_rounded(node: Node) -> bool:
    """Whether all elements are whole numbers."""
    if _is(node, "call", "round"):
        return True
    if node.kind == "call" and node.name.startswith("cast<"):
        return is_rounded(node.arguments[0]) or node.arguments[0].dtype in ("int32", "int8", "bool")
    if _is(node, "call", "maximum", "minimum", "relu", "abs", "neg", "stop_gradient"):
        return all(is_rounded(it) for it in node.arguments)
    return node.is_number and float(node.number).is_integer()


def _made(build: Builder, array: Array, name: str, of: Node, dims: Sequence[Dim]) -> Array:
    """The array as a composite of a node along dimensions."""
    node = build.node("along", name, [of], array.node.dims, array.dtype, sources=dims)
    return Array(node, array.axes, array.shape)


def _lacks(node: Node, dims: Sequence[Dim]) -> bool:
    return not any(node.has(dim) for dim in dims)


# Exponentials


def _without_shift(node: Node, dims: Sequence[Dim]) -> Node:
    """`x` of `x - m` where `m` is the same along the dimensions."""
    if _is(node, "infix", "-") and _lacks(node.arguments[1], dims):
        if all(node.arguments[0].has(dim) for dim in node.dims):
            return node.arguments[0]
    return node


def _softmax(build: Builder, array: Array) -> Optional[Array]:
    above, below = array.node.arguments
    if not (_is(above, "call", "exp") and _is(below, "along", "sum")):
        return None
    if not same(below.arguments[0], above):
        return None
    scores = _without_shift(above.arguments[0], below.sources)
    scores = _causal(build, scores, below.sources)
    return _made(build, array, "softmax", scores, below.sources)


def _causal(build: Builder, scores: Node, dims: Sequence[Dim]) -> Node:
    """Masked scores as `causal_{T,S}`, where later elements along `S` are masked; what else is
    masked remains in it."""
    scores = _with_added_mask(build, scores)
    if not _is(scores, "call", "select"):
        return scores
    mask, then, otherwise = scores.arguments
    if not otherwise.is_number or otherwise.number > MASKED or len(dims) != 1:
        return scores
    if not all(then.has(dim) for dim in scores.dims):
        return scores
    for causal in conjuncts(mask):
        rows = _rows_of_causal(causal, dims[0])
        if rows is None or not (then.has(rows[0]) and then.has(rows[1])):
            continue
        for rest in (it for it in conjuncts(mask) if it is not causal):
            then = build.node("call", "select", [rest, then, otherwise], then.dims, then.dtype)
        return build.node("along", "causal", [then], then.dims, then.dtype, sources=rows)
    return scores


def _rows_of_causal(mask: Node, keys: Dim) -> Optional[tuple[Dim, Dim]]:
    """`T, S` of `iota_T() >= iota_S()`, however it is written."""
    found = near(mask)
    if found is None or found.bound != 1 or not same_dim(found.later, keys):
        return None
    return (found.earlier, found.later) if found.earlier.size == found.later.size else None


def _with_added_mask(build: Builder, scores: Node) -> Node:
    """`x + select(mask, 0, far below)` as a selection of `x`."""
    if not _is(scores, "infix", "+"):
        return scores
    for x, added in (scores.arguments, scores.arguments[::-1]):
        if not _is(added, "call", "select") or not all(x.has(dim) for dim in scores.dims):
            continue
        mask, zero, far = added.arguments
        if zero.kind in ("number", "fill") and zero.number == 0 and far.is_number:
            if far.number <= MASKED:
                return build.node("call", "select", [mask, x, far], scores.dims, scores.dtype)
    return scores


def function(build: Builder, array: Array) -> Array:
    """Rules for functions by name: `log(sum(exp(x)))`, `|sum(exp(x))|`."""
    node = array.node
    (of,) = node.arguments
    if node.name == "log" and _is(of, "along", "sum") and _is(of.arguments[0], "call", "exp"):
        return _made(build, array, "logsumexp", of.arguments[0].arguments[0], of.sources)
    if node.name == "abs" and _is(of, "along", "sum") and _is(of.arguments[0], "call", "exp"):
        return Array(of, array.axes, array.shape)
    return array


def _with_shift(build: Builder, array: Array) -> Optional[Array]:
    """`logsumexp(x - m) + m`, and `(x - m) - logsumexp(x - m)`."""
    a, b = array.node.arguments
    if array.node.name == "+":
        for lse, shift in ((a, b), (b, a)):
            if not _is(lse, "along", "logsumexp"):
                continue
            inner = lse.arguments[0]
            if not _is(inner, "infix", "-") or not _lacks(inner.arguments[1], lse.sources):
                continue
            if not all(inner.arguments[0].has(dim) for dim in array.node.dims):
                continue
            if same(_bare(inner.arguments[1]), _bare(shift)):
                return _made(build, array, "logsumexp", inner.arguments[0], lse.sources)
    if array.node.name == "-" and _is(b, "along", "logsumexp") and same(b.arguments[0], a):
        x = _without_shift(a, b.sources)
        if x is not a:
            lse = build.node("along", "logsumexp", [x], b.dims, b.dtype, sources=b.sources)
            node = build.node("infix", "-", [x, lse], array.node.dims, array.dtype)
            return Array(node, array.axes, array.shape)
    return None


# Norms


def _mean(build: Builder, array: Array) -> Optional[Array]:
    total, count = array.node.arguments
    if not (_is(total, "along", "sum") and count.is_number):
        return None
    if count.number != math.prod(dim.size for dim in total.sources):
        return None
    return _made(build, array, "mean", total.arguments[0], total.sources)


def _squared(node: Node) -> Optional[Node]:
    """`x` of its square."""
    if _is(node, "call", "square"):
        return node.arguments[0]
    if _is(node, "infix", "*") and same(node.arguments[0], node.arguments[1]):
        return node.arguments[0]
    return None


def _normalised(node: Node, deviation: Node) -> Optional[tuple[str, Node, Sequence[Dim]]]:
    """The norm that `node / sqrt(deviation)` is: its name, operand and dimensions."""
    if not _is(deviation, "infix", "+"):
        return None
    for mean, epsilon in (deviation.arguments, deviation.arguments[::-1]):
        if not _near(epsilon, EPSILON):
            continue
        of_variance = _variance(mean)
        if of_variance is not None and _is(node, "infix", "-"):
            x, centre = node.arguments
            is_mean = _is(centre, "along", "mean") and same(centre.arguments[0], x)
            if is_mean and same(x, of_variance[0]) and _same_sources(centre, of_variance[1]):
                return "layernorm", x, of_variance[1]
        if not _is(mean, "along", "mean"):
            continue
        base = _squared(mean.arguments[0])
        if base is None or not same(base, node):
            continue
        if _is(node, "infix", "-") and _is(node.arguments[1], "along", "mean"):
            x, centre = node.arguments
            if _same_sources(centre, mean.sources) and same(centre.arguments[0], x):
                return "layernorm", x, mean.sources
        return "rmsnorm", node, mean.sources
    return None


def _variance(node: Node) -> Optional[tuple[Node, Sequence[Dim]]]:
    """`x` and the dimensions of `mean(x^2) - mean(x)^2`, which is not below zero."""
    if _is(node, "call", "relu"):
        node = node.arguments[0]
    if not (_is(node, "infix", "-") and _is(node.arguments[0], "along", "mean")):
        return None
    of_squares, squared = node.arguments
    x, mean = _squared(of_squares.arguments[0]), _squared(squared)
    if x is None or mean is None or not _is(mean, "along", "mean"):
        return None
    return (
        (x, mean.sources)
        if same(mean.arguments[0], x) and _same_sources(mean, of_squares.sources)
        else None
    )


def _same_sources(node: Node, dims: Sequence[Dim]) -> bool:
    return len(node.sources) == len(dims) and all(map(same_dim, node.sources, dims))


def _scaled_norm(build: Builder, array: Array) -> Optional[Array]:
    """`x * (rsqrt(variance) * scale)` as the norm, scaled."""
    for x, factors in (array.node.arguments, array.node.arguments[::-1]):
        if not _is(factors, "infix", "*"):
            continue
        for root, scale in (factors.arguments, factors.arguments[::-1]):
            found = _normalised(x, root.arguments[0]) if _is(root, "call", "rsqrt") else None
            if found is not None:
                name, of, dims = found
                norm = build.node("along", name, [of], of.dims, array.dtype, sources=dims)
                made = build.node("infix", "*", [norm, scale], array.node.dims, array.dtype)
                return Array(made, array.axes, array.shape)
    return None


def _norm(build: Builder, array: Array) -> Optional[Array]:
    a, b = array.node.arguments
    pairs = [(a, b, "rsqrt"), (b, a, "rsqrt")] if array.node.name == "*" else [(a, b, "sqrt")]
    for x, root, name in pairs:
        if _is(root, "call", name):
            found = _normalised(x, root.arguments[0])
            if found is not None:
                return _made(build, array, found[0], found[1], found[2])
    return None


# Activations


def _factors(node: Node) -> list[Node]:
    if _is(node, "infix", "*"):
        return [it for argument in node.arguments for it in _factors(argument)]
    if _is(node, "call", "square"):
        return _factors(node.arguments[0]) * 2
    return [node]


def _split_number(factors: Sequence[Node]) -> tuple[float, list[Node]]:
    numbers = [float(it.number) for it in factors if it.is_number]
    return math.prod(numbers), [it for it in factors if not it.is_number]


def _terms(node: Node) -> list[Node]:
    return list(node.arguments) if _is(node, "infix", "+") else [node]


def _gelu(build: Builder, array: Array) -> Optional[Array]:
    """`0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))`."""
    half, factors = _split_number(_factors(array.node))
    if not _close(half, 0.5, array.dtype) or len(factors) != 2:
        return None
    for x, bracket in (factors, factors[::-1]):
        one, rest = _split_sum(bracket)
        if one != 1.0 or len(rest) != 1 or not _is(rest[0], "call", "tanh"):
            continue
        if _is_inner_of_gelu(rest[0].arguments[0], x):
            node = build.node("call", "gelu", [x], array.node.dims, array.dtype)
            return Array(node, array.axes, array.shape)
    return None


def _split_sum(node: Node) -> tuple[float, list[Node]]:
    terms = _terms(node)
    numbers = [float(it.number) for it in terms if it.is_number]
    return sum(numbers), [it for it in terms if not it.is_number]


def _is_inner_of_gelu(node: Node, x: Node) -> bool:
    scale, factors = _split_number(_factors(node))
    if not _close(scale, math.sqrt(2 / math.pi), node.dtype) or len(factors) != 1:
        return False
    for linear, cubic in (_terms(factors[0]), _terms(factors[0])[::-1]):
        rate, powers = _split_number(_factors(cubic))
        if _close(rate, 0.044715, node.dtype) and len(powers) == 3:
            if same(linear, x) and all(same(it, x) for it in powers):
                return True
    return False


def _silu(build: Builder, array: Array) -> Optional[Array]:
    for x, gate in (array.node.arguments, array.node.arguments[::-1]):
        if _is(gate, "call", "sigmoid") and same(gate.arguments[0], x):
            node = build.node("call", "silu", [x], array.node.dims, array.dtype)
            return Array(node, array.axes, array.shape)
    return None


RULES = {
    "/": (_softmax, _mean, _norm),
    "*": (_norm, _scaled_norm, _gelu, _silu),
    "+": (_with_shift,),
    "-": (_with_shift,),
}


def arithmetic(build: Builder, array: Array) -> Array:
    """An operator between arrays, or what the language calls it."""
    for rule in RULES[array.node.name]:
        found = rule(build, array)
        if found is not None:
            return found
    return array


# Types


def converted(build: Builder, array: Array, dtype: str) -> Optional[Array]:
    """`cast<bf16>(sum(cast<f32>(x)))`, as JAX writes a sum of bf16, as the sum: in which type a
    device adds up is not a part of programs."""
    node = array.node
    if not _is(node, "along", "sum", "mean") or not _is(node.arguments[0], "call", "cast<f32>"):
        return None
    of = node.arguments[0].arguments[0]
    if of.dtype != dtype or dtype not in ("bf16", "f16"):
        return None
    made = build.node("along", node.name, [of], node.dims, dtype, sources=node.sources)
    return Array(made, array.axes, array.shape)


def converted_mask(array: Array) -> Optional[Array]:
    """The mask that was converted to numbers, which a comparison with zero converts back."""
    node = array.node
    if node.kind != "call" or not node.name.startswith("cast<"):
        return None
    mask = node.arguments[0]
    return Array(mask, array.axes, array.shape) if mask.dtype == "bool" else None


# Choices


def selected(which: Array, then: Array, otherwise: Array) -> Optional[Array]:
    """A choice that is one of its operands."""
    a, b = then.node, otherwise.node
    if which.shape == then.shape and then.dtype == "bool" and a.is_number and b.is_number:
        if a.number and not b.number:
            return which
    if _is_wrapped_index(which.node, a, b):
        return otherwise
    if _is(which.node, "infix", "<") and _is(which.node.arguments[0], "call", "abs"):
        # Not the maximum where it is infinite: a shift of exponentials, which any number is.
        of, limit = which.node.arguments[0].arguments[0], which.node.arguments[1]
        if same(of, a) and b.is_number and b.number == 0 and limit.number == np.inf:
            if _is(of, "along", "max"):
                return then
    return None


def _is_wrapped_index(which: Node, wrapped: Node, index: Node) -> bool:
    """`select(i < 0, i + n, i)`, as JAX writes an index that may count from the end."""
    if not (_is(which, "infix", "<") and _is(wrapped, "infix", "+")):
        return False
    a, zero = which.arguments
    if not (zero.is_number and zero.number == 0 and same(a, index)):
        return False
    return same(wrapped.arguments[0], index) and index.dtype == "int32" and _is_index(index)


def _is_index(node: Node) -> bool:
    """Whether it is an index that cannot be negative, or one that the user gives."""
    while _is(node, "along", "slice", "rename"):
        node = node.arguments[0]
    return _is(node, "along", "iota", "argtopk", "argmax") or node.kind == "declared"
