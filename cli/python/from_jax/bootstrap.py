"""Runs the importer from sources on standard input, as `shardwise import jax` has them in itself:
so it needs no package but JAX, however `shardwise` was installed."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import sys
from types import ModuleType
from typing import Any, Optional

PACKAGE = "shardwise_from_jax"


class Sources(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of the importer among their sources."""

    def __init__(self, sources: dict[str, str]) -> None:
        self._sources = sources

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        package, _, module = name.partition(".")
        if package != PACKAGE or (module or "__init__") not in self._sources:
            return None
        origin = f"<shardwise>/{module or '__init__'}.py"
        return importlib.util.spec_from_loader(name, self, origin=origin, is_package=not module)

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__.partition(".")[2] or "__init__"
        module.__file__ = f"<shardwise>/{name}.py"
        exec(compile(self._sources[name], module.__file__, "exec"), module.__dict__)


def main() -> None:
    """Reads sources and a request, and answers it."""
    given = json.load(sys.stdin)
    sys.meta_path.insert(0, Sources(given["sources"]))
    importlib.import_module(f"{PACKAGE}.command").main(given["request"])


if __name__ == "__main__":
    main()
