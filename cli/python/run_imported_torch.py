"""Runs models of PyTorch beside what was imported from them, on the same numbers.

    run_imported_torch.py FOLDER CASE ...

A case is `FILE:MODEL=ARGUMENTS`, as `shardwise import torch` has them, where MODEL is a function
that makes the model; in the folder is the module that `shardwise export jax` wrote of the imported
program, `FILE_MODEL.py`. Both compute in float64: the exported module on virtual devices by the
plan of its mesh. The script prints a line for each case, and fails if one output differs.
"""

import os
import sys

import jax
import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from importers.from_jax.target import load as load_function  # noqa: E402
from importers.from_torch.export import graph_of  # noqa: E402
from importers.from_torch.importer import Options, arguments_of, import_model  # noqa: E402
from importers.from_torch.layers import items  # noqa: E402
from importers.from_torch.target import arguments, load  # noqa: E402
from run_imported import MESH, compare, difference, given, module_of  # noqa: E402


def made(target):
    """The model with data, in float64, with parameters that no initialisation leaves at 0 or 1."""
    _, make, _ = load_function(target)
    torch.manual_seed(0)
    model = make().eval().double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def drawn(args, named, limit):
    """Arguments with data: floats at random, indices below the limit."""

    def fill(it):
        if not isinstance(it, torch.Tensor):
            return it
        if it.is_floating_point():
            return torch.randn(it.shape, dtype=torch.float64)
        if it.dtype == torch.bool:
            return torch.rand(it.shape) < 0.5
        return torch.randint(0, limit, it.shape)

    filled = torch.utils._pytree.tree_map(fill, (args, named))
    return filled


def values_by_path(graph, model, call):
    """The value of each argument of the imported function, by its path."""
    leaves = [it for it in torch.utils._pytree.tree_leaves(call) if isinstance(it, torch.Tensor)]
    inputs = iter(leaves)
    by_node = {}
    tensors = dict(model.named_parameters(remove_duplicate=False))
    tensors.update(model.named_buffers(remove_duplicate=False))
    for node, of in graph.inputs.items():
        is_input = of.role == "inputs"
        by_node[node] = next(inputs) if is_input else tensors[".".join(of.path)]
    found = {}
    for argument in arguments_of(graph, items(graph)):
        arrays = [by_node[node].detach().numpy() for node in argument.nodes]
        value = arrays[0] if len(argument.nodes) == 1 else np.stack(arrays)
        found[".".join([argument.role, *argument.path])] = value
    return found


def tensors_of(result):
    return [it for it in torch.utils._pytree.tree_leaves(result) if isinstance(it, torch.Tensor)]


def run(folder, case):
    target, _, text = case.partition("=")
    module, model, name = load(target)
    args, named = arguments(module, text, model)
    graph = graph_of(model, args, named)
    imported = import_model(model, args, named, Options(mesh=MESH))
    real = made(target)
    call = drawn(args, named, 8)
    with torch.no_grad():
        expected = tensors_of(real(*call[0], **call[1]))
    values = values_by_path(graph, real, call)
    jax.config.update("jax_enable_x64", True)
    try:
        exported = module_of(f"{folder}/{os.path.basename(target).split('.')[0]}_{name}.py", module)
        found = given(imported, values, exported)
        mesh = jax.make_mesh(tuple(exported.MESH.values()), tuple(exported.MESH))
        results = exported.sharded_step(mesh)(exported.placed(mesh, found))
    finally:
        jax.config.update("jax_enable_x64", False)
    if len(results) != len(expected):
        raise ValueError(f"{len(results)} outputs, and {len(expected)} are expected")
    outputs = [results[name] for name in imported.outputs]
    return max(map(difference, outputs, expected)), len(outputs)


if __name__ == "__main__":
    compare(run)
