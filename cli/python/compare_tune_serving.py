#!/usr/bin/env python3
"""Deployments for serving: what AIConfigurator's search finds and what `shardwise tune` finds.

Both are asked the same: prompts of `PROMPT` tokens, answers of `TOKENS`, the first token after
`FIRST_S` and the others every `NEXT_S` at most, on a number of chips; which deployment gives most
tokens a second and chip? Deployments are prefill and decode on chips of their own, or together,
with how many replicas, how many chips to a replica and which batches.

    python -m venv peer && . peer/bin/activate
    pip install aiconfigurator==0.12.0 aiconfigurator-core==0.12.0
    python compare_tune_serving.py --shardwise target/release/shardwise --page PAGE

The programs have no shardings: prompts and decode steps of a batch `B`, as far as a search needs
them. Weights and what products read are in the model's dtype, sums over the links in bf16; experts
have the same number of tokens each, and all are read; int4 stands for mxfp4. The peer's search is
its command `cli default`, for TensorRT-LLM, with its tables of kernels; it is neither part of this
project nor was anything fitted to it.
"""

import argparse
import json
import logging
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from serving_programs import MODELS

PROMPT, TOKENS = 4096, 512
FIRST_S, NEXT_S = 2.0, 0.03
SEQUENCES = (8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512)
PROMPTS = (1, 2, 4)


class Case(NamedTuple):
    """A model as both are asked for it: the peer's name, the dtype of weights and of caches."""

    model: str
    path: str
    dtype: str
    cache: str


CASES = (
    Case("Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-8B", "bf16", "bf16"),
    Case("Llama-3.1-70B", "nvidia/Llama-3.1-70B-Instruct-FP8", "fp8", "fp8"),
    Case("Qwen3-32B", "Qwen/Qwen3-32B", "bf16", "bf16"),
    Case("Qwen3-235B-A22B", "Qwen/Qwen3-235B-A22B-FP8", "fp8", "bf16"),
    Case("gpt-oss-120b", "openai/gpt-oss-120b", "int4", "bf16"),
)
MACHINES = (("h100", "h100_sxm", 8), ("h200", "h200_sxm", 8))


class Phase:
    """The program of a prefill (`rows` are B, T) or of a decode step (`rows` are B)."""

    def __init__(self, case, chip, is_prefill):
        self.case, self.model, self.is_prefill = case, MODELS[case.model], is_prefill
        self.chip, self.rows = chip, "B, T" if is_prefill else "B"
        self.dense = "bf16" if case.dtype == "int4" else case.dtype
        self.lines = []

    def product(self, left, contracted, right, dtype):
        """A product in the dtype of its weights."""
        left = f"cast<{dtype}>({left})" if dtype in ("fp8", "fp4") else left
        return f"({left}) *{contracted} {right}"

    def add(self, *lines):
        self.lines += lines

    def text(self):
        """The whole program."""
        model = self.model
        sizes = dict(B=max(SEQUENCES), S=PROMPT + TOKENS // 2, D=model.width, H=model.head_dim,
                     K=model.kv_heads, G=model.heads // model.kv_heads, V=model.vocabulary,
                     F=model.hidden)
        if self.is_prefill:
            sizes.update(B=max(PROMPTS), S=PROMPT, T="S", Now=1)
        if model.window:
            sizes["W"] = model.window
        if model.experts:
            sizes["E"] = model.experts
            sizes["M"] = "B*T" if self.is_prefill else "B"
            sizes["C"] = f"M*{model.chosen}/{model.experts}"
        head = [f"hardware {self.chip}, rates=measured", "mesh X=1",
                "dim " + ", ".join(f"{name}={size}" for name, size in sizes.items())]
        windows = (0, model.window) if model.window else (0,)
        self.add(f"input x0[{self.rows}, D]", f"x[{self.rows}, D] = 1 * x0",
                 f"repeat L={model.layers // len(windows)} {{", "  carry x")
        for number, window in enumerate(windows):
            self.attention(str(number), window)
            (self.experts if model.experts else self.gated)(str(number))
        self.add("}", "param Unembed[D, V], nf[D]")
        if self.is_prefill:
            self.add(f"last[B, Now, D] = slice_{{T->Now}}(x, {PROMPT - 1})",
                     "output logits[B, Now, V] = (rmsnorm_D(last) * nf) *D Unembed")
        else:
            self.add("output logits[B, V] = (rmsnorm_D(x) * nf) *D Unembed")
        return "\n".join(head + self.lines) + "\n"

    def attention(self, tag, window):
        """Attention over the prompt, or over caches."""
        w, rows = self.dense, self.rows
        self.add(f"  param wq{tag}: {w}[D, K, G, H], wk{tag}: {w}[D, K, H], "
                 f"wv{tag}: {w}[D, K, H]",
                 f"  param wo{tag}: {w}[K, G, H, D], n{tag}[D]",
                 f"  a{tag} = rmsnorm_D(x) * n{tag}",
                 *(f"  {made}{tag}: bf16[{rows}, {dims}] = "
                   f"{self.product(f'a{tag}', 'D', f'w{made}{tag}', w)}"
                   for made, dims in (("q", "K, G, H"), ("k", "K, H"), ("v", "K, H"))))
        if self.is_prefill:
            seen = f"seen{tag}"
            self.add(f"  ks{tag}[B, S, K, H] = rename(k{tag})",
                     f"  vs{tag}[B, S, K, H] = rename(v{tag})",
                     f"  {seen} = causal_{{T,S}}(0.1 * (q{tag} *H ks{tag}))")
            if window:
                near = f"position_T({seen}) - position_S({seen}) < {window}.0"
                self.add(f"  near{tag} = select({near}, {seen}, -1e9)")
                seen = f"near{tag}"
            self.add(f"  o{tag} = softmax_S({seen}) *S vs{tag}",
                     f"  output ks{tag}[B, S, K, H], vs{tag}[B, S, K, H]")
        else:
            keys, cache = ("W" if window else "S"), self.case.cache
            self.add(f"  state kc{tag}: {cache}[B, {keys}, K, H]",
                     f"  state vc{tag}: {cache}[B, {keys}, K, H]",
                     f"  o{tag} = softmax_{keys}(0.1 * (q{tag} *H kc{tag})) *{keys} vc{tag}",
                     f"  output k{tag}[B, K, H], v{tag}[B, K, H]")
        self.add(f"  p{tag}: bf16[{rows}, D] = {self.product(f'o{tag}', 'K,G,H', f'wo{tag}', w)}",
                 f"  y{tag} = x + p{tag}", f"  param m{tag}[D]",
                 f"  z{tag}[{rows}, D] = rmsnorm_D(y{tag}) * m{tag}")

    def gated(self, tag):
        """A gated feed-forward network."""
        w, rows = self.dense, self.rows
        self.add(f"  param wg{tag}: {w}[D, F], wi{tag}: {w}[D, F], wf{tag}: {w}[F, D]",
                 f"  g{tag}: bf16[{rows}, F] = {self.product(f'z{tag}', 'D', f'wg{tag}', w)}",
                 f"  i{tag}: bf16[{rows}, F] = {self.product(f'z{tag}', 'D', f'wi{tag}', w)}",
                 f"  h{tag} = silu(g{tag}) * i{tag}",
                 f"  f{tag}: bf16[{rows}, D] = {self.product(f'h{tag}', 'F', f'wf{tag}', w)}",
                 f"  x = y{tag} + f{tag}")

    def experts(self, tag):
        """Experts, each with the same number of tokens."""
        w, rows = self.case.dtype, self.rows
        flat, flatten = f"flat{tag}", "reshape" if self.is_prefill else "rename"
        self.add(f"  param wr{tag}[D, E], wg{tag}: {w}[E, D, F], wi{tag}: {w}[E, D, F]",
                 f"  param wf{tag}: {w}[E, F, D]", f"  input ids{tag}: int32[E, C]",
                 f"  r{tag} = softmax_E(z{tag} *D wr{tag})", f"  output r{tag}[{rows}, E]")
        self.add(f"  {flat}[M, D] = {flatten}(z{tag})",
                 f"  t{tag}[E, C, D] = take_M({flat}, ids{tag})",
                 f"  g{tag}: bf16[E, C, F] = {self.product(f't{tag}', 'D', f'wg{tag}', w)}",
                 f"  i{tag}: bf16[E, C, F] = {self.product(f't{tag}', 'D', f'wi{tag}', w)}",
                 f"  h{tag} = silu(g{tag}) * i{tag}",
                 f"  f{tag}: bf16[E, C, D] = {self.product(f'h{tag}', 'F', f'wf{tag}', w)}",
                 f"  s{tag} = put_M(f{tag}, ids{tag}, {flat})",
                 f"  sum{tag}[{rows}, D] = {flatten}(s{tag})",
                 f"  x = y{tag} + sum{tag}")


class Answer(NamedTuple):
    """The best deployments, together or apart, best first, and what the search took."""

    deployments: list
    candidates: int
    seconds: float


class Deployment(NamedTuple):
    """A deployment, as the table has it."""

    kind: str
    prefill: str
    decode: str
    tokens_per_s: float
    first_ms: float
    next_ms: float


class Counts(logging.Handler):
    """How many deployments the peer priced, which it only says in its log."""

    def __init__(self):
        super().__init__(logging.INFO)
        self.total = 0
        log = logging.getLogger("aiconfigurator.cli.main")
        log.handlers, log.propagate = [self], False
        log.setLevel(logging.INFO)

    def emit(self, record):
        if str(record.msg).startswith("Experiment %s completed"):
            self.total += record.args[1]


def peer(case, system, chips):
    """What AIConfigurator's search finds."""
    from aiconfigurator.cli.api import cli_default
    counts = Counts()
    start = time.perf_counter()
    found = cli_default(case.path, chips, system, isl=PROMPT, osl=TOKENS, ttft=1e3 * FIRST_S,
                        tpot=1e3 * NEXT_S, top_n=1)
    seconds = time.perf_counter() - start
    rows = [table.iloc[0] for table in found.best_configs.values() if len(table)]
    best = sorted((peer_deployment(row, chips) for row in rows),
                  key=lambda it: -it.tokens_per_s)
    return Answer(best, counts.total, seconds)


def peer_deployment(row, chips):
    """A row of the peer's result. Replicas are as many as fit."""
    def pool(prefix, count):
        size = row[f"{prefix}tp"] * row[f"{prefix}dp"]
        names = [f"{name}{row[prefix + key]}" for name, key in
                 (("TP", "tp"), ("DP", "dp"), ("EP", "moe_ep"), ("expert TP", "moe_tp"))
                 if row[prefix + key] > 1 and (not key.startswith("moe") or row[prefix + key] > 1)]
        batch = row[f"{prefix}bs"]
        return f"{count} x {size}: {' '.join([*names, f'batch {batch}'])}"

    copies = chips // row["num_total_gpus"]
    if "(p)tp" in row:
        parts = [pool(prefix, copies * row[f"{prefix}workers"]) for prefix in ("(p)", "(d)")]
        kind = "apart"
    else:
        parts, kind = ["", pool("", copies)], "together"
    return Deployment(kind, *parts, row["tokens/s/gpu"], row["ttft"], row["tpot"])


def shardwise(binary, case, chip, chips):
    """What `shardwise tune` finds."""
    model = MODELS[case.model]
    whole = model.experts // model.chosen if model.experts else 1
    with tempfile.TemporaryDirectory() as folder:
        prefill, decode = (Path(folder) / f"{name}.shard" for name in ("prefill", "decode"))
        for file in (prefill, decode):
            file.write_text(Phase(case, chip, file is prefill).text())
        command = [
            binary, "tune", decode, "--prefill", prefill, "--chips", str(chips),
            "--tokens", str(TOKENS), "--ttft", f"{FIRST_S}s", "--tpot", f"{1e3 * NEXT_S}ms",
            "--batch", "|".join(str(size) for size in SEQUENCES if size % whole == 0),
            "--prompts", "|".join(map(str, PROMPTS)), "--best", "100", "--format", "json"]
        start = time.perf_counter()
        run = subprocess.run(command, capture_output=True, text=True)
        seconds = time.perf_counter() - start
    if run.returncode:
        raise SystemExit(run.stderr)
    found = json.loads(run.stdout)
    best = {}
    for one in found["deployments"]:
        best.setdefault(one["kind"], deployment(one))
    return Answer(list(best.values()), found["compared"], seconds)


def deployment(found):
    """A deployment of the command's JSON."""
    def pool(one):
        degrees = [f"{it['role']}{it['ways']}" for it in one["strategy"]["degrees"]]
        batch = f"batch {one['batch']}"
        return f"{one['replicas']} x {one['chips']}: {' '.join([*degrees, batch])}"

    return Deployment(
        found["kind"], pool(found["prefill"]), pool(found["decode"]),
        found["tokens_per_s_and_chip"], 1e3 * found["first_s"], 1e3 * found["next_s"])


def table(answers):
    """The best deployments of each kind by each search."""
    head = ("model", "machine", "search", "phases", "prefill", "decode", "tokens/s/chip",
            "first token, ms", "next token, ms")
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for (case, chip, chips), own in answers.items():
        for who, answer in own.items():
            for one in answer.deployments:
                cells = (case.model, f"{chips} {chip}", who, one.kind, one.prefill, one.decode,
                         f"{one.tokens_per_s:.0f}", f"{one.first_ms:.0f}", f"{one.next_ms:.1f}")
                lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def effort(answers):
    """What the searches took."""
    head = ("model", "machine", "peer: candidates", "s", "ours: candidates", "s",
            "tokens/s/chip: peer", "ours")
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for (case, chip, chips), own in answers.items():
        cells = [case.model, f"{chips} {chip}"]
        for answer in own.values():
            cells += [str(answer.candidates), f"{answer.seconds:.1f}"]
        cells += [f"{max((it.tokens_per_s for it in answer.deployments), default=0):.0f}"
                  for answer in own.values()]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    """Asks both for every case, prints the tables or writes the page."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--shardwise", default="shardwise", help="the command")
    options.add_argument("--page", type=Path, help="where the page of the project goes")
    options.add_argument("--model", choices=MODELS, help="one model only")
    given = options.parse_args()
    answers = {}
    for chip, system, chips in MACHINES:
        for case in CASES:
            if given.model in (None, case.model):
                answers[case, chip, chips] = {
                    "peer": peer(case, system, chips),
                    "ours": shardwise(given.shardwise, case, chip, chips)}
    print(table(answers), effort(answers), sep="\n\n")
    if given.page:
        head = Path(__file__).with_name("tune_serving_page.md").read_text(encoding="utf-8")
        given.page.write_text(head.format(
            prompt=PROMPT, tokens=TOKENS, first=FIRST_S, next=1e3 * NEXT_S,
            effort=effort(answers), table=table(answers)), encoding="utf-8")


if __name__ == "__main__":
    main()
