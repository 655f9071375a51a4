"""Compares the collectives of exported modules, as XLA compiles them, with those of their plans.

    check_collectives.py CASE.json ...

`run_plan.py` describes cases; beside each is the module that was exported from its plan, CASE.py.
Kinds, groups of devices, elements and how often each runs must be equal, with these differences:

* XLA merges AllReduces of one group: those in a tuple are read one by one.
* XLA knows constants everywhere, or moves them once before a loop: their collectives may lack.
* In a pipeline a collective of the layers runs for each microbatch, and in each tick in which its
  stage waits: each is compared once, with the elements of a microbatch.
* Messages to neighbours (rolls, windows, stages) have parts of blocks: they are counted.
"""

import collections
import math
import sys

import jax

from exported import load, read
from hlo_collectives import collectives
from plan_collectives import Planned
from run_jax import arguments
from run_plan import compare


def compiled(module, case):
    """The HLO of a module on virtual devices."""
    mesh, n = module.SMALL_MESH, module.SMALL
    count = math.prod(mesh.values())
    given = arguments(module, n, mesh, case["given"])
    mesh = jax.make_mesh(tuple(mesh.values()), tuple(mesh), devices=jax.devices()[:count])
    step = module.sharded_step(mesh, n)
    return step.lower(module.placed(mesh, given, n)).compile().as_text(), count


def differences(case, found):
    """How many more a plan has of each collective than the compiled program."""
    planned = Planned(case["plan"])
    is_staged = any(block.get("pipeline") for block in case["plan"]["blocks"])
    sends = planned.sends()
    total = collections.Counter()
    for sign, ones in ((1, planned.collectives()), (-1, found)):
        for one in ones:
            times = 1 if is_staged else one.times
            if one.kind != "permute":
                total[one.kind, one.groups, one.elements] += sign * times
            elif not sends:
                total[one.kind, None, one.elements] += sign * times
            else:
                # Messages to neighbours have parts of blocks: they are counted.
                total[one.kind, None, None] += sign
    total["permute", None, None] += sends
    for one in planned.collectives(of_constants=True):
        more = total[one.kind, one.groups, one.elements]
        total[one.kind, one.groups, one.elements] = min(0, more + one.times)
    return {one: count for one, count in total.items() if count}


def run(path):
    module, case = load(path), read(path)
    text, count = compiled(module, case)
    different = differences(case, collectives(text, count))
    if different:
        lines = [f"{n:+d} {kind} of {size} in {of}" for (kind, of, size), n in different.items()]
        raise AssertionError("; ".join(lines))
    return 0.0, 0, count


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    sys.exit(compare(sys.argv[1:], run))
