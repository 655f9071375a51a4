"""Jaxprs with all calls inlined: one list of equations, and one for the body of each loop."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

import jax.dtypes
import jax.numpy
import numpy as np
from jax._src import source_info_util
from jax.extend.core import Literal

from ..failure import Source

# The parameters in which primitives that call a function have it.
CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr")
# Primitives that call a function once, on all of their operands. Others have functions, too, and do
# something else with them: `shard_map`, `pallas_call`, `while`.
INLINED = (
    "jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call",
    "custom_vjp_call_jaxpr", "remat", "remat2", "checkpoint",
)  # fmt: skip

# Primitives that make a key of random numbers.
SEEDS = ("random_seed", "random_wrap")

# The equations of `jnp.logaddexp`, a case of which is `jax.nn.softplus`.
LOGADDEXP = ["max", "sub", "ne", "add", "abs", "neg", "exp", "log1p", "add", "select_n"]


@dataclass(eq=False)
class Var:
    """A variable of the inlined function."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(eq=False)
class Constant:
    """A literal, or an array that the function has captured."""

    value: Any
    dtype: Any
    # Whether it was drawn at random, or computed of what was.
    is_drawn: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(np.shape(self.value))


Atom = Union[Var, Constant]


@dataclass
class Equation:
    """A primitive, applied."""

    primitive: str
    inputs: list[Atom]
    outputs: list[Var]
    params: Mapping[str, Any]
    source: Optional[Source]
    # The name that the user's line assigns to.
    hint: Optional[str]
    body: Optional[Function] = None


# A line of the user's, and the name that it assigns to.
Place = tuple[Optional[Source], Optional[str]]
# Where an equation of a jaxpr comes from.
PlaceOf = Callable[[Any], Place]


@dataclass
class Function:
    """Equations between inputs and outputs."""

    inputs: list[Var]
    outputs: list[Atom] = field(default_factory=list)
    equations: list[Equation] = field(default_factory=list)


def flatten(closed: Any, place_of: PlaceOf) -> Function:
    """A closed jaxpr with all calls inlined, without equations that nothing reads."""
    inputs = [_variable(var) for var in closed.jaxpr.invars]
    function = Function(inputs)
    consts = [_constant(value) for value in closed.consts]
    into = Inlined(function.equations, place_of)
    function.outputs = _inline(closed.jaxpr, consts, list(inputs), into, (None, None))
    drop_unread(function)
    return function


@dataclass
class Inlined:
    """The equations of a function and its calls, while they are collected."""

    equations: list[Equation]
    place_of: PlaceOf


def _constant(value: Any) -> Constant:
    return Constant(value, jax.dtypes.canonicalize_dtype(np.result_type(value)))


def _variable(var: Any) -> Var:
    return Var(tuple(var.aval.shape), var.aval.dtype)


def _inline(
    jaxpr: Any,
    consts: Sequence[Atom],
    arguments: Sequence[Atom],
    into: Inlined,
    outer: Place,
) -> list[Atom]:
    """Appends the equations of a jaxpr; its outputs."""
    known: dict[Any, Atom] = {}
    known.update(zip(jaxpr.constvars, consts))
    known.update(zip(jaxpr.invars, arguments))

    def atom(of: Any) -> Atom:
        if isinstance(of, Literal):
            return Constant(of.val, getattr(of.aval, "dtype"))
        return known[of]

    for eqn in jaxpr.eqns:
        inputs = [atom(of) for of in eqn.invars]
        drawn = _drawn(eqn, inputs)
        if drawn is not None:
            known.update(zip(eqn.outvars, drawn))
            continue
        place = into.place_of(eqn)
        source, hint = (place[0] or outer[0], place[1] or (outer[1] if place[0] is None else None))
        if eqn.primitive.name == "platform_index":
            known[eqn.outvars[0]] = _platform(eqn)
            continue
        if eqn.primitive.name == "cond":
            known.update(zip(eqn.outvars, _chosen(eqn, inputs, into, (source, hint))))
            continue
        called = _called(eqn)
        if called is not None:
            inner, inner_consts = called
            given = [_constant(value) for value in inner_consts]
            outputs = _inline(inner, given, inputs, into, (source, hint))
            known.update(zip(eqn.outvars, outputs))
            continue
        created = [_variable(var) for var in eqn.outvars]
        known.update(zip(eqn.outvars, created))
        name = "logaddexp" if _is_logaddexp(eqn) else eqn.primitive.name
        equation = Equation(name, inputs, created, eqn.params, source, hint)
        if name == "scan":
            equation.body = flatten(eqn.params["jaxpr"], into.place_of)
        into.equations.append(equation)
    return [atom(of) for of in jaxpr.outvars]


def is_key(dtype: Any) -> bool:
    """Whether elements are keys of random numbers."""
    return bool(jax.numpy.issubdtype(dtype, jax.dtypes.prng_key))


def _drawn(eqn: Any, inputs: Sequence[Atom]) -> Optional[list[Atom]]:
    """The results of an equation, if it draws random numbers with a key that the function has
    itself, or computes with those: they are the same in every call."""
    constants = [it for it in inputs if isinstance(it, Constant)]
    is_random = any(it.is_drawn for it in constants) or eqn.primitive.name in SEEDS
    if len(constants) < len(inputs) or not is_random:
        return None
    found = eqn.primitive.bind(*[it.value for it in constants], **eqn.params)
    results = found if eqn.primitive.multiple_results else [found]
    return [Constant(it, it.dtype, True) for it in results]


def _platform(eqn: Any) -> Constant:
    """Which of several branches runs on the platform that is no special case."""
    others = [at for at, names in enumerate(eqn.params["platforms"]) if names is None]
    return Constant(np.int32(others[0] if others else 0), np.dtype(np.int32))


def _chosen(eqn: Any, inputs: Sequence[Atom], into: Inlined, place: Place) -> list[Atom]:
    """The results of a `cond` or `switch`: those of all branches are computed, and one is selected;
    or those of the branch that is known to run."""
    which, *operands = inputs
    taken = eqn.params["branches"]
    if isinstance(which, Constant):
        at = min(max(int(which.value), 0), len(taken) - 1)
        taken = taken[at : at + 1]
    branches = []
    for branch in taken:
        consts = [_constant(value) for value in branch.consts]
        branches.append(_inline(branch.jaxpr, consts, operands, into, place))
    if len(branches) == 1:
        return branches[0]
    if len(branches) == 2:
        is_second = Var((), np.dtype(bool))
        compared = [which, Constant(np.int32(0), np.dtype(np.int32))]
        into.equations.append(Equation("ne", compared, [is_second], {}, *place))
        which = is_second
    found: list[Atom] = []
    for var, *cases in zip(eqn.outvars, *branches):
        created = _variable(var)
        into.equations.append(Equation("select_n", [which, *cases], [created], {}, *place))
        found.append(created)
    return found


def _called(eqn: Any) -> Optional[tuple[Any, Sequence[Any]]]:
    """The jaxpr that an equation calls, with its constants."""
    if eqn.primitive.name not in INLINED or _is_logaddexp(eqn):
        return None
    if eqn.primitive.name in ("jit", "pjit") and _is_sampler(eqn):
        return None
    for name in CALLS:
        inner = eqn.params.get(name)
        if hasattr(inner, "eqns") and hasattr(inner, "consts"):
            return inner.jaxpr, inner.consts
        if hasattr(inner, "eqns") and not inner.constvars:
            return inner, []
    return None


def _is_sampler(eqn: Any) -> bool:
    """Whether it is a function of `jax.random`: they take a key, and start with an underscore."""
    has_key = bool(eqn.invars) and is_key(eqn.invars[0].aval.dtype)
    return has_key and str(eqn.params.get("name", "")).startswith("_")


def _is_logaddexp(eqn: Any) -> bool:
    if eqn.primitive.name != "custom_jvp_call" or eqn.params.get("name") != "logaddexp":
        return False
    return [it.primitive.name for it in eqn.params["call_jaxpr"].eqns] == LOGADDEXP


def user_line(eqn: Any) -> Place:
    """The user's line that an equation comes from, and the name that this line assigns to."""
    frames = list(source_info_util.user_frames(eqn.source_info.traceback))
    # Lines of a framework say less than the user's own that called them.
    own = [frame for frame in frames if "site-packages" not in frame.file_name]
    if not own:
        return None, None
    frame = own[0]
    line = linecache.getline(frame.file_name, frame.start_line)
    return Source(frame.file_name, frame.start_line), assigned_name(line)


def assigned_name(line: str) -> Optional[str]:
    """The name that a line of Python assigns to."""
    assigned = re.match(r"\s*([A-Za-z]\w*)\s*=(?!=)", line)
    return assigned.group(1) if assigned else None


def drop_unread(function: Function) -> None:
    """Removes equations whose results nothing reads; of loops, also what they collect unread."""
    read = {atom for atom in function.outputs if isinstance(atom, Var)}
    kept = []
    for equation in reversed(function.equations):
        if not any(var in read for var in equation.outputs):
            continue
        read.update(atom for atom in equation.inputs if isinstance(atom, Var))
        kept.append(equation)
    function.equations = kept[::-1]


def reads(function: Function) -> dict[Var, int]:
    """How often each variable is read in a function, and by its outputs; loops read once."""
    count: dict[Var, int] = {}
    atoms = [atom for equation in function.equations for atom in equation.inputs]
    for atom in [*atoms, *function.outputs]:
        if isinstance(atom, Var):
            count[atom] = count.get(atom, 0) + 1
    return count
