"""What a kernel does, and on what, as its name tells."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from ..intervals import NONE, Ints
from ..trace import Trace
from .attribution import Attribution, Mask
from .flops import operator_kinds
from .formulas import KINDS, MATRIX

_HELPER = re.compile(
    # What libraries run before and after the kernel that does the work.
    r"splitk_?reduce|reduce_?split_?k|ReduceSplitK|reduce_wgrad|reduce_segments|splitkv_combine"
    r"|scal_kernel|epilogue::|scale(Packed)?Tensor|Offsets?Kernel|init_device_workspace"
    r"|nchwToNhwc|nhwcToNchw|nchw2nhwc|transpose_|_transpose|Transpose|flip_filter|SubTensorOp"
    r"|generateWinograd|winograd\w*(Data|Filter|Output|Delta)|CastTensor|cast_kernel|Memset|Memcpy"
    r"|dot_do_o|convert_dq|bwd_preprocess|_preprocess|compute_delta|unpack|quantize|routing|finalize"
    r"|scatter|im2col|col2im|gemmk1_helper|PostGSU|BetaOnly",
    re.IGNORECASE,
).search
_ATTENTION = re.compile(
    r"flash_(fwd|bwd)|flash\w*_attn|fmha|attn_(fwd|bwd)|attention|sdpa", re.IGNORECASE
).search
_CONVOLUTION = re.compile(
    r"fprop|dgrad|wgrad|igemm_(fwd|bwd|wrw)|implicit_(convolve|gemm)|ImplicitGemm|scudnn|hcudnn"
    r"|i?convolv|grouped_conv|conv\w*_(fwd|bwd|forward|backward)|conv[123]d|conv_depthwise"
    r"|bwd_weight|bwd_data|miopen\w*conv|winograd|triton_tem_fused\w*_convolution",
    re.IGNORECASE,
).search
_GEMM = re.compile(
    r"gemm|gemv|nvjet|Cijk_|_?matmul|triton_tem_|triton_mm|triton_bmm|\bbmm_|dot_kernel|_mm_kernel"
    r"|rocblas_\w*(ger|syrk|trmm)",
    re.IGNORECASE,
).search
VECTOR = re.compile(r"gemv|dot_kernel|gemmk1|paged_attention|[dD]ecode").search
"""Of kernels that read a matrix (or keys and values) for one vector."""
_POINTWISE = re.compile(r"elementwise|triton_poi_|multi_tensor_apply|FillFunctor").search
_REDUCTION = re.compile(r"(?<!all_)reduce_kernel|triton_(red|per)_|[sS]oft[mM]ax|_norm|Norm").search
_COPY = re.compile(r"direct_copy_kernel|CatArrayBatchedCopy|^Mem(cpy|set) ").search
_GENERATED = re.compile(r"triton_(poi|red|per|for|split_scan)_").match
_FIRST = re.compile(r"[^<(]*(?:<[^<,(>]*)?")
_OWN = re.compile(r"(?:void )?at::(?:native|cuda)::([\w:]+)").match

_TENSOR = re.compile(
    r"tensorop|nvjet|wgmma|warpgroup|warpspecialized|[hi]mma_|_tensor\d|tf32|s1688|[shi]16816"
    r"|[shd]884|i8816|i16832|xdl|_MI\d+x\d+|igemm_\w*gtc|mfma|flash_(fwd|bwd)|sdpa|fmhaSm"
    r"|fmha_cutlass[FB]_b?f16\w*sm([789]|1\d)\d",
    re.IGNORECASE,
).search
_PLAIN = re.compile(
    r"simt|ffma|[sdh]gemm|scudnn|gemv|gemmSN|dot_kernel|gemmk1|fft|pointwise_mult|_TT\d+_\d+"
    r"|conv_depthwise|(dgrad|wgrad_alg\d)_engine"
).search
FEWER = re.compile(r"winograd|fft|Sp3AsmConv", re.IGNORECASE).search
"""Of convolutions that need fewer operations than their definition has."""

DATA = re.compile(r"dgrad|igemm_bwd|bwd_data").search
WEIGHT = re.compile(r"wgrad|igemm_wrw|bwd_weight").search


def kernel_kind(name: str) -> str:
    """Return which of `KINDS` the name of device work tells, or nothing.

    "other" for what libraries run beside the kernel that does the work, such as a change of layout.
    """
    telling = _telling(name)
    if _COPY(name):
        return "copy"
    for kind, is_it in (("pointwise", _POINTWISE), ("reduction", _REDUCTION)):
        # Inductor names a kernel after all operators that are in it, products of others too.
        if _GENERATED(name) and is_it(name):
            return kind
    if _HELPER(_head(telling)):
        return "other"
    for kind, is_it in zip(MATRIX[::-1], (_ATTENTION, _CONVOLUTION, _GEMM), strict=True):
        if is_it(telling):
            return kind
    for kind, is_it in (("pointwise", _POINTWISE), ("reduction", _REDUCTION)):
        if is_it(telling):
            return kind
    return ""


def _telling(name: str) -> str:
    """Return the part of a kernel's name that says what it does.

    Of torch's own that is the function: its parameters are whatever it is applied to.
    """
    plain = name.replace("(anonymous namespace)::", "")
    own = _OWN(plain)
    return own[1] if own else plain


def _head(name: str) -> str:
    """Return the function that a name begins with, and what it is first of all a template of.

    A product may name changes of layout and sums among its further parameters.
    """
    return name[:100] if name.startswith("_Z") else _FIRST.match(name)[0]  # type: ignore[index]


def tensor_core(name: str) -> int:
    """Return 1 if a matrix kernel runs on tensor cores, 0 if it does not, `NONE` if unknown."""
    if _TENSOR(name):
        return 1
    return 0 if _PLAIN(name) else NONE


def per_name(trace: Trace, rows: Ints, tell: Callable[[str], int]) -> Ints:
    """Return a number for each of the rows by its name, asked once for each distinct one."""
    codes, index = np.unique(trace.name[rows], return_inverse=True)
    told = np.array([tell(trace.names[code]) for code in codes] or [NONE], np.int64)
    return told[index.reshape(-1)]


def work_kinds(found: Attribution) -> Ints:
    """Return the kind of each kernel, copy and set as an index into `KINDS`; `NONE` for the rest.

    By its name; where that tells nothing, by its operator. So it needs no shapes.
    """
    kind = np.full(len(found.trace), NONE)
    rows = np.flatnonzero(found.work)
    other = KINDS.index("other")
    by_name = per_name(
        found.trace, rows, lambda name: KINDS.index(k) if (k := kernel_kind(name)) else NONE
    )
    operator = found.operator[rows]
    of_operator = np.where(operator != NONE, operator_kinds(found)[operator], NONE)
    # An unknown name beside a kernel that is known to be the product is no product.
    matrix = (by_name >= 0) & (by_name < len(MATRIX))
    has = np.zeros(len(found.trace) + 1, bool)
    has[operator[matrix]] = True
    has[NONE] = False
    beside = (of_operator >= 0) & (of_operator < len(MATRIX)) & has[operator]
    of_operator = np.where(beside | (of_operator == NONE), other, of_operator)
    kind[rows] = np.where(by_name == NONE, of_operator, by_name)
    # A product inside a convolution or attention is that one's: im2col, batched scores.
    above = np.where(operator != NONE, operator_kinds(found)[operator], NONE)
    take = (kind[rows] == KINDS.index("gemm")) & (above > 0) & (above < len(MATRIX))
    kind[rows[take]] = above[take]
    # A copy that is the whole of an operator for copying; torch's copy kernels have many names.
    copies = (above == KINDS.index("copy")) & (kind[rows] == KINDS.index("pointwise"))
    kind[rows[copies]] = KINDS.index("copy")
    return kind


def matrix_work(found: Attribution) -> Mask:
    """Mark the kernels that are matrix products, convolutions or attention.

    By name or operator, also where no shapes were recorded; not what such an operator runs beside
    them: changes of layout, sums over the pieces of a split product.
    """
    kind = work_kinds(found)
    return (kind >= 0) & (kind < len(MATRIX))
