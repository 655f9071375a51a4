#!/usr/bin/env python3
"""Serving points: silicon, AIConfigurator's prediction and shardwise's, side by side.

The package `aiconfigurator-core` (Apache-2.0) carries end-to-end points of serving engines, and
`aiconfigurator` predicts them from its tables of kernels. Neither is part of this project, and
nothing in it is fitted to these points.

    python -m venv peer && . peer/bin/activate
    pip install aiconfigurator==0.12.0 aiconfigurator-core==0.12.0
    python compare_serving.py --shardwise target/release/shardwise --csv points.csv

A point is an engine that always has `batch` requests in flight, each of `isl` prompt and `osl`
output tokens. Between two of its tokens a request waits for one step of the engine; a step decodes
`batch` tokens, and most also prefill a chunk of other requests' prompts. `serving_programs.py`
writes such a step as a program, which shardwise plans at measured rates with attention fused.

* Contexts differ between requests, evenly from `isl` to `isl + osl`: bytes and FLOPs are linear in
  them, so that a step has the mean.
* vLLM and TensorRT-LLM read prompts beside decoding: of the `osl` steps of a request, as many have
  a chunk of another's prompt as the prompts of the other `batch - 1` requests fill. A chunk has the
  engine's default size.
* SGLang reads prompts first, and decoding waits. Requests of one length then end together and are
  followed by as many: of all others' prompts, half are read before a request's first token, and
  half after it.
* Where the batches of a series are no powers of two, a search of AIConfigurator chose them. Its
  generator lets SGLang mix prompts and decoding, and limits a step to `MARGIN` tokens more than a
  prompt.
* Where lengths differ, the first token of a request comes after half a step of the others, which
  runs when it arrives, and the steps that read its own prompt beside their decoding; `TOGETHER` of
  all requests, those that a run begins with, arrive at once and wait for each other's prompts.
  Requests of one length all do. An idle engine begins with the one that comes first.
* Kernels of AllReduce are those of the engine, see `engine_rates.py`.
* Between steps, schedulers and samplers take `STEP_S`, and `TOKEN_S` for each request; the latter
  passes while the devices run where engines overlap it (SGLang, TensorRT-LLM). A request takes
  `REQUEST_S` through server, tokenizer and scheduler. These are orders of magnitude that are
  stated, and not fitted; a half to two thirds of a step of Llama-3 8B on an H100 were time of the
  host before engines cared for it, as vLLM and SGLang published in 2024.

The page of the project with the result is written by

    python compare_serving.py --shardwise target/release/shardwise --page compiler/docs/serving.md
"""

import argparse
import csv
import json
import math
import os
import re
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import engine_rates
import serving_programs
from serving_programs import MODELS, Setting

CHIPS = {"h100_sxm": "h100", "h200_sxm": "h200", "b200_sxm": "b200"}
# Tokens of prompts that engines read in a step at most, by default.
CHUNK = 8192
# What the generator of AIConfigurator allows in a step beyond the length of a prompt.
MARGIN = 1500
# Engines whose decoding waits while prompts are read, by default; the others do both in one step.
FILLS_FIRST = {"sglang"}
# Rows that were measured together.
SERIES = ("model_path", "system", "backend", "backend_version")
# Engines whose host prepares a step while the one before it runs.
OVERLAPS = {"sglang", "trtllm"}
STEP_S = 50e-6
TOKEN_S = 20e-6
REQUEST_S = 20e-3
# At so few requests the time to the first token is that of prefill, not of waiting.
FEW = 4
# Points of a machine on the page.
SAMPLED = 2
# Runs are ten times as many requests as are in flight.
TOGETHER = 0.1


def points(path):
    """The aggregated points of the models, without those whose row contradicts itself."""
    with open(path, encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file)
                if row["mode"] == "agg" and row["system"] in CHIPS]
    series = [tuple(row[name] for name in SERIES) for row in rows]
    odd = {key for key, row in zip(series, rows) if whole(row["batch_size"]).bit_count() > 1}
    for key, row in zip(series, rows):
        setting = setting_of(row, key in odd)
        if setting and setting.is_consistent():
            yield setting


def whole(text, empty=1):
    """A count; columns that do not apply are empty."""
    return int(float(text)) if text not in ("", "nan") else empty


def setting_of(row, is_searched):
    """A point as the programs take it; none if the model is another one."""
    name = next((name for name in MODELS if serving_programs.is_model(name, row)), None)
    if name is None:
        return None
    tp, dp = whole(row["tp_size"]), whole(row["attention_dp_size"])
    inferencemax = re.match(r"source_file=\d{4}-", row["silicon_data_source"])
    return Setting(
        id=row["id"], model=name, path=row["model_path"], system=row["system"],
        chip=CHIPS[row["system"]], backend=row["backend"], version=row["backend_version"],
        dtype=serving_programs.dtype(name, row), isl=whole(row["isl"]), osl=whole(row["osl"]),
        # Prompts of these runs are drawn evenly between 0.8 and 1 times the nominal length.
        prompt=whole(row["isl"]) * (0.9 if inferencemax else 1.0), batch=whole(row["batch_size"]),
        tp=tp, dp=dp, moe_tp=whole(row["moe_tp_size"], 0), moe_ep=whole(row["moe_ep_size"], 0),
        searched=is_searched, ttft_ms=float(row["silicon_ttft_ms"]),
        tpot_ms=float(row["silicon_tpot_ms"]))


def chunk_of(point):
    """Tokens of prompts that the engine of a point reads in a step at most."""
    return round(point.isl + MARGIN) if point.searched else CHUNK


class Shardwise:
    """Plans programs with the command, each once."""

    def __init__(self, binary, hardware):
        self.binary, self.hardware, self.known = binary, hardware, {}

    def seconds(self, program):
        """Seconds of a step."""
        if program not in self.known:
            self.known[program] = self.plan(program)
        return self.known[program]

    def plan(self, program):
        """The sum of all steps of the plan by the book's rules: engines choose no other collectives
        by what they cost, and run one step after the other."""
        flags = ["--strategy", "textbook", "--fusion", "attention", "--memory", "100TB",
                 "--hardware-file", self.hardware, "--format", "json"]
        command = [self.binary, "plan", "-", *flags]
        run = subprocess.run(command, input=program, capture_output=True, text=True)
        if run.returncode:
            raise SystemExit(f"{run.stderr}\n{program}")
        return json.loads(run.stdout)["cost"]["serial_s"] + STEP_S

    def predict(self, point):
        """Seconds to the first token and for each further one."""
        context = point.prompt + point.osl / 2
        alone = self.step(point, point.batch, context, 0)
        if point.backend in FILLS_FIRST and not point.searched:
            return self.filled_first(point, context, alone)
        return self.first_token(point, context, alone), self.mixed(point, context, alone)

    def step(self, point, batch, context, chunk):
        """Seconds of a step, on the devices and on the host."""
        devices = self.seconds(serving_programs.step(point, batch, context, chunk))
        host = TOKEN_S * batch
        return max(devices, host) if point.backend in OVERLAPS else devices + host

    def mixed(self, point, context, alone):
        """Seconds for each further token where prompts are read beside decoding."""
        chunk = min(chunk_of(point), point.batch * point.prompt)
        others = point.batch - 1
        share = min(1.0, others * point.prompt / point.osl / chunk)
        return alone + share * (self.step(point, point.batch, context, chunk) - alone)

    def filled_first(self, point, context, alone):
        """Seconds to the first token and for each further one where decoding waits for prompts.

        Requests of one length then end together, and are followed by as many: a request waits
        for half of the others' prompts before its own, and for half of them after it.
        """
        all_prompts = point.batch * point.prompt
        chunk = min(chunk_of(point), all_prompts if point.is_even() else point.prompt)
        filled = self.step(point, 0, 0, chunk)
        chunks = all_prompts / chunk
        if point.is_even():
            tpot = alone + (chunks - 1) / 2 * filled / point.osl
            return REQUEST_S + (chunks + 1) / 2 * filled, tpot
        own = math.ceil(point.prompt / chunk) * filled
        tpot = alone + (point.batch - 1) * own / point.osl
        return self.first_of(alone / 2 + own, (1 + chunks) / 2 * filled), tpot

    def first_of(self, amid, at_start):
        """Seconds to the first token of a request amid others, and of one of a run's first."""
        return REQUEST_S + (1 - TOGETHER) * amid + TOGETHER * at_start

    def first_token(self, point, context, alone):
        """Seconds from a request to its first token, while others decode or begin with it."""
        chunk = min(chunk_of(point), point.batch * point.prompt)
        own = min(chunk_of(point), point.prompt)
        chunks = point.batch * point.prompt / chunk
        filled = self.step(point, 0, 0, chunk)
        together = (1 + chunks) / 2 * filled
        if point.is_even() and chunks > 1:
            return REQUEST_S + together
        if point.is_even():
            # An idle engine begins with the request that comes first; the others wait for it.
            others = point.batch - 1
            first = self.step(point, 0, 0, own)
            rest = self.step(point, 1, context, others * point.prompt) if others else 0
            return REQUEST_S + first + others / point.batch * rest
        beside = self.step(point, point.batch - 1, context, own)
        return self.first_of(alone / 2 + math.ceil(point.prompt / own) * beside, together)


class Peer:
    """AIConfigurator."""

    def __init__(self, configs=None):
        import logging
        from aiconfigurator.cli.api import cli_estimate
        from aiconfigurator_core.sdk import perf_database
        logging.disable(logging.WARNING)
        # It reads hundreds of files to list its tables, three times a point.
        perf_database.get_supported_databases = cache(perf_database.get_supported_databases)
        self.estimate, self.configs = cli_estimate, configs

    def checkpoint(self, model):
        """A folder with the configuration of a model, or a name that the peer knows."""
        folder = self.configs and self.configs / model
        if folder and (folder / "config.json").is_file():
            return str(folder)
        return MODELS[model].package

    def predict(self, point):
        """Seconds to the first token and for each further one; none where it has no tables."""
        quantized = {"fp8": "fp8", "fp8_block": "fp8_block", "fp4": "nvfp4"}.get(point.dtype)
        model = MODELS[point.model]
        own = {} if model.is_quantized else {"gemm_quant_mode": quantized}
        try:
            found = self.estimate(
                self.checkpoint(point.model), point.system, backend_name=point.backend,
                isl=point.isl, osl=point.osl, batch_size=point.batch, tp_size=point.tp,
                attention_dp_size=point.dp, moe_tp_size=point.moe_tp or None,
                moe_ep_size=point.moe_ep or None, **own)
        except Exception as error:  # It raises what it likes where it has no data.
            print(f"{point.id}: {str(error)[:100]}", file=sys.stderr)
            return None
        return found.ttft / 1e3, found.tpot / 1e3


def errors(rows, column, wanted):
    """Mean and median of how far a column is off."""
    off = [abs(row[column] / row[wanted] - 1) for row in rows if row[column] is not None]
    return (statistics.mean(off), statistics.median(off)) if off else (float("nan"),) * 2


def summary(rows):
    """Errors by model and chip: of every setting of a machine, and of all."""
    head = ("model", "chip", "dtype", "points", "tpot: peer", "ours", "prefill points",
            "ttft: peer", "ours")
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    groups = {}
    for row in rows:
        for key in ((row["model"], row["chip"], row["dtype"]), (row["model"], "all", ""),
                    ("all", "all", "")):
            groups.setdefault(key, []).append(row)
    for key in sorted(groups):
        own = [row for row in groups[key] if row["peer_tpot_ms"] is not None]
        # Above a few requests at once, the time to the first token is that of waiting.
        early = [row for row in own if row["batch"] * row["dp"] <= FEW]
        cells = [*key, str(len(own))]
        for part, name in ((own, "tpot"), (early, "ttft")):
            if name == "ttft":
                cells.append(str(len(part)))
            for who in ("peer", "shardwise"):
                mean, median = errors(part, f"{who}_{name}_ms", f"silicon_{name}_ms")
                cells.append(f"{mean:.0%} / {median:.0%}" if part else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def sample(rows):
    """Points side by side: times per output token, and those to the first token where few wait."""
    head = ("model", "chip", "engine", "dtype", "devices", "prompt / output", "batch",
            "tpot: silicon", "peer", "ours", "ttft: silicon", "peer", "ours")
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        times = [f"{row[f'{who}_tpot_ms']:.3g}" for who in ("silicon", "peer", "shardwise")]
        is_early = row["batch"] * row["dp"] <= FEW
        for who in ("silicon", "peer", "shardwise"):
            times.append(f"{row[f'{who}_ttft_ms']:.3g}" if is_early else "")
        cells = (row["model"], row["chip"], row["backend"], row["dtype"],
                 str(row["tp"] * row["dp"]), f"{row['isl']} / {row['osl']}", str(row["batch"]))
        lines.append("| " + " | ".join((*cells, *times)) + " |")
    return "\n".join(lines)


def page(rows):
    """The page of the project: errors, and some points of every model and chip."""
    known = [row for row in rows if row["peer_tpot_ms"] is not None]
    machines = {}
    for row in known:
        machine = (row["model"], row["chip"], row["backend"], row["dtype"])
        machines.setdefault(machine, []).append(row)
    some = [own[n * len(own) // SAMPLED] for _, own in sorted(machines.items())
            for n in range(min(SAMPLED, len(own)))]
    head = Path(__file__).with_name("serving_page.md").read_text(encoding="utf-8")
    return head.format(points=len(rows), known=len(known), few=FEW, errors=summary(rows),
                       sample=sample(some))


def main():
    """Reads the points, predicts them twice, prints errors."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--shardwise", default="shardwise", help="the command")
    options.add_argument("--points", type=Path, help="silicon_sample.csv of the package")
    options.add_argument("--csv", type=Path, help="where every point goes, with both predictions")
    options.add_argument("--page", type=Path, help="where the page of the project goes")
    options.add_argument("--configs", type=Path, help="a folder of folders with a config.json, by "
                         "the names of models, for the peer instead of its own")
    options.add_argument("--model", choices=MODELS, help="one model only")
    options.add_argument("--every", type=int, default=1, help="one point of so many")
    options.add_argument("--without-peer", action="store_true", help="predict with shardwise alone")
    given = options.parse_args()
    systems = Path(find_spec("aiconfigurator_core").origin).parent / "systems"
    path = given.points or systems / "silicon_sample.csv"
    wanted = [p for p in points(path) if given.model in (None, p.model)][:: given.every]
    used = [(p.chip, p.backend, p.tp) for p in wanted]
    with TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        hardware = Path(folder) / "engines.toml"
        hardware.write_text("\n".join(engine_rates.hardware(systems / "data", used)))
        own = list(pool.map(Shardwise(given.shardwise, hardware).predict, wanted))
    peer = None if given.without_peer else Peer(given.configs)
    rows = []
    for point, (ttft, tpot) in zip(wanted, own):
        theirs = peer.predict(point) if peer else (float("nan"), float("nan"))
        rows.append({
            **point._asdict(), "silicon_ttft_ms": point.ttft_ms, "silicon_tpot_ms": point.tpot_ms,
            "shardwise_ttft_ms": 1e3 * ttft, "shardwise_tpot_ms": 1e3 * tpot,
            "peer_ttft_ms": theirs and 1e3 * theirs[0], "peer_tpot_ms": theirs and 1e3 * theirs[1]})
    print(summary(rows))
    if given.page:
        given.page.write_text(page(rows), encoding="utf-8")
    if given.csv:
        with open(given.csv, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
