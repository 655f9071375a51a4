"""Finds layers: children of a module list that do the same with other parameters.

The operations from one child to the next are compared, not those of the children alone, so that a
residual connection that the parent adds belongs to a layer, too. Children of several kinds that
take turns are one layer together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from torch.fx import Node
from torch.fx.node import map_arg

from .export import Graph, module_paths

# How many children may make one layer.
PERIODS = (1, 2, 3, 4, 6, 8)


@dataclass
class Layers:
    """Layers that are run one after the other."""

    # The module list that they are in, `model.layers`.
    path: str
    # The operations of the first, which stand for those of all.
    body: list[Node]
    # The operations of the last, whose results are read after the layers.
    last: list[Node]
    # Of each placeholder that the first layer reads, those of all layers.
    parameters: dict[Node, list[Node]]
    # What a layer hands to the next: what the first reads, and what a layer computes for it.
    carried: list[tuple[Node, Node]]


Item = Union[Node, Layers]


def items(graph: Graph) -> list[Item]:
    """The operations of a graph, layers together."""
    found: list[Item] = []
    rest = graph.nodes
    for path in _lists(rest):
        for start in range(len(_children(rest, path))):
            split = _layers(graph, rest, path, start)
            if split is not None:
                before, layers, rest = split
                found += [*before, layers]
                break
    return [*found, *rest]


def _lists(nodes: Sequence[Node]) -> list[str]:
    """The module lists that operations are in, in order, without those inside of others."""
    found: dict[str, None] = {}
    for node in nodes:
        numbered = [path for path in module_paths(node) if re.search(r"\.\d+$", path)]
        if numbered:
            found[numbered[0].rpartition(".")[0]] = None
    return list(found)


def _children(nodes: Sequence[Node], path: str) -> dict[int, int]:
    """The children of a list that operations are in: the first operation of each."""
    found: dict[int, int] = {}
    for place, node in enumerate(nodes):
        for own in module_paths(node):
            parent, _, number = own.rpartition(".")
            if parent == path and number.isdigit():
                found.setdefault(int(number), place)
    return found


def _layers(
    graph: Graph, nodes: Sequence[Node], path: str, skipped: int
) -> Optional[tuple[list[Node], Layers, list[Node]]]:
    """Layers that begin with a child of the list, with what comes before and after them."""
    starts = [nodes[place] for _, place in sorted(_children(nodes, path).items())][skipped:]
    if len(starts) < 2:
        return None
    inside = _depending(nodes, starts[0])
    before = [node for node in nodes if node not in inside]
    order = [node for node in nodes if node in inside]
    places = [order.index(start) for start in starts if start in inside]
    if places != sorted(places) or len(places) != len(starts):
        return None
    for period in PERIODS:
        of_period = places[::period]
        segments = _segments(order, of_period)
        alike = _alike(graph, segments)
        if alike < 2:
            continue
        layers = _described(graph, path, segments[:alike])
        after = order[of_period[0] + alike * len(segments[0]) :]
        if layers is not None and not _read_inside(after, graph, segments[:alike], layers):
            return [*before, *order[: of_period[0]]], layers, after
    return None


def _depending(nodes: Sequence[Node], start: Node) -> set[Node]:
    """The operations from `start` on that depend on it, and those that layers begin with."""
    inside: set[Node] = set()
    is_after = False
    for node in nodes:
        is_after |= node is start
        if is_after and (_is_layered(node, start) or any(it in inside for it in _read(node))):
            inside.add(node)
    return inside


def _is_layered(node: Node, start: Node) -> bool:
    """Whether a node is in a child of the list that `start` is in."""
    (path,) = [it for it in module_paths(start) if re.search(r"\.\d+$", it)][:1]
    parent = path.rpartition(".")[0]
    return any(re.fullmatch(re.escape(parent) + r"\.\d+", own) for own in module_paths(node))


def _read(node: Node) -> list[Node]:
    return list(node.all_input_nodes)


def _segments(order: Sequence[Node], places: Sequence[int]) -> list[list[Node]]:
    """The operations between starts, and as many for the last as for the first."""
    if len(places) < 2:
        return []
    length = places[1] - places[0]
    ends = [*places[1:], min(places[-1] + length, len(order))]
    return [list(order[start:end]) for start, end in zip(places, ends)]


def _alike(graph: Graph, segments: list[list[Node]]) -> int:
    """How many segments from the first on do the same."""
    count = 0
    for number, segment in enumerate(segments):
        form = _form(graph, segments, number)
        if len(segment) != len(segments[0]):
            break
        if number == 1 and not _fits_first(_form(graph, segments, 0), form):
            break
        if number > 1 and form != _form(graph, segments, 1):
            break
        count += 1
    return count


def _form(graph: Graph, segments: list[list[Node]], number: int) -> list[Any]:
    """What a segment does, with numbers for its own operations and those of the one before."""
    own = {node: at for at, node in enumerate(segments[number])}
    earlier = {node: at for at, node in enumerate(segments[number - 1])} if number else {}
    seen: dict[Node, int] = {}

    def reference(node: Node) -> Any:
        if node in own:
            return ("own", own[node])
        if node in earlier:
            return ("before", earlier[node])
        if node in graph.inputs and graph.inputs[node].role != "inputs":
            of = graph.inputs[node]
            name = re.sub(r"\d+", "#", ".".join(of.path))
            return ("parameter", seen.setdefault(node, len(seen)), name, of.shape, str(of.dtype))
        return ("outside", node)

    forms = []
    for node in segments[number]:
        args = map_arg((node.args, node.kwargs), reference)
        forms.append((str(node.target), args))
    return forms


def _fits_first(first: Any, other: Any) -> bool:
    """Whether the first segment does what the others do, on what comes before the layers."""
    if isinstance(other, tuple) and len(other) == 2 and other[0] == "before":
        return isinstance(first, tuple) and len(first) == 2 and first[0] == "outside"
    if isinstance(other, (tuple, list)):
        return (
            isinstance(first, (tuple, list))
            and len(first) == len(other)
            and all(map(_fits_first, first, other))
        )
    if isinstance(other, dict):
        return (
            isinstance(first, dict)
            and first.keys() == other.keys()
            and all(_fits_first(first[key], other[key]) for key in other)
        )
    return bool(first == other)


def _described(graph: Graph, path: str, segments: list[list[Node]]) -> Optional[Layers]:
    """Layers as one body, if what they hand on is the same everywhere."""
    first, second = segments[0], segments[1]
    place = {node: at for at, node in enumerate(first)}
    parameters: dict[Node, list[Node]] = {}
    handed: dict[Node, Node] = {}
    common: set[Node] = set()
    for at, node in enumerate(first):
        for which, read in enumerate(_read_in_order(node)):
            others = [_read_in_order(segment[at])[which] for segment in segments]
            if read in graph.inputs and graph.inputs[read].role != "inputs":
                if parameters.setdefault(read, others) != others:
                    return None
            elif others[1] is read:
                common.add(read)
            elif read not in place and handed.setdefault(read, others[1]) is not others[1]:
                return None
    # One parameter in all layers is none of a layer.
    own = {read: of for read, of in parameters.items() if len(set(of)) > 1}
    if any(len(set(of)) != len(segments) for of in own.values()) or common & handed.keys():
        return None
    return Layers(path, first, segments[-1], own, list(handed.items()))


def _read_in_order(node: Node) -> list[Node]:
    """The operands of an operation, as often as it reads them."""
    found: list[Node] = []
    map_arg((node.args, node.kwargs), lambda it: found.append(it))
    return found


def _read_inside(
    after: Sequence[Node], graph: Graph, segments: list[list[Node]], layers: Layers
) -> bool:
    """Whether something after the layers reads of them what they do not hand on."""
    inside = {node for segment in segments for node in segment}
    handed = {segments[-1][segments[0].index(made)] for _, made in layers.carried}
    read = {it for node in after for it in _read(node)} | {node for _, node in graph.outputs}
    own = {it for of in layers.parameters.values() for it in of}
    return bool((read & inside) - handed) or bool(read & own)
