"""Runs exported modules on virtual devices, and compares them with the unsharded program.

    run_jax.py CASE.json ...

Beside each case, which `run_plan.py` describes, is the module that was exported from its plan:
CASE.py. It is run on the data of the case and on its own, on which `main` of the module compares it
with its `reference`. All is computed in float64.
"""

import math
import sys
from functools import partial

import numpy as np

import jax

from exported import copies, load, read
from run_plan import compare, difference


def arguments(module, n, mesh, given):
    """The arguments of the step; what is given in parts has all of it in the first one, and is
    zero, or no better, in the others."""
    others = {"sum": 0.0, "max": -1.0, "min": 1.0}
    found = {}
    for name, (pending, dims, planned) in module.ARGUMENTS.items():
        shape = [getattr(n, dim) for dim in dims]
        whole = copies(given, name).reshape(shape)
        reduction = module.REDUCTIONS.get(name, "sum")
        parts = np.zeros([math.prod(mesh[axis] for axis in pending), *shape])
        parts += (reduction != "sum") * whole + others[reduction]
        parts[0] = whole
        found[name] = parts.reshape([mesh[axis] for axis in pending] + shape)
        if not np.issubdtype(planned, np.floating) and "float" not in str(planned):
            found[name] = found[name].astype(planned)
    return found


def run(path):
    module, case = load(path), read(path)
    mesh, n = module.SMALL_MESH, module.SMALL
    count = math.prod(mesh.values())
    devices = np.array(jax.devices()[:count]).reshape(list(mesh.values()))
    given = arguments(module, n, mesh, case["given"])
    mesh = jax.sharding.Mesh(devices, tuple(mesh))
    step = module.sharded_step(mesh, n)
    worst = 0.0
    outputs = module.by_layer(step(module.placed(mesh, given, n)), n)
    for name, value in outputs.items():
        value = np.asarray(value, float)
        expected = copies(case["expected"], name)
        pending = len(module.PENDING.get(name, ()))
        if pending:
            value = module.combined(name, value, tuple(range(pending)))
        expected = expected.reshape(value.shape)
        worst = max(worst, difference(value, expected, expected))
    return max(worst, on_its_own_data(module, step, mesh)), len(outputs), count


def on_its_own_data(module, step, mesh):
    """The largest difference that `main` of a module finds; infinite for what is no number."""
    n, worst = module.SMALL, 0.0
    given = module.small_arguments(n)
    found = module.by_layer(step(module.placed(mesh, given, n)), n)
    expected = jax.jit(partial(module.reference, n))(module.complete(given))
    for name, value in expected.items():
        parts = tuple(range(len(module.PENDING.get(name, ()))))
        total = module.combined(name, np.asarray(found[name], float), parts)
        value = np.asarray(value, float)
        error = np.abs(total - value).max(initial=0) / max(1e-6, np.abs(value).max(initial=0))
        worst = max(worst, float(np.nan_to_num(error, nan=np.inf)))
    return worst


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    sys.exit(compare(sys.argv[1:], run))
