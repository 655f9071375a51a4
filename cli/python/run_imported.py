"""Runs functions beside what was imported from them, on the same numbers.

    run_imported.py FOLDER CASE ...

A case is `FILE:FUNCTION=ARGUMENTS`, as `shardwise import jax` has them; in the folder are the
program that it wrote, `NAME.shard`, and the module that `shardwise export jax` wrote of that,
`NAME.py`, where NAME is `FILE_FUNCTION`. Functions that the language does not have are those that `OPAQUE` of
FILE names. All is computed in float64: exported modules on virtual
devices by the plan of their mesh. The script prints a line for each case, and fails if one output
differs.
"""

import importlib.util
import os
import sys

import jax
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from importers.from_jax.importer import Options, import_function  # noqa: E402
from importers.from_jax.target import arguments, load, trace  # noqa: E402

MESH = "X=2, Y=2"
# Numbers in a program are those of f32, the nearest ones in the function's float64.
TOLERANCE = 1e-6


def is_array(leaf):
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype")


def wide(leaf):
    """A leaf in float64, if it is an array of floats."""
    is_float = is_array(leaf) and jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)
    return jax.numpy.asarray(leaf, "float64") if is_float else leaf


def module_of(path, source):
    """An exported module, with what the source of its program has for opaque functions."""
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, function in getattr(source, "OPAQUE", {}).items():
        setattr(module, f"opaque_{name}", function)
    return module


def given(imported, values, module):
    """The arguments of an exported module, by their names in the program."""
    sizes, found = module.Sizes(), {}
    for name, (_, dims, _) in module.ARGUMENTS.items():
        path = imported.declared.get(name)
        value = imported.captured[name] if path is None else values[path]
        if is_array(value) and jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        found[name] = np.asarray(wide(value)).reshape([getattr(sizes, dim) for dim in dims])
    return found


def difference(found, expected):
    found, expected = (
        np.asarray(it, float).reshape(np.shape(expected)) for it in (found, expected)
    )
    if not np.isfinite(expected).all():
        raise ValueError("an expected output is not finite")
    return np.abs(found - expected).max(initial=0) / max(np.abs(expected).max(initial=0), 1e-9)


def run(folder, case):
    target, _, text = case.partition("=")
    module, function, name = load(target)
    args, named = arguments(module, text)
    imported = import_function(function, args, named, Options(mesh=MESH))
    base = f"{folder}/{os.path.basename(target).split('.')[0]}_{name}"
    with open(base + ".shard", encoding="utf-8") as file:
        written = file.read()
    # Beside the title, the command wrote what is imported here.
    if written.split("\n", 1)[1] != imported.program:
        raise ValueError("the command wrote another program")
    leaves = {path: leaf for path, _, leaf in trace(function, args, named).leaves}
    jax.config.update("jax_enable_x64", True)
    try:
        expected = jax.tree_util.tree_leaves(function(*jax.tree_util.tree_map(wide, args)))
        exported = module_of(base + ".py", module)
        mesh = jax.make_mesh(tuple(exported.MESH.values()), tuple(exported.MESH))
        placed = exported.placed(mesh, given(imported, leaves, exported))
        outputs = list(exported.sharded_step(mesh)(placed).values())
    finally:
        jax.config.update("jax_enable_x64", False)
    if len(outputs) != len(expected):
        raise ValueError(f"{len(outputs)} outputs, and {len(expected)} are expected")
    return max(map(difference, outputs, expected)), len(outputs)


def compare(run):
    """Runs the cases that the script was called with: the largest difference and how many outputs
    there are, of each."""
    folder, *cases = sys.argv[1:]
    failed = False
    for case in cases:
        try:
            worst, outputs = run(folder, case)
            verdict = "equal" if worst <= TOLERANCE else "WRONG"
            print(f"{verdict} {case.partition('=')[0]}: {outputs} outputs within {worst:.1e}")
            failed |= verdict != "equal"
        except Exception as error:  # noqa: BLE001
            print(f"WRONG {case}: {type(error).__name__}: {error}")
            failed = True
    sys.exit(failed)


if __name__ == "__main__":
    compare(run)
