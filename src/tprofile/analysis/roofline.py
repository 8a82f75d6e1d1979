"""How far device work is from what its device can do, and which roof is above it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..intervals import NONE, Floats, Ints, number
from ..trace import Trace
from . import arguments
from .attribution import Attribution, Mask
from .flops import Counts, count, operator_kinds
from .formulas import DTYPES, KINDS, MATRIX
from .kernel_names import (
    DATA,
    FEWER,
    VECTOR,
    WEIGHT,
    matrix_work,
    per_name,
    tensor_core,
    work_kinds,
)
from .limits import Limits, limits
from .tables import device_names, device_units, texts

__all__ = ["Roofline", "compute_heavy", "matrix_work", "roofline"]

BEYOND = 1.05
"""Where more of a limit than this seems reached, the limit is not the one that applies (the data
came out of a cache, an algorithm made fewer operations), and nothing is claimed."""

DEFAULT_RIDGE = {
    "float64": 15.0, "float32": 15.0, "float16": 150.0, "bfloat16": 150.0, "float8": 300.0,
    "int8": 300.0,
}  # fmt: skip
"""Operations per byte from which a matrix kernel counts as heavy where its device's limits are not
known: about what A100, V100 and H200 have. In 32 bits that is without tensor cores."""


@dataclass(frozen=True, eq=False)
class Roofline:
    """What device work did, and needs at least. Arrays have a value per event of the trace."""

    kind: Ints
    """Kind of device work as an index into `KINDS`; `NONE` for other events."""
    flops: Floats
    """Operations; NaN where unknown."""
    bytes: Floats
    """Bytes that it cannot do without; NaN where unknown."""
    intensity: Floats
    """Operations per byte of the operator that it is the work of; NaN where unknown."""
    compute_time_at_peak_ns: Floats
    """Nanoseconds for `flops` at the device's limit; NaN where that, or they, are not known."""
    memory_time_at_peak_ns: Floats
    """Nanoseconds for `bytes` at the device's limit; NaN where that, or they, are not known."""
    is_tensor_core: Ints
    """1 for a matrix kernel on tensor cores (AMD: matrix cores), 0 for device work on none, `NONE`
    where the name does not tell."""
    ridge: Floats
    """Operations per byte at which both limits take as long; NaN where they are not known."""
    dtype: Ints
    """Element type of its operator's main input as an index into `formulas.DTYPES`, or `NONE`."""


def compute_heavy(found: Attribution, roof: Roofline | None = None) -> Mask:
    """Mark the matrix kernels whose intensity reaches the ridge of their device.

    The ridge is where both limits take as long for the arithmetic that ran. Where the device's
    limits are not known it is `DEFAULT_RIDGE`. Where the operations or bytes are not known, every
    matrix kernel counts, but for those whose name says that they read a matrix for one vector.
    """
    roof = roofline(found) if roof is None else roof
    rows = np.flatnonzero((roof.kind >= 0) & (roof.kind < len(MATRIX)))
    usual = np.array([DEFAULT_RIDGE.get(name, np.nan) for name in (*DTYPES, "")])
    ridge = np.where(np.isnan(roof.ridge[rows]), usual[roof.dtype[rows]], roof.ridge[rows])
    vector = per_name(found.trace, rows, lambda name: bool(VECTOR(name))) == 1
    known = ~np.isnan(roof.intensity[rows]) & ~np.isnan(ridge)
    heavy = np.zeros(len(found.trace), bool)
    heavy[rows] = np.where(known, roof.intensity[rows] >= ridge, ~vector)
    return heavy


def roofline(found: Attribution, counts: Counts | None = None) -> Roofline:
    """Return operations, bytes and least times of all kernels, copies and sets of the runs.

    An operator's figures are those of the kernel that does its work: of a matrix operator the
    matrix kernel, not the changes of layout around it; of any other its only kernel. Several
    calls of one kernel share them by their time; the two gradients of a convolution have half of
    the operations each, if the names tell them apart. Where several kernels remain, none has any,
    nor where an algorithm needs fewer operations than the definition has (Winograd, Fourier).
    A copy has the bytes that the profiler saw, twice within a device: it reads and writes them.
    The limit of a copy to or from a host is not known.

    The arithmetic that ran in 32 and 64 bits is told by the kernel's name, and where it is not,
    the higher limit is taken: what is told of it is then never too much.
    """
    trace, n = found.trace, len(found.trace)
    counts = count(found) if counts is None else counts
    rows = np.flatnonzero(found.work)
    kind = work_kinds(found)
    flops, moved, intensity = (np.full(n, np.nan) for _ in range(3))
    dtype = np.full(n, NONE)
    owned = rows[found.operator[rows] != NONE]
    dtype[owned] = counts.dtype[found.operator[owned]]
    _share(found, counts, kind, owned, flops, moved)
    matrix = owned[(kind[owned] >= 0) & (kind[owned] < len(MATRIX))]
    bearing = np.r_[matrix, owned[~np.isnan(moved[owned])]]
    with np.errstate(invalid="ignore", divide="ignore"):
        of = found.operator[bearing]
        intensity[bearing] = np.where(counts.bytes[of] > 0, counts.flops[of] / counts.bytes[of],
                                      np.nan)  # fmt: skip
    within = _copies(trace, rows, flops, moved, intensity)

    tensor = np.full(n, NONE)
    tensor[rows[(kind[rows] >= len(MATRIX)) & (kind[rows] < KINDS.index("other"))]] = 0
    products = rows[(kind[rows] >= 0) & (kind[rows] < len(MATRIX))]
    tensor[products] = per_name(trace, products, tensor_core)
    peak, bandwidth = _limits(found, rows, kind, dtype, tensor)
    across = trace.category_is("gpu_memcpy") & ~within
    with np.errstate(invalid="ignore", divide="ignore"):
        compute = np.where(flops == 0, 0.0, flops / peak * 1e9)
        memory = np.where(across, np.nan, moved / bandwidth * 1e9)
        ridge = peak / bandwidth
    return Roofline(kind, flops, moved, intensity, compute, memory, tensor, ridge, dtype)


def _share(
    found: Attribution, counts: Counts, kind: Ints, owned: Ints, flops: Floats, moved: Floats
) -> None:
    """Give the figures of each operator to the kernels that bear them."""
    trace, operator = found.trace, found.operator
    matrix = (kind[owned] >= 0) & (kind[owned] < len(MATRIX))
    of_matrix = operator_kinds(found)[operator[owned]]
    wants = (of_matrix >= 0) & (of_matrix < len(MATRIX))
    sets = trace.category_is("gpu_memset")[owned]
    rows = owned[np.where(wants, matrix, ~sets)]
    if not len(rows):
        return
    # Which of the two gradients of a convolution a kernel makes; 0 where it does not say.
    part = per_name(trace, rows, lambda name: 1 if DATA(name) else 2 if WEIGHT(name) else 0)
    part[~trace.name_is("aten::convolution_backward".__eq__)[operator[rows]]] = 0
    group = number(operator[rows], part)
    groups = int(group.max()) + 1
    first = np.zeros(groups, np.int64)
    first[group[::-1]] = np.arange(len(rows))[::-1]
    of, says = operator[rows][first], part[first]
    same = np.bincount(group, trace.name[rows] != trace.name[rows][first][group], groups) == 0
    # Several groups of an operator must all say what they make, and make all that there is.
    call = number(of)
    beside = np.bincount(call)[call]
    silent = np.bincount(call, says == 0)[call] > 0
    whole = silent & (beside == 1) & (counts.parts[of] == 1)
    half = ~silent & (beside == counts.parts[of])
    fewer = np.zeros(len(trace), bool)
    fewer[operator[owned[trace.name_is(FEWER)[owned]]]] = True
    known = same & (whole | half) & ~fewer[of]
    share_flops = np.where(known, counts.flops[of] / np.where(half, counts.parts[of], 1), np.nan)
    share_bytes = np.where(known, np.where(half, counts.part_bytes[of], counts.bytes[of]), np.nan)
    time = trace.duration_ns[rows]
    weight = time / np.bincount(group, time, groups)[group]
    flops[rows], moved[rows] = share_flops[group] * weight, share_bytes[group] * weight


def _copies(trace: Trace, rows: Ints, flops: Floats, moved: Floats, intensity: Floats) -> Mask:
    """Put down what the profiler saw of copies and sets; mark those within a device."""
    copies = rows[trace.category_is("gpu_memcpy", "gpu_memset")[rows]]
    within = trace.name_is(lambda name: name.startswith(("Memcpy DtoD", "Memset (Device)")))
    sizes = arguments.sizes(trace, copies.tolist())
    twice = trace.category_is("gpu_memcpy")[copies] & within[copies]
    moved[copies] = sizes * np.where(twice, 2, 1)
    flops[copies], intensity[copies] = 0, 0
    return within


def _limits(
    found: Attribution, rows: Ints, kind: Ints, dtype: Ints, tensor: Ints
) -> tuple[Floats, Floats]:
    """Return operations and bytes a second that each piece of work could reach at most."""
    trace = found.trace
    peak, bandwidth = (np.full(len(trace), np.nan) for _ in range(2))
    matrix = kind[rows] < len(MATRIX)
    reduced = per_name(trace, rows, lambda name: "tf32" in name.lower()) == 1
    case = number(trace.device[rows], dtype[rows], tensor[rows], matrix, reduced)
    _, first, index = np.unique(case, return_index=True, return_inverse=True)
    known = device_limits(found)
    peaks, bandwidths = [], []
    for i in first.tolist():
        one = known.get(int(trace.device[rows[i]]))
        name = DTYPES[dtype[rows[i]]] if dtype[rows[i]] != NONE else ""
        kinds = arithmetic(name, int(tensor[rows[i]]), bool(matrix[i]), bool(reduced[i]))
        peaks.append(_highest(one, kinds))
        bandwidths.append(np.nan if one is None else one.bytes_per_s)
    if len(rows):
        peak[rows] = np.array(peaks)[index.reshape(-1)]
        bandwidth[rows] = np.array(bandwidths)[index.reshape(-1)]
    return peak, bandwidth


def _highest(one: Limits | None, kinds: Iterable[str]) -> float:
    peaks = [one.flops_per_s[kind] for kind in kinds if kind in one.flops_per_s] if one else []
    return max(peaks, default=np.nan)


def arithmetic(dtype: str, tensor: int, matrix: bool, tf32: bool) -> tuple[str, ...]:
    """Return the kinds of arithmetic, as in `limits.ARITHMETIC`, that work may have run in."""
    if not matrix:
        # Elementwise work in 16 bits computes in 32.
        return {"float64": ("fp64",), "float32": ("fp32",), "float16": ("fp32",),
                "bfloat16": ("fp32",)}.get(dtype, ())  # fmt: skip
    if dtype == "float32":
        if tf32:
            return ("tf32",)
        return {0: ("fp32",), 1: ("fp32_tensor", "tf32")}.get(
            tensor, ("fp32", "fp32_tensor", "tf32")
        )
    if dtype == "float64":
        return {0: ("fp64",), 1: ("fp64_tensor",)}.get(tensor, ("fp64", "fp64_tensor"))
    return {"float16": ("fp16",), "bfloat16": ("bf16",), "float8": ("fp8",), "int8": ("int8",)}.get(
        dtype, ()
    )


def device_limits(found: Attribution) -> dict[int, Limits]:
    """Return the limits of the devices of a trace that are known, by index."""
    units = device_units(found)
    told = {index: limits(name, units.get(index)) for index, name in device_names(found).items()}
    return {index: one for index, one in told.items() if one is not None}


def frame(found: Attribution) -> pd.DataFrame:
    """Return a row per name, operator, input shapes and device of device work, over all runs.

    Columns `name, operator, shape, device, kind, calls, device_us, flops, bytes, intensity,
    tflops_per_s, gb_per_s, bound, fraction`, the most time first. `shape` is of the operator's
    inputs, None without. `flops` and `bytes` are sums, NaN where those of a call are unknown.
    `bound` is the roof above it, "compute" or "memory", and `fraction` what it reached of that (the
    least time for the work, over its time): None and NaN where it is not known, or would be more
    than `BEYOND`. Elementwise work and reductions whose operations are not counted are held
    against the memory: there are few of them for each byte.
    """
    trace, roof = found.trace, roofline(found)
    rows = np.flatnonzero(found.work)
    operator = found.operator[rows]
    labels, shape = _shapes(found, operator)
    cause = np.where(operator != NONE, operator, found.launch[rows])
    cause_name = np.where(cause != NONE, trace.name[cause], NONE)
    key = number(trace.name[rows], cause_name, shape, trace.device[rows])
    _, first, index = np.unique(key, return_index=True, return_inverse=True)
    index = index.reshape(-1)
    at = rows[first]

    def total(values: Floats) -> Floats:
        return np.bincount(index, values, len(first)).astype(float)

    time = total(trace.duration_ns[rows].astype(float))
    flops, moved = total(roof.flops[rows]), total(roof.bytes[rows])
    bound, fraction = _bound(
        time, total(roof.compute_time_at_peak_ns[rows]), total(roof.memory_time_at_peak_ns[rows]),
        np.isnan(flops) & np.isin(roof.kind[at], [KINDS.index("pointwise"),
                                                  KINDS.index("reduction")]),
    )  # fmt: skip
    with np.errstate(invalid="ignore", divide="ignore"):
        result = pd.DataFrame(
            {
                "name": texts(trace.names[trace.name[at]]),
                "operator": texts(trace.names[i] if i != NONE else None for i in cause_name[first]),
                "shape": texts(labels[i] for i in shape[first]),
                "device": trace.device[at],
                "kind": texts(KINDS[i] for i in roof.kind[at]),
                "calls": np.bincount(index, minlength=len(first)),
                "device_us": time / 1000,
                "flops": flops,
                "bytes": moved,
                "intensity": np.where(moved > 0, flops / moved, np.nan),
                "tflops_per_s": flops / time / 1e3,
                "gb_per_s": moved / time,
                "bound": texts(bound),
                "fraction": fraction,
            }
        )
    return result.sort_values(
        ["device_us", "name"], ascending=[False, True], kind="stable", ignore_index=True
    )


def _shapes(found: Attribution, operator: Ints) -> tuple[list[str | None], Ints]:
    """Return the distinct shapes of operators' inputs as torch writes them, None where there are
    none, and which of them each operator has."""
    wanted, index = np.unique(operator[operator != NONE], return_inverse=True)
    code, distinct = arguments.inputs(found.trace, wanted.tolist())
    labels: dict[str | None, int] = {None: 0}
    told = [
        labels.setdefault(str(one.dims) if one and one.dims else None, len(labels))
        for one in distinct
    ]
    codes = np.zeros(len(operator), np.int64)
    if told:
        codes[operator != NONE] = np.array(told)[np.array(code)[index.reshape(-1)]]
    return list(labels), codes


def _bound(
    time: Floats, compute: Floats, memory: Floats, of_memory: Mask
) -> tuple[list[str | None], Floats]:
    """Return the roof above each row and the part reached of it, where both limits are known."""
    compute = np.where(of_memory, 0, compute)
    least = np.maximum(compute, memory)
    with np.errstate(invalid="ignore"):
        fraction = least / time
        told = ~np.isnan(fraction) & (fraction <= BEYOND) & (least > 0)
        by_compute = compute > memory
    bound = [
        ("compute" if c else "memory") if t else None
        for t, c in zip(told.tolist(), by_compute.tolist(), strict=True)
    ]
    return bound, np.where(told, np.minimum(fraction, 1), np.nan)
