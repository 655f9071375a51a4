"""Finds the function and its arguments: `models.py:forward`, `params(), x=f32[B:8, T:128]`."""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import inspect
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

import jax
import jax.numpy as jnp
import numpy as np

from ..failure import Failure, Source

# Element types that arguments are written with, `f32[8, 128]`.
TYPES = {
    "bool": "bool", "bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64",
    "fp8": "float8_e4m3fn", "int4": "int4", "int8": "int8", "int32": "int32", "int64": "int64",
    "uint8": "uint8",
}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """An array of which only this is known; its axes may have names."""

    shape: tuple[int, ...]
    dtype: Any
    names: tuple[Optional[str], ...]


@dataclass(frozen=True)
class Unknown:
    """A name that the module does not define: that of a dimension, in `f32[B:8]`."""

    name: str

    def __getattr__(self, attribute: str) -> Any:
        raise NameError(f"name '{self.name}' is not defined")

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise NameError(f"name '{self.name}' is not defined")

    def __getitem__(self, _: Any) -> Any:
        raise Failure(f"`{self.name}` is no element type", f"there are {', '.join(TYPES)}")


class Type:
    """`f32`: with sizes in brackets, a shape."""

    def __init__(self, name: str) -> None:
        self._dtype = jnp.dtype(TYPES[name])
        self._name = name

    def __getitem__(self, sizes: Any) -> Shape:
        entries = sizes if isinstance(sizes, tuple) else (sizes,)
        shape, names = [], []
        for entry in entries:
            name = None
            if isinstance(entry, slice) and entry.step is None:
                name = getattr(entry.start, "name", None)
                if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9']*", name):
                    raise TypeError(f"`{entry.start}` is not a name of a dimension")
                entry = entry.stop
            if isinstance(entry, Unknown):
                raise TypeError(f"`{entry.name}` has no size; write `{entry.name}:128`")
            if int(entry) < 1:
                raise Failure(f"an axis has {entry} elements", "write sizes of 1 or more")
            shape.append(int(entry))
            names.append(name)
        return Shape(tuple(shape), self._dtype, tuple(names))


# `bool[8, 128]` in the expressions of arguments, in which `bool` alone is Python's own.
SHAPES_OF_BOOL = "__bool__"


class OfBool(ast.NodeTransformer):
    """Gives shapes of `bool` a name of their own."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "bool":
            node.value.id = SHAPES_OF_BOOL
        return node


def _names(module: Any, tree: ast.AST) -> dict[str, Any]:
    """The names of an expression of arguments: those of the module, JAX, types, and dimensions."""
    known: dict[str, Any] = {"jax": jax, "jnp": jnp, "np": np}
    known.update({name: Type(name) for name in TYPES if name != "bool"})
    known[SHAPES_OF_BOOL] = Type("bool")
    known.update(vars(module))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    unknown = {name for name in used if name not in known and not hasattr(builtins, name)}
    return known | {name: Unknown(name) for name in unknown}


def load(target: str) -> tuple[Any, Callable[..., Any], str]:
    """The module and the function of `MODULE:FUNCTION`, and the function's name."""
    path, colon, name = target.rpartition(":")
    if not colon or not path or not name:
        raise Failure(
            f"`{target}` names no function", "write the file and the function: `models.py:forward`"
        )
    module = _module(path)
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            names = [it for it, of in vars(module).items() if callable(of) and it[:1] != "_"]
            raise Failure(
                f"`{path}` has no function `{name}`", f"it has {', '.join(sorted(names)) or 'none'}"
            )
        found = getattr(found, part)
    if not callable(found):
        raise Failure(f"`{name}` is not a function", "name one that takes the arguments")
    return module, found, name


def _module(path: str) -> Any:
    what, how = f"`{path}` cannot be imported", "it must be a file that Python can import"
    if not path.endswith(".py"):
        if not all(part.isidentifier() for part in path.split(".")):
            raise Failure(f"`{path}` is no Python file or module", "write `models.py:forward`")
        sys.path.insert(0, os.getcwd())
        return guarded(what, how, lambda: importlib.import_module(path))
    if not os.path.isfile(path):
        raise Failure(f"cannot read `{path}`: no such file", "write the path of the Python file")
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    loader = spec.loader
    guarded(what, how, lambda: loader.exec_module(module))
    return module


def guarded(what: str, how: str, run: Callable[[], Any]) -> Any:
    """Runs code of the user, whose exceptions are errors with the line that raised them; `how` it
    should be."""
    try:
        return run()
    except ModuleNotFoundError as error:
        raise Failure(
            f"{what}: there is no package `{error.name}`",
            f"run `pip install {error.name}`, or write the path of a file: `models.py:forward`",
        ) from error
    except Failure:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, jax.errors.ConcretizationTypeError):
            how = "what runs must not depend on data: use `jnp.where`, `jax.lax.cond` or a size"
        if isinstance(error, jax.errors.TracerArrayConversionError):
            how = "use functions of `jax.numpy`, not of `numpy`, on arrays"
        message = next(iter(str(error).strip().splitlines()), "")
        name = type(error).__name__
        raise Failure(
            f"{what}: {name}: {message}" if message else f"{what}: {name}", how, raised_at(error)
        ) from error


def raised_at(error: BaseException) -> Optional[Source]:
    """The last line of the user's own code in a traceback."""
    own, standard = os.path.dirname(os.path.dirname(__file__)), sysconfig.get_path("stdlib")
    found = None
    for frame in traceback.extract_tb(error.__traceback__):
        is_library = "site-packages" in frame.filename or frame.filename.startswith("<")
        is_library |= frame.filename.startswith(standard)
        is_own = frame.filename.startswith(own)
        if not is_library and not is_own and "importlib" not in frame.filename:
            found = Source(frame.filename, frame.lineno or 0)
    return found


def arguments(module: Any, text: Optional[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What an expression of arguments gives: those by place and by name."""

    def collect(*args: Any, **named: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return args, named

    if text is None:
        return (), {}
    # `f32[]` is a single number, which Python has no empty brackets for.
    text = re.sub(rf"\b({'|'.join(TYPES)})\[\s*\]", r"\1[()]", text)
    try:
        tree = OfBool().visit(ast.parse(f"__collect__({text})", "<--args>", mode="eval"))
    except SyntaxError as error:
        raise Failure(
            f"--args is not what stands in a call: {error.msg}",
            "write it as in Python: --args 'init(), x=f32[8, 128]'",
        ) from error
    names = _names(module, tree) | {"__collect__": collect}
    code = compile(tree, "<--args>", "eval")
    how = "write it as in Python: --args 'init(), x=f32[8, 128]'"
    return guarded("--args", how, lambda: eval(code, names))  # type: ignore[no-any-return]


@dataclass
class Traced:
    """A function as a jaxpr, with the arguments that are arrays."""

    jaxpr: Any
    # Name, path in the argument, and shape of every array.
    leaves: list[tuple[str, tuple[str, ...], Any]]
    outputs: list[str]
    parameters: dict[str, bool]


def bound_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
) -> inspect.BoundArguments:
    """The arguments by the names that the function has for them."""
    try:
        return inspect.signature(function).bind(*args, **named)
    except TypeError as error:
        signature = f"{getattr(function, '__name__', 'it')}{inspect.signature(function)}"
        raise Failure(
            f"the arguments do not fit `{signature}`: {error}", "give them with --args"
        ) from error


def trace(function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Traced:
    """The jaxpr of a call. Arguments that are no arrays (sizes, flags, configurations) are
    constants."""
    bound = bound_arguments(function, args, named)
    given = dict(bound.arguments)
    flat, tree = jax.tree_util.tree_flatten_with_path(given)
    is_array = [hasattr(leaf, "shape") and hasattr(leaf, "dtype") for _, leaf in flat]
    for (_, leaf), known in zip(flat, is_array):
        if isinstance(leaf, Unknown) and not known:
            raise Failure(
                f"`{leaf.name}` is not defined", "arguments are names of the module, or shapes"
            )
    leaves = [it for it, known in zip(flat, is_array) if known]

    def call(*arrays: Any) -> Any:
        left = iter(arrays)
        values = [next(left) if known else leaf for (_, leaf), known in zip(flat, is_array)]
        bound.arguments.update(jax.tree_util.tree_unflatten(tree, values))
        return function(*bound.args, **bound.kwargs)

    shapes = [
        jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)  # type: ignore[no-untyped-call]
        for _, leaf in leaves
    ]
    made = jax.make_jaxpr(call, return_shape=True)
    how = "it must run in Python with these arguments"
    jaxpr, result = guarded("the function raised an exception", how, lambda: made(*shapes))
    paths, _ = jax.tree_util.tree_flatten_with_path(result)
    if not paths:
        raise Failure("the function returns no array", "return what the program is to compute")
    outputs = [".".join(_words(path)) or "out" for path, _ in paths]
    found = [(".".join(_words(path)), _words(path), leaf) for path, leaf in leaves]
    parameters = {_word(name): _is_parameters(name, value) for name, value in given.items()}
    return Traced(jaxpr, found, outputs, parameters)


def _words(path: Any) -> tuple[str, ...]:
    """A path in a tree as words."""
    words = []
    for key in path:
        word = getattr(key, "key", getattr(key, "name", getattr(key, "idx", None)))
        words.append(_word(str(word)))
    return tuple(words)


def _word(name: str) -> str:
    """A name in the letters that names of programs have."""
    word = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return word if word.strip("_") else "x"


def _is_parameters(name: str, value: Any) -> bool:
    """Whether an argument is weights: a container of arrays, or so called."""
    is_array = hasattr(value, "shape") and hasattr(value, "dtype")
    return not is_array or re.match(r"(param|weight|[wW]\d*$|[wW]_)", name) is not None
