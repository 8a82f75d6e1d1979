"""Operations and bytes of calls: by hand, from recorded traces, and against torch's own counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan, nan
from typing import Any

import numpy as np
import pytest
import torch
import traces
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional
from torch.utils import flop_counter
from torch.utils.flop_counter import FlopCounterMode
from traces import call, op, row, work

import tprofile
from tprofile.analysis.attribution import attribute
from tprofile.analysis.flops import count
from tprofile.analysis.formulas import DTYPES, FORMULAS
from tprofile.trace.read import read


def counted(
    name: str, dims: Sequence[Any], types: Sequence[str] = (), concrete: Sequence[str] = (),
    **more: Any,
) -> tuple[float, float, str]:  # fmt: skip
    """Return flops, bytes and element type of the one call of a CPU trace."""
    args = {"Input Dims": dims, "Input type": types or ["float"] * len(dims),
            "Concrete Inputs": concrete or [""] * len(dims), **more}  # fmt: skip
    found = attribute(read(traces.text(op(name, 0, 10, 1, **args))))
    one = count(found)
    dtype = int(one.dtype[0])
    return one.flops[0], one.bytes[0], DTYPES[dtype] if dtype >= 0 else ""


BF16 = "c10::BFloat16"
X = "Scalar"


@pytest.mark.parametrize(
    ("name", "dims", "types", "concrete", "flops", "size"),
    [
        ("mm", [[2, 3], [3, 5]], ["float"] * 2, [], 60, 4 * (6 + 15 + 10)),
        # An `out` is written, not read: as without one.
        ("mm", [[2, 3], [3, 5], [2, 5]], [BF16] * 3, [], 60, 2 * (6 + 15 + 10)),
        # An overload says what to return.
        ("mm", [[2, 3], [3, 5], []], [BF16, BF16, X], ["", "", "6"], 60, 2 * 21 + 4 * 10),
        ("addmm", [[5], [2, 3], [3, 5], [], []], ["float"] * 3 + [X] * 2,
         ["", "", "", "1", "1"], 60, 4 * (5 + 6 + 15 + 10)),
        # With a factor of 0 what is added to is not read.
        ("addmm_", [[2, 5], [2, 3], [3, 5], [], []], ["double"] * 3 + [X] * 2,
         ["", "", "", "0", "1"], 60, 8 * (6 + 15 + 10)),
        ("bmm", [[7, 2, 3], [7, 3, 5]], ["float"] * 2, [], 420, 4 * 7 * 31),
        ("baddbmm", [[7, 2, 5], [7, 2, 3], [7, 3, 5], [], []], ["float"] * 3 + [X] * 2,
         ["", "", "", "1", "1"], 420, 4 * 7 * 41),
        ("addbmm", [[2, 5], [7, 2, 3], [7, 3, 5], [], []], ["float"] * 3 + [X] * 2,
         ["", "", "", "1", "1"], 420, 4 * (10 + 7 * 21 + 10)),
        ("mv", [[4, 6], [6]], ["float"] * 2, [], 48, 4 * (24 + 6 + 4)),
        ("addmv_", [[4], [4, 6], [6], [], []], ["float"] * 3 + [X] * 2,
         ["", "", "", "0", "1"], 48, 4 * (24 + 6 + 4)),
        ("dot", [[9], [9]], ["float"] * 2, [], 18, 4 * 19),
        ("linear", [[2, 4, 3], [5, 3], [5]], ["float"] * 3, [], 240, 4 * (24 + 15 + 5 + 40)),
        ("_int_mm", [[2, 3], [3, 5]], ["signed char"] * 2, [], 60, 6 + 15 + 4 * 10),
        ("_scaled_mm", [[2, 3], [3, 5], [], [], [], [], [], []],
         ["c10::Float8_e4m3fn"] * 2 + ["float"] * 2 + ["", "", X, X],
         ["", "", "", "", "", "", "15", "False"], 60, 6 + 15 + 8 + 20),
        # Each multiplication with its addition is four of each.
        ("mm", [[2, 3], [3, 5]], ["c10::complex<float>"] * 2, [], 240, 8 * 31),
        ("cudnn_convolution", [[2, 4, 9, 9], [8, 4, 3, 3], [], [], [], []], [BF16, BF16, *[X] * 4],
         ["", "", "[1, 1]", "[2, 2]", "[1, 1]", "1"], 2 * 2 * 25 * 288,
         2 * (648 + 288 + 2 * 8 * 25)),
        ("miopen_convolution", [[2, 4, 9], [8, 4, 3], [8], [], [], [], []],
         ["float"] * 3 + [X] * 4, ["", "", "", "[0]", "[1]", "[2]", "1"], 2 * 2 * 5 * 96,
         4 * (72 + 96 + 8 + 80)),
        ("cudnn_convolution_transpose", [[1, 4, 5, 5], [4, 6, 3, 3], [], [], [], [], []],
         ["float"] * 2 + [X] * 5, ["", "", "[1, 1]", "[0, 0]", "[2, 2]", "[1, 1]", "1"],
         2 * 25 * 216, 4 * (100 + 216 + 6 * 81)),
        ("_conv_depthwise2d", [[2, 4, 9, 9], [4, 1, 3, 3], [], [], [], [], []],
         ["float"] * 2 + [X, "", X, X, X], ["", "", "[3, 3]", "", "[1, 1]", "[1, 1]", "[1, 1]"],
         2 * 2 * 81 * 36, 4 * (648 + 36 + 648)),
        ("_flash_attention_forward", [[2, 16, 3, 8]] * 3 + [[]] * 12,
         [BF16] * 3 + ["", ""] + [X] * 6 + [""] * 4,
         ["", "", "", "", "", "16", "16", "0.", "False", "False", "0.1", "", "", "", ""],
         4 * 2 * 3 * 16 * 16 * 8, 2 * 4 * 768),
        ("_cudnn_attention_forward", [[2, 3, 16, 8]] * 3 + [[]] * 10,
         [BF16] * 3 + [""] * 3 + [X] * 6 + [""],
         [*[""] * 6, "16", "16", "False", "0.0", "True", "False", ""],
         4 * 2 * 3 * (16 * 17 // 2) * 8, 2 * 4 * 768),
    ],
)  # fmt: skip
def test_counts_by_hand(
    name: str, dims: Any, types: Any, concrete: Any, flops: float, size: float
) -> None:
    assert counted(f"aten::{name}", dims, types, concrete)[:2] == (flops, size)


@pytest.mark.parametrize(
    ("name", "dims", "types", "concrete", "flops", "size"),
    [
        ("add", [[8, 4], [4], []], ["float", "float", X], ["", "", "1"], 32, 4 * (32 + 4 + 32)),
        ("add_", [[8, 4], [8, 4], []], ["float", "float", X], ["", "", "2"], 64, 4 * 96),
        ("mul", [[8], []], ["float", "double"], [], 8, 32 + 8 + 32),
        ("relu", [[8]], ["float"], [], nan, 64),
        ("gt", [[8], []], ["float", X], [], nan, 32 + 8),
        ("copy_", [[8], [8], []], [BF16, "float", X], [], 0, 16 + 32),
        ("fill_", [[8], []], ["long int", X], [], 0, 64),
        ("sum", [[8, 4], [], [], []], ["float", "ScalarList", X, ""], ["", "[0]", "False", ""],
         nan, 4 * (32 + 4)),
        ("sum", [[8, 4], []], ["float", ""], [], nan, 4 * (32 + 1)),
        ("mean", [[8, 4], [], [], []], ["float", "ScalarList", X, ""], ["", "[-1]", "True", ""],
         nan, 4 * (32 + 8)),
        ("_softmax", [[8, 4], [], []], [BF16, X, X], ["", "-1", "True"], nan, 64 + 128),
        ("native_layer_norm", [[8, 4], [], [4], [4], []], [BF16, X, BF16, BF16, X],
         ["", "[4]", "", "", "1e-05"], nan, 64 + 8 + 8 + 64 + 2 * 8 * 4),
    ],
)  # fmt: skip
def test_bytes_by_hand(
    name: str, dims: Any, types: Any, concrete: Any, flops: float, size: float
) -> None:
    got, moved, _ = counted(f"aten::{name}", dims, types, concrete)
    assert moved == size
    assert got == flops or (isnan(got) and isnan(flops))


def test_an_expanded_input_is_read_once() -> None:
    dims, types = [[8, 4], [8, 4], []], ["float", "float", X]
    strides = [[4, 1], [0, 1], []]
    assert counted("aten::add", dims, types, **{"Input Strides": strides})[1] == 4 * (32 + 4 + 32)


@pytest.mark.parametrize(
    ("name", "dims", "types", "concrete"),
    [
        ("mm", [[2, 3], [4, 5]], ["float"] * 2, []),
        ("mm", [[2, 3]], ["float"], []),
        ("mm", [[], []], ["", ""], []),
        ("mm", [[2, -3], [-3, 5]], ["float"] * 2, []),
        ("mm", [[2, 3], [3, 5]], ["TensorList", "float"], []),
        ("mm", "[[2, 3], [3, 5]]", ["float"] * 2, []),
        # Arguments whose values were not recorded, or are no list.
        ("cudnn_convolution", [[2, 4, 9, 9], [8, 4, 3, 3], [], [], [], []], [BF16, BF16, *[X] * 4],
         []),
        ("cudnn_convolution", [[2, 4, 9, 9], [8, 4, 3, 3], [], [], [], []], [BF16, BF16, *[X] * 4],
         ["", "", "__import__('os')", "[1, 1]", "[1, 1]", "1"]),
        ("cudnn_convolution", [[2, 4, 9, 9], [8, 4, 3, 3], [], [], [], []], [BF16, BF16, *[X] * 4],
         ["", "", "[1, 1]", "[0, 0]", "[1, 1]", "1"]),
        # Sequences of various lengths in one batch.
        ("_flash_attention_forward", [[32, 3, 8]] * 3 + [[3], [3], *[[]] * 10],
         [BF16] * 3 + ["int"] * 2 + [X] * 6 + [""] * 4,
         ["", "", "", "", "", "16", "16", "0.", "False", "False", "0.1", "", "", "", ""]),
        # An oblong causal mask, and a window.
        ("_cudnn_attention_forward", [[2, 3, 4, 8], [2, 3, 6, 8], [2, 3, 6, 8], *[[]] * 10],
         [BF16] * 3 + [""] * 3 + [X] * 6 + [""],
         [*[""] * 6, "4", "6", "False", "0.0", "True", "False", ""]),
        ("_flash_attention_forward", [[2, 16, 3, 8]] * 3 + [[]] * 12,
         [BF16] * 3 + ["", ""] + [X] * 8 + [""] * 2,
         ["", "", "", "", "", "16", "16", "0.", "False", "False", "0.1", "4", "0", "", ""]),
    ],
)  # fmt: skip
def test_what_the_arguments_leave_open_is_unknown(
    name: str, dims: Any, types: Any, concrete: Any
) -> None:
    flops, size, dtype = counted(f"aten::{name}", dims, types, concrete)
    assert isnan(flops)
    assert isnan(size)
    assert dtype == ""


def test_an_unknown_type_has_operations_but_no_bytes() -> None:
    # A type that this version does not know makes no tensor of it at all.
    assert isnan(counted("aten::mm", [[2, 3], [3, 5]], ["c10::quint4x2"] * 2)[0])
    # Of a known one whose output type is not told, only the bytes are open.
    flops, size, dtype = counted(
        "aten::_scaled_mm", [[2, 3], [3, 5], [], [], [], [], [], []],
        ["c10::Float8_e4m3fn"] * 2 + ["float"] * 2 + [""] * 4,
    )  # fmt: skip
    assert (flops, dtype) == (60, "float8")
    assert isnan(size)


@pytest.mark.parametrize(("mask", "pairs"), [("0", 24), ("1", 10), ("2", 3 + 4 + 5 + 6)])
def test_the_memory_efficient_kernel_has_two_causal_masks(mask: str, pairs: int) -> None:
    q, k = [1, 4, 1, 8], [1, 6, 1, 8]
    flops = counted(
        "aten::_efficient_attention_forward", [q, k, k, *[[]] * 11],
        ["float"] * 3 + [""] * 5 + [X] * 3 + [""] * 3, [*[""] * 8, "0.0", mask, "True", "", "", ""],
    )[0]  # fmt: skip
    assert flops == 4 * 8 * pairs


@pytest.mark.parametrize(
    ("mask", "parts"), [("[True, True, False]", 2), ("[False, True, True]", 1)]
)
def test_each_gradient_of_a_convolution_counts_as_much(mask: str, parts: int) -> None:
    dims = [[2, 8, 5, 5], [2, 4, 9, 9], [8, 4, 3, 3], *[[]] * 8]
    args = ["", "", "", "[0]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", mask]
    flops, size, _ = counted("aten::convolution_backward", dims, ["float"] * 3 + [X] * 8, args)
    assert flops == parts * 2 * 2 * 25 * 288
    grad, x, w = 400, 648, 288
    assert size == 4 * (grad + 2 * x + 2 * w if parts == 2 else grad + x + w)


def on_cpu(step: Callable[[], object]) -> tprofile.Profile:
    return tprofile.run(step, once=True, cpu=True, flops=True)


CASES: dict[str, Callable[[], object]] = {}


def case(make: Callable[[], Callable[[], object]]) -> None:
    CASES[make.__name__] = make()


def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype, requires_grad=True)


@case
def mm() -> Callable[[], object]:
    a, b = tensor(5, 7), tensor(7, 9)
    return lambda: (a @ b).sum().backward()


@case
def addmm() -> Callable[[], object]:
    x, w, b = tensor(6, 5, 7), tensor(9, 7), tensor(9)
    return lambda: functional.linear(x, w, b).sum().backward()


@case
def bmm() -> Callable[[], object]:
    a, b = tensor(3, 5, 7), tensor(3, 7, 9)
    return lambda: (a @ b).sum().backward()


@case
def baddbmm() -> Callable[[], object]:
    c, a, b = tensor(3, 5, 9), tensor(3, 5, 7), tensor(3, 7, 9)
    return lambda: torch.baddbmm(c, a, b)


@case
def convolution() -> Callable[[], object]:
    x, w, b = tensor(2, 4, 11, 10), tensor(6, 4, 3, 2), tensor(6)
    return lambda: functional.conv2d(x, w, b, (2, 1), (1, 0), (1, 2)).sum().backward()


@case
def convolution_1d_double() -> Callable[[], object]:
    x, w = tensor(2, 4, 20, dtype=torch.float64), tensor(6, 4, 3, dtype=torch.float64)
    return lambda: functional.conv1d(x, w, dilation=2)


@case
def grouped_convolution() -> Callable[[], object]:
    x, w = tensor(2, 4, 8, 8), tensor(6, 2, 3, 3)
    return lambda: functional.conv2d(x, w, groups=2)


@case
def transposed_convolution() -> Callable[[], object]:
    x, w = tensor(2, 4, 5, 5), tensor(4, 6, 3, 3)
    return lambda: functional.conv_transpose2d(x, w, stride=2, padding=1).sum().backward()


@pytest.mark.parametrize("name", CASES)
def test_torch_counts_the_same(name: str) -> None:
    # GIVEN what torch counts while the code runs
    CASES[name]()
    with FlopCounterMode(display=False) as torchs:
        CASES[name]()
    # WHEN it is profiled, forward and backward
    told = on_cpu(CASES[name]).operators
    # THEN products, convolutions and attention come out the same from recorded shapes
    matrix = (
        told["name"]
        .map(lambda n: FORMULAS.get(n, ("",))[0])
        .isin(["gemm", "convolution", "attention"])
    )
    assert told.loc[matrix, "flops"].sum() == torchs.get_total_flops() > 0


def test_the_profiler_of_torch_counts_the_same() -> None:
    a, b, bias = torch.ones(5, 7), torch.ones(7, 9), torch.ones(9)

    def step() -> None:
        torch.mm(a, b)
        torch.addmm(bias, a, b)
        torch.bmm(a[None], b[None])

    with torch.profiler.profile(with_flops=True) as torchs:
        step()
    told = on_cpu(step).operators
    for name in ("aten::mm", "aten::addmm", "aten::bmm"):
        flops = [e.flops for e in torchs.key_averages() if e.key == name]
        assert flops == [row(told, name=name)["flops"]] == [2 * 5 * 7 * 9]


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(1, 2),
    st.booleans(),
)  # fmt: skip
def test_convolutions_of_any_kind(
    kernel: int, stride: int, dilation: int, padding: int, groups: int, bias: bool
) -> None:
    x, w = torch.ones(2, 4, 9, 8), torch.ones(6, 4 // groups, kernel, kernel)
    b = torch.ones(6) if bias else None

    def step() -> torch.Tensor:
        return functional.conv2d(x, w, b, stride, padding, dilation, groups)

    with FlopCounterMode(display=False) as torchs:
        out = step()
    with torch.profiler.profile(record_shapes=True) as prof:
        step()
    found = attribute(tprofile.load(prof).trace)
    one = count(found)
    known = np.isin(found.trace.names[found.trace.name], [*FORMULAS]) & ~np.isnan(one.flops)
    assert one.flops[known].sum() == torchs.get_total_flops()
    sizes = x.numel() + w.numel() + out.numel() + (6 if bias else 0)
    assert 4 * sizes in one.bytes[known].tolist()


@pytest.mark.parametrize("keys", [16, 24])
def test_torch_counts_attention_the_same(keys: int) -> None:
    q, k, v = tensor(2, 3, 16, 8), tensor(2, 3, keys, 8), tensor(2, 3, keys, 8)
    told = on_cpu(
        lambda: functional.scaled_dot_product_attention(q, k, v).sum().backward()
    ).operators
    # Its counter does not know the operator of the CPU, but the formula is that of all others.
    name = "aten::_scaled_dot_product_flash_attention_for_cpu"
    shapes = (q.shape, k.shape, v.shape)
    forward = flop_counter.sdpa_flop_count(*shapes)
    backward = flop_counter.sdpa_backward_flop_count(q.shape, *shapes)
    assert row(told, name=name)["flops"] == forward == 4 * 6 * 16 * keys * 8
    assert row(told, name=f"{name}_backward")["flops"] == backward == 10 * 6 * 16 * keys * 8


def test_a_causal_mask_leaves_the_pairs_on_and_below_the_diagonal() -> None:
    q = torch.ones(2, 3, 16, 8, requires_grad=True)
    told = on_cpu(
        lambda: functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    ).operators
    name = "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert row(told, name=name)["flops"] == 4 * 6 * (16 * 17 // 2) * 8
    assert row(told, name=f"{name}_backward")["flops"] == 10 * 6 * (16 * 17 // 2) * 8


def test_only_the_innermost_counts_on_the_cpu() -> None:
    told = on_cpu(CASES["addmm"]).operators
    assert isnan(row(told, name="aten::linear")["flops"])
    assert row(told, name="aten::addmm")["flops"] == 2 * 30 * 7 * 9


def mm_args(m: int, k: int, n: int) -> dict[str, Any]:
    return {"Input Dims": [[m, k], [k, n]], "Input type": ["float"] * 2,
            "Concrete Inputs": ["", ""]}  # fmt: skip


def test_a_call_that_launched_nothing_is_unknown_and_so_is_its_row() -> None:
    # GIVEN two products, one of them with a kernel
    events = [
        op("aten::mm", 0, 10, 1, **mm_args(2, 3, 5)), call("cudaLaunchKernel", 2, 1, 5, 1),
        work("sgemm", 20, 4, 5, 1), op("aten::mm", 30, 10, 2, **mm_args(2, 3, 5)),
    ]  # fmt: skip
    both = tprofile.load(traces.text(*events), flops=True)
    one = tprofile.load(traces.text(*events[:3]), flops=True)
    # THEN the sum over both is not told
    assert isnan(row(both.operators, name="aten::mm")["flops"])
    assert row(one.operators, name="aten::mm")["flops"] == 60


def test_a_call_that_is_merged_with_its_namesake_counts_once() -> None:
    told = tprofile.load(
        traces.text(
            op("aten::mm", 0, 20, 1, **mm_args(2, 3, 5)),
            op("aten::mm", 2, 8, 2, **mm_args(2, 3, 5)),
        ),
        flops=True,
    ).operators
    assert (row(told, name="aten::mm")["calls"], row(told, name="aten::mm")["flops"]) == (1, 60)


def test_flops_are_told_only_where_asked_for_and_kept_in_the_file(tmp_path: Any) -> None:
    path = traces.DATA / "matmul_add_4096.json.gz"
    assert "flops" not in tprofile.load(path).operators
    told = tprofile.load(path, flops=True)
    calls = row(told.operators, name="aten::mm")["calls"]
    assert row(told.operators, name="aten::mm")["flops"] == calls * 2 * 4096**3
    by_run = told.operators_by("run")
    assert by_run.loc[by_run["name"] == "aten::mm", "flops"].sum() == calls * 2 * 4096**3
    again = tprofile.load(told.export_trace(tmp_path / "trace.json"))
    traces.assert_same(told, again)
    assert row(again.operators, name="aten::mm")["flops"] == calls * 2 * 4096**3


def test_the_convolutions_and_gradients_of_a_recorded_resnet() -> None:
    # ResNet-18 on 16 images of 224×224: 1.814 G multiplications with additions an image, of which
    # the last layer, a product of 512×1000, has 0.512 M.
    told = tprofile.load(traces.DATA / "resnet18_train.json.gz", flops=True).operators
    forward = row(told, name="aten::cudnn_convolution")["flops"]
    images = 16 * 2
    assert forward == images * 2 * 1_813_561_344
    # The first layer needs no gradient of the images.
    first = images * 2 * 112 * 112 * 64 * 147
    assert row(told, name="aten::convolution_backward")["flops"] == 2 * forward - first


def test_flops_need_shapes() -> None:
    with pytest.raises(tprofile.TprofileError, match="counted from the shapes of inputs"):
        tprofile.run(lambda: None, flops=True, shapes=False)
    with pytest.raises(tprofile.TprofileError, match="flops is 1, but must be True or False"):
        tprofile.load(traces.DATA / "matmul_add_64.json.gz", flops=1)  # type: ignore[arg-type]
