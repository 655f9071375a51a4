"""What `shardwise import jax` asks for: the program of a function."""

from __future__ import annotations

import os
from typing import Any

from ..command import check_package, names_of_dims


def imported(request: dict[str, Any]) -> dict[str, Any]:
    """The program that a request asks for, and what to know of it."""
    check_package("jax", (0, 8), "jax")
    from .importer import Options, import_function
    from .target import arguments, load

    module, function, name = load(request["target"])
    args, named = arguments(module, request.get("args"))
    names = names_of_dims(request.get("names", []))
    title = f"`{name}` of {os.path.basename(request['target'].rpartition(':')[0])}, from JAX."
    options = Options(
        request.get("mesh"), request["hardware"], names, request.get("parameters"), title,
        request.get("strict", False),
    )  # fmt: skip
    program = import_function(function, args, named, options)
    return {
        "program": program.program,
        "warnings": program.warnings,
        "declared": program.declared,
    }
