"""The graph of a model, as `torch.export` has it, and what its placeholders and results are."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node
from torch.utils import _pytree as pytree

from ..failure import Failure, Source
from ..from_jax.flatten import assigned_name
from ..from_jax.target import raised_at
from .target import dims_of

STATE = {InputKind.PARAMETER: "params", InputKind.BUFFER: "buffers"}


@dataclass(frozen=True)
class Input:
    """What a placeholder of the graph stands for."""

    # `params`, `buffers` or `inputs`, and where it is in them.
    role: str
    path: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: torch.dtype
    dims: tuple[Optional[str], ...]


@dataclass
class Graph:
    """The operations of a model in the order in which it runs them."""

    nodes: list[Node]
    inputs: dict[Node, Input]
    # Tensors that the model has as constants.
    constants: dict[Node, torch.Tensor]
    outputs: list[tuple[str, Node]]


def graph_of(model: torch.nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> Graph:
    """The graph of a call of the model."""
    program = _exported(model, args, named)
    signature = program.graph_signature
    placeholders = {it.name: it for it in program.graph.nodes if it.op == "placeholder"}
    given, _ = pytree.tree_flatten_with_path((args, named))
    of_call = iter([(_words(path), leaf) for path, leaf in given])
    graph = Graph([], {}, {}, [])
    for spec in signature.input_specs:
        node = placeholders[spec.arg.name]
        if spec.kind in STATE:
            path = tuple(str(spec.target).split("."))
            constant = _mask(program, str(spec.target))
            if constant is not None:
                graph.constants[node] = constant
            else:
                graph.inputs[node] = _input(STATE[spec.kind], path, node.meta["val"], None)
        elif spec.kind is InputKind.USER_INPUT:
            path, leaf = next(of_call)
            if isinstance(leaf, torch.Tensor):
                path = (spec.arg.name, *path[2:])
                graph.inputs[node] = _input("inputs", path, node.meta["val"], dims_of(leaf))
        elif spec.kind is InputKind.CONSTANT_TENSOR:
            graph.constants[node] = _with_data(program.constants[str(spec.target)], spec.target)
    graph.nodes = [it for it in program.graph.nodes if it.op == "call_function"]
    graph.outputs = _outputs(program)
    return graph


def _exported(model: torch.nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    try:
        program = torch.export.export(model, args, named, strict=False)
        program = program.run_decompositions({})
    except Exception as error:
        message = str(error).strip().split("\n")[0]
        raise Failure(
            f"`torch.export` cannot export the model: {type(error).__name__}: {message}",
            "what it needs is in the documentation of `torch.export`; arguments are given with "
            "--args",
            raised_at(error),
        ) from error
    program.graph.eliminate_dead_code()
    return program


def _input(role: str, path: tuple[str, ...], value: Any, dims: Any) -> Input:
    shape = tuple(int(size) for size in value.shape)
    return Input(role, path, shape, value.dtype, dims or (None,) * len(shape))


def _mask(program: Any, name: str) -> Optional[torch.Tensor]:
    """A buffer that is the mask of a triangle: no data of the model, but what it computes with."""
    value = program.state_dict.get(name, program.constants.get(name))
    if value is None or value.is_meta or value.ndim < 2 or value.shape[-1] < 2:
        return None
    if isinstance(value, torch.nn.Parameter):
        return None
    is_mask = bool((value == torch.ones_like(value).tril()).all())
    return value if is_mask else None


def _with_data(value: torch.Tensor, name: Any) -> torch.Tensor:
    if value.is_meta:
        raise Failure(
            f"the model makes a tensor of numbers of its own, `{name}`, which has no data here",
            "name a model, rather than a function that makes it: `model = Model(…)` in the file",
        )
    return value


def _outputs(program: Any) -> list[tuple[str, Node]]:
    """What the model returns, and the buffers that it writes."""
    nodes = {it.name: it for it in program.graph.nodes}
    (result,) = [it for it in program.graph.nodes if it.op == "output"]
    count = len(pytree.tree_leaves(result.args[0]))
    specs = program.graph_signature.output_specs
    returned = [it for it in specs if it.kind is OutputKind.USER_OUTPUT]
    structure = pytree.tree_unflatten(range(len(returned)), program.call_spec.out_spec)
    names = dict(_named(structure, ()))
    found, place = [], 0
    for spec in specs[:count]:
        name = str(spec.target)
        if spec.kind is OutputKind.USER_OUTPUT:
            name, place = names[place], place + 1
        node = nodes.get(getattr(spec.arg, "name", ""))
        if node is not None and node.op == "call_function":
            found.append((name, node))
    return found


def _named(structure: Any, path: tuple[str, ...]) -> list[tuple[int, str]]:
    """The names of results, by their places."""
    if isinstance(structure, int):
        return [(structure, "_".join(path) or "out")]
    if isinstance(structure, dict):
        entries = list(structure.items())
    elif isinstance(structure, (list, tuple)):
        entries = list(enumerate(structure))
    else:
        leaves, _ = pytree.tree_flatten(structure)
        entries = list(enumerate(leaves))
    return [it for key, value in entries for it in _named(value, (*path, str(key)))]


def _words(path: Any) -> tuple[str, ...]:
    keys = [getattr(key, "key", getattr(key, "name", getattr(key, "idx", None))) for key in path]
    return tuple(re.sub(r"[^A-Za-z0-9_]", "_", str(key)) for key in keys)


def place(node: Node) -> Optional[Source]:
    """The line of the model that a node comes from."""
    own = _own_frames(node)
    return Source(own[-1][0], int(own[-1][1])) if own else None


def hints(nodes: Sequence[Node]) -> dict[Node, str]:
    """The names that the model's lines assign to, by the operation that computes what is assigned:
    the last one of the line, also in what the line calls and in what that returns."""
    last: dict[tuple[Any, ...], tuple[Node, str]] = {}
    for node in nodes:
        own = _own_frames(node)
        while own and own[-1][2].startswith("return"):
            own.pop()
        name = assigned_name(own[-1][2]) if own else None
        if name is not None:
            last[(*own, *_numbered(node))] = (node, name)
    return dict(last.values())


def module_paths(node: Node) -> list[str]:
    """The modules that an operation is in, from the outermost on: `model.layers.0`."""
    stack = node.meta.get("nn_module_stack") or {}
    return [re.sub(r"@\d+$", "", path) for path, _ in stack.values()]


def _numbered(node: Node) -> list[str]:
    """The modules of lists among them, which one line calls in turn."""
    return [path for path in module_paths(node) if re.search(r"\.\d+$", path)]


def _own_frames(node: Node) -> list[tuple[str, str, str]]:
    """File, line and code of the calls that led to a node, without those inside of PyTorch."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in .*\n\s+(.*)', node.stack_trace or "")
    library = os.path.dirname(torch.__file__) + os.sep
    return [it for it in frames if not it[0].startswith(library)]
