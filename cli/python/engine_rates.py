"""Measured rates of a chip under one serving engine, as a hardware file of shardwise.

The presets of shardwise have one law for the AllReduces of all serving engines and numbers of
devices. Engines bring kernels of their own, which differ by up to two times: TensorRT-LLM's take
35 us for 2 MB over 8 H100, vLLM's 19 us. Here the law of `derive_rates.py` is fitted to the tables
of one engine over one number of devices, so that link and switch are one share.
"""

import derive_rates
import measured_tables
from derive_rates import NUMBERS, Law

LAW = Law(("wire", "root", "one"))
# Keys of hardware files by the columns of the law.
KEYS = {"wire": "engine_share", "root": "engine_saturation", "one": "engine_fixed"}


def name(chip, engine, devices):
    """The name of the hardware."""
    return f"{chip}-{engine}-{devices}"


def hardware(folder, settings):
    """A hardware file with a table for each chip, engine and number of devices."""
    tables = {}
    for chip, engine, devices in sorted(set(settings)):
        if chip not in tables:
            spec = measured_tables.CHIPS[chip]
            kinds = dict(measured_tables.collectives(folder / spec.folder, spec))
            tables[chip] = kinds["all_reduce_kernel"]
        yield "\n".join([f"[{name(chip, engine, devices)}]", f'base = "{chip}"',
                         *figures(tables[chip], engine, devices)]) + "\n"


def figures(rows, engine, devices):
    """The figures of AllReduces over so many devices; those of the preset over one."""
    own = rows[rows["source"].str.startswith(f"{engine} ") & (rows["devices"] == devices)]
    if own.empty:
        return
    for column, factor in zip(LAW.columns, derive_rates.fit(LAW, own)):
        yield f"{KEYS[column]} = {NUMBERS[column].meaning(factor):.4g}"
    # The share holds for both ways of adding up.
    yield "engine_per_device = 0e0"
    yield "engine_in_switch = 1e-3"
