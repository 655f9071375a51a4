#!/usr/bin/env python3
"""Derives measured rates of chips, as TOML, from published measurements of single kernels.

A data sheet states what a chip can do at most; kernels reach a share of it, and pay a fixed time
each. This script fits those few numbers to the tables of the package `aiconfigurator-core`
(Apache-2.0): products, attention, routed experts, passes and collectives, measured on NVIDIA GPUs
under three serving frameworks. It never reads the package's end-to-end points, which remain a test
of the rates. Chips that the package lacks are fitted to a file of published cases, as far as that
goes.

    python -m venv rates && . rates/bin/activate
    pip install numpy==2.4.6 pandas==3.1.1 pyarrow==26.0.1 scipy==1.17.1
    pip install --no-deps aiconfigurator-core==0.12.0
    python derive_rates.py --toml rates.toml --markdown rates.md --samples kernels.csv

`--tables FOLDER` reads the tables (`systems/data` of the package) from elsewhere; `--cases FILE`
adds the chips of a `cases.json`. The laws, with times in seconds and terms at data-sheet peaks:

* product, prefill attention, routed experts: `roof(FLOPs/C/compute, bytes/W/memory) + fixed`, where
  `roof` is `max`, `sum` or `hypot` (the root of the sum of squares). All three are fitted.
* quantized product: the same, plus the pass that casts its left operand, `bytes/W/cast`.
* decode attention, passes: `bytes/W/memory + fixed`.
* collective: `b/link + sqrt(b*saturation) + fixed + per_device*n`, with `b` the bytes that a device
  of a ring sends, over its link bandwidth. Where a switch can sum (`switch`), an AllReduce of `V`
  bytes takes `V/w/in_switch` for `b/link` if that is less.

Every fit is robust least squares on the logarithm of predicted over measured time. Each source (a
framework, or a version of NCCL) has the same weight. `unseen` is the mean error on sources that
were left out of the fit, one after the other.
"""

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

import measured_tables as measured
import published_cases
from measured_tables import CHIPS


class Law(NamedTuple):
    """A sum of columns, each times a fitted number; the first `roof` are combined by `form`."""

    columns: tuple
    roof: int = 1
    form: str = "sum"


class Number(NamedTuple):
    """A fitted factor of a column: its name, first guess, least value, and what it means."""

    name: str
    guess: float
    least: float
    meaning: callable


def share(factor):
    """A share of a peak; it cannot exceed one."""
    return 1 / factor


def same(factor):
    """The factor is a time already."""
    return factor


NUMBERS = {
    "compute": Number("compute", 1.5, 1.0, share),
    "bytes": Number("memory", 1.3, 1.0, share),
    "cast_bytes": Number("cast", 2.0, 1.0, share),
    "wire": Number("link", 1.3, 1.0, share),
    "switch_wire": Number("in_switch", 1.7, 1.0, share),
    "root": Number("saturation", 3e-3, 1e-7, np.square),
    "one": Number("fixed", 5e-6, 1e-9, same),
    "devices": Number("per_device", 1e-6, 1e-9, same),
}
FORMS = {
    "max": np.maximum.reduce,
    "min": np.minimum.reduce,
    "sum": sum,
    "hypot": lambda parts: np.sqrt(sum(part**2 for part in parts)),
}
ROWS_OF_A_SOURCE = 3000
LARGE_S = 20e-6


def predict(law, rows, factors):
    """Seconds of every row."""
    parts = [factor * rows[column].to_numpy() for column, factor in zip(law.columns, factors)]
    return FORMS[law.form](parts[: law.roof]) + sum(parts[law.roof :])


def fit(law, rows):
    """The factors of a law that meet the rows best."""
    rows = pd.concat([evenly(part, ROWS_OF_A_SOURCE) for _, part in rows.groupby("source")])
    seconds = rows["seconds"].to_numpy()
    guess = np.log([NUMBERS[column].guess for column in law.columns])
    least = np.log([NUMBERS[column].least for column in law.columns])

    def residuals(logs):
        return np.log(predict(law, rows, np.exp(logs)) / seconds)

    found = least_squares(residuals, guess, bounds=(least, np.inf), loss="soft_l1", f_scale=0.1)
    return np.exp(found.x)


def evenly(rows, count):
    """At most `count` rows, at even distances in the order of their times."""
    if len(rows) <= count:
        return rows
    ordered = rows.sort_values("seconds", kind="stable")
    return ordered.iloc[np.linspace(0, len(rows) - 1, count).round().astype(int)]


def errors(law, rows, factors):
    """Relative error of every row."""
    return np.abs(predict(law, rows, factors) / rows["seconds"].to_numpy() - 1)


def unseen(law, rows):
    """The mean error on each source by a fit to the others; none if there is one source."""
    sources = rows["source"].unique()
    if len(sources) < 2:
        return np.nan
    left_out = []
    for source in sources:
        is_left_out = rows["source"] == source
        left_out.append(errors(law, rows[is_left_out], fit(law, rows[~is_left_out])).mean())
    return np.mean(left_out)


class Report(NamedTuple):
    """The numbers of a law, and how well they meet the rows."""

    numbers: dict
    mean: float
    median: float
    large_mean: float
    large_median: float
    unseen: float
    at_peak: float


def report(law, rows):
    """Fits a law."""
    factors = fit(law, rows)
    off = errors(law, rows, factors)
    large = off[rows["seconds"].to_numpy() > LARGE_S]
    large = large if len(large) else np.array([np.nan])
    numbers = {NUMBERS[c].name: NUMBERS[c].meaning(x) for c, x in zip(law.columns, factors)}
    peak = Law(law.columns[: law.roof], law.roof, "min" if law.form == "min" else "max")
    at_peak = errors(peak, rows, np.ones(law.roof)).mean()
    return Report(
        numbers, off.mean(), np.median(off), large.mean(), np.median(large), unseen(law, rows),
        at_peak)


def roof_reports(rows, added):
    """A kernel that computes and moves bytes: each form of roof."""
    columns = ("compute", "bytes", *added)
    return {form: report(Law(columns, 2, form), rows) for form in ("max", "sum", "hypot")}


def memory_reports(rows):
    """A kernel that moves bytes."""
    return {"sum": report(Law(("bytes", "one")), rows)}


def collective_reports(rows):
    """A collective by a ring; a sum also by the faster of a ring and the switch."""
    added = ("root", "one", "devices")
    reports = {"ring": report(Law(("wire", *added)), rows)}
    if rows["switch_wire"].notna().all():
        reports["switch"] = report(Law(("wire", "switch_wire", *added), 2, "min"), rows)
    return reports


def reports_of(folder, chip):
    """All fits of a chip: kind, dtype, rows, and reports by form."""
    for dtype, rows in measured.products(folder, chip):
        added = ("cast_bytes", "one") if (rows["cast_bytes"] > 0).any() else ("one",)
        yield "product", dtype, rows, roof_reports(rows, added)
    for dtype, rows in measured.attention(folder, chip, "context"):
        yield "prefill", dtype, rows, roof_reports(rows, ("one",))
    for dtype, rows in measured.attention(folder, chip, "generation"):
        yield "decode", dtype, rows, memory_reports(rows)
    for dtype, rows in measured.experts(folder, chip):
        yield "experts", dtype, rows, roof_reports(rows, ("one",))
    for dtype, rows in measured.passes(folder, chip):
        yield "pass", dtype, rows, memory_reports(rows)
    for kind, rows in measured.collectives(folder, chip):
        yield "collective", kind, rows, collective_reports(rows)


def case_reports(path):
    """Fits to published cases: as many numbers as there are cases to tell them apart."""
    for chip, kind, dtype, rows in published_cases.read(path):
        column = {"product": "compute", "pass": "bytes", "collective": "wire"}[kind]
        if kind == "product" and len(rows) > 3:
            reports = roof_reports(rows, ("one",))
        else:
            columns = (column, "one") if len(rows) > 2 else (column,)
            reports = {"sum": report(Law(columns), rows)}
        yield chip, kind, dtype, rows, reports


def best(reports):
    """The form to use: large messages decide between ways of a collective, else all kernels."""

    def error(form):
        found = reports[form]
        return round(found.large_mean if "ring" in reports else found.mean, 3)

    return min(reports, key=error)


def toml(results):
    """Rates as TOML, a table for each chip, kind and dtype; every form, and which is best."""
    lines = ["# Shares of data-sheet peaks and times in seconds, derived by derive_rates.py from",
             f"# {measured.PACKAGE} and published cases."]
    for chip, kind, dtype, rows, reports in results:
        chosen = reports[best(reports)]
        lines += ["", f"[{chip}.{kind}.{dtype}]", f'best = "{best(reports)}"']
        for form, found in reports.items():
            numbers = ", ".join(f"{name} = {x:.3g}" for name, x in found.numbers.items())
            lines.append(f"{form} = {{ {numbers} }}")
        lines.append(f"error = {chosen.mean:.3f}   # mean of {len(rows)} kernels")
        if not np.isnan(chosen.unseen):
            lines.append(f"unseen = {chosen.unseen:.3f}  # mean on sources left out of the fit")
    return "\n".join(lines) + "\n"


def percent(x):
    """An error for readers."""
    return "" if np.isnan(x) else f"{100 * x:.0f}%"


def markdown(results):
    """Residuals of every fit; the chosen form is bold."""
    head = ["chip", "kind", "dtype", "kernels", "sources", "form", "numbers", "mean", "median",
            "mean > 20 us", "median > 20 us", "unseen", "at peak"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for chip, kind, dtype, rows, reports in results:
        for form, found in reports.items():
            name = f"**{form}**" if form == best(reports) else form
            numbers = ", ".join(f"{key} {number(x)}" for key, x in found.numbers.items())
            cells = [chip, kind, dtype, len(rows), rows["source"].nunique(), name, numbers]
            cells += [percent(x) for x in found[1:]]
            lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def number(x):
    """A share, or a time in microseconds."""
    return f"{x * 1e6:.3g} us" if x < 1e-3 else f"{x:.2f}"


# How many rows of a kind and dtype go into the samples: of bf16, of others.
SAMPLED = {"product": (8, 4), "prefill": (5, 3), "decode": (5, 3), "collective": (0, 4)}
SHAPE = {
    "m": "m", "n": "n", "k": "k", "batch_size": "batch", "isl": "queries", "keys": "keys",
    "num_heads": "heads", "num_key_value_heads": "kv_heads", "head_dim": "head_dim",
    "moved": "bytes", "num_gpus": "devices",
}


def samples(results):
    """A few kernels of each chip, from the shortest to the longest.

    `bytes` are those of HBM that a kernel moves, and for a collective what the cost model calls V:
    the gathered, scattered or reduced value, and what a device holds before an AllToAll.
    """
    parts = []
    for chip, kind, dtype, rows, _ in results:
        count = SAMPLED.get(kind, (0, 0))[dtype != "bf16"]
        if chip not in CHIPS or "-head" in dtype or not count:
            continue
        ordered = rows.sort_values("seconds", kind="stable")
        aims = np.geomspace(ordered["seconds"].iat[0], ordered["seconds"].iat[-1], count)
        picked = ordered.iloc[np.searchsorted(ordered["seconds"], aims).clip(0, len(rows) - 1)]
        named = {
            name: picked[column].astype(int) if column in picked else ""
            for column, name in SHAPE.items()
        }
        label = "" if kind == "collective" else dtype
        table = pd.DataFrame({"chip": chip, "kind": kind if label else dtype, **named})
        table.insert(2, "dtype", label or picked["wire_dtype"])
        table["measured_us"] = (picked["seconds"] * 1e6).map("{:.4g}".format)
        kernel = picked["source"] + ", " + picked["kernel_source"]
        table["source"] = measured.PACKAGE + ": " + kernel
        parts.append(table)
    return pd.concat(parts)


def main():
    """Reads, fits and writes."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--tables", type=Path, help="systems/data of the package")
    options.add_argument("--cases", type=Path, help="published cases, as JSON")
    options.add_argument("--toml", type=Path, help="where the rates go; else printed")
    options.add_argument("--markdown", type=Path, help="where residuals go; else printed")
    options.add_argument("--samples", type=Path, help="where a few kernels of each chip go, as CSV")
    given = options.parse_args()
    tables = given.tables or Path(find_spec("aiconfigurator_core").origin).parent / "systems/data"
    results = [
        (name, *found) for name, chip in CHIPS.items()
        for found in reports_of(tables / chip.folder, chip)]
    results += case_reports(given.cases) if given.cases else []
    for path, text in ((given.toml, toml(results)), (given.markdown, markdown(results))):
        path.write_text(text) if path else print(text)
    if given.samples:
        samples(results).to_csv(given.samples, index=False)


if __name__ == "__main__":
    main()
