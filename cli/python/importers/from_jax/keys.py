"""Keys of random numbers, which are two whole numbers each: a dimension that is no axis.

What draws with a key is an opaque statement; what draws with a key that the function has itself is
computed before (`flatten`).
"""

from __future__ import annotations

from .builder import Builder
from .dims import same_dim
from .flatten import Equation
from .graph import Array


def wrap(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """Numbers as keys."""
    numbers = build.fill(inputs[0], [len(inputs[0].shape) - 1])
    return Array(numbers.node, numbers.axes[:-1], numbers.shape[:-1])


def unwrap(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """Keys as numbers."""
    (key,) = inputs
    axes = [axis for axis in key.axes if axis is not None]
    (width,) = [dim for dim in key.node.dims if not any(same_dim(dim, it) for it in axes)]
    return Array(key.node, (*key.axes, width), (*key.shape, width.size))
