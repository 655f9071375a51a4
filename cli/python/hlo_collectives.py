"""Reads the collectives of compiled programs from their HLO text."""

import math
import re
from collections import namedtuple

import numpy as np

# `groups` are sorted tuples of devices; of a permute the pairs of sender and receiver. `elements`
# are those of a device's side that has more: the complete block of a gather, the operand of a
# scatter. `times` is how often it runs.
Collective = namedtuple("Collective", "kind groups elements dtype times")

KINDS = {
    "all-gather": "all_gather",
    "all-reduce": "all_reduce",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "ragged-all-to-all": "all_to_all",
    "collective-permute": "permute",
}
LINE = re.compile(
    r"%?[\w.-]+ = (?P<shape>\(.*?\)|\S+) (?P<op>[a-z-]+?)(?:-start)?\((?P<rest>.*)$"
)
CALLED = re.compile(r"(?:to_apply|calls|body|true_computation|false_computation)=%?([\w.-]+)")
BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
MESH = re.compile(
    r"replica_groups=mesh\[(.*?)\](?:, device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\))? *\{(.*?)\}"
)
TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


def computations(text):
    """The lines of each computation by its name, and the name of the first one that runs."""
    found, entry, name = {}, None, None
    for line in text.splitlines():
        head = re.match(r"(ENTRY )?%?([\w.-]+) .*\{$", line)
        if head and not line.startswith(" ") and "->" in line:
            name = head.group(2)
            found[name] = []
            entry = name if head.group(1) else entry
        elif name and line.startswith("  "):
            found[name].append(line.strip().removeprefix("ROOT "))
    return found, entry


def trips(line):
    """How often the body of a loop runs; the compiler writes what it knows."""
    known = TRIPS.search(line)
    if not known:
        raise ValueError(f"a loop without a known trip count: {line[:80]}")
    return int(known.group(1))


def shapes(text):
    """Types and numbers of elements of a shape or of a tuple of shapes."""
    parts = re.findall(r"([a-z]\w*)\[([\d,]*)\]", text)
    return [(kind, math.prod(int(n) for n in dims.split(",") if n)) for kind, dims in parts]


def of_mesh(sizes, order, axes):
    """The groups along axes of a mesh: `mesh['a'=2,'b'=8], device_ids=([8,2]T(1,0)) {'a','b':(2)4}`,
    of the second axis only the part of size 4 after one of size 2; `order` may lack."""
    shape, chosen = [], []
    parts = {name: (int(before), int(size)) for name, before, size in
             re.findall(r"'([^']*)':\((\d+)\)(\d+)", axes)}
    whole = set(re.findall(r"'([^']*)'(?!:)", axes))
    for name, size in re.findall(r"'([^']*)'=(\d+)", sizes):
        if name in parts:
            before, part = parts[name]
            shape += [before, part, int(size) // (before * part)]
            chosen.append(len(shape) - 2)
        else:
            shape.append(int(size))
            chosen += [len(shape) - 1] * (name in whole)
    if len(chosen) != len(axes.split(",")):
        raise ValueError(f"not axes of the mesh, or several parts of one: {axes}")
    devices = numbered(*order) if order else np.arange(math.prod(shape))
    devices = np.moveaxis(devices.reshape(shape), chosen, range(len(chosen)))
    size = math.prod(shape[place] for place in chosen)
    return devices.reshape(size, -1).T.tolist()


def numbered(shape, order):
    """`[8,2]T(1,0)`: numbers in rows of a shape, its dimensions in another order."""
    shape = [int(n) for n in shape.split(",")]
    devices = np.arange(math.prod(shape)).reshape(shape)
    return devices.transpose([int(n) for n in order.split(",")]) if order else devices


def groups(line, count):
    """The groups of devices of a collective."""
    pairs = re.search(r"source_target_pairs=\{(.*?)\}\}", line)
    if pairs:
        return tuple(sorted(lists(pairs.group(1))))
    iota = re.search(
        r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", line
    )
    if iota:
        rows = numbered(*iota.group(3, 4)).reshape(int(iota.group(1)), int(iota.group(2))).tolist()
    elif mesh := MESH.search(line):
        rows = of_mesh(mesh.group(1), mesh.group(2) and mesh.group(2, 3), mesh.group(4))
    else:
        given = re.search(r"replica_groups=\{(\{.*?\})?\}", line)
        if not given and "replica_groups=" in line:
            raise ValueError(f"groups in a form that is not known: {line[:200]}")
        # All devices are written as no groups.
        rows = lists(given.group(1)) if given and given.group(1) else [list(range(count))]
    return tuple(sorted(tuple(sorted(row)) for row in rows))


def lists(text):
    return [tuple(int(n) for n in part.split(",")) for part in re.findall(r"\d+(?:,\d+)*", text)]


def collective(line, op, shape, count, times):
    """The collectives of a line: the compiler merges several of one kind, which are listed apart."""
    of = groups(line, count)
    size = len(of) if op == "collective-permute" else len(of[0])
    parts = shapes(shape)
    # An exchange of a tuple sends one part to each device.
    if op == "all-to-all":
        parts = [(parts[0][0], sum(n for _, n in parts))]
    grown = size if op == "reduce-scatter" else 1
    return [Collective(KINDS[op], of, n * grown, dtype, times) for dtype, n in parts], size


def collectives(text, count):
    """All collectives of a compiled program on so many devices that communicate."""
    by_name, entry = computations(text)
    found = []

    def visit(name, times):
        for line in by_name.get(name, ()):
            match = LINE.match(line)
            if not match:
                continue
            op = match.group("op")
            if op in KINDS:
                ones, size = collective(line, op, match.group("shape"), count, times)
                if op == "collective-permute":
                    ones = [one for one in ones if any(a != b for a, b in one.groups)]
                found.extend(ones if size > 1 else [])
            inner = times * trips(line) if op == "while" else times
            if op in ("while", "call", "conditional", "fusion", "async"):
                called = CALLED.findall(line)
                for branches in BRANCHES.findall(line):
                    called += [part.strip().lstrip("%") for part in branches.split(",")]
                for inside in called:
                    visit(inside, inner)

    visit(entry, 1)
    return found
