"""Count the operations of an operator's call, and the bytes it cannot do without, from shapes."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import numpy as np

from ..intervals import NONE, Floats, Ints, climb
from . import arguments
from .attribution import Attribution, Mask
from .formulas import FORMULAS, KINDS, MATRIX, counted


@dataclass(frozen=True, eq=False)
class Counts:
    """What calls had to do. Arrays have a value per event of the trace; unknown is NaN, never 0."""

    flops: Floats
    """Operations on numbers: a multiplication with its addition is 2."""
    bytes: Floats
    """Size of the inputs, each read once, and of the outputs, each written once."""
    part_bytes: Floats
    """The same of each product where an operator makes several of as many operations each (the
    gradients of a convolution); else as `bytes`."""
    parts: Ints
    """How many such products: 1 or 2; `NONE` where unknown."""
    dtype: Ints
    """Element type of the first input as an index into `formulas.DTYPES`; `NONE` where unknown."""


def count(found: Attribution) -> Counts:
    """Return the counts of the calls that did the work themselves, as far as shapes tell.

    Of operators inside one another only one counts: where a device worked, the one that launched
    the work (a call that launched nothing has none: what it did, if anything, was not seen); on
    the CPU the innermost with a formula. NaN where no shapes were recorded, for operators without
    a formula here, and where the arguments leave a doubt.

    A matrix product of m×k and k×n counts 2·m·k·n, a convolution as if each product were made
    (whatever the algorithm), attention the two products (five in the backward pass) over the pairs
    that a causal mask leaves. Adding a bias, scaling and softmax are not counted. Bytes take
    different inputs for different memory; where strides were recorded, an expanded input counts
    what it holds.
    """
    trace, n = found.trace, len(found.trace)
    name = np.array([one in FORMULAS for one in trace.names] or [False])[trace.name]
    rows = np.flatnonzero(name & trace.category_is("cpu_op") & (found.counted | _caused(found)))
    rows = rows[_caused(found)[rows] if found.work.any() else _innermost(found, rows)]
    counts = Counts(
        *(np.full(n, nan) for _ in range(3)), *(np.full(n, NONE, np.int64) for _ in range(2))
    )
    code, distinct = arguments.inputs(trace, rows.tolist())
    told: dict[tuple[int, int], int] = {}
    which = [
        told.setdefault(key, len(told)) for key in zip(trace.name[rows].tolist(), code, strict=True)
    ]
    values = [counted(trace.names[of], distinct[inputs]) for of, inputs in told]
    if values:
        flops, moved, part, parts, dtype = (
            np.array(column) for column in zip(*values, strict=True)
        )
        counts.flops[rows], counts.bytes[rows] = flops[which], moved[which]
        counts.part_bytes[rows], counts.parts[rows] = part[which], parts[which]
        counts.dtype[rows] = dtype[which]
    return counts


def operator_kinds(found: Attribution) -> Ints:
    """Return for each event what kind of operator it is, an index into `KINDS`; `NONE` if none."""
    kinds = [FORMULAS[one][0] if one in FORMULAS else _kind(one) for one in found.trace.names]
    codes = np.array([KINDS.index(kind) if kind else NONE for kind in kinds] or [NONE], np.int64)
    return codes[found.trace.name]


def _kind(name: str) -> str:
    """Return the kind of an operator that has no formula, or nothing."""
    if not name.startswith(("aten::", "vllm::", "flash_attn::", "xformers::", "_C::", "triton::")):
        return ""
    short = name.partition("::")[2]
    if "attention" in short:
        return "attention"
    if "conv" in short and "convert" not in short:
        return "convolution"
    return "gemm" if short in _OTHER_GEMMS else ""


_OTHER_GEMMS = frozenset(
    {"_grouped_mm", "_scaled_grouped_mm", "_weight_int4pack_mm", "_weight_int8pack_mm",
     "_cslt_sparse_mm", "moe_forward", "cutlass_scaled_mm", "_thnn_fused_gemm"}
)  # fmt: skip


def _caused(found: Attribution) -> Mask:
    """Mark the operators that device work of a run belongs to, wherever they stand themselves."""
    marked = np.zeros(len(found.trace), bool)
    marked[found.operator[found.work & (found.operator != NONE)]] = True
    return marked


def _innermost(found: Attribution, rows: Ints) -> Mask:
    """Mark the operators of the CPU that contain no other one of them."""
    formula = np.zeros(len(found.trace), bool)
    formula[rows] = True
    above = climb(found.parent, found.parent[rows], ~formula)
    holds = np.zeros(len(found.trace), bool)
    # What a product copies ahead of itself is no product: it stays the one that counts.
    matrix = operator_kinds(found) < len(MATRIX)
    inner = (above != NONE) & (matrix[rows] | ~matrix[above])
    holds[above[inner]] = True
    covered = (above != NONE) & matrix[above] & ~matrix[rows]
    return ~holds[rows] & ~covered


def flops(found: Attribution, events: Ints, row: Ints, rows: int) -> Floats:
    """Return the sum of the operations of each row's events; NaN where any of them is unknown."""
    flops = count(found).flops
    # A call that was merged into the one around it is that one's doing.
    inner = events[found.merged[events]]
    inner = inner[~np.isnan(flops[inner])]
    flops[climb(found.parent, inner, found.merged)] = flops[inner]
    calls = ~found.merged[events]
    events, row = events[calls], row[calls]
    flops = flops[events]
    return np.bincount(row, flops, rows).astype(float)
