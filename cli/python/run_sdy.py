"""Runs exported StableHLO on virtual devices, and compares it with the unsharded program.

    run_sdy.py CASE.json ...

Beside each case, which `run_plan.py` describes, is the module that was exported from its plan:
CASE.mlir. It is parsed and verified as it is, and once more with all fractions in float64, which
is compiled and run. Every device's block of every output is compared; whole numbers exactly.
"""

import re
import sys

import numpy as np

import jax
from jax._src import compiler
from jax._src.interpreters import mlir
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jaxlib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from exported import copies, read
from run_plan import compare, difference

FLOATS = re.compile(r"(?<=[x<])(f4E2M1FN|f8E4M3FN|bf16|f16|f32)(?=>)")
INFINITE = re.compile(r"dense<0x([0-9A-F]+)>")
TYPES = {"f64": np.float64, "i32": np.int32, "i8": np.int8, "i1": np.bool_}


def in_float64(text):
    """The module with all fractions in float64; infinities are written by their bits."""
    sign = lambda digits: "F" if int(digits[0], 16) & 8 else "7"
    text = INFINITE.sub(lambda it: f"dense<0x{sign(it[1])}FF0000000000000>", text)
    return FLOATS.sub("f64", text)


def parsed(text):
    module = ir.Module.parse(text)
    assert module.operation.verify()
    return module


class Border:
    """An argument or a result: its name, its type and its sharding."""

    def __init__(self, type, attributes, mesh):
        self.name = ir.StringAttr(attributes["shardwise.name"]).value
        self.shape = ir.RankedTensorType(type).shape
        self.dtype = TYPES[str(ir.RankedTensorType(type).element_type)]
        dims = sdy.TensorShardingAttr(attributes["sdy.sharding"]).dimension_shardings
        axes = [tuple(sdy.AxisRefAttr(axis).name for axis in dim.axes) for dim in map(
            sdy.DimensionShardingAttr, dims
        )]
        self.sharding = NamedSharding(mesh, P(*(axis or None for axis in axes)))
        get = lambda name: attributes[name] if name in attributes else None
        self.pending = ir.IntegerAttr(get("shardwise.pending")).value if get("shardwise.pending") else 0
        layers = get("shardwise.layers")
        self.layers = np.array(ir.DenseI64ArrayAttr(layers)) if layers else None

    def array(self, given):
        """The array that is given: pending sums have all of it in their first part."""
        shape = list(self.shape[self.pending :])
        if self.layers is not None:
            shape[0] = self.layers.max() + 1
        whole = copies(given, self.name).reshape(shape)
        if self.layers is not None:
            whole = whole[np.maximum(self.layers, 0)]
        parts = np.zeros(self.shape, self.dtype)
        parts[(0,) * self.pending] = whole.astype(self.dtype)
        return jax.device_put(parts, self.sharding)

    def worst(self, blocks, expected):
        """The largest difference of a device's block from what is expected."""
        found = np.full(self.shape, np.nan)
        for device, index in self.sharding.devices_indices_map(tuple(self.shape)).items():
            block = np.asarray(blocks[device], float)
            old = found[index]
            same = np.isnan(old) | (old == block) | np.isclose(old, block, 1e-9, 1e-9)
            assert same.all(), f"{self.name}: devices differ"
            found[index] = block
        found = found.sum(tuple(range(self.pending)))
        if self.layers is not None:
            found = found[np.argsort(self.layers, kind="stable")[sum(self.layers < 0) :]]
        wanted = copies(expected, self.name).reshape(found.shape)
        if self.dtype is not np.float64:
            assert (found == wanted).all(), f"{self.name}: whole numbers differ"
        return difference(found, wanted, wanted)


def borders(module, mesh):
    """The arguments and the results of the main function."""
    main = next(op for op in module.body.operations if op.operation.name == "func.func")
    of = lambda types, attributes: [
        Border(type, ir.DictAttr(one), mesh) for type, one in zip(types, attributes)
    ]
    return of(main.type.inputs, main.arg_attrs), of(main.type.results, main.result_attrs)


def compiled(module, devices):
    options = compiler.get_compile_options(1, len(devices), np.array(devices)[None])
    return devices[0].client.compile_and_load(module, _jax.DeviceList(tuple(devices)), options)


def run(path):
    case = read(path)
    text = open(path.removesuffix(".json") + ".mlir").read()
    sizes = {axis["axis"]: axis["size"] for axis in case["plan"]["mesh"]}
    devices = jax.devices()[: int(np.prod(list(sizes.values())))]
    mesh = jax.sharding.Mesh(np.array(devices).reshape(list(sizes.values())), tuple(sizes))
    with mlir.make_ir_context():
        parsed(text)
        module = parsed(in_float64(text))
        given, left = borders(module, mesh)
        executable = compiled(module, devices)
    results = executable.execute_sharded([one.array(case["given"]) for one in given])
    worst = 0.0
    for one, blocks in zip(left, results.disassemble_into_single_device_arrays()):
        by_device = dict(zip(devices, blocks))
        worst = max(worst, one.worst(by_device, case["expected"]))
    return worst, len(left), len(devices)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    sys.exit(compare(sys.argv[1:], run))
