"""Runs the graph of a model with functions of `jax.numpy`, layers as `lax.scan`.

What depends on no argument is computed here and now: position numbers and masks, which models make
by dozens of operations, arrive as what they are.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Callable

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax.extend.core import Primitive
from torch.fx import Node
from torch.fx.node import map_arg

from ..failure import Failure
from .export import Graph, place
from .functions import ELEMENTWISE, OF_CONSTANTS, TABLE
from .layers import Item, Layers

# Operations that compute nothing.
CHECKS = ("_assert_tensor_metadata", "_assert_async", "_assert_scalar", "sym_constrain_range")
# Stands for operations that are not in the language.
OPAQUE = Primitive("opaque")
OPAQUE.multiple_results = True
OPAQUE.def_abstract_eval(  # type: ignore[no-untyped-call]
    lambda *arrays, avals, **_: avals
)

# The scope by which an equation of the jaxpr finds the node that it comes from.
SCOPE = "node"


class Runner:
    """The values of a graph's nodes, for given values of its placeholders."""

    def __init__(self, graph: Graph, values: dict[Node, Any]) -> None:
        self._numbers = {node: at for at, node in enumerate(graph.nodes)}
        self._values = values
        for node, tensor in graph.constants.items():
            self._values[node] = _constant(tensor)

    def run(self, items: Sequence[Item]) -> None:
        """Computes every operation."""
        for item in items:
            if isinstance(item, Layers):
                self._run_layers(item)
            else:
                self._values[item] = self._result(item)

    def value(self, node: Node) -> Any:
        """The value of a node that has been computed."""
        return jnp.asarray(self._values[node])

    def _run_layers(self, layers: Layers) -> None:
        """Layers as a scan over their parameters, which are in one array each."""
        before = dict(self._values)

        def layer(carried: Any, parameters: Any) -> Any:
            self._values = dict(before)
            self._values.update(zip((read for read, _ in layers.carried), carried))
            self._values.update(zip(layers.parameters, parameters))
            self.run(layers.body)
            return tuple(self._values[made] for _, made in layers.carried), None

        entering = tuple(self.value(read) for read, _ in layers.carried)
        stacked = [before[read] for read in layers.parameters]
        leaving, _ = jax.lax.scan(layer, entering, stacked)
        self._values = before
        for (_, made), value in zip(layers.carried, leaving):
            self._values[layers.last[layers.body.index(made)]] = value

    def _result(self, node: Node) -> Any:
        if node.target is operator.getitem:
            return self._values[node.args[0]][node.args[1]]
        function = _function(node)
        args, named = map_arg((node.args, node.kwargs), lambda it: self._values[it])
        args, named = _converted(args), _converted(named)
        for name in ("device", "layout", "pin_memory", "memory_format", "non_blocking"):
            named.pop(name, None)
        is_constant = not any(isinstance(it, jax.Array) for it in jax.tree.leaves((args, named)))
        try:
            if is_constant:
                return _computed(node, function, args, named)
            with jax.named_scope(f"{SCOPE}{self._numbers[node]}"):
                args = args if _name(node) in OF_CONSTANTS else _alike(node, args)
                return _as_expected(node, function(*args, **named))
        except NotImplementedError as error:
            what, instead = (*error.args, "write it with other operations")[:2]
            raise Failure(f"{what} is not in the language", instead, place(node)) from error
        except (TypeError, ValueError, IndexError) as error:
            raise Failure(
                f"`{_name(node)}` with these arguments cannot be imported: {error}",
                "write it with other operations",
                place(node),
            ) from error


def _name(node: Node) -> str:
    schema = getattr(node.target, "_schema", None)
    name: str = schema.name if schema is not None else str(node.target)
    return name.partition("::")[2] or name


def _function(node: Node) -> Callable[..., Any]:
    name = _name(node)
    if name in CHECKS:
        return lambda *_, **__: None
    return TABLE[name] if name in TABLE else _opaque(node, name)


def _opaque(node: Node, name: str) -> Callable[..., Any]:
    """An operation that is not in the language, as a primitive of its own, for the importer of
    functions in JAX to decide on."""
    made = node.meta.get("val")
    results = made if isinstance(made, (list, tuple)) else [made]
    if not all(isinstance(it, torch.Tensor) for it in results):
        raise Failure(
            f"the operation `{name}` is not in the language",
            "compute it before, and pass the result as an argument",
            place(node),
        )
    avals = tuple(
        jax.core.ShapedArray(tuple(int(size) for size in it.shape), dtype_of(it.dtype))
        for it in results
    )

    def function(*args: Any, **named: Any) -> Any:
        leaves = jax.tree.leaves((args, named))
        arrays = [_traced(it) for it in leaves if isinstance(it, (jax.Array, np.ndarray))]
        found = OPAQUE.bind(  # type: ignore[no-untyped-call]
            *arrays, name=name, avals=avals, operation="operation",
            is_of_elements=torch.Tag.pointwise in getattr(node.target, "tags", ()),
        )  # fmt: skip
        return found if isinstance(made, (list, tuple)) else found[0]

    return function


def _constant(tensor: torch.Tensor) -> Any:
    detached = tensor.detach().cpu()
    if detached.dtype == torch.bfloat16:
        return detached.float().numpy().astype(jnp.bfloat16)
    return detached.numpy()


def dtype_of(dtype: torch.dtype) -> Any:
    """The type of JAX; integers have 32 bits there."""
    return jax.dtypes.canonicalize_dtype(str(dtype).removeprefix("torch."))


def _converted(tree: Any) -> Any:
    """Arguments without PyTorch's types, as dictionaries and tuples."""
    if isinstance(tree, torch.dtype):
        return dtype_of(tree)
    if isinstance(tree, dict):
        return {key: _converted(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [_converted(value) for value in tree]
    return tree


def _computed(node: Node, function: Callable[..., Any], args: Any, named: Any) -> Any:
    """A function of constants, which is constant. What is equal along an axis takes the memory of
    one element there, since the masks of a batch would fill memories."""
    with jax.ensure_compile_time_eval():
        if _name(node) in ELEMENTWISE:
            args = [_narrow(it, _rank(node)) for it in args]
        result = _as_expected(node, function(*args, **named), is_narrow=True)
        return jax.tree.map(lambda it: _spread(np.asarray(it), node), result)


def _rank(node: Node) -> int:
    value = node.meta.get("val")
    return value.ndim if isinstance(value, torch.Tensor) else 0


def _narrow(value: Any, rank: int) -> Any:
    """An array with one element along axes of a stride of zero."""
    if not isinstance(value, np.ndarray) or value.ndim != rank:
        return value
    return value[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in value.strides)]


def _spread(array: Any, node: Node) -> Any:
    """An array in the shape of a node's, with a stride of zero where it is the same."""
    value = node.meta.get("val")
    for axis in range(array.ndim):
        first = array.take([0], axis=axis) if array.shape[axis] > 1 else array
        if array.shape[axis] > 1 and bool((array == first).all()):
            array = first
    if isinstance(value, torch.Tensor):
        return np.broadcast_to(array, tuple(value.shape))
    return array


def _alike(node: Node, args: list[Any]) -> list[Any]:
    """Operands of a traced operation: constants as they are narrow, and single elements in the type
    of the arrays beside them, as PyTorch counts types."""
    ranked = [it for it in args if isinstance(it, (jax.Array, np.ndarray)) and it.ndim]
    kinds = {it.dtype for it in ranked if jnp.issubdtype(it.dtype, jnp.floating)}
    found = []
    for it in args:
        is_single = isinstance(it, (jax.Array, np.ndarray)) and not it.ndim
        if is_single and ranked and len(kinds) == 1 and _name(node) in ELEMENTWISE:
            if jnp.issubdtype(it.dtype, jnp.floating):
                it = it.astype(next(iter(kinds)))
        found.append(_traced(it))
    return found


def _traced(value: Any) -> Any:
    """A constant as JAX has it, spread where it is the same along an axis."""
    if isinstance(value, list):
        return [_traced(it) for it in value]
    if not isinstance(value, np.ndarray):
        return value
    small = jnp.asarray(_narrow(value, value.ndim))
    return small if small.shape == value.shape else jnp.broadcast_to(small, value.shape)


def _as_expected(node: Node, result: Any, is_narrow: bool = False) -> Any:
    """The result in the type that the graph says; another shape is an error of the importer."""
    value = node.meta.get("val")
    if isinstance(value, (list, tuple)) or not isinstance(value, torch.Tensor):
        return result
    expected = tuple(int(size) for size in value.shape)
    result = jnp.asarray(result)
    if result.shape != expected and not is_narrow:
        raise Failure(
            f"`{_name(node)}` was read as {list(result.shape)}, and is {list(expected)}",
            "this is an error of the importer: please report it",
            place(node),
        )
    wanted = dtype_of(value.dtype)
    return result if result.dtype == wanted else result.astype(wanted)
