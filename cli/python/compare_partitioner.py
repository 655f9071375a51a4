"""Plans beside what XLA's partitioner makes of the same programs.

    compare_partitioner.py PAGE.md CASE.json ...

`run_plan.py` describes cases; beside each is the module that was exported from its plan, CASE.py.
The partitioner gets the unsharded program and the shardings of its arguments and outputs. Both are
compiled at the sizes of the program on a small mesh; each collective in the HLO is priced by
`shardwise plan` on the hardware of the program, and both are run at small sizes. `PAGE.md` gets a
row for each folder of programs, and one for each program.
"""

import collections
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import time
from functools import partial

import numpy as np

import jax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from exported import load, read
from hlo_collectives import collectives
from plan_collectives import Planned
from run_jax import arguments

WARM_UP, RUNS = 2, 9


def full_sizes(module, plan):
    """The program's own dimensions; trip counts of a pipeline are those of the small mesh."""
    if not any(block.get("pipeline") for block in plan["blocks"]):
        return module.Sizes()
    dims = {name for name in module.Sizes._fields if any(
        name == dim["dim"].replace("'", "_").replace(".", "_") for dim in plan["dims"]
    )}
    others = {k: v for k, v in module.SMALL._asdict().items() if k not in dims}
    return module.Sizes()._replace(**others)


def fitting(spec, shape, mesh):
    """A sharding without the axes that do not divide their dimension."""
    parts = list(spec) + [None] * (len(shape) - len(spec))

    def divides(part, size):
        axes = (part,) if isinstance(part, str) else part or ()
        return size % math.prod(mesh.shape[axis] for axis in axes) == 0

    return P(*(part if divides(part, size) else None for part, size in zip(parts, shape)))


class Both:
    """A plan, and the same program left to the partitioner, on a mesh of virtual devices."""

    def __init__(self, module, case):
        self.module, self.case = module, case
        sizes = module.SMALL_MESH
        self.count = math.prod(sizes.values())
        auto = (AxisType.Auto,) * len(sizes)
        devices = jax.devices()[: self.count]
        self.mesh = jax.make_mesh(tuple(sizes.values()), tuple(sizes), auto, devices=devices)

    def structs(self, n):
        """Complete arguments as the program has them, without data."""
        found = {}
        for name, (pending, dims, planned) in self.module.ARGUMENTS.items():
            shape = [self.module.SMALL_MESH[axis] for axis in pending]
            shape += [getattr(n, dim) for dim in dims]
            is_float = jax.numpy.issubdtype(planned, jax.numpy.floating)
            found[name] = jax.ShapeDtypeStruct(shape, jax.numpy.float64 if is_float else planned)
        return found

    def plan(self, n):
        """The plan's step, and its arguments without data."""
        given = jax.eval_shape(
            lambda given: self.module.placed(self.mesh, given, n), self.structs(n)
        )
        return self.module.sharded_step(self.mesh, n), given

    def partitioned(self, n):
        """The unsharded program under `jax.jit`, and its arguments without data. What is given in
        parts is added up in the program, so that these sums cost both something."""
        module = self.module
        given = self.structs(n)
        parts = {name: tuple(range(len(of[0]))) for name, of in module.ARGUMENTS.items()}

        def step(given):
            whole = {name: REDUCED[module.REDUCTIONS.get(name, "sum")](x, parts[name])
                     for name, x in given.items()}
            return module.reference(n, whole)

        made = jax.eval_shape(step, given)
        inputs = {name: self.placed(module.IN_SPECS[name], 0, of.shape) for name, of in given.items()}
        outputs = {
            name: self.placed(module.OUT_SPECS[name], len(module.PENDING.get(name, ())), of.shape)
            for name, of in made.items()
        }
        return jax.jit(step, in_shardings=(inputs,), out_shardings=outputs), given

    def placed(self, spec, pending, shape):
        return NamedSharding(self.mesh, fitting(tuple(spec)[pending:], shape, self.mesh))

    def seconds(self):
        """Medians of both at small sizes, run by turns."""
        module, n = self.module, self.module.SMALL
        given = arguments(module, n, module.SMALL_MESH, self.case["given"])
        step, _ = self.plan(n)
        placed = module.placed(self.mesh, given, n)
        other, structs = self.partitioned(n)
        complete = {
            name: jax.device_put(
                np.asarray(given[name], of.dtype), self.placed(module.IN_SPECS[name], 0, of.shape)
            )
            for name, of in structs.items()
        }
        taken = ([], [])
        for turn in range(WARM_UP + RUNS):
            for times, run in zip(taken, (lambda: step(placed), lambda: other(complete))):
                start = time.perf_counter()
                jax.block_until_ready(run())
                times.append(time.perf_counter() - start)
        return [statistics.median(times[WARM_UP:]) for times in taken]


class Prices:
    """The prices of collectives on a mesh, by `shardwise plan`."""

    def __init__(self, plan):
        self.plan = plan
        self.planned = Planned(plan)
        self.names = dict(zip((axis["axis"] for axis in plan["mesh"]), "ABCDEFGH"))
        wide = [axis["axis"] for axis in plan["mesh"] if axis["size"] > 1]
        lists = itertools.chain.from_iterable(
            itertools.combinations(wide, k) for k in range(1, len(wide) + 1)
        )
        self.by_axes = {axes: self.planned.groups(axes) for axes in lists}

    def axes(self, one):
        """The fewest axes along which the devices of all groups differ."""
        def covers(groups):
            of = {device: number for number, group in enumerate(groups) for device in group}
            return all(len({of[device] for device in group}) == 1 for group in one.groups)

        fitting = [axes for axes, groups in self.by_axes.items() if covers(groups)]
        return min(fitting, key=self.planned.parts)

    def statement(self, number, kind, axes, elements):
        """A dimension list, an input, a statement and an output for one collective."""
        over, parts = "".join(self.names[axis] for axis in axes), self.planned.parts(axes)
        size = -(-elements // parts) * parts
        n, v, w = f"N{number}", f"v{number}", f"w{number}"
        if kind == "all_gather":
            return f"{n}={size}", f"{v}[{n}_{over}]", f"{w}[{n}] = AllGather_{over}({v}[{n}_{over}])"
        if kind == "all_reduce":
            of = f"{v}[{n}] {{U_{over}}}"
            return f"{n}={size}", of, f"{w}[{n}] = AllReduce_{over}({of})"
        if kind == "reduce_scatter":
            of = f"{v}[{n}] {{U_{over}}}"
            return f"{n}={size}", of, f"{w}[{n}_{over}] = ReduceScatter_{{{over},{n}}}({of})"
        if kind == "all_to_all":
            m, of = f"M{number}", f"{v}[{n}_{over}, M{number}]"
            size = -(-elements // parts) * parts
            made = f"{w}[{n}, {m}_{over}] = AllToAll_{{{over},{m}}}({of})"
            return f"{n}={size}, {m}={parts}", of, made
        # A permute sends all of a block.
        return f"{n}={elements * parts}", f"{v}[{n}_{over}]", (
            f"{w}[{n}_{over}] = roll_{{{n}}}({v}[{n}_{over}], {elements})"
        )

    def seconds(self, found):
        """The price of each kind of collective, all runs of it."""
        unique = {}
        for one in found:
            key = (one.kind, self.axes(one), one.elements)
            unique.setdefault(key, len(unique))
        if not unique:
            return 0.0
        lines = [self.statement(number, *key) for key, number in unique.items()]
        mesh = ", ".join(
            f"{self.names[axis['axis']]}={axis['size']} {axis['kind']}" for axis in self.plan["mesh"]
        )
        text = f"plan\nhardware {self.plan['hardware']}\nmesh {mesh}\n"
        text += "".join(f"dim {dims}\n" for dims, _, _ in lines)
        text += "".join(f"input {given}\n" for _, given, _ in lines)
        text += "".join(f"{made}\n" for _, _, made in lines)
        text += "".join("output " + made.split(" = ")[0] + "\n" for _, _, made in lines)
        command = [os.environ.get("SHARDWISE", "shardwise"), "plan", "-", "--format", "json"]
        ran = subprocess.run(command + ["--memory", "9999TB"], input=text, capture_output=True, text=True)
        if ran.returncode:
            raise ValueError(f"no prices: {ran.stderr.strip().splitlines()[2:4]}")
        steps = json.loads(ran.stdout)["steps"]
        prices = {step["value"]: step["time_s"] for step in steps}
        numbers = ((one, unique[one.kind, self.axes(one), one.elements]) for one in found)
        return sum(one.times * prices[f"w{number}"] for one, number in numbers)


REDUCED = {"sum": jax.numpy.sum, "max": jax.numpy.max, "min": jax.numpy.min}

SHORT = {
    "all_gather": "AG",
    "all_reduce": "AR",
    "reduce_scatter": "RS",
    "all_to_all": "A2A",
    "permute": "P",
}


def summary(found):
    """`3 AG, 2 RS`: how many collectives of each kind run."""
    counts = collections.Counter()
    for one in found:
        counts[one.kind] += one.times
    return ", ".join(f"{counts[kind]} {SHORT[kind]}" for kind in SHORT if counts[kind]) or "none"


def scattered(one):
    """An all-reduce as the reduce-scatter that other backends may make of it and a slice."""
    parts = len(one.groups[0])
    is_even = one.kind == "all_reduce" and one.elements % parts == 0
    return one._replace(kind="reduce_scatter") if is_even else one


def compare(path):
    case, module = read(path), load(path)
    both, prices = Both(module, case), Prices(case["plan"])
    n = full_sizes(module, case["plan"])
    row = {}
    for name, (step, given) in (("plan", both.plan(n)), ("xla", both.partitioned(n))):
        compiled = step.lower(given).compile()
        found = collectives(compiled.as_text(), both.count)
        row[name] = (summary(found), prices.seconds(found))
        row[f"{name} flops"] = compiled.cost_analysis().get("flops", 0.0)
    row["least"] = prices.seconds([scattered(one) for one in found])
    row["seconds"] = both.seconds()
    return row


def ratio(a, b):
    if a == b == 0:
        return 1.0
    return math.inf if b == 0 else a / b


def shown(number):
    if number == math.inf:
        return "∞"
    return f"{number:.2f}" if number < 1e4 else f"{number:.2e}"


def ratios(row):
    """XLA over the plan: prices, prices with reduce-scatters, FLOPs, wall time."""
    plan = row["plan"][1]
    return (
        ratio(row["xla"][1], plan),
        ratio(row["least"], plan),
        ratio(row["xla flops"], row["plan flops"]),
        ratio(row["seconds"][1], row["seconds"][0]),
    )


def summed_up(folder, rows):
    """A folder's number of programs, medians of their ratios, and which side is cheaper."""
    found = [ratios(row) for row in rows]
    # Prices have three digits.
    plan = sum(min(price, least) > 1.005 for price, least, _, _ in found)
    xla = sum(max(price, least) < 0.995 for price, least, _, _ in found)
    medians = " | ".join(shown(statistics.median(column)) for column in zip(*found))
    return f"| `{folder}/` | {len(rows)} | {plan} | {xla} | {medians} |"


def line(name, row):
    (plan, plan_s), (xla, xla_s) = row["plan"], row["xla"]
    of_both = " | ".join(shown(number) for number in ratios(row))
    return f"| `{name}` | {plan} | {xla} | {plan_s * 1e6:.3g} | {xla_s * 1e6:.3g} | {of_both} |"


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    page, *paths = sys.argv[1:]
    by_folder = {}
    with open(page, "w") as out:
        for path in paths:
            name = os.path.basename(path).removesuffix(".json")
            try:
                row = compare(path)
                by_folder.setdefault(name.split("-")[0], []).append(row)
                text = line(name, row)
            except Exception as error:  # The others are still compared.
                text = f"# {name}: {type(error).__name__}: {str(error)[:200]}".replace("\n", " ")
            print(text, file=out, flush=True)
            jax.clear_caches()
        for folder, rows in by_folder.items():
            print(summed_up(folder, rows), file=out)
