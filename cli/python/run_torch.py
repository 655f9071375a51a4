"""Runs exported modules in processes under gloo, and compares them with the unsharded program.

    run_torch.py CASE.json ...

Beside each case, which `run_plan.py` describes, is the module that was exported from its plan:
CASE.py. All is computed in float64.
"""

import datetime
import math
import os
import pathlib
import sys
import tempfile

import torch
import torch._dynamo  # DTensor imports it late, so that each process would.
import torch.distributed as dist
from torch import multiprocessing
from torch.distributed.device_mesh import init_device_mesh

from exported import copies, load, read
from run_plan import compare, difference

TIMEOUT = datetime.timedelta(seconds=60)


def arguments(module, n, given):
    """The arguments of the step, complete."""
    found = {}
    for name, (dims, planned) in module.ARGUMENTS.items():
        whole = torch.from_numpy(copies(given, name)).reshape([getattr(n, dim) for dim in dims])
        found[name] = whole if planned.is_floating_point else whole.to(planned)
    return found


def device(rank, path, store):
    """Runs a module as one of the processes; the first one writes the difference."""
    module, case = load(path), read(path)
    count = math.prod(module.SMALL_MESH.values())
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}/store", rank=rank, world_size=count, timeout=TIMEOUT
    )
    mesh = init_device_mesh(
        "cpu", tuple(module.SMALL_MESH.values()), mesh_dim_names=tuple(module.SMALL_MESH)
    )
    n, worst = module.SMALL, 0.0
    given = module.placed(mesh, arguments(module, n, case["given"]), n)
    outputs = module.complete(module.sharded_step(mesh, n)(given), n)
    for name, value in outputs.items():
        value = value.to(torch.float64).numpy()
        expected = copies(case["expected"], name).reshape(value.shape)
        worst = max(worst, difference(value, expected, expected))
    pathlib.Path(store, str(rank)).write_text(f"{worst} {len(outputs)}")
    dist.destroy_process_group()


def run(path):
    count = math.prod(load(path).SMALL_MESH.values())
    with tempfile.TemporaryDirectory() as store:
        try:
            # The processes have what this one has imported.
            multiprocessing.start_processes(device, (path, store), count, start_method="fork")
        except multiprocessing.ProcessRaisedException as error:
            raise RuntimeError(str(error).strip().splitlines()[-1]) from None
        found = [pathlib.Path(store, str(rank)).read_text().split() for rank in range(count)]
    return max(float(worst) for worst, _ in found), int(found[0][1]), count


if __name__ == "__main__":
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    sys.exit(compare(sys.argv[1:], run))
