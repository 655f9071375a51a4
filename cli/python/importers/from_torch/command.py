"""What `shardwise import torch` asks for: the program of a model."""

from __future__ import annotations

import os
from typing import Any

from ..command import check_package, names_of_dims


def imported(request: dict[str, Any]) -> dict[str, Any]:
    """The program that a request asks for, and what to know of it."""
    check_package("torch", (2, 8), "torch")
    check_package("jax", (0, 8), "torch")
    from ..from_jax.importer import Options
    from .importer import import_model
    from .target import arguments, load

    module, model, name = load(request["target"])
    args, named = arguments(module, request.get("args"), model)
    title = f"`{name}` of {os.path.basename(request['target'].rpartition(':')[0])}, from PyTorch."
    names = names_of_dims(request.get("names", []))
    strict = request.get("strict", False)
    options = Options(request.get("mesh"), request["hardware"], names, None, title, strict)
    program = import_model(model, args, named, options)
    return {
        "program": program.program,
        "warnings": program.warnings,
        "declared": program.declared,
    }
