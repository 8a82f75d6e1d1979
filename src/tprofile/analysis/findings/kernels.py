"""Kernels that could do the same in less time, and copies that need not be made."""

from __future__ import annotations

import re

import numpy as np

from ...intervals import NONE, Floats, Ints, measure, merge
from ...units import duration
from .. import arguments
from ..attribution import Mask
from ..doubts import short
from ..finding import Finding
from ..kernel_names import matrix_work, per_name, tensor_core
from ..tables import device_properties, device_units
from ..verdict import COLLECTIVE
from .context import LAUNCH_US, LEAST, Context, listed

_DEVICE_BOUND = 0.65
"""Below this part of a run the device waits, and shorter kernels would only make it wait longer."""

_POINTWISE = re.compile(r"(^|[^a-z])(vectorized_|unrolled_)?elementwise_kernel").search
_FILL = re.compile(r"FillFunctor").search
"""Kernels that read nothing: in a row they fill tensors that have nothing to do with each other."""
_REDUCTION = re.compile(r"(^|[^a-z])reduce_kernel").search

_CHAIN = 3
"""Pointwise kernels in a row from which on they are worth to be fused."""

_FUSION_PART = 0.1

_FEW = 3
"""A kernel with blocks for no more than this part of the multiprocessors leaves most of the device
without work."""

_HALF_FASTER = 16
"""How many times as much a GPU of this kind computes in bfloat16 as in float32 at most."""

_LAYOUT = re.compile(
    r"nchwToNhwc|nhwcToNchw|nchw2nhwc|nhwc2nchw|NchwNhwc|batched_transpose|transpose_readWrite"
    r"|convertTensor_kernel|tensorTransform",
    re.IGNORECASE,
).search

_CONTIGUOUS = frozenset(
    {"aten::contiguous", "aten::reshape", "aten::flatten", "aten::_reshape_copy", "aten::to"}
)
"""Operators that copy a tensor only where its layout is not the one that is asked for."""


def _device_bound(seen: Context) -> bool:
    return (seen.summary.device_busy_fraction or 0) >= _DEVICE_BOUND


def fusion(seen: Context) -> list[Finding]:
    """Pointwise kernels in a row, each of which reads and writes all of the data."""
    if not _device_bound(seen):
        return []
    trace, rows = seen.found.trace, _by_stream(seen)
    # What an optimizer does by the parameter is told of by itself.
    others = ~seen.launched_in(rows, seen.called("Optimizer."))
    pointwise = trace.name_is(_POINTWISE)[rows] & ~trace.name_is(_FILL)[rows] & others
    chained = pointwise | (trace.name_is(_REDUCTION)[rows] & others)
    # One kernel goes over tensors of one size: what works on another one begins a new chain.
    size = np.zeros(len(rows), np.int64)
    size[chained] = _elements(seen, rows[chained])
    lane = np.stack([trace.device[rows], trace.stream[rows], seen.found.run[rows], size], 1)
    apart = np.r_[True, (lane[1:] != lane[:-1]).any(1)][: len(rows)]
    chain = np.cumsum(apart | ~chained | np.r_[True, ~chained[:-1]][: len(rows)]) - 1
    n = int(chain.max(initial=NONE)) + 1
    length = np.bincount(chain[pointwise], minlength=n)
    good = (length >= _CHAIN)[chain] & chained
    if not good.any():
        return []
    time = trace.duration_ns[rows]
    total = np.bincount(chain[good], time[good], n)
    longest = np.zeros(n, np.int64)
    np.maximum.at(longest, chain[good & pointwise], time[good & pointwise])
    # One kernel in their place still reads and writes the data once: half of what one that reads
    # two tensors and writes a third takes, at the least.
    run = np.zeros(n, np.int64)
    run[chain] = seen.found.run[rows]
    gain = seen.typical(total - longest / 2, run) / 1000
    if gain < _FUSION_PART * seen.wall_us:
        return []
    gain = min(gain + seen.latency_us, seen.wall_us)
    best = int(np.argmax(total))
    members = rows[good & (chain == best)]
    count = seen.each(rows[good])
    where, line = seen.where(int(members[0]), listed((_called(seen, int(r)) for r in members), 4))
    return [
        Finding(
            kind="fusion",
            title=f"{count:,.0f} pointwise kernels that could be fused",
            evidence=(
                f"They run one after the other, up to {int(length.max())} in a row, and each reads "
                f"and writes its tensors in the GPU's memory: {duration(seen.of(rows[good]))} of "
                f"the {duration(seen.busy_us)} that the GPU works in a run."
            ),
            advice=(
                "torch.compile the function around them: it makes one kernel of a chain. Where "
                "torch has the whole as one operator (F.gelu, F.layer_norm, F.softmax), call that."
            ),
            gain_us=gain,
            where=where,
            line=line,
            label=f"{count:,.0f} kernels to fuse",
        )
    ]


def _elements(seen: Context, rows: Ints) -> Ints:
    """Return the elements of the largest input of what launched each of these; `NONE` unknown."""
    operator = seen.found.operator[rows]
    of, index = np.unique(operator, return_inverse=True)
    known = of != NONE
    size = np.full(len(of), NONE)
    size[known] = arguments.elements(seen.found.trace, of[known].tolist())
    return size[index.reshape(-1)]


def _by_stream(seen: Context) -> Ints:
    trace, rows = seen.found.trace, seen.work
    return rows[np.lexsort((trace.start_ns[rows], trace.stream[rows], trace.device[rows]))]


def _called(seen: Context, row: int) -> str:
    operator = int(seen.found.operator[row])
    return seen.name(operator) if operator != NONE else seen.name(row)


def tensor_cores(seen: Context) -> list[Finding]:
    """Matrix products in a precision that the tensor cores do not compute in, or slowly."""
    found, trace = seen.found, seen.found.trace
    if not _device_bound(seen) or not _has_tensor_cores(seen):
        return []
    matrix = matrix_work(found)[seen.work] & (found.operator[seen.work] != NONE)
    rows = seen.work[matrix & trace.category_is("kernel")[seen.work]]
    if not len(rows):
        return []
    of, index = np.unique(found.operator[rows], return_inverse=True)
    types = np.array([(*t, "")[0] for t in arguments.types(trace, of.tolist(), 1)], object)[index]
    double = types == "double"
    on_cores = per_name(trace, rows, tensor_core)
    # An operator that runs even one kernel on them is a fast one, whatever else it launches.
    fast = np.zeros(len(of), bool)
    fast[index[on_cores == 1]] = True
    slow = ((types == "float") & (on_cores == 0) & ~fast[index]) | double
    rows, double = rows[slow], double[slow]
    time = seen.of(rows)
    gain = time * (1 - 1 / _HALF_FASTER)
    if gain < 2 * LEAST * seen.wall_us:
        return []
    row = seen.most(rows, trace.duration_ns[rows])
    where, line = seen.where(row, short(seen.name(row)))
    if double.all():
        title, advice = (
            "matrix products in float64",
            "Use float32 or bfloat16, unless the result needs sixteen digits: check where the "
            "double comes from (torch.from_numpy of a NumPy array is one).",
        )
    else:
        title, advice = (
            "matrix products without tensor cores",
            'torch.set_float32_matmul_precision("high") computes float32 products in TF32 (for '
            "convolutions torch.backends.cudnn.allow_tf32 = True), and "
            'torch.autocast("cuda", dtype=torch.bfloat16) in bfloat16, which is faster still; '
            "check that the result is exact enough.",
        )
    return [
        Finding(
            kind="tensor-cores",
            title=title,
            evidence=(
                f"{duration(time)} of the {duration(seen.busy_us)} that the GPU works in a run is "
                f"in {'float64' if double.all() else 'float32'} kernels of "
                f"{listed(_called(seen, int(r)) for r in rows)}"
                + (
                    ", which take many times as long as the same in TF32 or bfloat16."
                    if double.all()
                    else " that do not use the tensor cores, which are many times as fast."
                )
            ),
            advice=advice,
            gain_us=gain,
            where=where,
            line=line,
            label="no tensor cores",
        )
    ]


def _has_tensor_cores(seen: Context) -> bool:
    """Tell whether the device is known to compute float32 products in TF32."""
    major = device_properties(seen.found).get(seen.gaps.device, {}).get("computeMajor")
    return isinstance(major, int) and major >= 8


def low_occupancy(seen: Context) -> list[Finding]:
    """Long kernels with fewer blocks than the device has multiprocessors."""
    trace = seen.found.trace
    units = device_units(seen.found).get(seen.gaps.device)
    if units is None:
        return []
    own = trace.category_is("kernel") & (trace.device == seen.gaps.device)
    kernels = seen.work[own[seen.work]]
    long = trace.duration_ns[kernels] >= LAUNCH_US * 1000
    rows = kernels[long & ~trace.name_is(COLLECTIVE)[kernels]]
    if not len(rows):
        return []
    few = _blocks(seen, rows) * _FEW <= units
    rows = rows[few]
    start, end, blocks, run = _with_few(seen, kernels, rows, units)
    idle_part = np.maximum(1 - blocks / units, 0)
    gain = seen.typical((end - start) * idle_part, run) / 1000
    if gain < 2 * LEAST * seen.wall_us:
        return []
    time = seen.typical(end - start, run) / 1000
    rows = rows[measure(*merge(start, end), trace.start_ns[rows], trace.end_ns[rows]) > 0]
    row = seen.most(rows, trace.duration_ns[rows])
    used = int(_blocks(seen, np.array([row]))[0])
    where, line = seen.where(row, short(seen.name(row)))
    return [
        Finding(
            kind="low-occupancy",
            title=f"a kernel on {used} of {units} multiprocessors",
            evidence=(
                f"{short(seen.name(row))} has {used} block{'s' * (used != 1)}, so most of the GPU "
                f"has nothing to do in the {duration(time)} of each run that "
                f"{'it takes' if seen.each(rows) <= 1 else 'such kernels take'}."
            ),
            advice=(
                "Give it more to do at once (a larger batch, more rows), or split the long "
                "dimension: reduce or scan it in parts (x.view(n, parts, -1)), and then the parts; "
                "torch.compile often does that by itself."
            ),
            gain_us=min(gain, seen.wall_us),
            where=where,
            line=line,
            label=f"{used} of {units} SMs",
        )
    ]


def _blocks(seen: Context, rows: Ints) -> Floats:
    return np.array(
        [_product(one.grid) for one in arguments.launches(seen.found.trace, rows.tolist())], float
    )


def _with_few(
    seen: Context, kernels: Ints, rows: Ints, units: int
) -> tuple[Ints, Ints, Floats, Ints]:
    """Return the stretches in which some of `rows` run, and all kernels together have few blocks.

    From when to when, the blocks, and the run. Kernels whose blocks are not known have many.
    """
    trace = seen.found.trace
    begin, finish = merge(trace.start_ns[rows], trace.end_ns[rows])
    near = measure(begin, finish, trace.start_ns[kernels], trace.end_ns[kernels]) > 0
    kernels = kernels[near]
    blocks = np.nan_to_num(_blocks(seen, kernels), nan=units)
    mine = np.isin(kernels, rows)
    time = np.r_[trace.start_ns[kernels], trace.end_ns[kernels]]
    order = np.argsort(time, kind="stable")
    running = np.cumsum(np.r_[blocks, -blocks][order])[:-1]
    of_rows = np.cumsum(np.r_[mine, -1 * mine][order])[:-1]
    run = np.r_[seen.found.run[kernels], seen.found.run[kernels]][order][:-1]
    time = time[order]
    few = (of_rows > 0) & (running * _FEW <= units) & (time[1:] > time[:-1])
    return time[:-1][few], time[1:][few], running[few], run[few]


def _product(grid: list[int] | None) -> float:
    return float(np.prod(grid)) if grid else float("nan")


def layout_copies(seen: Context) -> list[Finding]:
    """Copies of tensors into another order of their dimensions."""
    trace = seen.found.trace
    kernels = seen.work[trace.category_is("kernel")[seen.work]]
    library = trace.name_is(_LAYOUT)[kernels]
    copied = _contiguous_copies(seen, kernels)
    rows = kernels[library | copied]
    gain = seen.of(rows)
    if not len(rows) or gain < 2 * LEAST * seen.wall_us or not _device_bound(seen):
        return []
    row = seen.most(rows, trace.duration_ns[rows])
    where, line = seen.where(row)
    by_library = bool(trace.name_is(_LAYOUT)[row])
    advice = (
        "Put model and input into the layout of the kernels once: "
        "model.to(memory_format=torch.channels_last), "
        "x.to(memory_format=torch.channels_last)."
        if by_library
        else "Do not make the tensor contiguous (.contiguous(), .reshape() of a transposed tensor) "
        "where the next operator takes strides: matmul does; or keep the data in that order from "
        "the beginning, or write the product the other way round (torch.einsum)."
    )
    count = seen.each(rows)
    return [
        Finding(
            kind="layout-copies",
            title=f"{count:,.3g} copies into another layout",
            evidence=(
                f"{duration(gain)} of the {duration(seen.busy_us)} that the GPU works in a run "
                "goes into writing tensors down in another order of their dimensions."
            ),
            advice=advice,
            gain_us=min(gain + seen.latency_us + _around(seen, rows, by_library), seen.wall_us),
            where=where,
            line=line,
            label=f"{count:,.3g} layout copies",
        )
    ]


def _around(seen: Context, rows: Ints, by_library: bool) -> float:
    """Return the time of other work that may go with the copies: none but the library's own."""
    if not by_library:
        return 0.0
    # In its own layout a library chooses other kernels, and what follows works on whole vectors.
    found = seen.found
    operators = np.unique(found.operator[rows])
    same = seen.work[np.isin(found.operator[seen.work], operators[operators != NONE])]
    return max(seen.of(same) - seen.of(rows), 0.0) / 2


def _contiguous_copies(seen: Context, kernels: Ints) -> Mask:
    """Mark the kernels of aten::copy_ inside what copies only to change the layout."""
    found, trace = seen.found, seen.found.trace
    copy = trace.name_is("aten::copy_".__eq__)
    operator = found.operator[kernels]
    candidate = (operator != NONE) & copy[operator]
    rows = np.unique(operator[candidate])
    if not len(rows):
        return np.zeros(len(kernels), bool)
    asked = np.zeros(len(trace), bool)
    inside = trace.name_is(_CONTIGUOUS.__contains__) & found.counted
    asked[found.table] = found.nesting.covered(inside[found.table])
    same = np.array([len(set(t)) == 1 for t in arguments.types(trace, rows.tolist(), 2)], bool)
    asked[rows] &= same
    return candidate & asked[operator]
