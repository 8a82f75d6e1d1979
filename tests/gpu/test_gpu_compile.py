"""Cells with and without torch.compile: what became of their kernels, and how much faster it is."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from measure_compile import CASES

LOOPS = [name for name in CASES if name != "new_shapes"]


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    """What came of each case, in a process of its own."""
    script = Path(__file__).parent / "measure_compile.py"
    ran = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=500, check=False
    )
    lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == len(CASES), ran.stderr[-3000:]
    print(ran.stdout)
    return {line["name"]: line for line in lines}


def groups(one: dict[str, Any], *changes: str) -> list[tuple[Any, ...]]:
    """Return what became of the kernels: how many of A, the kernel of B, how often."""
    rows = [tuple(row[1:4]) for row in one["changes"] if not changes or row[0] in changes]
    return sorted(rows, key=str)


@pytest.mark.parametrize(
    ("name", "kernels", "fused"),
    [
        ("pointwise", [6, 1], [(6, "triton_poi_fused_add_gelu_mul_sigmoid_sin_0", 1)]),
        ("mlp", [3, 3], []),
        ("geglu", [5, 4], [(2, "triton_poi_fused_gelu_mul_0", 1)]),
        ("layer_norm_gelu", [2, 1], [(2, "triton_red_fused_gelu_native_layer_norm_0", 1)]),
        (
            "two_breaks",
            [7, 5],
            [
                (2, "triton_poi_fused_add_cos_0", 1),
                (2, "triton_poi_fused_exp_mul_0", 1),
                (2, "triton_poi_fused_mul_sin_0", 1),
            ],
        ),
        ("gpt2", [46, 35], None),
        ("reduce_overhead", [60, 61], []),
    ],
)
def test_what_became_of_the_kernels(
    measured: dict[str, Any], name: str, kernels: list[int], fused: list[tuple[Any, ...]] | None
) -> None:
    one = measured[name]
    assert one["kernels"] == kernels
    if fused is not None:
        assert groups(one, "fused") == fused
    else:
        # The embedding and eight sums, each with the layer norm behind it.
        assert sum(times for _, _, times in groups(one, "fused")) == 9
        assert sum(n * times for n, _, times in groups(one, "fused")) == 21


@pytest.mark.parametrize(("name", "products"), [("mlp", 2), ("geglu", 3), ("gpt2", 16)])
def test_products_are_the_same_kernels(measured: dict[str, Any], name: str, products: int) -> None:
    same = [row for row in measured[name]["changes"] if row[0] == "same" and "nvjet" in row[2]]
    assert sum(row[3] for row in same) == products


def test_an_activation_that_only_has_another_kernel(measured: dict[str, Any]) -> None:
    assert groups(measured["mlp"], "replaced") == [(1, "triton_poi_fused_relu_0", 1)]


def test_a_cuda_graph_is_launched_at_once(measured: dict[str, Any]) -> None:
    # The graph, and the copy of its input into the memory that it reads.
    assert measured["reduce_overhead"]["launches"] == [60, 2]


def test_graph_breaks_have_their_lines_and_reasons(measured: dict[str, Any]) -> None:
    (first, _, reason), (second, _, other) = measured["two_breaks"]["breaks"]
    assert (first, second) == (3, 5)
    assert reason == "Call to `torch._dynamo.graph_break()`"
    assert "Tensor.item()" in other
    assert all(one["breaks"] == [] for name, one in measured.items() if name != "two_breaks")


def test_new_shapes_have_the_reasons_of_each_compilation(measured: dict[str, Any]) -> None:
    one = measured["new_shapes"]
    early, late = one["recompiles"]
    assert len(early) == 8
    assert late == []
    for text in early:
        assert text.startswith("f: tensor 'x' size mismatch at index 0. expected ")
    assert one["given_up"] == ["f (recompile_limit is 8)"]
    assert "recompile-limit" in [kind for kind, _ in one["findings"]]
    assert all(m["recompiles"] == [[], []] for name, m in measured.items() if name != "new_shapes")


@pytest.mark.parametrize("name", LOOPS)
def test_it_is_as_much_faster_as_torchs_own_timer_says(measured: dict[str, Any], name: str) -> None:
    one = measured[name]
    turns, ours = one["by_hand"], [b / a for a, b in zip(*one["loops"], strict=True)]
    for ratios in (turns, ours):
        # The median does not mind a single one that was held up.
        _, *most, _ = sorted(ratios)
        if most[-1] > most[0] * 1.1:
            pytest.skip(f"others use this host: in turns, the ratio is {ratios}")
    assert one["loop_ratio"] == pytest.approx(statistics.median(turns), rel=0.05)


@pytest.mark.parametrize("name", LOOPS)
def test_results_are_compared(measured: dict[str, Any], name: str) -> None:
    unchecked, relative, unlike = measured[name]["results"]
    assert unchecked is None
    assert unlike == []
    half = name in ("mlp", "geglu", "gpt2")
    assert relative <= (2**-6 if half else 1e-6)


def test_names_stand_for_what_they_stood_for(measured: dict[str, Any]) -> None:
    assert all(one["restored"] for one in measured.values())
