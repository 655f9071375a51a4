"""Runs the importers from sources on standard input, as `shardwise import` has them in itself: so
they need no package but that of the models, however `shardwise` was installed."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import sys
from types import ModuleType
from typing import Any, Optional

PACKAGE = "shardwise_importers"


class Sources(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of the importers among their sources, by path: `from_jax/dims`."""

    def __init__(self, sources: dict[str, str]) -> None:
        self._sources = sources

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        source = self._path(name)
        if source is None:
            return None
        is_package = source.endswith("__init__")
        origin = f"<shardwise>/{source}.py"
        return importlib.util.spec_from_loader(name, self, origin=origin, is_package=is_package)

    def _path(self, name: str) -> Optional[str]:
        package, *parts = name.split(".")
        if package != PACKAGE:
            return None
        module, inside = "/".join(parts), "/".join([*parts, "__init__"])
        return next((path for path in (module, inside) if path in self._sources), None)

    def exec_module(self, module: ModuleType) -> None:
        path = self._path(module.__name__)
        assert path is not None
        module.__file__ = f"<shardwise>/{path}.py"
        exec(compile(self._sources[path], module.__file__, "exec"), module.__dict__)


def main() -> None:
    """Reads sources and a request, and answers it."""
    given = json.load(sys.stdin)
    sys.meta_path.insert(0, Sources(given["sources"]))
    importlib.import_module(f"{PACKAGE}.command").main(given["request"])


if __name__ == "__main__":
    main()
