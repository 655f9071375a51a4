"""`scan` as a block of the program: layers as `repeat`, steps along a dimension as `scan`.

A scan from the last element to the first is one over what it reads in the other order, whose
results are in that order, too: the language has one direction. Layers that run so are no `repeat`,
whose parameters would stand in another order than in the function's arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Union

from .dims import Dim, keep_apart, same_dim
from .flatten import Equation, Function, Var, drop_unread
from .graph import Array, Block, Carry, Leaf, Node
from .rearrange import reversed_along

if TYPE_CHECKING:
    from .convert import Converter


def scan(converter: Converter, equation: Equation, read: Mapping[Var, int]) -> list[Array]:
    """The results of a `lax.scan`: final carries, and what the steps collect."""
    build, body = converter.build, equation.body
    assert body is not None
    consts, carried = equation.params["num_consts"], equation.params["num_carry"]
    body, live = _live(body, equation, read)
    collected = [at for at in live if at >= carried]
    used = {atom for it in body.equations for atom in it.inputs} | set(body.outputs)
    xs = [at for at in range(consts + carried, len(equation.inputs)) if body.inputs[at] in used]
    is_forward = not equation.params["reverse"]
    is_layers = is_forward and not collected and all(
        isinstance(atom, Var) and isinstance(converter.known[atom], Leaf) and read[atom] == 1
        for atom in (equation.inputs[at] for at in xs)
    )  # fmt: skip
    if xs and any(it.kind == "scan" for it in _around(build.block)):
        is_layers = False
    parent, count = build.block, int(equation.params["length"])
    kind = "repeat" if is_layers else "scan"
    block = Block(kind, parent, count, None if is_layers else Dim(count))
    given = _given(converter, equation, block, xs)
    carries = _entering(converter, equation, body, block, given)
    parent.body.append(block)
    converter.known.update(given)
    build.block = block
    converter.run(body)
    _leaving(converter, body, block, carries)
    stacked = _collected(converter, body, collected, block)
    build.block = parent
    return _results(converter, equation, block, carries, stacked)


def _around(block: Block) -> list[Block]:
    return [block] + ([] if block.parent is None else _around(block.parent))


def _live(
    body: Function, equation: Equation, read: Mapping[Var, int]
) -> tuple[Function, list[int]]:
    """The body without what nothing needs: the numbers of outputs that are read after the loop, or
    in a later step."""
    consts, carried = equation.params["num_consts"], equation.params["num_carry"]
    live = [at for at, var in enumerate(equation.outputs) if read.get(var)]
    while True:
        kept = Function(body.inputs, [body.outputs[at] for at in live], list(body.equations))
        drop_unread(kept)
        needed = {atom for it in kept.equations for atom in it.inputs} | set(kept.outputs)
        more = [
            at for at in range(carried) if at not in live and body.inputs[consts + at] in needed
        ]
        if not more:
            break
        live = sorted([*live, *more])
    outputs = [body.outputs[at] for at in range(len(body.outputs))]
    return Function(body.inputs, outputs, kept.equations), live


def _given(
    converter: Converter, equation: Equation, block: Block, xs: list[int]
) -> dict[Var, Union[Array, Leaf]]:
    """What the body reads from outside: constants, and its part of what the loop goes along."""
    build, body = converter.build, equation.body
    assert body is not None
    consts = equation.params["num_consts"]
    given: dict[Var, Union[Array, Leaf]] = {}
    if block.kind == "repeat":
        for at in range(consts):
            atom = equation.inputs[at]
            known = converter.known[atom] if isinstance(atom, Var) else converter.read(atom)
            if isinstance(known, Leaf):
                known = converter.read(atom)
            given[body.inputs[at]] = known
        for at in xs:
            leaf = converter.known[equation.inputs[at]]  # type: ignore[index]
            assert isinstance(leaf, Leaf)
            given[body.inputs[at]] = leaf.of_layer(block)
        return given
    dim = block.dim
    assert dim is not None
    for at in xs:
        array = build.fill(converter.read(equation.inputs[at]), [0])
        if equation.params["reverse"]:
            array = reversed_along(build, array, 0)
        array = build.with_axes(array, {0: dim})
        left = [it for it in array.node.dims if not same_dim(it, dim)]
        node = Node("step", "", [array.node], tuple(left), array.dtype, block)
        given[body.inputs[at]] = Array(node, array.axes[1:], array.shape[1:])
    for at in range(consts):
        array = converter.read(equation.inputs[at])
        if array.node.has(dim):
            array = build.renamed(array, [(dim, dim.alias(array.node.dims))])
        for other in array.node.dims:
            keep_apart([dim, other])
        given[body.inputs[at]] = array
    return given


def _entering(
    converter: Converter,
    equation: Equation,
    body: Function,
    block: Block,
    given: dict[Var, Union[Array, Leaf]],
) -> dict[int, tuple[Carry, Array]]:
    """The carried values, as steps find them."""
    build = converter.build
    consts, carried = equation.params["num_consts"], equation.params["num_carry"]
    found = {}
    for at in range(carried):
        array = build.filled(converter.read(equation.inputs[consts + at]))
        if array.node.is_number:
            array = build.named_number(array)
        if block.dim is not None and array.node.has(block.dim):
            array = build.renamed(array, [(block.dim, block.dim.alias(array.node.dims))])
        node = Node("carried", "", [array.node], array.node.dims, array.dtype, block)
        node.hint = array.node.hint
        entering = Array(node, array.axes, array.shape)
        carry = Carry(array.node, node)
        given[body.inputs[consts + at]] = entering
        found[at] = (carry, entering)
        block.carries.append(carry)
    return found


def _leaving(
    converter: Converter,
    body: Function,
    block: Block,
    carries: dict[int, tuple[Carry, Array]],
) -> None:
    """The carried values, as steps leave them: of the same dimensions as they enter."""
    build = converter.build
    for at, (carry, entering) in carries.items():
        atom = body.outputs[at]
        if isinstance(atom, Var) and atom not in converter.known:
            # Nothing reads it: neither a later step nor what follows the loop.
            block.carries.remove(carry)
            continue
        array = build.filled(converter.read(atom))
        wanted = {place: dim for place, dim in enumerate(entering.axes) if dim is not None}
        array = build.with_axes(array, wanted)
        carry.leaving = array.node


def _collected(
    converter: Converter, body: Function, collected: list[int], block: Block
) -> dict[int, Array]:
    """What steps collect, as a step has it."""
    found = {}
    for at in collected:
        array = converter.read(body.outputs[at])
        if array.node.block is not block or array.node.kind in ("number", "carried", "step"):
            dims = array.node.dims
            node = converter.build.node("call", "identity", [array.node], dims, array.dtype)
            if array.node.is_number:
                node.kind, node.arguments, node.number = "fill", [], array.node.number
            array = Array(node, array.axes, array.shape)
        found[at] = array
    return found


def _results(
    converter: Converter,
    equation: Equation,
    block: Block,
    carries: dict[int, tuple[Carry, Array]],
    stacked: dict[int, Array],
) -> list[Array]:
    build, results = converter.build, []
    for at, var in enumerate(equation.outputs):
        if at in carries and carries[at][0].leaving is not None:
            carry, entering = carries[at]
            carry.after = build.node("after", "", [], entering.node.dims, entering.dtype)
            results.append(Array(carry.after, entering.axes, entering.shape))
        elif at in stacked:
            array, dim = stacked[at], block.dim
            assert dim is not None
            node = build.node("stack", "stack", [array.node], [dim, *array.node.dims], array.dtype)
            found = Array(node, (dim, *array.axes), (dim.size, *array.shape))
            is_reversed = equation.params["reverse"]
            results.append(reversed_along(build, found, 0) if is_reversed else found)
        else:
            results.append(build.constant(0, var.shape, build.dtype(var.dtype)))
    return results
