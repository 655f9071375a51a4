"""What `shardwise import jax` runs: a request as JSON in, a program or an error as JSON out."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

from .failure import Failure, Source


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The program that a request asks for, or why there is none."""
    try:
        return _imported(request)
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


def _imported(request: dict[str, Any]) -> dict[str, Any]:
    _check_packages()
    from .importer import Options, import_function
    from .target import arguments, load

    module, function, name = load(request["target"])
    args, named = arguments(module, request.get("args"))
    names = dict(_names(entry) for entry in request.get("names", []))
    title = f"`{name}` of {os.path.basename(request['target'].rpartition(':')[0])}, from JAX."
    options = Options(
        request.get("mesh"), request["hardware"], names, request.get("parameters"), title
    )
    imported = import_function(function, args, named, options)
    return {
        "program": imported.program,
        "warnings": imported.warnings,
        "declared": imported.declared,
    }


def _names(entry: str) -> tuple[str, list[str]]:
    name, equals, dims = entry.partition("=")
    if not equals:
        raise Failure(f"--names `{entry}` has no `=`", "write `--names wq=D,N,H`")
    return name.strip(), [dim.strip() for dim in dims.split(",")]


def _check_packages() -> None:
    try:
        import jax
    except ImportError as error:
        raise Failure(
            f"{sys.executable} has no package `jax`",
            "run `pip install shardwise[jax]`, or `pip install jax`; SHARDWISE_PYTHON names "
            "another Python",
        ) from error
    version = tuple(int(part) for part in jax.__version__.split(".")[:2])
    if version < (0, 8):
        raise Failure(
            f"jax is {jax.__version__}, and must be 0.8 or later", "run `pip install -U jax`"
        )


def main(request: dict[str, Any]) -> None:
    """Answers a request on standard output. What user code prints goes to standard error."""
    result = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    json.dump(answer(request), result)
    result.close()
