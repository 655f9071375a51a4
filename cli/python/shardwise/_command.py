"""Runs the command, and makes exceptions of what it reports."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

Source = Union[str, Path]
Option = Union[str, int, float, bool, Path, Sequence[str], Mapping[str, object], None]

# The options that change what `check` finds. Others, such as `objective`, it does not have.
CHECKED = ("mesh", "dim", "hardware", "hardware_file", "rates", "price", "explicit")

# The options that change what the command prints, or where.
PRINTING = ("format", "output", "print_after", "fix", "diff", "watch", "if_changed", "depfile")


@dataclass(frozen=True)
class Span:
    """A part of a program: bytes from `start` to `end`, and where they begin, from 1 on."""

    start: int
    end: int
    line: int
    column: int


@dataclass(frozen=True)
class Finding:
    """An error or a lint. `path` is that of its file, and none where the source is text."""

    code: str
    severity: str
    message: str
    help: Union[str, None]
    span: Union[Span, None]
    path: Union[str, None]

    def __str__(self) -> str:
        file = f"{self.path}:" if self.path else ""
        place = f"{self.span.line}:{self.span.column}:" if self.span else ""
        help_ = f" ({self.help})" if self.help else ""
        before = f"{file}{place} " if file or place else ""
        return f"{before}{self.severity}[{self.code}]: {self.message}{help_}"


class ToolError(Exception):
    """The command failed for a reason outside of the program."""

    def __init__(self, message: str, code: Union[str, None] = None) -> None:
        super().__init__(f"{code}: {message}" if code else message)
        self.code = code
        self.message = message


class ProgramError(ValueError):
    """A program has errors. `code`, `message` and `span` are those of the first."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("\n".join(str(finding) for finding in findings))
        self.findings = tuple(findings)
        self.code = findings[0].code
        self.message = findings[0].message
        self.span = findings[0].span


def command() -> str:
    """The path of the command that was installed with this package."""
    name = "shardwise.exe" if sys.platform == "win32" else "shardwise"
    folders = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    for folder in folders:
        if os.path.isfile(os.path.join(folder, name)):
            return os.path.join(folder, name)
    found = shutil.which(name)
    if found is None:
        raise ToolError("the command is not installed: `pip install --force-reinstall shardwise`")
    return found


def is_path(source: Source) -> bool:
    return isinstance(source, Path) or "\n" not in source and source.endswith(".shard")


def arguments(options: Mapping[str, Option]) -> list[str]:
    """Options as the command reads them."""
    found: list[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            found.append(flag)
            continue
        if isinstance(value, Mapping):
            value = ",".join(f"{key}={size}" for key, size in value.items())
        elif name == "hardware_file" and isinstance(value, (list, tuple)):
            found += [f"{flag}={path}" for path in value]
            continue
        elif not isinstance(value, (str, int, float, Path)):
            value = ",".join(value)
        found.append(f"{flag}={value}")
    return found


def call(words: Sequence[str], source: Source) -> "subprocess.CompletedProcess[str]":
    """Runs the command on a program."""
    path = os.fspath(source) if is_path(source) else "-"
    return subprocess.run(
        [command(), *words, "--", path],
        input=None if path != "-" else str(source),
        stdin=subprocess.DEVNULL if path != "-" else None,
        capture_output=True,
        encoding="utf-8",
    )


def run(words: Sequence[str], source: Source, options: Mapping[str, Option]) -> str:
    """What the command prints, or an exception."""
    done = call([*words, *arguments(options)], source)
    if done.returncode == 0:
        return done.stdout
    checked = {name: value for name, value in options.items() if name in CHECKED}
    errors = [it for it in findings(source, checked, strict=False) if it.severity == "error"]
    if errors:
        raise ProgramError(errors)
    raise failure(done.stderr)


def refuse_printing(options: Mapping[str, Option]) -> None:
    """Fails if an option says what the command is to print, or where."""
    for name in PRINTING:
        if name in options:
            raise ToolError(f"`{name}` is no option here: results are values of Python")


def document(words: Sequence[str], source: Source, options: Mapping[str, Option]) -> Any:
    """The JSON that the command prints, or an exception."""
    refuse_printing(options)
    return json.loads(run([*words, "--format=json"], source, options))


def failure(stderr: str) -> ToolError:
    """The error that the command printed."""
    text = stderr.strip()
    drawn = re.match(r"error\[(SW\d+)\].*\n\n  × (.*)", text)
    if drawn:
        return ToolError(drawn[2], drawn[1])
    first = text.splitlines()[0] if text else "the command failed"
    head, _, message = first.removeprefix("error: ").partition(": ")
    if head.startswith("SW") and head[2:].isdigit():
        return ToolError(message, head)
    return ToolError(text.removeprefix("error: ") or first)


def findings(
    source: Source, options: Mapping[str, Option], strict: bool = True
) -> list[Finding]:
    """What `shardwise check` finds; if that fails, an exception, or nothing unless `strict`."""
    refuse_printing(options)
    done = call(["check", "--format=json", *arguments(options)], source)
    if done.returncode not in (0, 1):
        if strict:
            raise failure(done.stderr)
        return []
    return [finding(it) for it in json.loads(done.stdout)["findings"]]


def finding(of: Mapping[str, Any]) -> Finding:
    path = None if of["path"] == "-" else of["path"]
    label = next(iter(of["labels"]), None)
    keys = ("start", "end", "line", "column")
    span = Span(*(label[key] for key in keys)) if label else None
    return Finding(of["code"], of["severity"], of["message"], of["help"], span, path)
