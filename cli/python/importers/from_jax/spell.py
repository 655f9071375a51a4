"""Writes the program: which nodes are statements, what they are called, and their text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from ..failure import Failure
from . import attention
from .dims import Dim, same_dim
from .graph import Array, Block, Carry, Node

RESERVED = {
    "allow", "assert", "backward", "carry", "checkpoint", "dim", "frozen", "hardware", "hold", "in",
    "inf", "input", "mesh", "microbatches", "next", "optimizer", "output", "over", "param", "phase",
    "pipeline", "plan", "repeat", "reversed", "scan", "state",
}  # fmt: skip
# The longest expression that is written into another one.
WIDEST = 64
# How tightly operators bind.
LOOSEST, COMPARED, ADDED, MULTIPLIED, NEGATED, ATOM = range(6)
BINDING = {
    "<": COMPARED, "<=": COMPARED, ">": COMPARED, ">=": COMPARED, "==": COMPARED, "!=": COMPARED,
    "+": ADDED, "-": ADDED, "*": MULTIPLIED, "/": MULTIPLIED,
}  # fmt: skip
# Element types by width: of two operands, the later in this list is that of the result.
WIDTHS = ["bool", "int4", "int8", "int32", "fp4", "fp8", "f16", "bf16", "f32"]
# Nodes that are statements and nothing else.
STATEMENTS = ("declared", "fill", "reshape", "carried", "after", "stack", "step")


class Names:
    """Names that are given once."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken) | RESERVED

    def fresh(self, wanted: str) -> str:
        """The name, or with a number where it is taken."""
        name, number = wanted, 1
        while name in self.taken:
            number += 1
            name = f"{wanted}.{number}"
        self.taken.add(name)
        return name


class Speller:
    """Writes one program."""

    def __init__(
        self, program: Block, outputs: Sequence[tuple[str, Array]], axes: Iterable[str]
    ) -> None:
        self.program = program
        self.axes = list(axes)
        self.carries: dict[Node, Carry] = {}
        self.uses: dict[Node, int] = {}
        self.readers: dict[Node, Node] = {}
        self.live: set[Node] = set()
        self.dims: list[Dim] = []
        self.names = Names([])
        self.outputs: dict[Node, str] = {}
        self.results: list[Node] = []
        # How each carry is redefined: by the expression of its new value, or as a copy of it.
        self.updates: dict[Block, list[tuple[Carry, bool]]] = {}
        for name, array in outputs:
            self._add_output(name, array)

    def _add_output(self, name: str, array: Array) -> None:
        node, dims = array.node, tuple(dim for dim in array.axes if dim is not None)
        is_plain = node.kind not in STATEMENTS and node.block is self.program
        if not is_plain or node in self.outputs or node.is_number:
            made = Node("call", "identity", [node], dims, node.dtype, self.program)
            if node.is_number:
                made = Node("fill", "", [], dims, node.dtype, self.program, number=node.number)
            self.program.body.append(made)
            node = made
        node.dims = dims
        self.outputs[node] = name
        self.results.append(node)

    def text(self) -> str:
        """The statements of the program, without its head."""
        self._find_carries(self.program)
        self._mark()
        self._count()
        live = [node for node in self._nodes(self.program) if node in self.live]
        attention.fold(live, self.uses)
        self._mark()
        self._separate_carries(self.program)
        self._count()
        self._name_dims()
        self._name_nodes()
        lines = self._block(self.program, "")
        return "\n".join(lines) + "\n"

    # What is needed

    def _find_carries(self, block: Block) -> None:
        for carry in block.carries:
            self.carries[carry.entering] = carry
            if carry.after is not None:
                self.carries[carry.after] = carry
        for item in block.body:
            if isinstance(item, Block):
                self._find_carries(item)

    def _read_by(self, node: Node) -> list[Node]:
        if node in self.carries:
            carry = self.carries[node]
            assert carry.leaving is not None
            return [carry.before, carry.leaving, carry.entering]
        return node.arguments

    def _mark(self) -> None:
        self.live = set()
        stack = list(self.results)
        while stack:
            node = stack.pop()
            if node not in self.live:
                self.live.add(node)
                stack += self._read_by(node)

    def _is_live(self, carry: Carry) -> bool:
        return carry.entering in self.live

    def _separate_carries(self, block: Block) -> None:
        """Gives each carry a value of its own to begin with, which nothing else reads."""
        self._count()
        for item in list(block.body):
            if not isinstance(item, Block):
                continue
            for carry in filter(self._is_live, item.carries):
                before = carry.before
                is_own = before.block is block and self.uses[before] == 1
                is_own = is_own and before.kind not in ("step", "stack", "reshape")
                is_own = is_own and (before.kind != "declared" or before.name == "input")
                if is_own and before.kind == "carried":
                    outer = self.carries[before]
                    is_own = outer.leaving is carry.after
                if is_own:
                    continue
                made = Node("call", "identity", [before], before.dims, before.dtype, block)
                made.hint = carry.entering.hint
                block.body.insert(block.body.index(item), made)
                carry.before = made
                self.live.add(made)
            self._separate_carries(item)

    def _count(self) -> None:
        self.uses = dict.fromkeys(self.results, 1)
        self.readers = {}
        for node in self.live:
            if node in self.carries:
                continue
            for of in node.arguments:
                self.uses[of] = self.uses.get(of, 0) + 1
                self.readers[of] = node
        for carry in set(self.carries.values()):
            if self._is_live(carry) and carry.leaving is not None:
                for of in (carry.before, carry.leaving):
                    self.uses[of] = self.uses.get(of, 0) + 1
                    self.readers.pop(of, None)

    # Names of dimensions

    def _name_dims(self) -> None:
        nodes = [node for node in self._nodes(self.program) if node in self.live]
        nodes.sort(key=lambda node: (node.kind != "declared", node.name == "param"))
        names = Names(self.axes)
        for node in nodes:
            for dim in [*node.dims, *node.sources, *node.results]:
                self._add_dim(dim)
        for block in self._blocks(self.program):
            if block.dim is not None:
                self._add_dim(block.dim)
        for dim in self.dims:
            if dim.hint is not None:
                dim.name = names.fresh(dim.hint)
        for node in nodes:
            if node.kind == "along" and node.name == "take":
                self._name_of_table(node, names)
        for node in nodes:
            if node.kind == "declared":
                self._name_by_place(node, names)
        self._name_others(names)
        for block in self._blocks(self.program):
            if block.kind == "repeat":
                block.name = names.fresh("L")
        self.names = names

    def _add_dim(self, dim: Dim) -> None:
        root = dim.root
        if any(known is root for known in self.dims):
            return
        for factor in root.factors:
            self._add_dim(factor)
        self.dims.append(root)

    def _name_of_table(self, node: Node, names: Names) -> None:
        """Names the rows of an embedding and the width of the model."""
        table, dim = node.arguments[0], node.sources[0].root
        if table.kind != "declared" or table.name != "param" or len(table.dims) != 2:
            return
        for of in table.dims:
            letter = "V" if same_dim(of, dim) else "D"
            if not of.root.name:
                of.root.name = self._prime(names, letter)

    def _name_by_place(self, node: Node, names: Names) -> None:
        """Names the dimensions of an input as is usual: a batch, tokens, the width."""
        if node.name == "param":
            return
        rank = len(node.dims)
        usual = {1: "B", 2: "BD", 3: "BTD", 4: "BTNH", 5: "BTKGH"}.get(rank, "")
        if node.dtype == "int32":
            usual = "BTSU"[:rank]
        for dim, letter in zip(node.dims, usual):
            if not dim.root.name:
                dim.root.name = self._prime(names, letter)

    def _name_others(self, names: Names) -> None:
        letters = iter("FHNKGEMPQRUVWCZ")
        for dim in self.dims:
            if dim.name:
                continue
            if dim.size == 1:
                dim.name = names.fresh("One")
                continue
            alias = next(
                (it for it in self.dims if it.name and any(a.root is dim for a in it._aliases)),
                None,
            )
            if alias is not None:
                dim.name = self._prime(names, "S" if alias.name == "T" else alias.name)
                continue
            free = next((it for it in letters if it not in names.taken), None)
            dim.name = names.fresh(free) if free else self._numbered(names)

    def _numbered(self, names: Names) -> str:
        number = 1
        while f"D{number}" in names.taken:
            number += 1
        return names.fresh(f"D{number}")

    def _prime(self, names: Names, name: str) -> str:
        while name in names.taken:
            name += "'"
        return names.fresh(name)

    def dimensions(self) -> list[str]:
        """Their declarations, in an order in which each is defined by those before it."""
        found = []
        for dim in self.dims:
            size = "*".join(factor.root.name for factor in dim.factors) or str(dim.size)
            found.append(f"{dim.name}={size}")
        return found

    def declared(self) -> dict[str, str]:
        """The names of arguments in the program, by those that they have in the function."""
        nodes = [node for node in self._nodes(self.program) if node.kind == "declared"]
        return {node.hint: node.text for node in nodes if node.hint is not None and node.text}

    # Names of values

    def _nodes(self, block: Block) -> list[Node]:
        found = []
        for item in block.body:
            found += self._nodes(item) if isinstance(item, Block) else [item]
        return found

    def _blocks(self, block: Block) -> list[Block]:
        found = []
        for item in block.body:
            if isinstance(item, Block):
                found += [item, *self._blocks(item)]
        return found

    def _name_nodes(self) -> None:
        for node, name in self.outputs.items():
            node.text = self.names.fresh(name)
        for node in self._nodes(self.program):
            if node.kind == "declared" and node in self.live:
                node.text = self.names.fresh(node.hint or "t")
        self._name_in(self.program)

    def _name_in(self, block: Block) -> None:
        for item in block.body:
            if isinstance(item, Block):
                self._name_loop(item)
            elif item in self.live and not item.text and self._is_statement(item):
                item.text = self.names.fresh(item.hint or "t")

    def _name_loop(self, block: Block) -> None:
        for carry in filter(self._is_live, block.carries):
            name = carry.before.text
            assert name, "what is carried has a name"
            carry.entering.text = name
            if carry.after is not None:
                carry.after.text = name
        self._order_updates(block)
        self._name_in(block)

    def _order_updates(self, block: Block) -> None:
        """Decides which carries are redefined by the expression of their new value: those that no
        redefinition after them reads."""
        carries = [carry for carry in block.carries if self._is_live(carry)]
        direct = [carry for carry in carries if self._can_update(carry, block)]
        order: list[tuple[Carry, bool]] = []
        rest = list(direct)
        while rest:
            safe = [carry for carry in rest if not self._is_read(carry, rest)]
            if not safe:
                rest.pop()
                continue
            order.append((safe[0], True))
            rest.remove(safe[0])
        chosen = [carry for carry, _ in order]
        copies = [(carry, False) for carry in carries if carry not in chosen]
        for carry, _ in order:
            assert carry.leaving is not None
            carry.leaving.text = carry.entering.text
        self.updates[block] = order + copies

    def _is_read(self, carry: Carry, by: Sequence[Carry]) -> bool:
        return any(self._reads(other, carry.entering) for other in by if other is not carry)

    def _can_update(self, carry: Carry, block: Block) -> bool:
        node = carry.leaving
        assert node is not None
        is_own = node.block is block and self.uses[node] == 1 and node not in self.outputs
        return is_own and node.kind not in ("declared", "carried", "after", "step", "number")

    def _reads(self, carry: Carry, node: Node) -> bool:
        assert carry.leaving is not None
        stack = list(carry.leaving.arguments)
        while stack:
            of = stack.pop()
            if of is node:
                return True
            if not self._is_statement(of):
                stack += of.arguments
        return False

    # Statements

    def _is_statement(self, node: Node) -> bool:
        if node.kind == "number":
            return False
        if node.kind in STATEMENTS or node in self.outputs or node.sharding or node.text:
            return True
        reader = self.readers.get(node)
        if reader is None or self.uses[node] != 1 or reader.block is not node.block:
            return True
        if reader.kind in ("stack", "step") or self._natural(node) != node.dtype:
            return True
        if reader.name == "update" or (reader.kind == "along" and reader.name == "put"):
            return True
        is_same_line = node.source == reader.source or node.hint is None
        return not is_same_line or len(self._expression(node)) > WIDEST

    def _natural(self, node: Node) -> str:
        """The element type of a result that does not say another."""
        if node.kind == "infix" and node.name in ("<", "<=", ">", ">=", "==", "!="):
            return "bool"
        if node.kind == "along" and node.name in ("iota", "argmax", "argtopk"):
            return "int32"
        if node.kind == "call" and node.name.startswith("cast<"):
            return node.dtype
        operands = [it for it in node.arguments if not it.is_number]
        if node.kind == "call" and node.name == "select":
            operands = [it for it in node.arguments[1:] if not it.is_number]
        if node.kind == "along" and node.name in ("take", "update"):
            operands = node.arguments[:1]
        types = [it.dtype for it in operands]
        return max(types, key=WIDTHS.index) if types else ""

    def _block(self, block: Block, indent: str) -> list[str]:
        lines: list[str] = []
        self._declarations(block, indent, lines)
        for item in block.body:
            if isinstance(item, Block):
                if any(node in self.live for node in self._nodes(item)):
                    lines += ["", *self._loop(item, indent), ""]
            elif item in self.live and self._is_written(item, block):
                lines.append(indent + self._statement(item))
        return _without_double_blanks(lines)

    def _is_written(self, node: Node, block: Block) -> bool:
        if node.kind in ("declared", "step", "after", "carried"):
            return False
        updated = [carry.leaving for carry, direct in self._updates_of(block) if direct]
        return node not in updated and self._is_statement(node)

    def _updates_of(self, block: Block) -> list[tuple[Carry, bool]]:
        return self.updates.get(block, [])

    def _declarations(self, block: Block, indent: str, lines: list[str]) -> None:
        declared = [
            it for it in block.body
            if isinstance(it, Node) and it.kind == "declared" and it in self.live
        ]  # fmt: skip
        for role in ("input", "param", "state"):
            line = ""
            for node in declared:
                if node.name != role:
                    continue
                one = self._typed(node)
                if line and len(indent + line + one) > 96:
                    lines.append(indent + line)
                    line = ""
                line = f"{line}, {one}" if line else f"{role} {one}"
            if line:
                lines.append(indent + line)
        if declared and not indent:
            lines.append("")

    def _loop(self, block: Block, indent: str) -> list[str]:
        head = f"repeat {block.name}={block.count} {{"
        if block.dim is not None:
            head = f"scan {block.dim.root.name} {{"
        lines = [indent + head]
        inner = indent + "  "
        for carry in filter(self._is_live, block.carries):
            lines.append(f"{inner}carry {carry.entering.text}")
        lines += self._block(block, inner)
        for carry, is_direct in self._updates_of(block):
            node = carry.leaving
            assert node is not None
            if node.text == carry.entering.text and node.kind == "after":
                continue
            if is_direct:
                lines.append(inner + self._statement(node))
            else:
                lines.append(f"{inner}{carry.entering.text} = {self._operand(node, LOOSEST)}")
        return [*lines, indent + "}"]

    def _typed(self, node: Node) -> str:
        return f"{node.text}: {node.dtype}[{self._layout(node)}]"

    def _layout(self, node: Node) -> str:
        return ", ".join(self._split(node, dim) for dim in node.dims)

    def _split(self, node: Node, dim: Dim) -> str:
        name = dim.root.name
        split = next((axes for of, axes in node.sharding.items() if same_dim(of, dim)), None)
        if split is None:
            return f"{name}_?"
        if not split:
            return name
        return f"{name}_{split[0]}" if len(split) == 1 else f"{name}_{{{','.join(split)}}}"

    def _statement(self, node: Node) -> str:
        text = self._expression(node)
        left = node.text
        is_other = self._natural(node) != node.dtype
        if node.kind in ("fill", "reshape") or node.sharding or node in self.outputs:
            left = self._typed(node)
        elif node.kind == "stack" or is_other:
            left = f"{left}: {node.dtype}" if is_other else left
        if node in self.outputs:
            left = f"output {left}"
        return f"{left} = {text}"

    # Expressions

    def _operand(self, node: Node, binding: int) -> str:
        if node.kind == "number":
            text = number(node)
            return f"({text})" if text.startswith("-") and binding > MULTIPLIED else text
        if node.kind == "step":
            return self._operand(node.arguments[0], binding)
        if self._is_statement(node):
            return node.text
        text = self._expression(node)
        return text if self._binding(node) >= binding else f"({text})"

    def _binding(self, node: Node) -> int:
        if node.kind == "infix":
            return BINDING[node.name]
        if node.kind == "product":
            return MULTIPLIED
        if node.kind == "call" and node.name == "neg":
            return NEGATED
        return ATOM

    def _expression(self, node: Node) -> str:
        if node.kind == "fill":
            return number(node)
        if node.kind == "infix":
            own = BINDING[node.name]
            a, b = node.arguments
            # An expression has one comparison: the operands of another are in parentheses.
            left = self._operand(a, own + (own == COMPARED))
            return f"{left} {node.name} {self._operand(b, own + 1)}"
        if node.kind == "product":
            a, b = node.arguments
            suffix = ",".join(dim.root.name for dim in node.sources)
            return f"{self._operand(a, MULTIPLIED)} *{suffix} {self._operand(b, NEGATED)}"
        if node.kind == "call" and node.name == "neg":
            return f"-{self._operand(node.arguments[0], ATOM)}"
        arguments = [self._operand(it, LOOSEST) for it in node.arguments]
        arguments += [str(it) for it in node.trailing]
        return f"{node.name}{self._subscript(node)}({', '.join(arguments)})"

    def _subscript(self, node: Node) -> str:
        if node.kind != "along":
            return ""
        is_opaque = node.name.startswith("opaque<")
        sources = [dim.root.name for dim in node.sources]
        if is_opaque:
            # Those that were tied since are one.
            sources = list(dict.fromkeys(sources))
        names = ",".join(sources)
        results = [dim.root.name for dim in node.results]
        if (results or is_opaque) and sources and sources != results:
            return f"_{{{names}->{','.join(results)}}}"
        return "" if not sources else f"_{names}" if len(sources) == 1 else f"_{{{names}}}"


def number(node: Node) -> str:
    """A number as the language reads it."""
    value = node.number
    if node.dtype.startswith("int"):
        return str(int(value))
    if node.dtype == "bool":
        raise Failure(
            "a constant `True` or `False` as an array is not in the language",
            "leave out masks that let everything through",
            node.source,
        )
    if np.isnan(value):
        raise Failure(
            "`nan` is not a number of the language",
            "write `jnp.inf`, `-jnp.inf` or 0.0 where elements are missing",
            node.source,
        )
    text = str(np.float32(value))
    return re.sub(r"e([+-])0+", r"e\1", text).replace("e+", "e")


def _without_double_blanks(lines: Sequence[str]) -> list[str]:
    kept: list[str] = []
    for line in lines:
        if line or (kept and kept[-1]):
            kept.append(line)
    while kept and not kept[-1]:
        kept.pop()
    return kept
