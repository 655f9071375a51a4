"""Primitives of elements at equal places."""

from __future__ import annotations

from typing import Callable

import numpy as np

from . import fold
from .builder import Builder
from .flatten import Equation
from .graph import Array

# Primitives that are a function of the language by another name, or the same.
FUNCTIONS = {
    "abs": "abs", "cos": "cos", "erf": "erf", "exp": "exp", "expm1": "expm1", "log": "log",
    "logistic": "sigmoid", "neg": "neg", "rsqrt": "rsqrt", "sin": "sin", "sqrt": "sqrt",
    "square": "square", "stop_gradient": "stop_gradient", "tanh": "tanh",
}  # fmt: skip
INFIX = {"add": "+", "add_any": "+", "sub": "-", "mul": "*", "div": "/"}
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
# Those that change nothing.
IDENTITIES = ("copy", "copy_p", "optimization_barrier", "reduce_precision", "sharding_cast")

NUMPY: dict[str, Callable[..., object]] = {
    "abs": np.abs, "add": np.add, "ceil": np.ceil, "cos": np.cos, "div": np.divide,
    "eq": np.equal, "exp": np.exp, "expm1": np.expm1, "floor": np.floor, "ge": np.greater_equal,
    "gt": np.greater, "le": np.less_equal, "log": np.log, "log1p": np.log1p, "lt": np.less,
    "max": np.maximum, "min": np.minimum, "mul": np.multiply, "ne": np.not_equal,
    "neg": np.negative, "pow": np.power, "rem": np.fmod, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sign": np.sign, "sin": np.sin, "sqrt": np.sqrt,
    "square": np.square, "sub": np.subtract, "tanh": np.tanh, "not": np.logical_not,
    "and": np.logical_and, "or": np.logical_or, "is_finite": np.isfinite,
    "stop_gradient": lambda x: x,
}  # fmt: skip


def names() -> list[str]:
    """The primitives of this module."""
    own = (
        "max min select_n convert_element_type integer_pow pow log1p exp2 erfc sign and or not "
        "xor clamp logaddexp is_finite round floor ceil rem"
    )
    return [*FUNCTIONS, *INFIX, *COMPARISONS, *own.split()]


def convert(build: Builder, equation: Equation, inputs: list[Array]) -> Array:
    """The result of an element-wise primitive."""
    name, shape = equation.primitive, equation.outputs[0].shape
    dtype = build.dtype(equation.outputs[0].dtype)
    if name in NUMPY and all(array.node.is_number for array in inputs):
        return _computed(build, equation, inputs, dtype)
    if name in ("div", "rem", "and", "or", "not", "xor") and dtype == "int32":
        raise build.fail(
            f"`{name}` of integers is not in the language",
            "compute it outside of the function, and pass it as an argument",
        )
    if name in INFIX:
        return _arithmetic(build, name, inputs, shape, dtype)
    if name in COMPARISONS:
        return _compared(build, COMPARISONS[name], inputs, shape)
    if name in FUNCTIONS:
        result = build.call(FUNCTIONS[name], inputs[0], dtype=dtype)
        return fold.function(build, result)
    return OTHERS[name](build, equation, inputs, dtype)


def _computed(build: Builder, equation: Equation, inputs: list[Array], dtype: str) -> Array:
    """A function of numbers, which is a number."""
    of = np.dtype(np.float32) if dtype.startswith(("f", "b")) and dtype != "bool" else None
    numbers = [np.asarray(array.node.number) for array in inputs]
    if of is not None and equation.primitive != "pow":
        numbers = [np.asarray(number, np.float64) for number in numbers]
    if equation.primitive == "div" and dtype == "int32":
        value = np.asarray(int(numbers[0] / numbers[1]))
    else:
        value = np.asarray(NUMPY[equation.primitive](*numbers))
    value = value.astype(np.float32) if of is not None else value
    return build.constant(value, equation.outputs[0].shape, dtype)


def _is(array: Array, number: float) -> bool:
    return array.node.is_number and array.node.number == number


def _arithmetic(
    build: Builder, name: str, inputs: list[Array], shape: tuple[int, ...], dtype: str
) -> Array:
    a, b = inputs
    neutral = 0 if name in ("add", "add_any", "sub") else 1
    if _is(b, neutral) and a.shape == shape:
        return a
    if _is(a, neutral) and name in ("add", "add_any", "mul") and b.shape == shape:
        return b
    result = build.elementwise("infix", INFIX[name], [a, b], shape, dtype)
    return fold.arithmetic(build, result)


def _compared(build: Builder, sign: str, inputs: list[Array], shape: tuple[int, ...]) -> Array:
    """A comparison, whose second operand may be a number."""
    if inputs[0].node.is_number:
        flipped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
        return _compared(build, flipped.get(sign, sign), inputs[::-1], shape)
    if inputs[0].dtype == "bool" and inputs[1].node.is_number and sign in ("==", "!="):
        is_same = bool(inputs[1].node.number) == (sign == "==")
        kept = inputs[0] if is_same else _inverse(build, inputs[0])
        # The operand may have axes of length one where the result has longer ones.
        return Array(kept.node, kept.axes, shape)
    mask = fold.converted_mask(inputs[0]) if sign == "!=" and _is(inputs[1], 0) else None
    if mask is not None and mask.shape == shape:
        return mask
    return build.elementwise("infix", sign, inputs, shape, "bool")


def _extremum(build: Builder, equation: Equation, inputs: list[Array], dtype: str) -> Array:
    is_max = equation.primitive == "max"
    for a, b in (inputs, inputs[::-1]):
        if a.node.is_number and a.node.number == (-np.inf if is_max else np.inf):
            return b
        if is_max and dtype not in ("int32", "bool") and _is(a, 0) and b.node.dims:
            return build.call("relu", b)
    shape = equation.outputs[0].shape
    inputs = sorted(inputs, key=lambda array: array.node.is_number)
    return build.elementwise("call", "maximum" if is_max else "minimum", inputs, shape, dtype)


def _select(build: Builder, equation: Equation, inputs: list[Array], dtype: str) -> Array:
    which, *cases = inputs
    shape = equation.outputs[0].shape
    if which.node.is_number:
        # JAX takes the first or the last case where there is none of this number.
        return cases[min(max(int(which.node.number), 0), len(cases) - 1)]
    if which.dtype != "bool":
        return _numbered(build, which, cases, shape, dtype)
    otherwise, then = cases
    simpler = fold.selected(which, then, otherwise)
    if simpler is not None:
        return simpler
    if not which.shape:
        which = Array(which.node, (None,) * len(shape), shape)
    return chosen(build, [which, then, otherwise], shape, dtype)


def _numbered(
    build: Builder, which: Array, cases: list[Array], shape: tuple[int, ...], dtype: str
) -> Array:
    """The case whose number is given: choices between it and those after it."""
    if not which.shape:
        which = Array(which.node, (None,) * len(shape), shape)
    *before, result = cases
    for number, case in reversed(list(enumerate(before))):
        index = build.constant(number, which.shape, which.dtype)
        is_it = build.elementwise("infix", "==", [which, index], which.shape, "bool")
        result = chosen(build, [is_it, case, result], shape, dtype)
    return result


def chosen(build: Builder, arrays: list[Array], shape: tuple[int, ...], dtype: str) -> Array:
    """`select`, whose second operand is an array: a number may be the last one only."""
    which, then, otherwise = arrays
    if then.node.is_number:
        then = build.named_number(then)
    return build.elementwise("call", "select", [which, then, otherwise], shape, dtype)


def _convert_type(build: Builder, equation: Equation, inputs: list[Array], dtype: str) -> Array:
    (x,) = inputs
    is_whole = x.dtype in ("int32", "int8", "int4", "bool")
    if dtype in ("int32", "int8", "int4") and not is_whole and not fold.is_rounded(x.node):
        raise build.fail(
            "a conversion of floats to integers, which truncates, is not in the language",
            "round first: `jnp.round(x).astype(…)`",
        )
    if dtype == "bool" and x.dtype != "bool":
        zero = build.constant(0, x.shape, x.dtype)
        return _compared(build, "!=", [x, zero], equation.outputs[0].shape)
    return fold.converted(build, x, dtype) or build.cast(x, dtype)


def _integer_pow(build: Builder, equation: Equation, inputs: list[Array], dtype: str) -> Array:
    (x,), power = inputs, int(equation.params["y"])
    if power == 2:
        return build.call("square", x)
    if power in (3, 4):
        square = build.call("square", x)
        return build.infix("*", square, x if power == 3 else square)
    if power in (-1, -2):
        return build.infix(
            "/", build.constant(1.0, x.shape, dtype), x if power == -1 else build.call("square", x)
        )
    return build.call("pow", x, build.constant(float(power), x.shape, dtype))


def _pow(build: Builder, equation: Equation, inputs: list[Array], dtype: str) -> Array:
    base, exponent = inputs
    if base.node.is_number and float(base.node.number) > 0:
        rate = build.constant(np.log(float(base.node.number)), base.shape, dtype)
        return build.call("exp", build.infix("*", exponent, rate))
    exponent = build.cast(exponent, dtype)
    return build.elementwise("call", "pow", [base, exponent], equation.outputs[0].shape, dtype)


def _log1p(build: Builder, equation: Equation, inputs: list[Array], dtype: str) -> Array:
    one = build.constant(1.0, inputs[0].shape, dtype)
    return build.call("log", build.infix("+", one, inputs[0]))


def _exp2(build: Builder, equation: Equation, inputs: list[Array], dtype: str) -> Array:
    factor = build.constant(np.log(2.0), inputs[0].shape, dtype)
    return build.call("exp", build.infix("*", factor, inputs[0]))


def _erfc(build: Builder, equation: Equation, inputs: list[Array], dtype: str) -> Array:
    one = build.constant(1.0, inputs[0].shape, dtype)
    return build.infix("-", one, build.call("erf", inputs[0]))


def _sign(build: Builder, equation: Equation, inputs: list[Array], dtype: str) -> Array:
    (x,) = inputs
    zero, one = (build.constant(number, x.shape, dtype) for number in (0, 1))
    less = build.infix("<", x, zero, "bool")
    more = build.infix(">", x, zero, "bool")
    minus = build.constant(-1, x.shape, dtype)
    inner = chosen(build, [less, minus, zero], x.shape, dtype)
    return chosen(build, [more, one, inner], x.shape, dtype)


def _logical(build: Builder, equation: Equation, inputs: list[Array], dtype: str) -> Array:
    a, b = inputs
    is_and = equation.primitive == "and"
    shape = equation.outputs[0].shape
    for x, y in ((a, b), (b, a)):
        if x.node.is_number:
            kept = y if bool(x.node.number) == is_and else x
            # An operand may have axes of length one where the result has longer ones.
            return Array(kept.node, kept.axes, shape)
    cases = [a, b, a] if is_and else [a, a, b]
    return build.elementwise("call", "select", cases, shape, "bool")


def _not(build: Builder, equation: Equation, inputs: list[Array], dtype: str) -> Array:
    return _inverse(build, inputs[0])


def _inverse(build: Builder, mask: Array) -> Array:
    whole = build.cast(mask, "int32")
    return build.infix("==", whole, build.constant(0, whole.shape, "int32"), "bool")


def _xor(build: Builder, equation: Equation, inputs: list[Array], dtype: str) -> Array:
    a, b = (build.cast(array, "int32") for array in inputs)
    return build.infix("!=", a, b, "bool")


def _clamp(build: Builder, equation: Equation, inputs: list[Array], dtype: str) -> Array:
    low, x, high = inputs
    shape = equation.outputs[0].shape
    raised = build.elementwise("call", "maximum", [x, low], shape, dtype)
    return build.elementwise("call", "minimum", [raised, high], shape, dtype)


def _logaddexp(build: Builder, equation: Equation, inputs: list[Array], dtype: str) -> Array:
    for a, b in (inputs, inputs[::-1]):
        if _is(a, 0):
            return build.call("softplus", b)
    a, b = inputs
    return build.infix("+", a, build.call("softplus", build.infix("-", b, a)))


def _is_finite(build: Builder, equation: Equation, inputs: list[Array], dtype: str) -> Array:
    (x,) = inputs
    limit = build.constant(np.inf, x.shape, x.dtype)
    return build.infix("<", build.call("abs", x), limit, "bool")


def _round(build: Builder, equation: Equation, inputs: list[Array], dtype: str) -> Array:
    if int(equation.params.get("rounding_method", 1)) != 1:
        raise build.fail(
            "`round` away from zero is not in the language", "use `jnp.round`, which is to even"
        )
    return build.call("round", inputs[0])


def _refused(build: Builder, equation: Equation, inputs: list[Array], dtype: str) -> Array:
    raise build.fail(
        f"`{equation.primitive}` is not in the language",
        "compute it outside of the function, and pass it as an argument",
    )


OTHERS: dict[str, Callable[[Builder, Equation, list[Array], str], Array]] = {
    "max": _extremum,
    "min": _extremum,
    "select_n": _select,
    "convert_element_type": _convert_type,
    "integer_pow": _integer_pow,
    "pow": _pow,
    "log1p": _log1p,
    "exp2": _exp2,
    "erfc": _erfc,
    "sign": _sign,
    "and": _logical,
    "or": _logical,
    "not": _not,
    "xor": _xor,
    "clamp": _clamp,
    "logaddexp": _logaddexp,
    "is_finite": _is_finite,
    "round": _round,
    "floor": _refused,
    "ceil": _refused,
    "rem": _refused,
}
