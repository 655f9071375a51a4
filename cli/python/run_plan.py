"""Runs plans on simulated devices from their JSON alone (`shardwise.plan/2`).

    run_plan.py CASE.json ...

A case has a plan as `shardwise plan --format json` writes it, the elements of every declared value,
and those expected of every output; values of a block have one entry for each iteration, `W@0`,
`W@1` and so on. Every device has only its blocks: local steps read blocks of their own device, and
only collectives, rolls and carries between stages read those of others. The script prints a line
for each case, and fails if one output of one device differs.

It is written to be read beside the schema, not to be fast.
"""

import itertools
import json
import math
import string
import sys

import numpy as np

TOLERANCE = 1e-9


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu_inner(x):
    return math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)


def dgelu(x, dy):
    tanh = np.tanh(gelu_inner(x))
    inner = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
    return dy * (0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * inner)


def dsilu(x, dy):
    return dy * (sigmoid(x) + x * sigmoid(x) * (1 - sigmoid(x)))


def erf(x):
    return np.vectorize(math.erf, otypes=[float])(x)


# What functions compute that the language does not have: of blocks, with their dimensions in order.
OPAQUE = {}

FUNCTIONS = {
    "abs": np.abs,
    "adam_step": lambda w, m, v, rate, eps, decay: w - rate * (m / (np.sqrt(v) + eps) + decay * w),
    "add": lambda a, b: a + b,
    "copy": lambda x: x,
    "cos": np.cos,
    "dabs": lambda x, dy: dy * np.sign(x),
    "derf": lambda x, dy: dy * 2 / math.sqrt(math.pi) * np.exp(-x * x),
    "dgelu": dgelu,
    "div": lambda a, b: a / b,
    "drelu": lambda x, dy: dy * (x > 0),
    "dsigmoid": lambda x, dy: dy * sigmoid(x) * (1 - sigmoid(x)),
    "dsilu": dsilu,
    "dtanh": lambda x, dy: dy * (1 - np.tanh(x) ** 2),
    "ema": lambda a, b, share: share * a + (1 - share) * b,
    "ema_square": lambda a, b, share: share * a + (1 - share) * b**2,
    "equal": lambda a, b: 1.0 * (a == b),
    "erf": erf,
    "exp": np.exp,
    "expm1": np.expm1,
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(gelu_inner(x))),
    "greater": lambda a, b: 1.0 * (a > b),
    "greater_equal": lambda a, b: 1.0 * (a >= b),
    "identity": lambda x: x,
    "less": lambda a, b: 1.0 * (a < b),
    "less_equal": lambda a, b: 1.0 * (a <= b),
    "log": np.log,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "momentum": lambda a, b, share: share * a + b,
    "mul": lambda a, b: a * b,
    "neg": lambda x: -x,
    "not_equal": lambda a, b: 1.0 * (a != b),
    "offload": lambda x: x,
    "ones": np.ones_like,
    "pow": np.power,
    "reload": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "round": np.round,
    "row_step": lambda w, dw, s, rate, eps: w - rate * dw / (np.sqrt(s) + eps),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "select": lambda mask, a, b: np.where(mask == 0, b, a),
    "sgd_step": lambda w, dw, rate: w - rate * dw,
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "sin": np.sin,
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "sqrt": np.sqrt,
    "square": lambda x: x * x,
    "stop_gradient": lambda x: x,
    "sub": lambda a, b: a - b,
    "swish": lambda x: x * sigmoid(x),
    "tanh": np.tanh,
}

REDUCTIONS = {
    "sum": (np.sum, 0.0),
    "mean": (np.sum, 0.0),
    "max": (np.max, -np.inf),
    "min": (np.min, np.inf),
}

COMBINE = {"sum": np.add, "max": np.maximum, "min": np.minimum}


def spread(x, dims, order, lengths):
    """`x` with its dimensions in another order, repeated along those that it lacks."""
    present = [dim for dim in order if dim in dims]
    x = np.transpose(x, [dims.index(dim) for dim in present])
    index = tuple(slice(None) if dim in dims else None for dim in order)
    return np.broadcast_to(x[index], [lengths[dim] for dim in order])


def reordered(x, dims, order):
    return np.transpose(x, [dims.index(dim) for dim in order])


def places_of(operation, places, kernel):
    """The element of each window at each place, counted from where the first window begins."""
    return operation["stride"] * np.arange(places)[:, None] + np.arange(kernel)


def windows(block, operation, sizes, dims, order):
    """The windows of a dimension, which are zero outside of it."""
    to, kernel, place = operation["to"], operation["kernel"], dims.index(operation["from"])
    at = places_of(operation, sizes[to], sizes[kernel])
    widths = [(0, 0)] * block.ndim
    after = at.max() + 1 - operation["padding"] - block.shape[place]
    widths[place] = (operation["padding"], max(0, after))
    taken = np.take(np.pad(block, widths), at, place)
    return reordered(taken, dims[:place] + [to, kernel] + dims[place + 1 :], order)


def overlap(block, operation, sizes, dims, order):
    """Windows added up at the elements that they are of."""
    places, kernel, to = operation["from"], operation["kernel"], operation["to"]
    rest = [dim for dim in dims if dim not in (places, kernel)]
    moved = reordered(block, dims, [places, kernel, *rest])
    at, padding = places_of(operation, *moved.shape[:2]), operation["padding"]
    whole = np.zeros([max(at.max() + 1, padding + sizes[to]), *moved.shape[2:]])
    np.add.at(whole, at, moved)
    return reordered(whole[padding : padding + sizes[to]], [to, *rest], order)


class Tensor:
    """A value in one of its shardings."""

    def __init__(self, json):
        self.value = json["value"]
        self.dims = [dim["dim"] for dim in json["dims"]]
        self.axes = [tuple(dim["axes"]) for dim in json["dims"]]
        self.unreduced = tuple(json["unreduced"])
        self.reduction = json.get("reduction", "sum")

    @property
    def sharding(self):
        return (tuple(self.axes), self.unreduced, self.reduction)

    def with_axes(self, axes):
        other = Tensor.__new__(Tensor)
        other.__dict__.update(self.__dict__, axes=list(axes))
        return other


class Plan:
    """A plan, and the devices that run it."""

    def __init__(self, plan):
        self.plan = plan
        self.sizes = {axis["axis"]: axis["size"] for axis in plan["mesh"]}
        ranges = [range(axis["size"]) for axis in plan["mesh"]]
        names = list(self.sizes)
        self.devices = [dict(zip(names, at)) for at in itertools.product(*ranges)]
        self.dims = {dim["dim"]: dim["size"] for dim in plan["dims"]}
        self.padded = {dim["dim"]: dim["padded_size"] for dim in plan["dims"]}
        self.zigzags = {dim["dim"]: dim.get("zigzag") for dim in plan["dims"]}
        self.values = {value["value"]: value for value in plan["values"]}
        self.around = {}
        self.find_blocks(plan["body"], None)
        self.held = {}
        self.at = {}

    def find_blocks(self, body, around):
        for node in body:
            if isinstance(node, dict):
                self.around[node["block"]] = around
                self.find_blocks(node["body"], node["block"])

    # Blocks.

    def forward(self, block):
        return self.plan["blocks"][block].get("reverses", block)

    def path(self, value):
        """The blocks that there are copies of a value for, the outermost first."""
        path, block = [], self.values[value].get("block")
        declared = "role" in self.values[value]
        while block is not None:
            if not (declared and self.plan["blocks"][block].get("microbatches")):
                path.insert(0, self.forward(block))
            block = self.around.get(block)
        return path

    def copy(self, value, **others):
        at = {**self.at, **others.get("at", {})}
        return tuple(at[block] for block in self.path(value))

    def sequence(self, block):
        numbers = range(self.plan["blocks"][block]["count"])
        return numbers if self.forward(block) == block else reversed(numbers)

    def stage(self, value, copy):
        """The axis and the coordinate of the devices that have a value of a pipeline."""
        for block, number in zip(self.path(value), copy):
            if pipeline := self.plan["blocks"][block].get("pipeline"):
                return (pipeline["axis"], pipeline["stage_of_layer"][number])
        return None

    def is_between(self, value):
        """Whether a value is between the blocks of a pipeline: in a block around some that are on
        stages. The stage that has it passes it to the next one; the others have zeros."""
        block = self.values[value].get("block")
        inner = [inner for inner, around in self.around.items() if around == block]
        return block is not None and any(self.plan["blocks"][one].get("pipeline") for one in inner)

    def sum_over(self, axis, blocks):
        def along(device):
            return [blocks[self.devices.index({**device, axis: at})] for at in range(self.sizes[axis])]

        return [sum(along(device)) for device in self.devices]

    def is_on(self, stage, device):
        return stage is None or device[stage[0]] == stage[1]

    # Where blocks are.

    def part(self, axes, device):
        part = parts = 0
        parts = 1
        for axis in axes:
            part, parts = part * self.sizes[axis] + device[axis], parts * self.sizes[axis]
        return part, parts

    def span(self, dim, axes, device):
        part, parts = self.part(axes, device)
        length = -(-self.padded[dim] // parts)
        start = min(part * length, self.dims[dim])
        return slice(start, min(start + length, self.dims[dim]))

    def spans(self, tensor, device):
        return [self.span(dim, axes, device) for dim, axes in zip(tensor.dims, tensor.axes)]

    def lengths(self, tensor, device):
        return {d: s.stop - s.start for d, s in zip(tensor.dims, self.spans(tensor, device))}

    def starts(self, tensor, device):
        return {d: s.start for d, s in zip(tensor.dims, self.spans(tensor, device))}

    def without(self, device, axes):
        return tuple((axis, 0 if axis in axes else at) for axis, at in device.items())

    def distribute(self, whole, tensor, stage):
        """An array in parts; pending parts are uneven and sum up to it."""
        blocks = []
        for device in self.devices:
            block = whole[tuple(self.spans(tensor, device))].copy()
            part, parts = self.part(tensor.unreduced, device)
            if tensor.reduction == "sum" and parts > 1:
                block = np.full_like(block, part % 3 - 1.0) if part else block
                block -= 0 if part else sum(other % 3 - 1.0 for other in range(1, parts))
            elif part:
                block += -1.0 if tensor.reduction == "max" else 1.0
            blocks.append(block if self.is_on(stage, device) else np.full_like(block, np.nan))
        return blocks

    # Communication.

    def reduce(self, blocks, axes, reduction):
        totals = {}
        for device, block in zip(self.devices, blocks):
            group = self.without(device, axes)
            combined = COMBINE[reduction](totals[group], block) if group in totals else block
            totals[group] = combined
        return [totals[self.without(device, axes)] for device in self.devices]

    def move(self, blocks, source, target):
        """Blocks of `source` to those of `target`, within groups of the axes that change."""
        done = [axis for axis in source.unreduced if axis not in target.unreduced]
        blocks = self.reduce(blocks, done, source.reduction)
        changed = {
            axis for a, b in zip(source.axes, target.axes) if a != b for axis in (*a, *b)
        }
        groups = {}
        for number, device in enumerate(self.devices):
            groups.setdefault(self.without(device, changed), []).append(number)
        moved = []
        for device in self.devices:
            whole = np.zeros([self.dims[dim] for dim in source.dims])
            known = np.zeros(whole.shape, bool)
            for holder in groups[self.without(device, changed)]:
                place = tuple(self.spans(source, self.devices[holder]))
                whole[place], known[place] = blocks[holder], True
            place = tuple(self.spans(target, device))
            assert known[place].all(), f"{target.value}: no device of the group has it"
            moved.append(whole[place])
        return moved

    def after(self, operation, tensor):
        """The sharding that a collective gives, by its definition."""
        kind, axes = operation["kind"], operation["axes"]
        lists = [list(part) for part in tensor.axes]
        pending = list(tensor.unreduced)
        if kind in ("all_gather", "all_to_all"):
            for part in lists:
                while part and part[-1] in axes:
                    part.pop()
        if kind == "all_reduce":
            assert set(axes) <= set(pending), f"{tensor.value}: {axes} are not pending"
        if kind == "reduce_scatter":
            assert set(axes) & set(pending), f"{tensor.value}: none of {axes} is pending"
        if kind in ("all_reduce", "reduce_scatter"):
            pending = [axis for axis in pending if axis not in axes]
        if kind in ("all_to_all", "reduce_scatter"):
            sliced = set(axes) - {*tensor.unreduced, *sum(map(list, tensor.axes), [])}
            assert sliced < set(axes), f"{tensor.value}: only slices in {axes}"
        if kind == "unreduce":
            assert not set(axes) & {*pending, *sum(lists, [])}, f"{tensor.value}: {axes} are used"
            pending = [axis for axis in self.sizes if axis in {*pending, *axes}]
        for axis, dim in zip(axes, operation.get("into", [])):
            lists[tensor.dims.index(dim)].append(axis)
        return [tuple(part) for part in lists], tuple(pending)

    def communicate(self, operation, source, target):
        if operation["kind"] != "permute":
            got = self.after(operation, source)
            assert got == (target.axes, target.unreduced), f"{operation} gives {got}"
        if operation["kind"] == "unreduce":
            firsts = [not any(device[axis] for axis in operation["axes"]) for device in self.devices]
            pairs = zip(self.read(source), firsts)
            return [block if first else np.zeros_like(block) for block, first in pairs]
        return self.move(self.read(source), source, target)

    # Steps.

    def key(self, tensor, copy):
        return (tensor.value, copy, tensor.sharding)

    def read(self, tensor, copy=None):
        return self.held[self.key(tensor, self.copy(tensor.value) if copy is None else copy)]

    def read_for(self, tensor, copy, stage, moves=False):
        """Blocks of an operand as the devices of `stage` read them: from a neighbouring stage, or
        zeros, as a part of a sum, where another stage has the value."""
        blocks, own = self.read(tensor, copy), self.stage(tensor.value, copy)
        if moves and stage is not None and self.is_between(tensor.value):
            return self.sum_over(stage[0], blocks)
        if own is None or own == stage:
            return blocks
        if stage is None:
            pairs = zip(self.devices, blocks)
            return [b if self.is_on(own, d) else np.zeros_like(b) for d, b in pairs]
        assert moves, f"{tensor.value} is on another stage"
        assert (own[1] - stage[1]) % self.sizes[own[0]] in (1, self.sizes[own[0]] - 1)
        return [blocks[self.devices.index({**d, own[0]: own[1]})] for d in self.devices]

    def yielded(self, block, value):
        passed = self.plan["blocks"][block]["yields"]
        return next(one["tensor"]["value"] for one in passed if one["to"] == value)

    def carry(self, block, operand, result):
        stage = self.stage(result.value, self.copy(result.value))
        before = list(self.sequence(block))
        place = before.index(self.at[self.forward(block)])
        if place == 0:
            return self.read_for(operand, self.copy(operand.value), stage, moves=True)
        at = {self.forward(block): before[place - 1]}
        operand = operand.with_axes(operand.axes)
        operand.value = self.yielded(block, result.value)
        return self.read_for(operand, self.copy(operand.value, at=at), stage, moves=True)

    def copies(self, value):
        """All copies of a value of a block that was left, in order of iteration."""
        left = [block for block in self.path(value) if block not in self.at]
        if not left:
            return [self.copy(value)]
        (block,) = left
        own = self.values[value]["block"]
        own = own if self.forward(own) == block else block
        return [self.copy(value, at={block: number}) for number in self.sequence(own)]

    def leave(self, operation, operand, result):
        parts = [self.read_for(operand, copy, None) for copy in self.copies(operand.value)]
        if operation["kind"] == "last":
            return parts[-1]
        if operation["kind"] == "total":
            return [sum(copies) for copies in zip(*parts)]
        if operation["kind"] == "stack":
            return self.stack(operation, operand, result, parts)
        joined = []
        for device, blocks in zip(self.devices, zip(*parts)):
            lengths = self.lengths(result, device)
            batch = np.zeros([lengths[dim] for dim in result.dims])
            renamed = [operation["to"] if d == operation["from"] else d for d in operand.dims]
            for number, block in enumerate(blocks):
                rows = [slice(None)] * batch.ndim
                rows[result.dims.index(operation["to"])] = slice(number, None, len(blocks))
                batch[tuple(rows)] = reordered(block, renamed, result.dims)
            joined.append(batch)
        return joined

    def stack(self, operation, operand, result, parts):
        """The values of all steps in order; those of a reversed scan come last first."""
        block = self.values[operand.value]["block"]
        parts = parts if self.forward(block) == block else parts[::-1]
        of, to = operation.get("from"), operation["to"]
        dims = [to if d == of else d for d in operand.dims] if of else [to, *operand.dims]
        stacked = []
        for blocks in zip(*parts):
            rows = [reordered(b if of else b[None], dims, result.dims) for b in blocks]
            stacked.append(np.concatenate(rows, result.dims.index(to)))
        return stacked

    def roll(self, operand, result, operation):
        place = operand.dims.index(operation["dim"])
        whole = operand.with_axes([() if n == place else a for n, a in enumerate(operand.axes)])
        gathered = self.move(self.read(operand), operand, whole)
        rolled = [np.roll(block, operation["distance"], place) for block in gathered]
        moved = self.move(rolled, whole, operand)
        return [reordered(block, operand.dims, result.dims) for block in moved]

    def convolve(self, operand, result, operation):
        """Windows of a dimension, or these added up: of all of it, and then each device's part."""
        def unsharded(of, dim):
            return of.with_axes([() if d == dim else a for d, a in zip(of.dims, of.axes)])

        whole = unsharded(operand, operation["from"])
        all_of_result = unsharded(result, operation["to"])
        function = windows if operation["kind"] == "windows" else overlap
        gathered = self.move(self.read(operand), operand, whole)
        dims = [operand.dims, result.dims]
        blocks = [function(block, operation, self.dims, *dims) for block in gathered]
        return self.move(blocks, all_of_result, result)

    def step(self, step, block):
        operation, result = step["operation"], Tensor(step["result"])
        operands = [Tensor(operand) for operand in step["operands"]]
        kind, copy = operation["kind"], self.copy(result.value)
        stage = self.stage(result.value, copy)
        if kind == "carry":
            blocks = self.carry(block, operands[0], result)
        elif kind in ("last", "total", "join", "stack"):
            blocks = self.leave(operation, operands[0], result)
        elif kind == "roll":
            blocks = self.roll(operands[0], result, operation)
        elif kind in ("windows", "overlap"):
            blocks = self.convolve(operands[0], result, operation)
        elif "axes" in operation:
            blocks = self.communicate(operation, operands[0], result)
        else:
            read = [self.read_for(t, self.copy(t.value), stage) for t in operands]
            local = [Local(self, operation, operands, result, device) for device in self.devices]
            blocks = [one.run([b[n] for b in read]) for n, one in enumerate(local)]
        for device, made in zip(self.devices, blocks):
            expected = [self.lengths(result, device)[dim] for dim in result.dims]
            assert list(made.shape) == expected, f"{step['text']}: {made.shape}, not {expected}"
        self.held[self.key(result, copy)] = blocks

    def run(self, body, block=None):
        for node in body:
            if isinstance(node, int):
                self.step(self.plan["steps"][node], block)
                continue
            for number in self.sequence(node["block"]):
                self.at[self.forward(node["block"])] = number
                self.run(node["body"], node["block"])
            del self.at[self.forward(node["block"])]

    def entry(self, value, copy):
        """The name of a copy in a case: the layers of loops in loops are one sequence."""
        layer, microbatch = None, ""
        for block, number in zip(self.path(value), copy):
            block = self.plan["blocks"][block]
            if block.get("microbatches"):
                microbatch = f"@{number}"
            else:
                layer = (layer or 0) * block["count"] + number
        return value + ("" if layer is None else f"@{layer}") + microbatch

    def all_copies(self, value):
        counts = [range(self.plan["blocks"][block]["count"]) for block in self.path(value)]
        return itertools.product(*counts)

    def declare(self, given):
        for value in self.plan["values"]:
            if "given" not in value:
                continue
            tensor = Tensor(value["given"])
            for copy in self.all_copies(tensor.value):
                name = self.entry(tensor.value, copy)
                whole = np.array(given[name], float).reshape([self.dims[d] for d in tensor.dims])
                blocks = self.distribute(whole, tensor, self.stage(tensor.value, copy))
                self.held[self.key(tensor, copy)] = blocks

    def differences(self, expected):
        """The largest difference of each output from what is expected, on any device."""
        found = {}
        for output in self.plan["outputs"]:
            tensor = Tensor(output["tensor"])
            for copy in self.all_copies(tensor.value):
                name = self.entry(tensor.value, copy)
                blocks = self.reduce(self.read(tensor, copy), tensor.unreduced, tensor.reduction)
                whole = np.array(expected[name], float)
                whole = whole.reshape([self.dims[dim] for dim in tensor.dims])
                stage = self.stage(tensor.value, copy)
                for device, block in zip(self.devices, blocks):
                    if self.is_on(stage, device):
                        wanted = whole[tuple(self.spans(tensor, device))]
                        found[name] = max(found.get(name, 0.0), difference(block, wanted, whole))
        return found


def difference(found, expected, whole):
    """Relative to the largest element; what is no number, or infinite, must be the same."""
    finite = np.abs(whole[np.isfinite(whole)])
    unit = max(1.0, finite.max(initial=0.0))
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(found - expected) / unit)
    return float(np.nan_to_num(error, nan=np.inf).max(initial=0.0))


class Local:
    """A local step on one device."""

    def __init__(self, plan, operation, operands, result, device):
        self.plan, self.operation, self.device = plan, operation, device
        self.operands, self.result = operands, result
        self.lengths = {}
        for tensor in [result, *operands]:
            self.lengths = {**plan.lengths(tensor, device), **self.lengths}

    def run(self, blocks):
        return getattr(self, self.operation["kind"])(*blocks)

    def start(self, tensor, dim):
        return self.plan.starts(tensor, self.device)[dim]

    def own_start(self, dim):
        tensors = [tensor for tensor in self.operands if dim in tensor.dims] or [self.result]
        return self.start(tensors[0], dim)

    def spread(self, block, dims):
        return spread(block, dims, self.result.dims, self.lengths)

    def ordered(self, block, dims):
        return reordered(block, dims, self.result.dims)

    def renamed(self, number=0):
        of, to = self.operation["from"], self.operation["to"]
        of = of if isinstance(of, str) else of[number]
        return [to if dim == of else dim for dim in self.operands[number].dims]

    def index(self, dims):
        """The index of each element of the result along one dimension."""
        place = self.result.dims.index(dims)
        shape = [-1 if n == place else 1 for n in range(len(self.result.dims))]
        numbers = np.arange(self.lengths[dims], dtype=float) + self.own_start(dims)
        pairs = self.plan.zigzags[dims]
        if pairs:
            block = self.plan.dims[dims] // (2 * pairs)
            number, within = np.divmod(numbers, block)
            pair = number // 2
            numbers = np.where(number % 2 == 0, pair, 2 * pairs - 1 - pair) * block + within
        return np.broadcast_to(
            numbers.reshape(shape), [self.lengths[dim] for dim in self.result.dims]
        )

    def einsum(self, a, b):
        letters = dict(zip(self.lengths, string.ascii_letters))
        left, right, out = (
            "".join(letters[dim] for dim in tensor.dims) for tensor in [*self.operands, self.result]
        )
        return np.einsum(f"{left},{right}->{out}", a, b)

    def map(self, *blocks):
        dims = [tensor.dims for tensor in self.operands]
        spreads = [self.spread(block, dims) for block, dims in zip(blocks, dims)]
        arguments = [
            spreads[argument["operand"]] if "operand" in argument else float(argument["number"])
            for argument in self.operation["arguments"]
        ]
        return FUNCTIONS[self.operation["function"]](*arguments) + 0.0

    def cast(self, block):
        dtype = self.operation["dtype"]
        if dtype == "bool":
            block = 1.0 * (block != 0)
        elif dtype.startswith("int"):
            block = np.trunc(block)
        return self.spread(block, self.operands[0].dims)

    def broadcast(self, block):
        return self.spread(block, self.operands[0].dims)

    def constant(self):
        shape = [self.lengths[dim] for dim in self.result.dims]
        return np.full(shape, float(self.operation["number"]))

    def iota(self):
        return self.index(self.operation["dim"])

    def position(self, _):
        return self.index(self.operation["dim"])

    def mask(self, block):
        query, key = self.index(self.operation["query"]), self.index(self.operation["key"])
        block = self.spread(block, self.operands[0].dims)
        return np.where(key <= query, block, float(self.operation["fill"]))

    def reduce(self, block):
        function, initial = REDUCTIONS[self.operation["function"]]
        dims, over = self.operands[0].dims, self.operation["dims"]
        reduced = function(block, axis=tuple(map(dims.index, over)), initial=initial)
        if self.operation["function"] == "mean":
            reduced = reduced / math.prod(self.plan.dims[dim] for dim in over)
        return self.ordered(reduced, [dim for dim in dims if dim not in over])

    def composite(self, x):
        dims, over = self.operands[0].dims, self.operation["dims"]
        axes = tuple(map(dims.index, over))
        function, epsilon = self.operation["function"], self.operation.get("epsilon")
        if function in ("softmax", "logsumexp"):
            largest = x.max(axes, keepdims=True, initial=-np.inf)
            exponents = np.exp(x - largest)
            total = exponents.sum(axes, keepdims=True)
            if function == "softmax":
                return self.ordered(exponents / total, dims)
            reduced = (np.log(total) + largest).squeeze(axes)
            return self.ordered(reduced, [dim for dim in dims if dim not in over])
        count = math.prod(self.plan.dims[dim] for dim in over)
        if function == "layernorm":
            x = x - x.sum(axes, keepdims=True) / count
        square = (x * x).sum(axes, keepdims=True) / count
        return self.ordered(x / np.sqrt(square + epsilon), dims)

    def chosen(self, rows, start):
        """For each index and row, one where the index is that of the row."""
        ids = self.index_operand
        return 1.0 * (ids[..., None] - start == np.arange(rows))

    def one_hot_einsum(self, block, dims, ids, rows, start, out):
        self.index_operand = ids
        row = self.operation["dim"]
        letters = dict(zip([*self.lengths, row], string.ascii_letters))
        word = lambda dims: "".join(letters[dim] for dim in dims)
        place = [*self.operands[1].dims, row]
        chosen = self.chosen(rows, start)
        return np.einsum(f"{word(dims)},{word(place)}->{word(out)}", block, chosen)

    def take(self, table, ids):
        row, operand = self.operation["dim"], self.operands[0]
        rows = table.shape[operand.dims.index(row)]
        start = self.start(operand, row)
        return self.one_hot_einsum(table, operand.dims, ids, rows, start, self.result.dims)

    def put(self, rows, ids, *_):
        row = self.operation["dim"]
        count, start = self.lengths[row], self.start(self.result, row)
        return self.one_hot_einsum(
            rows, self.operands[0].dims, ids, count, start, self.result.dims
        )

    def update(self, array, ids, rows):
        row = self.operation["dim"]
        array_dims, id_dims, row_dims = (tensor.dims for tensor in self.operands)
        updated = array.copy()
        start = self.start(self.operands[0], row)
        for index in np.ndindex(rows.shape):
            at = dict(zip(row_dims, index))
            at[row] = int(ids[tuple(at[dim] for dim in id_dims)]) - start
            if 0 <= at[row] < array.shape[array_dims.index(row)]:
                updated[tuple(at[dim] for dim in array_dims)] = rows[index]
        return self.ordered(updated, array_dims)

    def rename(self, block):
        names = dict(self.operation["pairs"])
        return self.ordered(block, [names.get(dim, dim) for dim in self.operands[0].dims])

    def reshape(self, block):
        groups, dims = self.operation["groups"], self.operands[0].dims
        gone = [dim for before, _ in groups for dim in before]
        kept = [dim for dim in dims if dim not in gone]
        block = reordered(block, dims, kept + gone)
        after = kept + [dim for _, then in groups for dim in then]
        lengths = self.plan.lengths(self.result, self.device)
        return self.ordered(block.reshape([lengths[dim] for dim in after]), after)

    def window(self, block):
        return self.cut(block, self.operation["start"], self.operation["to"])

    def cut(self, block, start, to):
        place = self.operands[0].dims.index(self.operation["from"])
        rows = [slice(None)] * block.ndim
        rows[place] = slice(start, start + self.plan.dims[to])
        return self.ordered(block[tuple(rows)], self.renamed())

    def pad(self, block):
        place = self.operands[0].dims.index(self.operation["from"])
        after = self.plan.dims[self.operation["to"]] - self.operation["start"] - block.shape[place]
        widths = [(0, 0)] * block.ndim
        widths[place] = (self.operation["start"], after)
        return self.ordered(np.pad(block, widths), self.renamed())

    def concat(self, *blocks):
        parts = [self.ordered(block, self.renamed(n)) for n, block in enumerate(blocks)]
        return np.concatenate(parts, self.result.dims.index(self.operation["to"]))

    def part(self, block):
        of, to = self.operation["from"], self.operation["to"]
        apart = self.plan.dims[of] // self.plan.dims[to]
        number = self.plan.copy(self.result.value)[0]
        rows = [slice(None)] * block.ndim
        rows[self.operands[0].dims.index(of)] = slice(number, None, apart)
        return self.ordered(block[tuple(rows)], self.renamed())

    def chunk(self, block):
        value = self.result.value
        number = self.plan.at[self.plan.forward(self.plan.values[value]["block"])]
        if to := self.operation.get("to"):
            return self.cut(block, number * self.plan.dims[to], to)
        of, dims = self.operation["from"], self.operands[0].dims
        return self.ordered(np.take(block, number, dims.index(of)), [d for d in dims if d != of])

    def along(self, block):
        dims, of, to = self.operands[0].dims, self.operation["from"], self.operation["to"]
        axis, function = dims.index(of), self.operation["function"]
        if function == "cumsum":
            found = np.cumsum(block, axis)
        elif function == "revcumsum":
            found = np.flip(np.cumsum(np.flip(block, axis), axis), axis)
        else:
            places = np.argsort(-block, axis, kind="stable")
            places = np.take(places, range(self.plan.dims[to]), axis)
            picked = np.take_along_axis(block, places, axis)
            found = picked if function == "topk" else 1.0 * places
        return self.ordered(found, self.renamed())

    def opaque(self, *blocks):
        name = self.operation["function"]
        if name not in OPAQUE:
            raise NotImplementedError(f"put what `{name}` computes into OPAQUE")
        return OPAQUE[name](*blocks)

    def route(self, scores):
        names = ("tokens", "experts", "capacity")
        tokens, experts, capacity = (self.operation[name] for name in names)
        dims = self.operands[0].dims
        groups = [dim for dim in dims if dim not in (tokens, experts)]
        scores = reordered(scores, dims, [*groups, tokens, experts])
        slots = self.lengths[capacity]
        chosen = np.zeros([*scores.shape, slots])
        for group in np.ndindex(scores.shape[:-2]):
            taken = [0] * scores.shape[-1]
            for token in range(scores.shape[-2]):
                ranked = np.argsort(-scores[group][token], kind="stable")
                for expert in ranked[: self.operation["choices"]]:
                    if taken[expert] < slots:
                        chosen[group][token, expert, taken[expert]] = 1
                    taken[expert] += 1
        return self.ordered(chosen, [*groups, tokens, experts, capacity])


def run(path):
    """Runs a case; the largest difference of an output, and how many there are."""
    with open(path) as file:
        case = json.load(file)
    plan = Plan(case["plan"])
    plan.declare(case["given"])
    with np.errstate(all="ignore"):
        plan.run(case["plan"]["body"])
    found = plan.differences(case["expected"])
    return max(found.values(), default=0.0), len(found), len(plan.devices)


def compare(paths, run):
    """Runs every case and prints a line for each; 1 if one differs or fails, else 0."""
    failed = 0
    for path in paths:
        try:
            worst, outputs, devices = run(path)
            fault = "" if worst <= TOLERANCE else "differs"
            line = f"{outputs} outputs on {devices} devices, difference {worst:.1e}"
        except Exception as error:  # A case that cannot be run must not hide the others.
            fault, line = "fails", f"{type(error).__name__}: {error}".splitlines()[0]
        failed += bool(fault)
        print(f"{fault or 'equal'} {path}: {line}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(compare(sys.argv[1:], run))
