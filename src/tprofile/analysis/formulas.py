"""What one call of an operator has to do, from what it was called with."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import nan, prod
from typing import Any

import numpy as np

from ..intervals import NONE
from .arguments import Inputs

_TYPES = {
    "double": "float64", "float": "float32", "c10::Half": "float16", "c10::BFloat16": "bfloat16",
    "c10::Float8_e4m3fn": "float8", "c10::Float8_e5m2": "float8",
    "c10::Float8_e4m3fnuz": "float8", "c10::Float8_e5m2fnuz": "float8",
    "long int": "int64", "long": "int64", "long long": "int64", "__int64": "int64",
    "int": "int32", "short": "int16", "short int": "int16",
    "signed char": "int8", "unsigned char": "uint8", "bool": "bool",
    "c10::complex<float>": "complex64", "c10::complex<double>": "complex128",
}  # fmt: skip
"""What torch's record calls an element (the name that C++ has for it), and what Python does."""

_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8": 1, "int64": 8, "int32": 4,
    "int16": 2, "int8": 1, "uint8": 1, "bool": 1, "complex64": 8, "complex128": 16,
}  # fmt: skip

DTYPES = tuple(_BYTES)
"""Names of the element types that `Counts.dtype` is an index of."""

_CODES = {
    "0": "uint8", "1": "int8", "2": "int16", "3": "int32", "4": "int64", "5": "float16",
    "6": "float32", "7": "float64", "9": "complex64", "10": "complex128", "11": "bool",
    "15": "bfloat16", "23": "float8", "24": "float8", "25": "float8", "26": "float8",
}  # fmt: skip
"""torch's numbers for element types, which is how an argument `dtype` is recorded."""

MATRIX = ("gemm", "convolution", "attention")
"""Kinds of operator whose operations are worth counting."""


KINDS = (*MATRIX, "pointwise", "reduction", "copy", "other")
"""Kinds of operator, and of device work."""


class _Unknown(Exception):
    """The arguments do not tell."""


@dataclass(frozen=True)
class _Call:
    """One way in which an operator was called."""

    inputs: Inputs

    def shape(self, i: int, rank: int | None = None) -> tuple[int, ...]:
        """Return the shape of a tensor, of the given rank if any."""
        dims = self.inputs.dims[i] if i < len(self.inputs.dims) else None
        if not self.dtype(i) or not isinstance(dims, list):
            raise _Unknown
        if not all(type(d) is int and d >= 0 for d in dims) or prod(dims) >= 2**63:
            raise _Unknown
        if rank is not None and len(dims) != rank:
            raise _Unknown
        return tuple(dims)

    def dtype(self, i: int) -> str:
        """Return the element type of a tensor; empty for what is none."""
        if i >= len(self.inputs.types) or not isinstance(self.inputs.types[i], str):
            return ""
        return _TYPES.get(self.inputs.types[i].removeprefix("struct "), "")

    def absent(self, i: int) -> bool:
        """Tell whether an optional tensor was not given."""
        return i >= len(self.inputs.types) or self.inputs.types[i] == ""

    def size(self, i: int) -> float:
        """Return the bytes of a tensor: 0 without one, NaN where they are not known."""
        if self.absent(i):
            return 0
        if not self.dtype(i):
            return nan
        shape, strides = self.shape(i), self.inputs.strides
        if i < len(strides) and isinstance(strides[i], list) and len(strides[i]) == len(shape):
            shape = tuple(1 if s == 0 and d else d for d, s in zip(shape, strides[i], strict=True))
        return prod(shape) * _BYTES[self.dtype(i)]

    def text(self, i: int) -> str:
        """Return what was given for an argument that is no tensor; empty where that is unknown."""
        told = self.inputs.concrete
        return told[i] if i < len(told) and isinstance(told[i], str) else ""

    def flag(self, i: int) -> bool:
        if self.text(i) not in ("True", "False"):
            raise _Unknown
        return self.text(i) == "True"

    def list(self, i: int, kind: type = int) -> tuple[int, ...]:
        """Return a list of whole numbers, or of truths."""
        try:
            value = ast.literal_eval(self.text(i))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise _Unknown from None
        if not isinstance(value, list) or not all(type(one) is kind for one in value):
            raise _Unknown
        return tuple(value)


Counted = tuple[float, float, float, int, int]


def counted(name: str, inputs: Inputs | None) -> Counted:
    """Return flops, bytes, bytes of a part, parts and element type of a call."""
    if inputs is None:
        return nan, nan, nan, NONE, NONE
    call = _Call(inputs)
    try:
        flops, moved, *part = FORMULAS[name][1](call)
    except _Unknown:
        return nan, nan, nan, NONE, NONE
    dtype = call.dtype(0)
    if dtype.startswith("complex"):
        # Each multiplication with its addition is four of each.
        flops *= 4
    parts, part_bytes = part or (1, moved)
    return flops, moved, part_bytes, int(parts), DTYPES.index(dtype) if dtype else NONE


def _of(call: _Call, i: int, shape: tuple[int, ...], dtype: str | None = None) -> float:
    """Return the bytes of an output of that shape, of the type of an input or of the given one."""
    dtype = call.dtype(i) if dtype is None else dtype
    return prod(shape) * _BYTES[dtype] if dtype in _BYTES else nan


def _gemm(call: _Call, a: int = 0, added: int | None = None) -> tuple[float, float]:
    """Matrices, or batches of them, with what the product is added to."""
    left, right = call.shape(a), call.shape(a + 1)
    if not 2 <= len(left) == len(right) <= 3:
        raise _Unknown
    *batch, m, k = left
    *others, inner, n = right
    if batch != others or k != inner:
        raise _Unknown
    # An overload of mm and bmm says what to return.
    told = added is None and call.inputs.types[2:3] == ["Scalar"]
    out = _CODES.get(call.text(2), "") if told else None
    moved = call.size(a) + call.size(a + 1) + _of(call, a, (*batch, m, n), out)
    return 2 * prod(left) * n, moved + _added(call, added)


def _added(call: _Call, i: int | None) -> float:
    """Return the bytes of what a product is added to, which is not read if its factor is 0."""
    if i is None or call.text(3) in ("0", "0.", "0.0"):
        return 0
    return call.size(i)


def _addbmm(call: _Call) -> tuple[float, float]:
    (b, m, k), (others, inner, n) = call.shape(1, 3), call.shape(2, 3)
    if (b, k) != (others, inner):
        raise _Unknown
    moved = call.size(1) + call.size(2) + _of(call, 1, (m, n))
    return 2 * b * m * k * n, moved + _added(call, 0)


def _mv(call: _Call, a: int = 0, added: int | None = None) -> tuple[float, float]:
    (m, n), (inner,) = call.shape(a, 2), call.shape(a + 1, 1)
    if n != inner:
        raise _Unknown
    moved = call.size(a) + call.size(a + 1) + _of(call, a, (m,))
    return 2 * m * n, moved + _added(call, added)


def _dot(call: _Call) -> tuple[float, float]:
    (n,) = call.shape(0, 1)
    if call.shape(1) != (n,):
        raise _Unknown
    return 2 * n, call.size(0) + call.size(1) + _of(call, 0, ())


def _linear(call: _Call) -> tuple[float, float]:
    *rows, k = call.shape(0)
    n, inner = call.shape(1, 2)
    if k != inner:
        raise _Unknown
    moved = call.size(0) + call.size(1) + call.size(2) + _of(call, 0, (*rows, n))
    return 2 * prod(rows) * k * n, moved


def _scaled_mm(call: _Call) -> tuple[float, float]:
    (m, k), (inner, n) = call.shape(0, 2), call.shape(1, 2)
    if k != inner:
        raise _Unknown
    read = sum(call.size(i) for i in range(5))
    return 2 * m * k * n, read + _of(call, 0, (m, n), _CODES.get(call.text(6), ""))


def _int_mm(call: _Call) -> tuple[float, float]:
    (m, k), (inner, n) = call.shape(0, 2), call.shape(1, 2)
    if k != inner:
        raise _Unknown
    return 2 * m * k * n, call.size(0) + call.size(1) + _of(call, 0, (m, n), "int32")


def _convolution(
    call: _Call,
    *,
    stride: int,
    padding: int,
    dilation: int | None,
    bias: int | None = None,
    transposed: int | bool = False,
    output_padding: int | None = None,
    also: int | None = None,
) -> tuple[float, float]:
    """Return the counts of a convolution whose arguments have these places."""
    x, w = call.shape(0), call.shape(1)
    size = len(x) - 2
    if size < 1 or len(w) != len(x):
        raise _Unknown

    def of(i: int | None, default: int) -> tuple[int, ...]:
        values = (default,) if i is None else call.list(i)
        values = values * size if len(values) == 1 else values
        if len(values) != size:
            raise _Unknown
        return values

    steps, pads, holes = of(stride, 1), of(padding, 0), of(dilation, 1)
    if 0 in steps:
        raise _Unknown
    back = transposed if isinstance(transposed, bool) else call.flag(transposed)
    window = [h * (k - 1) + 1 for h, k in zip(holes, w[2:], strict=True)]
    if back:
        more = of(output_padding, 0)
        space = [
            (n - 1) * s - 2 * p + k + o
            for n, s, p, k, o in zip(x[2:], steps, pads, window, more, strict=True)
        ]
        # Channels out are those of one group, times the groups: channels in over those of one.
        groups = 1 if output_padding is None else int(call.text(output_padding + 1) or "0")
        channels = w[1] * groups
    else:
        space = [
            (n + 2 * p - k) // s + 1 for n, s, p, k in zip(x[2:], steps, pads, window, strict=True)
        ]
        channels = w[0]
    if min(space) < 0:
        raise _Unknown
    flops = 2 * x[0] * prod(x[2:] if back else space) * prod(w)
    moved = call.size(0) + call.size(1) + _of(call, 0, (x[0], channels, *space))
    return flops, moved + sum(call.size(i) for i in (bias, also) if i is not None)


def _convolution_backward(call: _Call) -> tuple[float, float, int, float]:
    """Each of the two gradients is a product of as many operations as the convolution itself."""
    grad, x, w = call.shape(0), call.shape(1), call.shape(2)
    if not len(grad) == len(x) == len(w) >= 3 or grad[0] != x[0]:
        raise _Unknown
    wanted = call.list(10, bool)
    if len(wanted) != 3:
        raise _Unknown
    space = x[2:] if call.flag(7) else grad[2:]
    parts = sum(wanted[:2])
    if not parts:
        raise _Unknown
    product = 2 * x[0] * prod(space) * prod(w)
    data, weight = call.size(1), call.size(2)
    read = call.size(0) + (weight if wanted[0] else 0) + (data if wanted[1] else 0)
    written = (data if wanted[0] else 0) + (weight if wanted[1] else 0)
    return parts * product, read + written, parts, call.size(0) + data + weight


def _attention(
    call: _Call,
    *,
    q: int = 0,
    heads: int = 1,
    causal: int,
    bias: int | None = None,
    lengths: int | None = None,
    windows: tuple[int, ...] = (),
    backward: bool = False,
) -> tuple[float, float]:
    """Return the counts of attention; `heads` is the axis of the heads in its inputs."""
    sequence = 3 - heads
    query, key, value = (call.shape(i, 4) for i in range(q, q + 3))
    if key[sequence] != value[sequence] or query[3] != key[3] or query[0] != key[0]:
        raise _Unknown
    if lengths is not None and not (call.absent(lengths) and call.absent(lengths + 1)):
        # Sequences of various lengths in one: how long they are, no shape tells.
        raise _Unknown
    if any(call.text(i) not in ("", "-1", "None") for i in windows):
        raise _Unknown
    rows, columns = query[sequence], key[sequence]
    pairs = _pairs(call.text(causal), rows, columns)
    products = 2 * query[0] * query[heads] * pairs
    size = query[3] * (3 if backward else 1) + value[3] * (2 if backward else 1)
    out = (*query[:3], value[3])
    inputs = sum(call.size(i) for i in range(q, q + 3)) + (0 if bias is None else call.size(bias))
    if not backward:
        return products * size, inputs + _of(call, q, out)
    # Read too: the output and its gradient; written: a gradient for each of the inputs.
    written = sum(_of(call, i, call.shape(i)) for i in range(q, q + 3))
    return products * size, inputs + 2 * _of(call, q, out) + written


def _pairs(mask: str, rows: int, columns: int) -> int:
    """Return how many pairs of a query and a key a mask leaves.

    `mask` is whether it is causal, or the number that the memory-efficient kernel has for it.
    """
    if mask in ("False", "0"):
        return rows * columns
    if mask not in ("True", "1", "2") or (mask == "True" and rows != columns):
        # From which end an oblong mask counts differs from kernel to kernel.
        raise _Unknown
    if mask == "2":
        skipped = max(columns - rows, 0)
        rows, columns = min(rows, columns), columns
        return rows * skipped + rows * (rows + 1) // 2
    square = min(rows, columns)
    return square * (square + 1) // 2 + max(rows - columns, 0) * columns


def _broadcast(call: _Call, inputs: int) -> tuple[tuple[int, ...], str, float]:
    """Return the shape and type of what tensors make elementwise, and the bytes read for it."""
    given = call.inputs.types[:inputs]
    tensors = [i for i in range(inputs) if call.dtype(i)]
    if not tensors or len(tensors) < sum(one not in ("", "Scalar") for one in given):
        raise _Unknown
    shapes = [call.shape(i) for i in tensors]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise _Unknown from None
    # A tensor of no dimension does not widen the others.
    kinds = {call.dtype(i) for i in tensors if call.shape(i)} or {call.dtype(i) for i in tensors}
    dtype = kinds.pop() if len(kinds) == 1 else ""
    if "float" not in dtype:
        raise _Unknown
    return tuple(shape), dtype, sum(call.size(i) for i in tensors)


def _pointwise(
    call: _Call, inputs: int, operations: float = nan, to: str | None = None
) -> tuple[float, float]:
    shape, dtype, read = _broadcast(call, inputs)
    return operations * prod(shape), read + _of(call, 0, shape, to or dtype)


def _in_place(call: _Call, inputs: int, operations: float = nan) -> tuple[float, float]:
    shape, _, read = _broadcast(call, inputs)
    if shape != call.shape(0):
        raise _Unknown
    return operations * prod(shape), read + _of(call, 0, shape)


def _scaled(call: _Call, formula: Callable[..., tuple[float, float]]) -> tuple[float, float]:
    """Add or subtract, which is two operations where the second input has a factor."""
    return formula(call, 2, 1 if call.text(2) in ("", "1", "1.", "1.0") else 2)


def _copy(call: _Call) -> tuple[float, float]:
    return 0, _of(call, 0, call.shape(0)) + call.size(1)


def _clone(call: _Call) -> tuple[float, float]:
    return 0, call.size(0) + _of(call, 0, call.shape(0))


def _fill(call: _Call) -> tuple[float, float]:
    return 0, _of(call, 0, call.shape(0))


def _softmax(call: _Call) -> tuple[float, float]:
    widened = "float32" if call.flag(2) else call.dtype(0)
    return nan, call.size(0) + _of(call, 0, call.shape(0), widened)


def _reduction(call: _Call) -> tuple[float, float]:
    """Sum, mean and the like over some dimensions, or all."""
    shape, dtype = call.shape(0), call.dtype(0)
    if "float" not in dtype or len(call.inputs.types) not in (2, 4) or call.text(
        len(call.inputs.types) - 1
    ):  # fmt: skip
        # Another type asked for, or arguments in another order.
        raise _Unknown
    gone = call.list(1) if len(call.inputs.types) == 4 and call.text(1) else range(len(shape))
    if any(not -len(shape) <= d < len(shape) for d in gone):
        raise _Unknown
    left = [n for d, n in enumerate(shape) if d not in gone and d - len(shape) not in gone]
    return nan, call.size(0) + _of(call, 0, tuple(left) if gone else ())


def _layer_norm(call: _Call) -> tuple[float, float]:
    shape, normalized = call.shape(0), call.list(1)
    rows = prod(shape[: len(shape) - len(normalized)])
    statistics = 2 * rows * (8 if call.dtype(0) == "float64" else 4)
    read = call.size(0) + call.size(2) + call.size(3)
    return nan, read + _of(call, 0, shape) + statistics


_Formula = Callable[[_Call], tuple[float, ...]]


def _formulas() -> dict[str, tuple[str, _Formula]]:
    def conv(**places: Any) -> _Formula:
        return partial(_convolution, **places)

    def flash(**places: Any) -> _Formula:
        return partial(_attention, **places)

    gemm: dict[str, _Formula] = {
        "mm": _gemm, "bmm": _gemm, "dot": _dot, "vdot": _dot, "mv": _mv,
        **dict.fromkeys(("addmm", "addmm_", "_addmm_activation", "baddbmm", "baddbmm_"),
                        partial(_gemm, a=1, added=0)),
        **dict.fromkeys(("addbmm", "addbmm_"), _addbmm),
        **dict.fromkeys(("addmv", "addmv_"), partial(_mv, a=1, added=0)),
        "linear": _linear, "mkldnn_linear": _linear, "_scaled_mm": _scaled_mm, "_int_mm": _int_mm,
    }  # fmt: skip
    full = {"bias": 2, "stride": 3, "padding": 4, "dilation": 5, "transposed": 6,
            "output_padding": 7}  # fmt: skip
    library = conv(bias=2, padding=3, stride=4, dilation=5)
    slow = {"bias": 3, "stride": 4, "padding": 5}
    convolution: dict[str, _Formula] = {
        "convolution": conv(**full), "_convolution": conv(**full),
        "convolution_overrideable": conv(**full),
        "cudnn_convolution": conv(padding=2, stride=3, dilation=4),
        "cudnn_convolution_relu": conv(bias=2, stride=3, padding=4, dilation=5),
        "cudnn_convolution_add_relu": conv(also=2, bias=4, stride=5, padding=6, dilation=7),
        "cudnn_convolution_transpose": _transposed(padding=2, output_padding=3, stride=4),
        "miopen_convolution": library, "miopen_depthwise_convolution": library,
        "miopen_convolution_transpose":
            _transposed(bias=2, padding=3, output_padding=4, stride=5),
        "mkldnn_convolution": library,
        "_slow_conv2d_forward": conv(**slow, dilation=None),
        "slow_conv3d_forward": conv(**slow, dilation=None),
        **dict.fromkeys(("slow_conv_dilated2d", "slow_conv_dilated3d", "_conv_depthwise2d",
                         "conv_depthwise3d"), conv(**slow, dilation=6)),
        "convolution_backward": _convolution_backward,
    }  # fmt: skip
    attention: dict[str, _Formula] = {
        "_flash_attention_forward": flash(heads=2, lengths=3, causal=8, windows=(11, 12, 13)),
        "_flash_attention_backward":
            flash(q=1, heads=2, lengths=6, causal=11, windows=(15, 16), backward=True),
        "_efficient_attention_forward":
            flash(heads=2, bias=3, lengths=4, causal=9, windows=(12, 13)),
        "_efficient_attention_backward":
            flash(q=1, heads=2, bias=4, lengths=6, causal=14, windows=(18,), backward=True),
        "_cudnn_attention_forward": flash(bias=3, lengths=4, causal=10),
        "_cudnn_attention_backward": flash(q=1, bias=8, lengths=9, causal=14, backward=True),
        "_scaled_dot_product_flash_attention_for_cpu": flash(causal=4, bias=5),
        "_scaled_dot_product_flash_attention_for_cpu_backward":
            flash(q=1, causal=7, bias=8, backward=True),
    }  # fmt: skip
    table: dict[str, tuple[str, _Formula]] = {}
    for kind, formulas in zip(MATRIX, (gemm, convolution, attention), strict=True):
        table |= {f"aten::{name}": (kind, formula) for name, formula in formulas.items()}
    return table | _elementwise()


def _transposed(**places: int) -> _Formula:
    # Groups stand behind the dilation there, not behind the padding of the output.
    groups = places["stride"] + 2

    def formula(call: _Call) -> tuple[float, ...]:
        if call.text(groups) != "1":
            raise _Unknown
        more: dict[str, Any] = {"dilation": places["stride"] + 1, "output_padding": None}
        flops, moved = _convolution(call, **{**places, **more}, transposed=True)
        if set(call.list(places["output_padding"])) - {0}:
            moved = nan
        return flops, moved

    return formula


def _elementwise() -> dict[str, tuple[str, _Formula]]:
    one = (
        *("relu", "sigmoid", "tanh", "gelu", "silu", "exp", "log", "sqrt", "rsqrt", "abs", "sin"),
        *(
            "cos",
            "leaky_relu",
            "hardtanh",
            "elu",
            "softplus",
            "reciprocal",
            "erf",
            "floor",
            "round",
        ),
    )
    two = (
        *("maximum", "minimum", "lerp", "pow", "clamp_min", "clamp_max", "gelu_backward"),
        *("silu_backward", "sigmoid_backward", "tanh_backward", "threshold_backward"),
        *("hardtanh_backward", "leaky_relu_backward"),
    )
    three = ("addcmul", "addcdiv", "clamp")
    table: dict[str, tuple[str, _Formula]] = {}

    def put(kind: str, name: str, formula: _Formula) -> None:
        table[f"aten::{name}"] = (kind, formula)

    for names, inputs in ((one, 1), (two, 2), (three, 3)):
        for name in names:
            put("pointwise", name, partial(_pointwise, inputs=inputs))
            if not name.endswith("backward"):
                put("pointwise", name + "_", partial(_in_place, inputs=inputs))
    for name in ("mul", "div"):
        put("pointwise", name, partial(_pointwise, inputs=2, operations=1))
        put("pointwise", name + "_", partial(_in_place, inputs=2, operations=1))
    for name in ("add", "sub"):
        put("pointwise", name, partial(_scaled, formula=_pointwise))
        put("pointwise", name + "_", partial(_scaled, formula=_in_place))
    put("pointwise", "neg", partial(_pointwise, inputs=1, operations=1))
    for name in ("gt", "lt", "ge", "le", "eq", "ne"):
        put("pointwise", name, partial(_pointwise, inputs=2, to="bool"))
    for name in ("sum", "mean"):
        put("reduction", name, _reduction)
    for name in ("_softmax", "_log_softmax"):
        put("reduction", name, _softmax)
    put("reduction", "native_layer_norm", _layer_norm)
    put("copy", "copy_", _copy)
    put("copy", "clone", _clone)
    put("pointwise", "fill_", _fill)
    put("pointwise", "zero_", _fill)
    return table


FORMULAS = _formulas()
"""Kind and formula of each operator that has one, by name."""
