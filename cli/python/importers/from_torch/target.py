"""Finds the model and its arguments: `models.py:model`, `ids=int64[B:8, T:128]`."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch.utils import _pytree as pytree

from ..failure import Failure
from ..from_jax.target import Shape, guarded
from ..from_jax.target import arguments as expressions
from ..from_jax.target import load as load_function


def load(target: str) -> tuple[Any, torch.nn.Module, str]:
    """The Python module and the model of `MODULE:MODEL`, and its name.

    A model that a function makes has no data: it takes no memory, whatever its size."""
    module, found, name = load_function(target)
    if not isinstance(found, torch.nn.Module):
        with torch.device("meta"):
            found = guarded(f"`{name}` cannot be made", "it must run in Python", found)
    if not isinstance(found, torch.nn.Module):
        raise Failure(
            f"what `{name}` makes is of type `{type(found).__name__}`, no `torch.nn.Module`",
            "name a model, or a function without arguments that makes one",
        )
    return module, found.eval(), name


def arguments(
    module: Any, text: Optional[str], model: torch.nn.Module
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of `forward`, on the device of the model; shapes as `Named` tensors."""
    device = next((it.device for it in model.parameters()), torch.device("cpu"))

    def tensor(leaf: Any) -> Any:
        if isinstance(leaf, Shape):
            kind = getattr(torch, leaf.dtype.name)
            made = torch.zeros(leaf.shape, dtype=kind, device=device)
            # The names of its dimensions, which `dims_of` reads.
            made.shardwise_dims = leaf.names
            return made
        return leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf

    args, named = expressions(module, text)
    return pytree.tree_map(tensor, args), pytree.tree_map(tensor, named)


def dims_of(tensor: Any) -> tuple[Optional[str], ...]:
    """The names of a tensor's dimensions, as the user wrote them."""
    names: tuple[Optional[str], ...] = getattr(tensor, "shardwise_dims", (None,) * tensor.ndim)
    return names
