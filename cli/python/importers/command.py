"""A request as JSON in, a program or an error as JSON out."""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from typing import Any

from .failure import Failure, Source


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The program that a request asks for, or why there is none."""
    try:
        source = importlib.import_module(f".from_{request['source']}.command", __package__)
        imported: dict[str, Any] = source.imported(request)
        return imported
    except Failure as failure:
        place = None if failure.source is None else str(failure.source)
        return {"error": failure.message, "help": failure.help, "place": place}
    except Exception as error:
        lines = traceback.extract_tb(error.__traceback__)
        return {
            "error": f"the importer failed: {type(error).__name__}: {error}",
            "help": "please report this, with the function",
            "place": str(Source(lines[-1].filename, lines[-1].lineno or 0)),
        }


def names_of_dims(entries: list[str]) -> dict[str, list[str]]:
    """The entries `wq=D,N,H` of `--names`, by argument."""
    found = {}
    for entry in entries:
        name, equals, dims = entry.partition("=")
        if not equals:
            raise Failure(f"--names `{entry}` has no `=`", "write `--names wq=D,N,H`")
        found[name.strip()] = [dim.strip() for dim in dims.split(",")]
    return found


def check_package(name: str, least: tuple[int, int], extra: str) -> None:
    """Requires a package of a version; `extra` is what installs it with this tool."""
    try:
        package = importlib.import_module(name)
    except ImportError as error:
        raise Failure(
            f"{sys.executable} has no package `{name}`",
            f"run `pip install shardwise[{extra}]`, or `pip install {name}`; SHARDWISE_PYTHON "
            "names another Python",
        ) from error
    version = tuple(int(part) for part in package.__version__.split(".")[:2])
    if version < least:
        wanted = ".".join(map(str, least))
        raise Failure(
            f"{name} is {package.__version__}, and must be {wanted} or later",
            f"run `pip install -U {name}`",
        )


def main(request: dict[str, Any]) -> None:
    """Answers a request on standard output. What user code prints goes to standard error."""
    result = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    json.dump(answer(request), result)
    result.close()
