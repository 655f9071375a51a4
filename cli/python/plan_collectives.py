"""The collectives that a plan has, as `hlo_collectives.py` reads them from compiled programs."""

import itertools
import math

from hlo_collectives import Collective


class Planned:
    """The collectives of a plan at the sizes of its JSON."""

    def __init__(self, plan):
        self.plan = plan
        self.mesh = {axis["axis"]: axis["size"] for axis in plan["mesh"]}
        self.sizes = {dim["dim"]: dim["size"] for dim in plan["dims"]}
        self.padded = {dim["dim"]: dim["padded_size"] for dim in plan["dims"]}
        self.factors = {dim["dim"]: dim.get("factors", []) for dim in plan["dims"]}
        names = list(self.mesh)
        at = itertools.product(*(range(self.mesh[name]) for name in names))
        self.devices = [dict(zip(names, place)) for place in at]
        self.times = {}
        self.pipelined = {}
        self.count(plan["body"], 1, None)
        self.constant = set()
        for step in plan["steps"]:
            self.note_constant(step)

    def count(self, body, times, pipeline):
        for node in body:
            if isinstance(node, dict):
                block = self.plan["blocks"][node["block"]]
                inner = block.get("pipeline") or pipeline
                self.count(node["body"], times * block["count"], inner)
            else:
                self.times[node], self.pipelined[node] = times, pipeline

    def note_constant(self, step):
        """Notes values that depend on nothing."""
        known = {operand["value"] in self.constant for operand in step["operands"]}
        kind = step["operation"]["kind"]
        if kind == "constant" or known == {True} and kind != "carry":
            self.constant.add(step["value"])

    def groups(self, axes):
        """The devices that differ along axes only, as sorted tuples."""
        found = {}
        for number, device in enumerate(self.devices):
            rest = tuple(at for axis, at in device.items() if axis not in axes)
            found.setdefault(rest, []).append(number)
        return tuple(sorted(tuple(sorted(group)) for group in found.values()))

    def parts(self, axes):
        return math.prod(self.mesh[axis] for axis in axes)

    def has(self, dim, batch):
        """Whether a dimension is the batch, or a product that it is a factor of."""
        return dim == batch or any(self.has(factor, batch) for factor in self.factors[dim])

    def elements(self, number):
        """The elements of a device's operand; in a pipeline those of a microbatch."""
        step, pipeline = self.plan["steps"][number], self.pipelined.get(number)
        elements = 1
        for before, after in zip(step["operands"][0]["dims"], step["result"]["dims"]):
            dim, is_split = before["dim"], before["axes"] or after["axes"]
            size = (self.padded if is_split else self.sizes)[dim]
            if pipeline and self.has(dim, pipeline["batch"]):
                size //= pipeline["microbatches"]
            elements *= size // self.parts(before["axes"])
        return elements

    def step(self, number):
        """The collective of a step, as a list; empty where nothing is communicated."""
        step = self.plan["steps"][number]
        operation, times = step["operation"], self.times.get(number, 1)
        kind = operation["kind"]
        if "axes" not in operation or kind in ("slice", "unreduce"):
            return []
        axes, elements = operation["axes"], self.elements(number)
        if kind == "all_gather":
            split = {axis for dim in step["operands"][0]["dims"] for axis in dim["axes"]}
            axes = [axis for axis in axes if axis in split]
            elements *= self.parts(axes)
        if kind in ("all_to_all", "reduce_scatter"):
            # Those that the operand does not have are sliced of it first.
            operand = step["operands"][0]
            had = {axis for dim in operand["dims"] for axis in dim["axes"]}
            had.update(operand.get("unreduced", []))
            elements //= self.parts([axis for axis in axes if axis not in had])
            axes = [axis for axis in axes if axis in had]
        if self.parts(axes) == 1:
            return []
        return [Collective(kind, self.groups(axes), elements, None, times)]

    def collectives(self, of_constants=False):
        """Those of constants, or all others."""
        steps = enumerate(self.plan["steps"])
        chosen = [n for n, step in steps if (step["value"] in self.constant) == of_constants]
        return [one for number in chosen for one in self.step(number)]

    def sends(self):
        """How many messages to neighbours other steps have: rolls, windows, stages."""
        return sum(self.sent(number) for number in range(len(self.plan["steps"])))

    def sent(self, number):
        step = self.plan["steps"][number]
        operation, kind = step["operation"], step["operation"]["kind"]
        if not step["axes"] or self.parts(step["axes"]) == 1:
            return 0
        if kind == "carry":
            return self.hops(self.pipelined[number])
        dims = {dim["dim"]: dim["axes"] for dim in step["operands"][0]["dims"]}
        if kind == "roll":
            dim = operation["dim"]
            count = self.parts(dims[dim])
            blocks, rest = divmod(operation["distance"], self.sizes[dim] // count)
            return (blocks % count > 0) + (rest > 0 and (blocks + 1) % count > 0)
        if kind in ("windows", "overlap"):
            sizes = [operation["padding"], self.sizes[operation["kernel"]]]
            after = sizes[1] - operation["padding"] - operation["stride"]
            return (sizes[0] > 0) + (after > 0)
        return 0

    def hops(self, pipeline):
        """The distances between the stages of neighbouring chunks of layers."""
        stages = pipeline["stage_of_layer"]
        count = self.mesh[pipeline["axis"]]
        distances = {(b - a) % count for a, b in zip(stages, stages[1:]) if a != b}
        return len(distances - {0})
