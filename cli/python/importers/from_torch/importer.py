"""A model and its arguments become the text of a program."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Callable, Optional

import torch
from torch.fx import Node

from ..from_jax.flatten import Place
from ..from_jax.importer import Imported, Options, import_function
from ..from_jax.target import Shape, bound_arguments
from .export import Graph, graph_of, hints, place
from .layers import Item, Layers, items
from .run import SCOPE, Runner, dtype_of


def import_model(
    model: torch.nn.Module, args: tuple[Any, ...], named: dict[str, Any], options: Options
) -> Imported:
    """The program of a model with these arguments."""
    bound_arguments(model.forward, args, named)
    graph = graph_of(model, args, named)
    function, given = as_function(graph)
    options.parameters = ["params"] if "params" in given else []
    names = hints(graph.nodes)

    def place_of(eqn: Any) -> Place:
        node = _node_of(graph, eqn)
        return (None, None) if node is None else (place(node), names.get(node))

    return import_function(function, (), given, options, place_of)


@dataclass(frozen=True)
class Argument:
    """An argument of the function: of layers, one for all of them."""

    role: str
    path: tuple[str, ...]
    shape: Shape
    # The placeholders that it stands for.
    nodes: list[Node]


def as_function(graph: Graph) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The graph as a function in JAX, and shapes of its arguments by name."""
    found = items(graph)
    known = arguments_of(graph, found)

    def model(params: Any = None, buffers: Any = None, inputs: Any = None) -> dict[str, Any]:
        roles = {"params": params, "buffers": buffers, "inputs": inputs}
        values = {}
        for argument in known:
            value = roles[argument.role]
            for key in argument.path:
                value = value[key]
            values[argument.nodes[0]] = value
        runner = Runner(graph, values)
        runner.run(found)
        # JAX keeps the order of this dictionary, and sorts the keys of others.
        return OrderedDict((name, runner.value(node)) for name, node in graph.outputs)

    shapes: dict[str, Any] = {}
    for argument in known:
        tree = shapes.setdefault(argument.role, {})
        for key in argument.path[:-1]:
            tree = tree.setdefault(key, {})
        tree[argument.path[-1]] = argument.shape
    return model, shapes


def arguments_of(graph: Graph, found: list[Item]) -> list[Argument]:
    """The arguments of the graph's function."""
    of_layers = {
        first: nodes
        for item in found
        if isinstance(item, Layers)
        for first, nodes in item.parameters.items()
    }
    others = {node for nodes in of_layers.values() for node in nodes[1:]}
    read = {it for node in graph.nodes for it in node.all_input_nodes}
    arguments = []
    for node, of in graph.inputs.items():
        if node in others or node not in read:
            continue
        nodes, path, shape, dims = [node], of.path, of.shape, of.dims
        if node in of_layers:
            nodes = of_layers[node]
            path, shape, dims = _path_of_all(graph, nodes), (len(nodes), *shape), (None, *dims)
        arguments.append(Argument(of.role, path, Shape(shape, dtype_of(of.dtype), dims), nodes))
    return arguments


def _path_of_all(graph: Graph, nodes: list[Node]) -> tuple[str, ...]:
    """The path of a parameter in all layers: with the number of the first that has it."""
    first, last = graph.inputs[nodes[0]].path, graph.inputs[nodes[-1]].path
    place = next(at for at, (a, b) in enumerate(zip(first, last)) if a != b)
    return (*first[:place], f"from{first[place]}", *first[place + 1 :])


def _node_of(graph: Graph, eqn: Any) -> Optional[Node]:
    """The node that an equation of the jaxpr comes from."""
    numbers = re.findall(SCOPE + r"(\d+)", str(eqn.source_info.name_stack))
    return graph.nodes[int(numbers[-1])] if numbers else None
