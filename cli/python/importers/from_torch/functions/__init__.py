"""The operations of PyTorch as functions of `jax.numpy`, by name and with PyTorch's arguments."""

from __future__ import annotations

from typing import Any, Callable

from . import creation, elementwise, indexing, neural, products, reductions, shapes

TABLE: dict[str, Callable[..., Any]] = {
    **creation.TABLE,
    **elementwise.TABLE,
    **indexing.TABLE,
    **neural.TABLE,
    **products.TABLE,
    **reductions.TABLE,
    **shapes.TABLE,
}

# Operations whose results have at each place what the operands have there.
ELEMENTWISE = frozenset(elementwise.TABLE)

# Operations that read the numbers of operands that are constant.
OF_CONSTANTS = frozenset({"embedding_bag"})
