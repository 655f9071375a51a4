"""Plans, and the functions that make them."""

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ._command import Finding, Option, Source, document, findings, run


@dataclass(frozen=True)
class Step:
    """A step of a plan: one local operation or one collective."""

    kind: str
    value: str
    text: str
    axes: tuple[str, ...]
    time_s: float
    times: int
    phase: str


@dataclass(frozen=True)
class Plan:
    """A plan: `str` of it is a program, `json` is the document `shardwise.plan/2`."""

    json: Mapping[str, Any] = field(repr=False)
    source: Source
    options: Mapping[str, Option] = field(repr=False)

    @cached_property
    def text(self) -> str:
        """The plan as a program, with costs as comments."""
        return run(["plan"], self.source, self.options)

    @property
    def cost(self) -> Mapping[str, float]:
        """Times in seconds: `serial_s`, `comm_s`, `compute_s`, `scheduled_s`, …"""
        cost: Mapping[str, float] = self.json["cost"]
        return cost

    @property
    def memory(self) -> Mapping[str, Any]:
        """Bytes of one device."""
        memory: Mapping[str, Any] = self.json["memory"]
        return memory

    @property
    def mesh(self) -> Mapping[str, int]:
        """The sizes of the mesh axes, in order."""
        return {axis["axis"]: axis["size"] for axis in self.json["mesh"]}

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps in order."""
        return tuple(
            Step(
                kind=of["kind"],
                value=of["value"],
                text=of["text"].split("  #")[0],
                axes=tuple(of["axes"]),
                time_s=of["time_s"],
                times=of["times"],
                phase=of["phase"],
            )
            for of in self.json["steps"]
        )

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """A table of the steps, as notebooks show it."""
        cost, status = self.cost, self.json["optimality"]["status"]
        mesh = ", ".join(f"{axis}={size}" for axis, size in self.mesh.items())
        caption = (
            f"{self.json['program']} on {self.json['hardware']}, {mesh}: "
            f"{duration(cost['scheduled_s'])}, {status}"
        )
        rows = "".join(row(step) for step in self.steps)
        head = "".join(f"<th>{name}</th>" for name in ("step", "kind", "axes", "time", "times"))
        return (
            f"<table><caption>{html.escape(caption)}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        )


def row(step: Step) -> str:
    """A row of the table of a plan."""
    cells = (step.kind, " ".join(step.axes), duration(step.time_s), str(step.times))
    text = f'<td style="text-align: left"><code>{html.escape(step.text)}</code></td>'
    return f"<tr>{text}{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"


def duration(seconds: float) -> str:
    """Seconds for people, with three digits: `1.49 ms`."""
    seconds = float(f"{seconds:.3g}")
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def plan(source: Source, **options: Option) -> Plan:
    """The cheapest plan of a program.

    Raises `ProgramError` if the program has errors, each with a code, a message and a span.
    """
    return Plan(document(["plan"], source, options), source, options)


def check(source: Source, **options: Option) -> list[Finding]:
    """The errors and lints of a program."""
    return findings(source, options)


def cost(source: Source, **options: Option) -> Mapping[str, Any]:
    """FLOPs, bytes and bounds of every statement of a program."""
    cost: Mapping[str, Any] = document(["cost"], source, options)
    return cost


def to_jax(plan: Plan) -> str:
    """A Python module that runs a plan in JAX."""
    return run(["export", "jax"], plan.source, plan.options)
