#!/usr/bin/env python3
"""Measures products, passes, attention and collectives with PyTorch, for `shardwise calibrate`.

Prints CSV, a row for each kernel and size: the median of its runs, and how much they differ. Run it
on an idle machine, once for each device:

    pip install torch
    torchrun --nproc-per-node=8 measure_torch.py > bench.csv
    shardwise calibrate bench.csv --hardware h100 -o measured.toml

Over several nodes with `torchrun --nnodes`. `python measure_torch.py` measures one device, and
without a GPU the CPU.
"""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F

from timed_kernels import Table, element_counts, product_shapes

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


class Machine:
    """The device of this process, and the processes beside it."""

    def __init__(self):
        self.on_gpu = torch.cuda.is_available()
        self.ranks = int(os.environ.get("WORLD_SIZE", 1))
        self.rank = int(os.environ.get("RANK", 0))
        self.per_node = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        if self.on_gpu:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
        self.device = torch.device("cuda" if self.on_gpu else "cpu")
        if self.ranks > 1:
            dist.init_process_group("nccl" if self.on_gpu else "gloo")

    def wait(self, _):
        """Waits for all kernels."""
        if self.on_gpu:
            torch.cuda.synchronize()

    def agree(self, number):
        """The number of the first process."""
        if self.ranks == 1:
            return number
        box = torch.tensor([number], device=self.device)
        dist.broadcast(box, 0)
        return int(box)

    def name(self):
        """What is measured."""
        return torch.cuda.get_device_name() if self.on_gpu else "cpu"


def products(table, machine, quick):
    """`[m, k] @ [k, n]`, in every dtype."""
    for dtype in table.dtypes:
        for m, n, k in product_shapes(quick):
            a = torch.ones(m, k, dtype=DTYPES[dtype], device=machine.device)
            b = torch.ones(k, n, dtype=DTYPES[dtype], device=machine.device)
            out = torch.empty(m, n, dtype=DTYPES[dtype], device=machine.device)
            table.add("product", lambda: torch.matmul(a, b, out=out), dtype=dtype, m=m, n=n, k=k)


def passes(table, machine, quick):
    """`2 * x`: reads as many bytes as it writes."""
    for count in element_counts(quick):
        x = torch.ones(count, dtype=torch.bfloat16, device=machine.device)
        out = torch.empty_like(x)
        table.add("pass", lambda: torch.mul(x, 2, out=out), dtype="bf16", bytes=4 * count)


def attention(table, machine, quick):
    """Causal prefill, and decode of one token a sequence, 8 query heads to a head of the cache."""
    heads, kv_heads, head_dim = 32, 4, 128
    lengths = (128, 256) if quick else (512, 2048, 8192)
    shapes = [(1, length, length) for length in lengths]
    shapes += [(batch, 1, length) for length in lengths for batch in (1, 16)]
    for batch, queries, keys in shapes:
        q = torch.ones(batch, heads, queries, head_dim, dtype=torch.bfloat16, device=machine.device)
        k = torch.ones(batch, kv_heads, keys, head_dim, dtype=torch.bfloat16, device=machine.device)
        causal = queries > 1
        run = lambda: F.scaled_dot_product_attention(q, k, k, is_causal=causal, enable_gqa=True)
        table.add("attention", run, dtype="bf16", batch=batch, queries=queries, keys=keys,
                  heads=heads, kv_heads=kv_heads, head_dim=head_dim)


def collectives(table, machine, quick):
    """Over all ranks; `bytes` are a device's after a gather, else before."""
    ranks = machine.ranks
    for count in element_counts(quick):
        count = count // ranks * ranks
        x = torch.ones(count, device=machine.device)
        part = torch.ones(count // ranks, device=machine.device)
        kinds = {
            "all_gather": lambda: dist.all_gather_into_tensor(x, part),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, x),
            "all_reduce": lambda: dist.all_reduce(x),
            "all_to_all": lambda: dist.all_to_all_single(torch.empty_like(x), x),
        }
        for kind, function in kinds.items():
            table.add(kind, function, dtype="f32", bytes=4 * count, devices=ranks,
                      nodes=max(1, ranks // machine.per_node))


def main():
    """Measures everything."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--quick", action="store_true", help="few and small sizes")
    options.add_argument("--dtypes", default="bf16", help="of products: bf16,f16,f32")
    given = options.parse_args()
    machine = Machine()
    is_first = machine.rank == 0
    if is_first:
        print(f"# torch {torch.__version__}, {machine.ranks} x {machine.name()}")
    runs = 5 if given.quick else 20
    table = Table(given.dtypes.split(","), runs, machine.wait, machine.agree, is_first)
    products(table, machine, given.quick)
    passes(table, machine, given.quick)
    attention(table, machine, given.quick)
    if machine.ranks > 1:
        collectives(table, machine, given.quick)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
