"""Published cases of single kernels, as rows for fits: products, copies and gathers.

The cases' programs say shapes as options (`M=128,N=128,K=128`); numbers are f32 in copies and
gathers, bf16 in products unless the program's text is changed to fp8.
"""

import json
from math import prod

import pandas as pd

from measured_tables import Chip

# Data-sheet peaks, as in ir/src/tables/hardware.rs; h800-gemm has the memory of an H100.
CHIPS = {
    "tpu7x": Chip("", 2300, 0, 4610, 0, 7400, 90),
    "tpu-v6e": Chip("", 920, 0, 1840, 0, 1600, 90),
    "tpu-v5e": Chip("", 197, 0, 394, 0, 810, 45),
    "h800-gemm": Chip("", 989, 1513, 1513, 0, 3350, 200),
}
KINDS = {"gemm": "product", "hbm": "pass", "collective": "collective"}


def read(path):
    """Rows by chip, kind and dtype."""
    cases = json.loads(path.read_text())["cases"]
    rows = [row(case, case["parts"][0]) for case in cases if is_known(case)]
    for (chip, kind, dtype), group in pd.DataFrame(rows).groupby(["chip", "kind", "dtype"]):
        yield chip, kind, dtype, group


def is_known(case):
    """Whether it is one kernel on a chip above."""
    return case["group"] in KINDS and case["parts"][0]["hardware"] in CHIPS


def row(case, part):
    """One case with its terms, in seconds at peak."""
    chip = CHIPS[part["hardware"]]
    sizes = {key: float(size) for key, size in (d.split("=") for d in part["dim"].split(","))}
    dtype = "fp8" if "fp8" in str(part.get("replace")) else "bf16"
    terms = {"product": product, "pass": copy, "collective": gather}[KINDS[case["group"]]]
    kind = KINDS[case["group"]]
    return {
        "chip": part["hardware"], "kind": kind,
        "dtype": "all_gather" if kind == "collective" else dtype,
        "source": case["source"], "seconds": case["measured_s"], "one": 1.0,
    } | terms(chip, sizes, dtype, part)


def product(chip, sizes, dtype, part):
    """FLOPs, and bytes with a bf16 result; `times` where two cores share the work of one."""
    m, n, k = (sizes[name] for name in "MNK")
    peak, width = (chip.fp8, 1) if dtype == "fp8" else (chip.bf16, 2)
    times = part.get("times", 1)
    moved = (m * k + n * k) * width + m * n * 2
    return {
        "compute": times * 2 * m * n * k / (peak * 1e12),
        "bytes": times * moved / (chip.memory * 1e9),
    }


def copy(chip, sizes, _dtype, _part):
    """Reads and writes every number."""
    return {"bytes": 8 * sizes["N"] / (chip.memory * 1e9)}


def gather(chip, sizes, _dtype, part):
    """A gather along lines of a torus, all of whose axes carry a share of the bytes."""
    fold = part["mesh"].split(" over ")
    is_flat = "over" in str(part.get("replace")) or len(fold) == 1
    lines = [int(n) for n in fold[-1].split("x")] if not is_flat else [4]
    devices = prod(lines)
    wire = 4 * sizes["N"] * (devices - 1) / devices / (len(lines) * chip.link * 1e9)
    return {"wire": wire}
