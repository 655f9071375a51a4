"""A function and its arguments become the text of a program."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from ..failure import Failure
from .convert import Converter, splits
from .flatten import PlaceOf, flatten, is_key, user_line
from .graph import Leaf
from .spell import Speller
from .target import Traced, trace


@dataclass
class Options:
    """What the program has besides the function."""

    mesh: Optional[str] = None
    hardware: str = "h100"
    # Names of dimensions, by the name of an argument.
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # Arguments that are weights; without it, those that are containers or called so.
    parameters: Optional[Sequence[str]] = None
    title: str = ""
    # Whether what the language does not have is an error, and no opaque statement.
    is_strict: bool = False


@dataclass
class Imported:
    """A program and what to know of it."""

    program: str
    warnings: list[str]
    # The declarations, each by the path of its argument; captured arrays by name.
    declared: dict[str, str]
    captured: dict[str, Any]
    # The names of the function's results, in their order.
    outputs: list[str]


def import_function(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    named: dict[str, Any],
    options: Options,
    place_of: PlaceOf = user_line,
) -> Imported:
    """The program of a function with these arguments. `place_of` says where its equations come
    from."""
    traced = trace(function, args, named)
    converter = Converter(options.is_strict)
    flat = flatten(traced.jaxpr, place_of)
    leaves = _leaves(converter, traced, options)
    converter.known.update(zip(flat.inputs, leaves))
    converter.run(flat)
    converter.build.source = converter.build.hint = None
    outputs = []
    for name, atom in zip(_output_names(traced, getattr(function, "__name__", "")), flat.outputs):
        outputs.append((name, converter.build.filled(converter.read(atom))))
    mesh = options.mesh or _mesh(traced, flat) or "X=8"
    axes = [axis.split("=")[0].strip() for axis in mesh.split(",")]
    speller = Speller(converter.program, outputs, axes)
    body = speller.text()
    head = [f"# {line}" for line in [options.title] if line]
    for warning in converter.build.warnings:
        head += textwrap.wrap(
            warning, 98, initial_indent="# ", subsequent_indent="#   ", break_long_words=False
        )
    head += [f"hardware {options.hardware}", f"mesh {mesh}"]
    head += _wrapped("dim ", speller.dimensions())
    program = "\n".join(head) + "\n\n" + body
    names = speller.declared()
    paths = {leaf.name: path for leaf, (path, _, _) in zip(leaves, traced.leaves)}
    declared = {names.get(name, name): path for name, path in paths.items()}
    results = [node.text for node in speller.results]
    return Imported(program, converter.build.warnings, declared, converter.constants, results)


def _wrapped(start: str, entries: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for entry in entries:
        if lines and len(lines[-1]) + len(entry) < 94:
            lines[-1] += f", {entry}"
        else:
            lines.append(start + entry)
    return lines


def _leaves(converter: Converter, traced: Traced, options: Options) -> list[Leaf]:
    names = _short_names([words for _, words, _ in traced.leaves])
    for name in options.parameters or ():
        if name not in traced.parameters:
            raise Failure(
                f"--params: there is no argument `{name}`",
                f"there are {', '.join(traced.parameters)}",
            )
    known = {name: False for name in options.names}
    leaves = []
    for name, (path, words, leaf) in zip(names, traced.leaves):
        is_param = traced.parameters[words[0]]
        if options.parameters is not None:
            is_param = words[0] in options.parameters
        dims = list(getattr(leaf, "names", ())) or [None] * len(leaf.shape)
        for key in (name, path):
            if key in options.names:
                known[key] = True
                dims = [it or None for it in options.names[key]]
        # Names are those of the last axes: a layer's, of what all layers have in one array.
        dims = [None] * (len(leaf.shape) - len(dims)) + dims
        if len(dims) != len(leaf.shape):
            raise Failure(
                f"--names gives `{name}` {len(dims)} dimensions, and it has {len(leaf.shape)}: "
                f"its shape is {list(leaf.shape)}",
                "name the last axes or all, and write `_` for one without a name",
            )
        shape = tuple(int(size) for size in leaf.shape)
        if 0 in shape:
            raise Failure(
                f"`{name}` has no elements: its shape is {list(shape)}", "give it some of each axis"
            )
        split = splits(getattr(leaf, "sharding", None), len(shape))
        role = "param" if is_param else "input"
        dtype = converter.build.dtype(leaf.dtype)
        dims = [None if it == "_" else it for it in dims]
        block, holds_keys = converter.program, is_key(leaf.dtype)
        leaves.append(Leaf(name, role, shape, dtype, tuple(dims), split, block, holds_keys))
    for name, was_found in known.items():
        if not was_found:
            raise Failure(
                f"--names: there is no argument `{name}`", f"there are {', '.join(names)}"
            )
    return leaves


def _short_names(paths: Sequence[tuple[str, ...]]) -> list[str]:
    """The last words of paths, as many as make each unlike the others, without `weight` at the
    end."""
    paths = [path[:-1] if len(path) > 1 and path[-1] == "weight" else path for path in paths]
    found = []
    for path in paths:
        count = 1
        while count < len(path) and (
            path[-count][:1].isdigit()
            or sum(other[-count:] == path[-count:] for other in paths) > 1
        ):
            count += 1
        found.append(".".join(path[-count:]))
    return found


def _output_names(traced: Traced, function: str) -> list[str]:
    names = []
    for name in traced.outputs:
        names.append(f"out.{name}" if name[:1].isdigit() else name)
    return [function] if names == ["out"] and "loss" in function else names


def _mesh(traced: Traced, flat: Any) -> Optional[str]:
    """The mesh of the first sharding by name: of an argument, or of a constraint."""
    shardings = [getattr(leaf, "sharding", None) for _, _, leaf in traced.leaves]
    stack = [flat]
    while stack:
        function = stack.pop()
        for equation in function.equations:
            shardings.append(equation.params.get("sharding"))
            if equation.body is not None:
                stack.append(equation.body)
    for sharding in shardings:
        mesh = getattr(sharding, "mesh", None)
        if getattr(sharding, "spec", None) is not None and mesh is not None and mesh.shape:
            return ", ".join(f"{name}={size}" for name, size in mesh.shape.items())
    return None
