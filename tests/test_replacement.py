"""What became of the kernels of one profile in another: by hand, on real pairs, and of anything."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import DATA, Event, call, note, op, profile, recorded, work

import tprofile
from tprofile.analysis import replacement as matching

RUN = "tprofile::run"
PAIRS = ["pointwise", "mlp", "geglu", "ln_gelu", "two_breaks", "reduce", "gpt2", "recompiles"]
COLUMNS = [
    "change", "kernels_a", "kernel_b", "operators_a", "times", "device_us_a", "device_us_b",
    "delta_us",
]  # fmt: skip
SGEMM = (
    "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4"
    "_alignc4_execute"
)
SDPA = (
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1"
    "_cga1x1x1_kernel0_0"
)
MASK = (
    "triton_poi_fused__scaled_dot_product_cudnn_attention_add_arange_bitwise_and_eq_expand"
    "_index_le_new_ones"
)

Kernel = tuple[str, str, float]
"""Name, operator and duration; operators around one another are joined by ` > `."""


def events(kernels: list[Kernel], at: float = 0) -> list[Event]:
    """Return operators that each launch a kernel, 100 µs apart."""
    told: list[Event] = []
    for i, (name, operators, us) in enumerate(kernels):
        begin, corr = at + 100 * i, int(at) + i + 1
        around = operators.split(" > ") if operators else []
        told += [op(one, begin + n, 50 - 2 * n, 10_000 * n + corr)
                 for n, one in enumerate(around)]  # fmt: skip
        told += [
            call("cudaLaunchKernel", begin + 20, 5, corr),
            work(name, begin + 25, us, corr, cat=_category(name)),
        ]
    return told


def _category(name: str) -> str:
    return {"Memc": "gpu_memcpy", "Mems": "gpu_memset"}.get(name[:4], "kernel")


def of(kernels: list[Kernel]) -> tprofile.Profile:
    return profile(*events(kernels))


def became(a: list[Kernel], b: list[Kernel]) -> list[tuple[Any, ...]]:
    """Return the rows without their times."""
    frame = of(a).compare(of(b)).replaced
    assert frame is not None
    assert list(frame) == COLUMNS
    return list(
        frame[["change", "kernels_a", "kernel_b", "times"]].itertuples(index=False, name=None)
    )


def pair(name: str) -> tprofile.Comparison:
    folder = DATA / "pairs"
    return tprofile.compare(
        *(tprofile.load(folder / f"{name}_{which}.json.gz") for which in ("eager", "compiled"))
    )


def rows(name: str) -> list[tuple[Any, ...]]:
    """Return change, operators of A, kernel of B and how often, in the frame's order."""
    frame = pair(name).replaced
    assert frame is not None
    return [(r.change, _short(r.operators_a), r.kernel_b and r.kernel_b[:90], r.times)
            for r in frame.itertuples()]  # fmt: skip


def _short(operators: tuple[str | None, ...]) -> str:
    return " ".join(str(one).removeprefix("aten::") for one in operators)


def test_kernels_of_one_name_are_the_same() -> None:
    told = [("gemm", "aten::mm", 5.0), ("gelu", "aten::gelu", 2.0)]
    assert became(told, told) == [
        ("same", ("gemm",), "gemm", 1), ("same", ("gelu",), "gelu", 1),
    ]  # fmt: skip


def test_a_group_has_names_operators_and_times_of_both() -> None:
    a = of([("k1", "aten::sin", 3), ("k2", "aten::mul", 4), ("gone", "aten::sort", 5)])
    b = of([("triton_poi_fused_mul_sin_0", "triton", 6), ("made", "aten::fill_", 1)])
    frame = a.compare(b).replaced
    assert frame is not None
    assert frame.to_dict("list") == {
        "change": ["vanished", "fused", "new"],
        "kernels_a": [("gone",), ("k1", "k2"), ()],
        "kernel_b": [None, "triton_poi_fused_mul_sin_0", "made"],
        "operators_a": [("aten::sort",), ("aten::sin", "aten::mul"), ()],
        "times": [1, 1, 1],
        "device_us_a": [5.0, 7.0, 0.0],
        "device_us_b": [0.0, 6.0, 1.0],
        "delta_us": [-5.0, -1.0, 1.0],
    }


def test_what_recurs_is_one_row() -> None:
    layer: list[Kernel] = [("g", "aten::mm", 5), ("s", "aten::sin", 3), ("c", "aten::cos", 2)]
    fused: list[Kernel] = [("g", "aten::mm", 4), ("triton_poi_fused_cos_sin_0", "t", 3)]
    frame = of(layer * 3).compare(of(fused * 3)).replaced
    assert frame is not None
    assert frame[["change", "times", "device_us_a", "device_us_b"]].to_numpy().tolist() == [
        ["fused", 3, 15.0, 9.0], ["same", 3, 15.0, 12.0],
    ]  # fmt: skip


def test_of_equal_differences_the_first_launched_comes_first() -> None:
    a: list[Kernel] = [("x", "aten::sin", 2), ("y", "aten::cos", 2), ("z", "aten::tan", 2)]
    assert [row[1] for row in became(a, [("other", "mine::op", 1)])] == [("x",), ("y",), ("z",), ()]


def test_a_fused_kernel_that_stands_before_another_takes_what_it_lists() -> None:
    # GIVEN a compiler that writes the second of two chains first
    a: list[Kernel] = [("s", "aten::sin", 2), ("c", "aten::cos", 2)]
    b: list[Kernel] = [("triton_poi_fused_cos_0", "t", 2), ("triton_poi_fused_sin_1", "t", 2)]
    assert sorted(became(a, b)) == [
        ("replaced", ("c",), "triton_poi_fused_cos_0", 1),
        ("replaced", ("s",), "triton_poi_fused_sin_1", 1),
    ]


def test_a_kernel_goes_to_the_one_beside_it_though_that_changes_the_order() -> None:
    # GIVEN a mask that eager code computes before the norm, and the compiled one after it
    products: list[Kernel] = [("g", "aten::mm", 9)] * 5
    a = [("m", "aten::cumsum", 2), ("n", "aten::norm", 2), *products, ("n", "aten::norm", 2)]
    b = [("triton_per_fused_norm_0", "t", 2), ("g", "aten::mm", 9),
         ("triton_per_fused_cumsum_1", "t", 2), *products[1:],
         ("triton_per_fused_norm_2", "t", 2)]  # fmt: skip
    assert [row for row in became(a, b) if row[0] != "same"] == [
        ("replaced", ("n",), "triton_per_fused_norm_0", 1),
        ("replaced", ("m",), "triton_per_fused_cumsum_1", 1),
        ("replaced", ("n",), "triton_per_fused_norm_2", 1),
    ]


def test_of_two_that_could_be_meant_it_is_the_one_that_takes_as_long() -> None:
    # GIVEN a sum in two steps, of which the second adds up what the first left
    a: list[Kernel] = [("sin", "aten::sin", 40), ("sum", "aten::sum", 40)]
    b: list[Kernel] = [
        ("triton_poi_fused_sin_0", "t", 40), ("triton_red_fused_sum_1", "t", 36),
        ("triton_per_fused_sum_2", "t", 1),
    ]  # fmt: skip
    assert sorted(became(a, b))[0] == ("new", (), "triton_per_fused_sum_2", 1)


def test_of_several_of_one_name_it_is_the_one_of_the_same_operator() -> None:
    sets: list[Kernel] = [
        ("Memset", "aten::mm", 1),
        ("Memset", "aten::sdpa", 1),
        ("Memset", "x", 1),
    ]
    for _, operator, _ in sets:
        frame = of(sets).compare(of([("Memset", operator, 1)])).replaced
        assert frame is not None
        assert frame.loc[frame["change"] == "same", "operators_a"].tolist() == [(operator,)]


def test_only_what_a_compiler_wrote_does_the_work_of_several_calls() -> None:
    # GIVEN three products with a sum over their parts each, and attention of several kernels
    a = of(
        [
            ("gemm_a", "aten::mm", 5), ("gemm_a", "aten::mm", 9), ("gemm_a", "aten::mm", 5),
        ]
    )  # fmt: skip
    b = of([("gemm_b", "aten::mm", 3)])
    assert groups(a, b) == [
        ("replaced", ("gemm_a",), "gemm_b", 1), ("vanished", ("gemm_a",), None, 2),
    ]  # fmt: skip
    # AND kernels of one call may all have become one
    attention = profile(
        note(RUN, 0, 90, 1000), op("aten::sdpa", 1, 80, 1), op("aten::bmm", 2, 20, 2),
        call("cudaLaunchKernel", 5, 5, 1), op("aten::softmax", 30, 20, 3),
        call("cudaLaunchKernel", 35, 5, 2), work("gemm", 10, 5, 1), work("softmax", 40, 5, 2),
        recorded={"profiled": 1},
    )  # fmt: skip
    flash = of([("flash", "aten::sdpa", 3)])
    assert groups(attention, flash) == [("fused", ("gemm", "softmax"), "flash", 1)]


def groups(a: tprofile.Profile, b: tprofile.Profile) -> list[tuple[str, tuple[str, ...], Any, int]]:
    frame = a.compare(b).replaced
    assert frame is not None
    return sorted(
        zip(frame["change"], frame["kernels_a"], frame["kernel_b"], frame["times"], strict=True)
    )


def test_a_product_with_a_bias_is_a_product() -> None:
    assert became([("gemm_bias", "aten::linear > aten::addmm", 5)], [("nvjet", "aten::mm", 5)]) == [
        ("replaced", ("gemm_bias",), "nvjet", 1)
    ]


@pytest.mark.parametrize("name", ["Memcpy DtoD (Device -> Device)", "Memset (Device)"])
def test_a_copy_or_set_is_part_of_no_fused_kernel(name: str) -> None:
    assert sorted(became([(name, "aten::sum", 1)], [("triton_per_fused_sum_0", "t", 1)])) == [
        ("new", (), "triton_per_fused_sum_0", 1), ("vanished", (name,), None, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("triton_poi_fused_add_cos_0", "aten::cos"),
        ("triton_poi_fused_add_cos_12", "aten::add_"),
        ("triton_red_fused__to_copy_native_layer_norm_view_3", "aten::native_layer_norm"),
        ("triton_red_fused__to_copy_native_layer_norm_view_3", "aten::_to_copy"),
        ("triton_poi_fused_relu_0", "aten::relu > aten::clamp_min"),
        ("triton_tem_fused_mm_t_3", "aten::matmul > aten::mm"),
        ("triton_split_scan_fused_cumsum_0", "aten::cumsum"),
        ("triton_poi_fused_gelu_gelu_backward_mul_0", "aten::gelu_backward"),
        ("triton_poi_fused_sin_0d1d2d", "aten::sin"),
        ("triton_poi_fused_max_pool2d_with_indices_1", "aten::max_pool2d_with_indices"),
    ],
)
def test_the_name_of_a_fused_kernel_lists_its_operators(name: str, operator: str) -> None:
    assert became([("k", operator, 1)], [(name, "t", 1)]) == [("replaced", ("k",), name, 1)]


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("triton_poi_fused_addcmul_0", "aten::add"),
        ("triton_poi_fused_sinh_0", "aten::sin"),
        ("triton_poi_fused_0", "aten::fused"),
        ("my_triton_poi_fused_add_0", "aten::add"),
        ("triton_poi_fused_add_0", "mine::add"),
        ("add", "aten::add"),
        (f"triton_poi_fused_{'add_' * 300}0", "aten::add"),
    ],
)
def test_what_a_name_does_not_list_is_not_in_it(name: str, operator: str) -> None:
    assert sorted(became([("k", operator, 1)], [(name, "t", 1)])) == [
        ("new", (), name, 1), ("vanished", ("k",), None, 1),
    ]  # fmt: skip


def test_a_kernel_without_an_operator_has_none() -> None:
    frame = of([("k", "", 2)]).compare(of([("k", "", 2)])).replaced
    assert frame is not None
    assert frame["operators_a"].tolist() == [(None,)]
    assert frame["change"].tolist() == ["same"]


def test_kernels_come_in_the_order_of_their_launches_on_any_stream() -> None:
    # GIVEN two streams, on which what was launched last ran first
    a = profile(
        op("aten::sin", 0, 10, 1), call("cudaLaunchKernel", 1, 1, 1), work("s", 90, 5, 1, stream=7),
        op("aten::cos", 20, 10, 2), call("cudaLaunchKernel", 21, 1, 2),
        work("c", 30, 5, 2, stream=8),
    )  # fmt: skip
    frame = a.compare(of([("triton_poi_fused_cos_sin_0", "t", 4)])).replaced
    assert frame is not None
    assert frame["kernels_a"].tolist() == [("s", "c")]


def test_the_kernels_of_a_graph_are_matched_one_by_one() -> None:
    graph = profile(
        call("cudaGraphLaunch", 0, 10, 1),
        *(work(name, 20 + 10 * i, 5, 1) for i, name in enumerate(("g", "triton_poi_fused_sin_0"))),
    )
    frame = of([("g", "aten::mm", 6), ("s", "aten::sin", 7)]).compare(graph).replaced
    assert frame is not None
    assert frame[["change", "kernel_b", "delta_us"]].to_numpy().tolist() == [
        ["replaced", "triton_poi_fused_sin_0", -2.0], ["same", "g", -1.0],
    ]  # fmt: skip


def test_each_profile_tells_of_its_median_run() -> None:
    # GIVEN runs of 300, 100 and 200 µs, with kernels of their own
    events = [
        note(RUN, 0, 300, 1), call("cudaLaunchKernel", 1, 1, 11), work("long", 10, 30, 11),
        note(RUN, 400, 100, 2), call("cudaLaunchKernel", 401, 1, 12), work("short", 410, 10, 12),
        note(RUN, 600, 200, 3), call("cudaLaunchKernel", 601, 1, 13), work("middle", 610, 20, 13),
    ]  # fmt: skip
    a = profile(*events, recorded={"profiled": 3, "asked_warmup": 1})
    frame = a.compare(a).replaced
    assert frame is not None
    assert frame[["kernel_b", "device_us_a"]].to_numpy().tolist() == [["middle", 20.0]]
    # THEN of a cold start the first run does not count: of 100 and 200 µs it is the shorter one
    cold = profile(*events, recorded={"profiled": 3, "asked_warmup": 0})
    frame = cold.compare(cold).replaced
    assert frame is not None
    assert frame["kernel_b"].tolist() == ["short"]


def test_what_was_not_measured_is_not_zero() -> None:
    with_work, without = of([("k", "aten::mm", 5)]), profile(op("aten::mm", 0, 10, 1))
    frame = with_work.compare(without).replaced
    assert frame is not None
    assert frame["change"].tolist() == ["vanished"]
    assert frame["device_us_a"].tolist() == [5.0]
    assert frame[["device_us_b", "delta_us"]].isna().all(axis=None)
    frame = without.compare(with_work).replaced
    assert frame is not None
    assert frame["change"].tolist() == ["new"]
    assert frame["device_us_b"].tolist() == [5.0]
    assert frame[["device_us_a", "delta_us"]].isna().all(axis=None)


@pytest.mark.parametrize("one", [profile(), profile(op("aten::mm", 0, 10, 1))])
def test_without_kernels_there_are_no_rows(one: tprofile.Profile) -> None:
    frame = one.compare(one).replaced
    assert frame is not None
    assert list(frame) == COLUMNS
    assert frame.empty
    assert {c: frame[c].dtype.kind for c in COLUMNS} == {
        c: "f" if (c.endswith(("us", "_a", "_b")) and "device" in c) or c == "delta_us" else
        "i" if c == "times" else "O" for c in COLUMNS
    }  # fmt: skip


def test_of_a_run_that_an_error_stopped_nothing_is_told() -> None:
    stopped = profile(
        note(RUN, 0, 100, 1), call("cudaLaunchKernel", 1, 1, 11), work("k", 10, 5, 11),
        recorded={"profiled": 0, "stopped": {"by": "ValueError", "during": "profiled run 1 of 1"}},
    )  # fmt: skip
    whole = of([("k", "aten::mm", 5)])
    assert stopped.compare(whole).replaced is None
    assert whole.compare(stopped).replaced is None


def test_too_many_pairs_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = of([("k", "aten::mm", 1)] * 5), of([("k", "aten::mm", 1)] * 4)
    monkeypatch.setattr(matching, "_MOST", 20)
    assert a.compare(b).replaced is not None
    monkeypatch.setattr(matching, "_MOST", 19)
    assert a.compare(b).replaced is None
    assert b.compare(a).replaced is None


def test_calls_may_be_nested_deeply() -> None:
    deep = " > ".join(["aten::sin"] * 24)
    outer = [note("level", -10 - i, 500 + 2 * i, 90_000 + i) for i in range(3_000)]
    a = profile(*outer, *events([("k", deep, 5)]))
    frame = a.compare(of([("triton_poi_fused_sin_0", "t", 5)])).replaced
    assert frame is not None
    assert frame["change"].tolist() == ["replaced"]


def test_frames_are_the_callers_own() -> None:
    told = of([("k", "aten::mm", 1)])
    both = told.compare(told)
    assert both.replaced is not None
    mine = both.replaced
    mine["times"] = 9
    assert both.replaced["times"].tolist() == [1]


def test_the_given_pair_names_the_kernel_that_took_the_place_of_six() -> None:
    frame = recorded("pointwise_eager").compare(recorded("pointwise_compiled")).replaced
    assert frame is not None
    assert frame["change"].tolist() == ["fused"]
    assert frame["kernel_b"][0] == "triton_red_fused_add_gelu_mul_native_layer_norm_sigmoid_sin_0"
    assert _short(frame["operators_a"][0]) == "gelu sigmoid mul sin add native_layer_norm"
    kernels = [re.findall(r"gelu|sigmoid|Mul|sin_kernel|_add|layer_norm", name, re.IGNORECASE)[0]
               for name in frame["kernels_a"][0]]  # fmt: skip
    assert kernels == ["Gelu", "sigmoid", "Mul", "sin_kernel", "_add", "layer_norm"]


def test_six_pointwise_kernels_became_one() -> None:
    assert rows("pointwise") == [
        ("fused", "sin mul add gelu add sigmoid", "triton_poi_fused_add_gelu_mul_sigmoid_sin_0", 1)
    ]


def test_the_products_of_an_mlp_stay() -> None:
    gemm = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT"
    assert rows("mlp") == [
        ("replaced", "clamp_min", "triton_poi_fused_relu_0", 1),
        ("same", "addmm", "Memset (Device)", 2),
        ("same", "addmm", gemm, 2),
    ]


def test_of_geglu_two_became_one_and_three_products_stay() -> None:
    assert rows("geglu") == [
        ("fused", "gelu mul", "triton_poi_fused_gelu_mul_0", 1),
        ("same", "mm", "nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_TNN", 2),
        ("same", "mm", "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", 1),
        ("same", "mm", "Memset (Device)", 3),
    ]


def test_layer_norm_and_gelu_became_one() -> None:
    assert rows("ln_gelu") == [
        ("fused", "native_layer_norm gelu", "triton_red_fused_gelu_native_layer_norm_0", 1)
    ]


def test_between_breaks_each_part_is_fused_for_itself() -> None:
    assert rows("two_breaks") == [
        ("fused", "cos add", "triton_poi_fused_add_cos_0", 1),
        ("fused", "sin mul", "triton_poi_fused_mul_sin_0", 1),
        ("fused", "mul exp", "triton_poi_fused_exp_mul_0", 1),
        ("replaced", "sum", "triton_red_fused_sum_1", 1),
        ("new", "", "triton_per_fused_sum_2", 1),
        ("vanished", "sum", None, 1),
        ("same", "_local_scalar_dense", "Memcpy DtoH (Device -> Pinned)", 1),
    ]


def test_a_graph_holds_the_kernels_that_were_launched_one_by_one() -> None:
    told = rows("reduce")
    assert sorted(told) == sorted(
        [
            ("new", "", told[0][2], 1),
            ("replaced", "sin", "triton_poi_fused_sin_0", 1),
            ("replaced", "sin", "triton_poi_fused_sin_1", 19),
            ("same", "mm", SGEMM[:90], 20),
            ("same", "mm", SGEMM[:90], 20),
        ]
    )
    # The graph's inputs are copied to where it expects them.
    assert "multi_tensor_apply_kernel" in told[0][2]


def test_every_group_of_gpt2_is_as_the_names_say() -> None:
    gelu = "mul pow mul add mul tanh add mul"
    norm = "triton_per_fused_add_native_layer_norm_view"
    embedding = "add_arange_embedding_native_layer_norm_unsqueeze"
    gemm = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_NNT"
    assert sorted(rows("gpt2"), key=str) == sorted(
        [
            ("replaced", "mm", "nvjet_sm90_tst_160x256_64x4_2x1_v_bz_coopA_TNN", 1),
            ("new", "", "triton_poi_fused_mm_t_11", 1),
            ("new", "", "Memset (Device)", 1),
            ("fused", gelu, "triton_poi_fused_add_mul_pow_tanh_view_4", 4),
            # The first norm is in one kernel with the embedding, though the mask comes between.
            ("fused", "gather arange add gather add native_layer_norm",
             f"triton_red_fused_{embedding}_0", 1),
            ("fused", "sub cat sub ne copy_ cumsum",
             "triton_per_fused_add_arange_cat_cumsum_expand_ne_slice_sub_unsqueeze_1", 1),
            ("replaced", "eq", MASK[:90], 1),
            ("fused", "add native_layer_norm", f"triton_per_fused_{embedding}_view_3", 1),
            ("fused", "add native_layer_norm", f"triton_per_fused_{embedding}_view_5", 1),
            ("fused", "add native_layer_norm", f"{norm}_6", 2),
            *(("fused", "add native_layer_norm", f"{norm}_{n}", 1) for n in (7, 8, 9, 10)),
            ("vanished", "all", None, 1),
            ("vanished", "_local_scalar_dense", None, 1),
            ("same", "_cudnn_attention_forward", SDPA[:90], 4),
            ("same", "_cudnn_attention_forward", "Memset (Device)", 4),
            ("same", "addmm", gemm, 16),
            ("same", "addmm", "Memset (Device)", 8),
        ],
        key=str,
    )  # fmt: skip


def of_median_run(one: tprofile.Profile) -> pd.DataFrame:
    """Return the device work of the median profiled run."""
    told, work_ = one.runs, one.events
    run = told.sort_values("wall_us", kind="stable")["run"].iloc[(len(told) - 1) // 2]
    kinds = ("kernel", "gpu_memcpy", "gpu_memset")
    return work_[work_["category"].isin(kinds) & (work_["run"] == run) & (work_["duration_us"] > 0)]


def assert_accounted(both: tprofile.Comparison) -> None:
    """Every kernel of either is in exactly one group, and so is its time."""
    frame = both.replaced
    assert frame is not None
    a, b = of_median_run(both.a), of_median_run(both.b)
    assert frame["device_us_a"].sum() == pytest.approx(a["duration_us"].sum(), abs=1e-6)
    assert frame["device_us_b"].sum() == pytest.approx(b["duration_us"].sum(), abs=1e-6)
    made = [name for r in frame.itertuples() for name in r.kernels_a * r.times]
    assert sorted(made) == sorted(a["name"])
    made = [
        r.kernel_b for r in frame.itertuples() for _ in range(r.times) if r.kernel_b is not None
    ]
    assert sorted(made) == sorted(b["name"])
    for r in frame.itertuples():
        assert len(r.kernels_a) == len(r.operators_a)
        assert r.change == {
            (True, True): "fused" if len(r.kernels_a) > 1 else
            "same" if r.kernels_a == (r.kernel_b,) else "replaced",
            (True, False): "vanished", (False, True): "new",
        }[bool(r.kernels_a), r.kernel_b is not None]  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_every_kernel_of_a_real_pair_is_in_one_group(name: str) -> None:
    both = pair(name)
    assert_accounted(both)
    assert_accounted(both.b.compare(both.a))


@pytest.mark.parametrize("name", PAIRS)
def test_a_real_profile_beside_itself_is_the_same(name: str) -> None:
    for one in (pair(name).a, pair(name).b):
        frame = one.compare(one).replaced
        assert frame is not None
        assert set(frame["change"]) == {"same"}
        assert frame["delta_us"].tolist() == [0.0] * len(frame)


EAGER = st.sampled_from([
    ("sin_kernel", "aten::sin"), ("cos_kernel", "aten::cos"), ("gemm", "aten::mm"),
    ("gemm", "aten::linear > aten::addmm"), ("Memset (Device)", "aten::mm"),
    ("reduce", "aten::sum"), ("odd", ""),
])  # fmt: skip
MADE = st.sampled_from([
    ("triton_poi_fused_cos_sin_0", "t"), ("triton_red_fused_sin_sum_1", "t"), ("gemm", "aten::mm"),
    ("nvjet", "aten::addmm"), ("cos_kernel", "aten::cos"), ("triton_poi_fused_sum_2", ""),
])  # fmt: skip
times = st.integers(1, 40)
some = st.lists(st.tuples(EAGER | MADE, times), max_size=12).map(
    lambda told: [(*names, us / 2) for names, us in told]
)


@settings(max_examples=150)
@given(some, some)
def test_of_any_two_every_kernel_is_in_one_group(a: list[Kernel], b: list[Kernel]) -> None:
    if a and b:
        assert_accounted(of(a).compare(of(b)))


@settings(max_examples=100)
@given(some)
def test_any_profile_beside_itself_is_the_same(told: list[Kernel]) -> None:
    frame = of(told).compare(of(told)).replaced
    assert frame is not None
    assert set(frame["change"]) <= {"same"}
    assert np.all(frame["delta_us"] == 0)
    assert frame["times"].sum() == len(told)


@settings(max_examples=60)
@given(some, some, some)
def test_more_in_both_changes_nothing_of_what_is_the_same(
    a: list[Kernel], b: list[Kernel], both: list[Kernel]
) -> None:
    # THEN at least as many are the same as were put into both
    frame = of([*a, *both]).compare(of([*b, *both])).replaced
    assert frame is not None
    assert frame.loc[frame["change"] == "same", "times"].sum() >= len(both)
