"""Tables of measured kernels of the package `aiconfigurator-core`, with what a model needs of them.

Every reader yields rows by dtype or kind, with `seconds` (measured) and the terms of a prediction
in seconds at data-sheet peaks: `compute`, `bytes` (of HBM), `cast_bytes` and `wire` (of links).
"""

import re
from typing import NamedTuple

import numpy as np
import pandas as pd

PACKAGE = "aiconfigurator-core 0.12.0 (Apache-2.0)"
# A table whose shortest time is longer measured the host, which launches kernels one by one.
HOST_BOUND_S = 50e-6


class Chip(NamedTuple):
    """Data-sheet peaks, dense: TFLOP/s by dtype, GB/s of memory, GB/s one way of the link.

    `switch_sums`: the switch can add up what passes through it.
    """

    folder: str
    bf16: float
    fp8: float
    int8: float
    fp4: float
    memory: float
    link: float
    switch_sums: bool = True


# As in ir/src/tables/hardware.rs; b300 and gb300 as in NVIDIA's data sheets of HGX B300 and NVL72.
CHIPS = {
    "a100": Chip("a100_sxm", 310, 0, 620, 0, 2000, 300, switch_sums=False),
    "h100": Chip("h100_sxm", 989, 2000, 2000, 0, 3350, 450),
    "h200": Chip("h200_sxm", 990, 2000, 2000, 0, 4800, 450),
    "b200": Chip("b200_sxm", 2300, 4500, 4500, 9000, 8000, 900),
    "b300": Chip("b300_sxm", 2250, 4500, 0, 14000, 8000, 900),
    "gb200-nvl72": Chip("gb200", 2300, 4500, 4500, 9000, 8000, 900),
    "gb300": Chip("gb300", 2500, 5000, 0, 15000, 8000, 900),
}


class Format(NamedTuple):
    """How the tables' formats of numbers compute: at which peak, and bytes a number takes."""

    name: str
    peak: str
    left: float
    right: float


FORMATS = {
    "bfloat16": Format("bf16", "bf16", 2, 2),
    "fp8": Format("fp8", "fp8", 1, 1),
    "fp8_block": Format("fp8-block", "fp8", 1, 1),
    "nvfp4": Format("fp4", "fp4", 0.5625, 0.5625),
    "sq": Format("int8", "int8", 1, 1),
    "int8_wo": Format("bf16-int8", "bf16", 2, 1),
}


def tables(folder, pattern, all_versions=False):
    """Tables of one kind, by source: of a framework the fullest version, or all of them."""
    found = {}
    for path in sorted(folder.glob(pattern)):
        table = pd.read_parquet(path)
        framework, version = path.parts[-3:-1]
        order = (len(table), [int(part) for part in re.findall(r"\d+", version)])
        key = f"{framework} {version}" if all_versions else framework
        if key not in found or order > found[key][0]:
            found[key] = (order, f"{framework} {version}", table)
    for _, source, table in found.values():
        table = table[table["latency"] > 0].copy()
        yield table.assign(source=source, seconds=table["latency"] * 1e-3, one=1.0)


def grouped(parts, *key):
    """Rows of all tables by key, without sources that measured the host."""
    parts = [part for part in parts if len(part)]
    rows = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=[*key, "source"])
    for name, group in rows.groupby(list(key) if len(key) > 1 else key[0]):
        shortest = group.groupby("source")["seconds"].transform("min")
        group = group[shortest < HOST_BOUND_S]
        if len(group) > 50:
            yield name, group


def by_format(table, column, chip):
    """Rows of each format of numbers for which the chip has a peak, with format and peak."""
    for name, rows in table.groupby(column):
        numbers = FORMATS.get(name)
        peak = getattr(chip, numbers.peak) * 1e12 if numbers else 0
        if peak:
            yield numbers, peak, rows


def products(folder, chip):
    """Dense products by dtype. Tables of quantized ones include the cast of the left operand."""
    parts = []
    for table in tables(folder, "gemm/*/*/gemm_perf.parquet"):
        for numbers, peak, rows in by_format(table, "gemm_dtype", chip):
            m, n, k = (rows[name].astype(float) for name in "mnk")
            moved = m * k * numbers.left + n * k * numbers.right + m * n * 2
            cast = m * k * (2 + numbers.left) if numbers.left < 2 else 0 * m
            parts.append(rows.assign(
                dtype=numbers.name, compute=2 * m * n * k / peak, moved=moved,
                bytes=moved / (chip.memory * 1e9), cast_bytes=cast / (chip.memory * 1e9)))
    return grouped(parts, "dtype")


def attention(folder, chip, phase):
    """Attention by dtype, and head size where it is not 128; no windows, no fallback kernels."""
    parts = []
    for table in tables(folder, f"attention/*/*/{phase}_attention_perf.parquet"):
        table = table[~table["kernel_source"].str.contains("triton")]
        table = table[table["head_dim"].isin([64, 128, 256])]
        if "window_size" in table:
            table = table[table["window_size"] == 0]
        parts.extend(attention_rows(table, chip, phase))
    return grouped(parts, "dtype")


def attention_rows(table, chip, phase):
    """Rows with their terms. Prefill is causal; decode reads the cache, whose dtype counts."""
    is_prefill = phase == "context"
    if is_prefill:
        table = table[table["attn_dtype"] == table["kv_cache_dtype"]]
    else:
        few = table["num_heads"] <= 16 * table["num_key_value_heads"]
        table = table[few & (table["step"] >= 255)]
    for numbers, peak, rows in by_format(table, "kv_cache_dtype", chip):
        batch, heads, kv_heads, size = (
            rows[name].astype(float)
            for name in ("batch_size", "num_heads", "num_key_value_heads", "head_dim"))
        queries = rows["isl"].astype(float)
        keys = queries if is_prefill else rows["step"] + 1.0
        pairs = queries**2 / 2 if is_prefill else keys
        moved = batch * size * (4 * heads * queries + 2 * kv_heads * keys * numbers.left)
        suffix = rows["head_dim"].map(lambda size: "" if size == 128 else f"-head{size}")
        yield rows.assign(
            dtype=numbers.name + suffix, compute=4 * batch * heads * size * pairs / peak,
            moved=moved, bytes=moved / (chip.memory * 1e9), keys=keys)


def experts(folder, chip):
    """Routed experts with gates, evenly loaded: three grouped products as one operation.

    Engines choose among kernels, which differ by up to five times: the fastest of a shape counts.
    """
    parts = []
    for table in tables(folder, "moe/*/*/moe_perf.parquet"):
        loads = table["distribution"]
        # Where none was measured at even load, the mildest power law.
        is_even = loads == ("balanced" if (loads == "balanced").any() else "power_law_1.01")
        has_gate = ~table["kernel_source"].str.contains("nongated|min_latency|marlin")
        for numbers, peak, rows in by_format(table[is_even & has_gate], "moe_dtype", chip):
            share = rows["moe_ep_size"].astype(float)
            tokens = rows["num_tokens"] * rows["topk"] / share
            width, inner = rows["hidden_size"], rows["inter_size"] / rows["moe_tp_size"]
            active = np.minimum(rows["num_experts"] / share, np.maximum(tokens, 1))
            weights = 3.0 * width * inner
            moved = weights * numbers.right * active + tokens * 2 * (2 * width + 3 * inner)
            parts.append(rows.assign(
                dtype=numbers.name, compute=2 * tokens * weights / peak, moved=moved,
                bytes=moved / (chip.memory * 1e9)))
    shape = ["num_tokens", "hidden_size", "inter_size", "topk", "num_experts",
             "moe_tp_size", "moe_ep_size"]
    fastest = [
        rows.sort_values("seconds", kind="stable").drop_duplicates(["dtype", *shape])
        for rows in [pd.concat(parts, ignore_index=True).assign(source="fastest of each shape")]]
    return grouped(fastest, "dtype")


def passes(folder, chip):
    """Element-wise passes: scaling and casting a bf16 matrix to fp8."""
    parts = []
    for table in tables(folder, "quantize/*/*/scale_matrix_perf.parquet"):
        moved = table["m"] * table["k"] * 3.0
        parts.append(table.assign(
            dtype="bf16", moved=moved, bytes=moved / (chip.memory * 1e9)))
    return grouped([part for part in parts if "sglang" not in part["source"].iat[0]], "dtype")


KINDS = {"alltoall": "all_to_all"}
WIRES = {"half": "f16"}


def collectives(folder, chip):
    """NCCL's collectives by kind; AllReduces of serving engines as `all_reduce_kernel`."""
    parts = []
    for table in tables(folder, "comm/*/*/nccl_perf.parquet", all_versions=True):
        width = table["nccl_dtype"].map({"half": 2, "int8": 1})
        # Switches reduce bf16 but not int8.
        table = table[(width == 2) | (table["op_name"] != "all_reduce")]
        table = table.assign(
            kind=table["op_name"].replace(KINDS), wire_dtype=table["nccl_dtype"].replace(WIRES))
        parts.append(link_terms(table, table["message_size"] * width, chip))
    for table in tables(folder, "comm/*/*/custom_allreduce_perf.parquet", all_versions=True):
        table = table[~table["kernel_source"].str.contains("eager") & (table["num_gpus"] <= 8)]
        table = table.assign(kind="all_reduce_kernel", wire_dtype="bf16")
        parts.append(link_terms(table, table["message_size"] * 2, chip))
    return grouped(parts, "kind")


def link_terms(table, moved, chip):
    """Bytes over the link bandwidth: `wire` of a ring, `switch_wire` of a sum in the switch."""
    devices = table["num_gpus"].astype(float)
    is_sum = table["kind"].str.startswith("all_reduce")
    ring = ((devices - 1) / devices).mul(1 + is_sum)
    at_rate = moved / (chip.link * 1e9)
    return table.assign(
        moved=moved, devices=devices, wire=at_rate * ring, root=np.sqrt(at_rate * ring),
        switch_wire=at_rate.where(is_sum & chip.switch_sums))
