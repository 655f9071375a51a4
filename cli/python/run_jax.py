"""Runs exported modules on virtual devices, and compares them with the unsharded program.

    run_jax.py CASE.json ...

Beside each case, which `run_plan.py` describes, is the module that was exported from its plan:
CASE.py. All is computed in float64.
"""

import importlib.util
import json
import math
import sys

import numpy as np

import jax

TOLERANCE = 1e-9


def load(path):
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def copies(given, name):
    """A value, or those of all layers side by side."""
    if name in given:
        return np.array(given[name], float)
    layers = [given[f"{name}@{n}"] for n in range(len(given)) if f"{name}@{n}" in given]
    return np.array(layers, float)


def arguments(module, n, mesh, given):
    """The arguments of the step; what is given in parts has all of it in the first one."""
    found = {}
    for name, (pending, dims, planned) in module.ARGUMENTS.items():
        shape = [getattr(n, dim) for dim in dims]
        whole = copies(given, name).reshape(shape)
        parts = np.zeros([math.prod(mesh[axis] for axis in pending), *shape])
        parts[0] = whole
        found[name] = parts.reshape([mesh[axis] for axis in pending] + shape)
        if not np.issubdtype(planned, np.floating) and "float" not in str(planned):
            found[name] = found[name].astype(planned)
    return found


def difference(found, expected):
    finite = np.abs(expected[np.isfinite(expected)])
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0, np.abs(found - expected) / max(1, finite.max(initial=0)))
    return float(np.nan_to_num(error, nan=np.inf).max(initial=0))


def run(path):
    module = load(path.removesuffix(".json") + ".py")
    with open(path) as file:
        case = json.load(file)
    mesh, n = module.SMALL_MESH, module.SMALL
    count = math.prod(mesh.values())
    devices = np.array(jax.devices()[:count]).reshape(list(mesh.values()))
    given = arguments(module, n, mesh, case["given"])
    step = module.sharded_step(jax.sharding.Mesh(devices, tuple(mesh)), n)
    worst = 0.0
    outputs = step(given)
    for name, value in outputs.items():
        value = np.asarray(value, float)
        expected = copies(case["expected"], name)
        pending = len(module.PENDING.get(name, ()))
        if pending:
            value = value.sum(tuple(range(pending)))
        worst = max(worst, difference(value, expected.reshape(value.shape)))
    return worst, len(outputs), count


def main(paths):
    jax.config.update("jax_enable_x64", True)
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
    sys.exit(main(sys.argv[1:]))
