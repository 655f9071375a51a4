"""Compares the gradients of programs with `jax.vjp` of their exported forward programs.

    check_gradients.py CASE.json ...

A case has the elements of every declared value and those expected of every gradient, what is
differentiated (`from`), and the argument that is its gradient (`seed`), if any; beside it is the
module of the forward program: CASE.py. All is computed in float64.
"""

import math
import sys

import numpy as np

import jax
import jax.numpy as jnp

from exported import copies, load, read
from run_plan import compare, difference


def run(path):
    module, case = load(path), read(path)
    n = module.Sizes()
    given = {}
    for name, (_, dims, planned) in module.ARGUMENTS.items():
        value = copies(case["given"], name).reshape([getattr(n, dim) for dim in dims])
        is_float = jnp.issubdtype(planned, jnp.floating)
        given[name] = jnp.asarray(value, jnp.float64 if is_float else planned)
    made = {name.split("@")[0] for name in case["expected"]}
    made -= {case["seed"]}  # It has the name of the gradient of an argument in some programs.
    is_wanted = lambda name: f"d{name}" in made and given[name].dtype == jnp.float64
    wanted = {name: x for name, x in given.items() if is_wanted(name)}
    output = next(k for k in module.OUT_SPECS if k.split(".")[0] == case["from"].split(".")[0])
    forward = lambda wanted: module.reference(n, {**given, **wanted})[output]
    value, pull = jax.vjp(forward, wanted)
    seed = jnp.ones_like(value)
    if case["seed"]:
        seed = copies(case["given"], case["seed"]).reshape(value.shape)
    (found,) = jax.jit(pull)(jnp.asarray(seed, value.dtype))
    worst = 0.0
    assert found, "no gradient to compare"
    for name, gradient in found.items():
        gradient = np.asarray(gradient, float)
        planned = copies(case["expected"], f"d{name}").reshape(gradient.shape)
        worst = max(worst, difference(gradient, planned, planned))
    return worst, len(found), math.prod(module.SMALL_MESH.values())


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    sys.exit(compare(sys.argv[1:], run))
