#!/usr/bin/env python3
"""Measures products, passes and collectives with JAX, for `shardwise calibrate`.

Prints CSV, a row for each kernel and size: the median of its runs, and how much they differ. Run it
on an idle machine, on one process:

    pip install jax
    python measure_jax.py > bench.csv
    shardwise calibrate bench.csv --hardware tpu-v5e -o measured.toml

On a machine without accelerators, virtual devices of the CPU show that it works:

    XLA_FLAGS=--xla_force_host_platform_device_count=4 python measure_jax.py --quick
"""

import argparse

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

from timed_kernels import Table, element_counts, product_shapes

DTYPES = {"bf16": jnp.bfloat16, "f32": jnp.float32, "int8": jnp.int8}


def runner(function, *operands):
    """A function that starts a compiled kernel. On virtual devices of a CPU it waits for the
    result: they share threads, and collectives that wait for each other there would stop."""
    compiled = jax.jit(function).lower(*operands).compile()
    if jax.default_backend() == "cpu":
        return lambda: jax.block_until_ready(compiled(*operands))
    return lambda: compiled(*operands)


def products(table, quick):
    """`[m, k] @ [k, n]`, in every dtype."""
    for dtype in table.dtypes:
        kind = DTYPES[dtype]
        result = jnp.int32 if dtype == "int8" else kind
        for m, n, k in product_shapes(quick):
            a, b = jnp.ones((m, k), kind), jnp.ones((k, n), kind)
            run = runner(lambda a, b: jnp.matmul(a, b, preferred_element_type=result), a, b)
            table.add("product", run, dtype=dtype, m=m, n=n, k=k)


def passes(table, quick):
    """`2 * x`: reads as many bytes as it writes."""
    for count in element_counts(quick):
        run = runner(lambda x: 2 * x, jnp.ones(count, jnp.bfloat16))
        table.add("pass", run, dtype="bf16", bytes=4 * count)


# What every device does with its part of `x`, how `x` is split before and after, and which sizes
# its elements have to be a multiple of: the devices, or their square.
COLLECTIVES = {
    "all_gather": (lambda x: lax.all_gather(x, "x", tiled=True), P("x"), P(), 1),
    "reduce_scatter": (lambda x: lax.psum_scatter(x, "x", tiled=True), P(), P("x"), 1),
    "all_reduce": (lambda x: lax.psum(x, "x"), P(), P(), 1),
    "all_to_all": (lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True), P("x"), P("x"), 2),
}


def collectives(table, quick):
    """Over 2, 4, … and all devices; `bytes` are a device's after a gather, else before."""
    sizes = [n for n in (2**i for i in range(1, 20)) if n <= jax.device_count()]
    for devices in sizes:
        mesh = Mesh(jax.devices()[:devices], ("x",))
        nodes = len({device.process_index for device in mesh.devices.flat})
        for kind, (body, before, after, power) in COLLECTIVES.items():
            for count in element_counts(quick):
                count = count // devices**2 * devices**2
                total = count * devices ** (power - 1)
                function = jax.shard_map(
                    body, mesh=mesh, in_specs=before, out_specs=after, check_vma=False)
                sharding = jax.sharding.NamedSharding(mesh, before)
                x = jax.device_put(jnp.ones(total, jnp.float32), sharding)
                table.add(kind, runner(function, x), dtype="f32", bytes=4 * count,
                          devices=devices, nodes=nodes)


def main():
    """Measures everything."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--quick", action="store_true", help="few and small sizes")
    options.add_argument("--dtypes", default="bf16", help="of products: bf16,f32,int8")
    given = options.parse_args()
    device = jax.devices()[0]
    print(f"# jax {jax.__version__}, {jax.device_count()} x {device.device_kind}")
    table = Table(given.dtypes.split(","), 5 if given.quick else 20, jax.block_until_ready)
    products(table, given.quick)
    passes(table, given.quick)
    collectives(table, given.quick)


if __name__ == "__main__":
    main()
