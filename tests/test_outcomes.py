"""What a comparison says in words: no more than is known."""

from __future__ import annotations

from typing import Any

import pytest
from traces import DATA, call, op, profile, work

import tprofile

SLOW, FAST = [0.0009, 0.001, 0.001, 0.001, 0.0011], [0.00045, 0.0005, 0.0005, 0.0005, 0.00055]
EQUAL = {"tensors": 2, "absolute": 0.0, "relative": 0.0, "where": "y"}


def one(
    walls: list[float], kernel: str = "k", code: str = "aten::mm", **told: Any
) -> tprofile.Profile:
    return profile(
        op(code, 0, 50, 1), call("cudaLaunchKernel", 5, 5, 1, 1), work(kernel, 20, 10, 1, 1),
        recorded={"unprofiled_s": walls, **told},
    )  # fmt: skip


def compiled(
    walls: list[float],
    kernel: str = "k",
    code: str = "Torch-Compiled Region: 0/0",
    warmup_s: tuple[float, ...] = (),
    stopped: dict[str, str] | None = None,
    **told: Any,
) -> tprofile.Profile:
    made = {"names": ["f"], "graphs": 1, **told}
    ended = {} if stopped is None else {"stopped": stopped, "profiled": 0}
    return one(walls, kernel, code, warmup_s=warmup_s, label="compiled", compiled=made, **ended)


def pair(name: str) -> tprofile.Comparison:
    folder = DATA / "pairs"
    return tprofile.compare(
        *(tprofile.load(folder / f"{name}_{which}.json.gz") for which in ("eager", "compiled"))
    )


def said(both: tprofile.Comparison, kind: str) -> tprofile.Finding:
    found = [finding for finding in both.findings if finding.kind == kind]
    assert len(found) == 1, [finding.kind for finding in both.findings]
    return found[0]


def test_which_is_the_faster_one() -> None:
    faster = said(one(SLOW).compare(one(FAST)), "speed")
    assert (faster.title, faster.gain_us) == ("B is 2.00 times faster than A", 500.0)
    # Quartiles of A: 950, 1000 and 1050 µs, so 1.2533 · 100 / 1.349 / √5 / 1000 is 4.2 % of each.
    assert faster.evidence == (
        "A run takes 1.00 ms and 500 µs; the ratio is 0.500 ±0.029 (standard error)."
    )
    slower = said(one(FAST).compare(one(SLOW)), "speed")
    assert (slower.title, slower.gain_us) == ("B is 2.00 times slower than A", None)


def test_no_difference_is_made_of_noise() -> None:
    told = said(one(SLOW).compare(one([s * 0.95 for s in SLOW])), "speed")
    assert told.title == "no difference between A and B beyond noise"
    assert told.gain_us is None


def test_few_runs_tell_nothing_of_noise() -> None:
    told = said(one(SLOW[:4]).compare(one(FAST)), "speed")
    assert told.evidence == (
        "A run takes 1.00 ms and 500 µs; how much runs scatter is not known, which takes five "
        "unprofiled runs of each."
    )
    equal = said(one([0.001]).compare(one([0.001])), "speed")
    assert equal.title == "B is as fast as A"


def test_walls_of_unlike_sources_say_nothing() -> None:
    both = one([]).compare(compiled(FAST, results=EQUAL))
    assert {"speed", "compile-time"}.isdisjoint(finding.kind for finding in both.findings)


def test_a_loop_is_told_where_both_have_one() -> None:
    a, b = one(SLOW, loop_s=[0.004, 0.002, 0.003]), one(FAST, loop_s=[0.0015])
    assert said(a.compare(b), "speed").evidence.endswith(
        " Many in a row, with one wait for the device after them all, take 3.00 ms and 1.50 ms "
        "each: B takes 0.50 times as long."
    )
    assert "in a row" not in said(a.compare(one(FAST)), "speed").evidence


@pytest.mark.parametrize(
    ("results", "title", "evidence"),
    [
        (None, "results were not compared", "There was no time left for it."),
        (EQUAL, "results are equal", "2 tensors, equal to the last bit."),
        ({**EQUAL, "tensors": 1}, "results are equal", "1 tensor, equal to the last bit."),
        ({}, "results were not compared", "No tensor was looked at."),
        ({"tensors": 2}, "results were not compared", "No tensor was looked at."),
        ({"unchecked": "the cell changes x"}, "results were not compared", "The cell changes x."),
        (
            {"tensors": 3, "unlike": ["y: dtype a and b"], "absolute": 0.0},
            "results differ in 1 of 3 tensors", "y: dtype a and b.",
        ),
        (
            {"tensors": 1, "absolute": 0.5, "relative": 0.25, "where": "z"},
            "results differ by at most 0.25 of the largest element",
            "1 tensor compared; the largest difference of two elements is 0.5; relative to the "
            "largest element of its tensor it is 0.25 (z).",
        ),
        (
            {"tensors": 1, "absolute": 0.5},
            "results differ by at most 0.5",
            "1 tensor compared; the largest difference of two elements is 0.5.",
        ),
    ],
)  # fmt: skip
def test_results_are_equal_only_where_they_were_looked_at(
    results: dict[str, Any] | None, title: str, evidence: str
) -> None:
    told = said(one(SLOW).compare(compiled(FAST, results=results)), "results")
    assert (told.title, told.evidence) == (title, evidence)


@pytest.mark.parametrize(
    ("broken", "evidence", "where", "line"),
    [
        ({"reason": "it", "line": 3}, "line 3: it.", "line 3", 3),
        ({"reason": "it", "file": "C:\\f.py", "line": 3}, "line 3 of C:\\f.py: it.",
         "line 3 of C:\\f.py", None),
        ({"reason": "it: so.", "file": "f.py"}, "f.py: it: so.", "f.py", None),
        ({"reason": "it: so"}, "it: so.", "the compiled code", None),
    ],
)  # fmt: skip
def test_a_graph_break_says_where(
    broken: dict[str, Any], evidence: str, where: str, line: int | None
) -> None:
    told = said(one(SLOW).compare(compiled(FAST, breaks=[broken])), "graph-breaks")
    assert told.title == "1 graph break"
    assert (told.evidence, told.where, told.line) == (evidence, where, line)


def test_recompiles_tell_when_and_why() -> None:
    both = one(SLOW).compare(
        compiled(FAST, recompiles=["f: b", "f: b", "f: c", "d", "e"], late_recompiles=["f: a"])
    )
    told = said(both, "recompiles")
    assert told.title == "compiled again 6 times, 1 of them while profiled"
    assert told.evidence == "f: a; f: b; f: c; d and 1 more."
    assert told.where == "f"
    assert told.advice == (
        "Keep what the reason names the same from call to call, or make it a tensor."
    )
    # AND of sizes it says how one compilation serves them all; what was timed has it in its wall
    sizes = compiled(FAST, recompiles=["f: tensor 'x' size mismatch"] * 3, timed_recompiles=2)
    told = said(one(SLOW).compare(sizes), "recompiles")
    assert (
        told.title == "compiled again 3 times, 2 of them while timed, none of them while profiled"
    )
    assert told.evidence == (
        "f: tensor 'x' size mismatch. The wall of those runs has compiling in it."
    )
    assert told.advice.startswith("torch.compile(..., dynamic=True)")


@pytest.mark.parametrize(
    ("first", "second", "title"),
    [
        (0.002, 0.0065, "the first call took 6.50 ms; it pays for itself after 10 runs"),
        (0.002, 0.002, "the first call took 2.00 ms; it pays for itself after 1 run"),
        (0.009, 0.002, "the first call took 2.00 ms; it pays for itself after 1 run"),
    ],
)
def test_compiling_pays_after_so_many_runs(first: float, second: float, title: str) -> None:
    # GIVEN 500 µs that a run saves
    a = one(SLOW, warmup_s=[first])
    b = compiled(FAST, warmup_s=(second,))
    assert said(a.compare(b), "compile-time").title == title


def test_compiling_does_not_pay_where_nothing_is_saved() -> None:
    a, b = one(FAST, warmup_s=[1]), compiled(SLOW, warmup_s=(2,))
    assert said(a.compare(b), "compile-time").title.endswith("; it does not pay for itself")


def test_compile_time_says_what_was_compiled() -> None:
    both = one(SLOW, warmup_s=[0.002]).compare(
        compiled(FAST, warmup_s=(0.0065,), names=["f", "g"], graphs=3)
    )
    assert said(both, "compile-time").evidence == (
        "torch made 3 graphs of f, g. A later run takes 500 µs, and one as it was 1.00 ms (its "
        "first 2.00 ms). What torch had in its caches was not compiled anew."
    )


def test_of_code_that_was_compiled_before_no_compile_time_is_told() -> None:
    both = one(SLOW, warmup_s=[0.002]).compare(compiled(FAST, warmup_s=(0.001,), graphs=0))
    told = said(both, "compile-time")
    assert told.title == "it was compiled before, so what that takes is not known"
    assert told.evidence == (
        "torch had compiled code of f in this process. It tells of graph breaks while it compiles, "
        "so they are not known either."
    )


def test_where_nothing_was_compiled_that_is_said_first() -> None:
    both = one(SLOW).compare(compiled(FAST, code="aten::mm", graphs=0, names=["model"]))
    assert both.findings[0] == said(both, "not-compiled")
    assert both.findings[0].title == "torch compiled nothing: compiled ran as A did"
    assert "compile-time" not in [found.kind for found in both.findings]
    # AND where torch gave up, the reason is another one
    gave_up = compiled(FAST, code="aten::mm", graphs=0, given_up=["f (recompile_limit is 8)"])
    assert [found.kind for found in one(SLOW).compare(gave_up).findings][:3] == [
        "speed", "results", "recompile-limit",
    ]  # fmt: skip


def test_what_fails_compiled_says_no_more_than_that() -> None:
    ended = {"by": "Unsupported", "during": "compiled: warm-up 1 of 3"}
    both = one(SLOW).compare(compiled([], code="aten::add", graphs=0, stopped=ended))
    (found,) = both.findings
    assert (found.kind, found.where) == ("compile-error", "f")
    assert found.title == "compiled failed: Unsupported in warm-up 1 of 3"
    assert found.evidence == "A came to its end. With torch.compile of f the code did not."
    assert both.summary.warnings == (
        "an error came before the first profiled run of one of them, so the tables have nothing of "
        "it",
    )
    # AND an interrupt, which ends both, is no failure of the compiled form
    interrupted = one(SLOW, stopped=ended).compare(compiled([], graphs=0, stopped=ended))
    assert interrupted.findings == []
    # AND of what has not run, nothing is called gone
    row = both.operators.set_index("name").loc["aten::mm"]
    assert (row["calls_a"], row["self_device_us_a"]) == (1, 10)
    assert row[["calls_b", "self_device_us_b", "delta_us", "ratio"]].isna().all()
    assert "gone" not in both.text()


def test_of_kernels_of_one_code_it_says_what_that_means() -> None:
    gemm = "nvjet_sm90_tst"
    plain = said(one(SLOW, gemm).compare(one(FAST, gemm)), "same-kernels")
    assert plain.evidence.endswith("10.0 µs in B. One name means one code.")
    told = said(one(SLOW, gemm).compare(compiled(FAST, gemm)), "same-kernels")
    assert told.evidence.endswith("One name means one code: compiling changed nothing there.")
    # THEN attention that takes twice as long, as in GPT-2 for its mask, is not "nothing changed"
    assert "its inputs are others" in said(pair("gpt2"), "same-kernels").evidence


def test_without_a_compiler_nothing_is_said_of_one() -> None:
    for finding in one(SLOW, "gemm_a").compare(one(FAST, "gemm_b")).findings:
        assert "compil" not in finding.title + finding.evidence + finding.advice


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("pointwise", {"fused-kernels": "6 kernels became 1"}),
        ("mlp", {"same-kernels": "2 matrix kernels are the same in both",
                 "results": "results are equal"}),
        ("geglu", {"fused-kernels": "2 kernels became 1",
                   "same-kernels": "3 matrix kernels are the same in both"}),
        ("ln_gelu", {"fused-kernels": "2 kernels became 1"}),
        ("two_breaks", {"fused-kernels": "6 kernels became 3", "graph-breaks": "2 graph breaks"}),
        ("reduce", {"same-kernels": "40 matrix kernels are the same in both"}),
        ("gpt2", {"fused-kernels": "60 kernels became 14",
                  "other-kernels": "1 matrix kernel is another one"}),
        ("recompiles", {"recompiles": "compiled again 1 time, none of them while profiled",
                        "results": "results differ in 1 of 1 tensors"}),
    ],
)  # fmt: skip
def test_real_pairs_say_what_the_compiler_did(name: str, kinds: dict[str, str]) -> None:
    both = pair(name)
    assert {kind: said(both, kind).title for kind in kinds} == kinds
    for finding in both.findings:
        assert all([finding.title, finding.evidence, finding.advice, finding.where])
        assert finding.evidence.endswith(".")
        assert finding.gain_us is None or finding.gain_us > 0


def test_both_graph_breaks_have_their_reasons_and_lines() -> None:
    assert said(pair("two_breaks"), "graph-breaks").evidence == (
        "line 3 of Cell In[1]: Call to `torch._dynamo.graph_break()`; line 5 of Cell In[1]: "
        "Unsupported Tensor.item() call with capture_scalar_outputs=False."
    )
