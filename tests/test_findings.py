"""What holds the code back: told where it is so, silent where it is not."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest
from traces import DATA, call, note, op, profile, work

import tprofile
from tprofile.analysis.finding import KINDS
from tprofile.analysis.verdict import VERDICTS

sys.path.insert(0, str(Path(__file__).parent / "gpu"))
from cases import CASES

RUN, WAIT = "tprofile::run", "tprofile::synchronize"
H200 = {"deviceProperties": [{"id": 0, "name": "NVIDIA H200", "numSms": 132, "computeMajor": 9}]}
ORACLES = sorted(path.name.removesuffix(".oracle.json") for path in DATA.glob("*.oracle.json"))
RECORDED = sorted(path.name.removesuffix(".json.gz") for path in (DATA / "cases").glob("*.gz"))

EXTRA = {
    # True, if not what the case was made for.
    "allocator_repaired": {"fusion"},
    "for_loop_optimizer": {"small-kernels"},
    "graph_breaks": {"small-kernels"},
    "graph_breaks_repaired": {"small-kernels"},
    "pageable_small_copies": {"small-kernels", "profiler-overhead"},
    "sync_by_call": {"tensor-cores"},
}


def oracle(name: str) -> tuple[tprofile.Profile, dict[str, Any]]:
    told = json.loads((DATA / f"{name}.oracle.json").read_text())
    walls = told["unprofiled_s"] or None
    return tprofile.load(DATA / f"{name}.json.gz", unprofiled_s=walls), told


def case(name: str) -> tprofile.Profile:
    return tprofile.load(DATA / "cases" / f"{name}.json.gz")


def kinds(one: tprofile.Profile) -> list[str]:
    return [finding.kind for finding in one.findings]


def only(one: tprofile.Profile, kind: str) -> tprofile.Finding:
    found = [finding for finding in one.findings if finding.kind == kind]
    assert len(found) == 1, kinds(one)
    return found[0]


@pytest.mark.parametrize("name", ORACLES)
def test_oracles_verdicts_and_findings_come_out(name: str) -> None:
    one, told = oracle(name)
    assert one.summary.verdict in VERDICTS
    assert one.summary.reason
    if told["verdict"]:
        assert one.summary.verdict == told["verdict"]
    if told["finding"]:
        assert told["finding"] in kinds(one)
        assert kinds(one)[0] in (told["finding"], "small-kernels")


@pytest.mark.parametrize("name", ["big_gemm_bf16", "pointwise_compiled"])
def test_of_healthy_code_nothing_is_said(name: str) -> None:
    assert oracle(name)[0].findings == []


def test_of_a_large_float32_product_only_the_truth_is_said() -> None:
    # GIVEN a product in float32, which the kernel's name says was computed without tensor cores
    one, _ = oracle("matmul_add_4096")
    assert kinds(one) == ["tensor-cores"]
    assert "ffma" in one.kernels["name"][0]


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_cases_say_what_they_were_made_for(name: str) -> None:
    one, wanted = case(name), CASES[name]
    if wanted.verdict:
        assert one.summary.verdict == wanted.verdict
    assert set(kinds(one)) - EXTRA.get(name, set()) == ({wanted.kind} if wanted.kind else set())


@pytest.mark.parametrize("name", [n for n in RECORDED if CASES[n].repairs in RECORDED])
def test_what_a_repair_gained_is_within_the_bound(name: str) -> None:
    planted = str(CASES[name].repairs)
    before, after = (
        statistics.median(case(n).trace.recorded.unprofiled_s) * 1e6 for n in (planted, name)
    )
    bound = only(case(planted), str(CASES[planted].kind)).gain_us
    assert bound is not None
    # THEN it is no larger than what was promised, which is no more than all there was
    assert before - after <= bound <= before * (1 + 1e-12)


@pytest.mark.parametrize("name", RECORDED)
def test_a_finding_says_what_where_why_and_what_to_do(name: str) -> None:
    one = case(name)
    gains = []
    for finding in one.findings:
        assert finding.kind in KINDS
        assert all([finding.title, finding.evidence, finding.advice, finding.where])
        assert finding.evidence.endswith(".")
        assert finding.advice.endswith(".")
        assert len(finding.title) < 70
        gains.append(-1.0 if finding.gain_us is None else finding.gain_us)
        assert finding.gain_us is None or 0 < finding.gain_us <= one.summary.wall_us
    assert gains == sorted(gains, reverse=True)


def test_findings_are_the_callers_own() -> None:
    one = case("fusion")
    one.findings.clear()
    assert kinds(one) == ["fusion"]


def test_saved_and_loaded_a_profile_finds_the_same(tmp_path: Path) -> None:
    one = case("layout_copies")
    again = tprofile.load(one.export_trace(tmp_path / "trace.json"))
    assert again.findings == one.findings
    assert again.summary == one.summary


def launched(
    name: str, at: float, corr: int, *, device_at: float | None = None, took: float = 2.0,
    kernel: str = "kernel", **how: Any,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return an operator of 8 µs, its launch, and its kernel."""
    return [
        op(name, at, 8, corr), call("cudaLaunchKernel", at + 3, 4, corr, corr),
        work(kernel, at + 8 if device_at is None else device_at, took, corr, corr, **how),
    ]  # fmt: skip


def test_many_small_kernels() -> None:
    # GIVEN 50 kernels of 2 µs, each launched 10 µs after the one before
    events = [e for i in range(50) for e in launched("aten::add", 10.0 * i, i + 1)]
    one = profile(op(RUN, 0, 510), *events, recorded={"profiled": 1, "asked_warmup": 1})
    found = only(one, "small-kernels")
    assert one.summary.verdict == "overhead-bound"
    assert found.title == "50 small kernels in each run"
    assert found.where == "aten::add"
    # THEN all of the run but a fiftieth could be saved at most
    assert found.gain_us == pytest.approx(510 * 49 / 50)
    # and nine of them are not many
    few = [e for i in range(9) for e in launched("aten::add", 10.0 * i, i + 1)]
    assert profile(op(RUN, 0, 95), *few).findings == []


def test_an_optimizer_in_a_loop() -> None:
    step = note("Optimizer.step#Adam.step", 0, 600)
    events = [e for i in range(60) for e in launched("aten::add_", 10.0 * i, i + 1)]
    one = profile(op(RUN, 0, 700), step, *events)
    found = only(one, "for-loop-optimizer")
    assert found.title == "the optimizer launches 60 kernels in each step"
    assert found.where == "Optimizer.step#Adam.step"
    assert found.gain_us == 600
    # THEN one that does it with kernels for many parameters is not told of
    fused = [
        e for i in range(60) for e in launched("aten::add_", 10.0 * i, i + 1,
                                               kernel="multi_tensor_apply_kernel")
    ]  # fmt: skip
    assert "for-loop-optimizer" not in kinds(profile(op(RUN, 0, 700), step, *fused))


def test_a_data_loader_that_is_waited_for() -> None:
    loader = note("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, 5000)
    one = profile(
        op(RUN, 0, 5100), loader,
        *launched("aten::mm", 5020, 1, took=50),
    )  # fmt: skip
    found = only(one, "host-gap")
    assert one.summary.verdict == "python-bound"
    assert "num_workers" in found.advice
    assert found.where.startswith("in enumerate(DataLoader)")


def test_a_data_loader_with_workers_is_not_told_to_have_some() -> None:
    loader = note("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 10, 5000)
    one = profile(op(RUN, 0, 5100), loader, *launched("aten::mm", 5020, 1, took=50))
    found = only(one, "host-gap")
    assert found.title == "the GPU waits 5.02 ms for the data loader"
    assert found.advice.startswith("The DataLoader has workers, and they are too slow")


def test_lost_launches_are_dropped_events() -> None:
    events = [e for i in range(40) for e in launched("aten::mm", 20.0 * i, i + 1, took=15)]
    lost = [e for e in events if not (e["cat"] == "kernel" and e["args"]["correlation"] in (5, 9))]
    one = profile(op(RUN, 0, 820), *lost)
    found = only(one, "dropped-events")
    assert found.title == "the work of 2 launches is missing"
    assert found.gain_us is None
    # THEN as they are two of forty, the verdict stands; of four it would not
    assert one.summary.verdict == "overhead-bound"
    more = [e for e in events if not (e["cat"] == "kernel" and e["args"]["correlation"] % 9 == 5)]
    assert profile(op(RUN, 0, 820), *more).summary.verdict == "unknown"


def test_a_record_that_ends_early_is_truncated() -> None:
    events = [e for i in range(100) for e in launched("aten::mm", 20.0 * i, i + 1, took=15)]
    cut = [e for e in events if not (e["cat"] == "kernel" and e["args"]["correlation"] > 80)]
    one = profile(op(RUN, 0, 2020), *cut)
    assert only(one, "truncated").evidence.startswith("The last 20 of 100 launches")
    assert "dropped-events" not in kinds(one)
    assert one.summary.verdict == "unknown"


def test_a_profiler_that_slows_the_code_too_much() -> None:
    events = [e for i in range(500) for e in launched("aten::mm", 20.0 * i, i + 1)]
    recorded = {"profiled": 1, "asked_warmup": 3, "unprofiled_s": [0.002]}
    one = profile(op(RUN, 0, 10020), *events, recorded=recorded)
    found = only(one, "profiler-overhead")
    assert found.title == "the profiler makes the code 5.0 times slower"
    assert "2.00 ms, and 10.0 ms under the profiler, which recorded 1,000 operators" in (
        found.evidence
    )
    assert "--no-shapes" in found.advice
    calm = {**recorded, "unprofiled_s": [0.008]}
    assert "profiler-overhead" not in kinds(profile(op(RUN, 0, 10020), *events, recorded=calm))


def test_lines_that_slow_the_code_too_much() -> None:
    # GIVEN a loop of plain Python, which has nothing to record but its lines
    lines = [op(f"tprofile::line {2 + i % 2}", 10.0 * i, 9) for i in range(900)]
    recorded = {"profiled": 1, "asked_warmup": 3, "unprofiled_s": [0.002]}
    one = profile(op(RUN, 0, 10020), *lines, *launched("aten::mm", 9500, 1), recorded=recorded)
    found = only(one, "profiler-overhead")
    assert "recorded 2 operators and calls and 900 times that a line of the cell began" in (
        found.evidence
    )
    assert found.advice == (
        "Trust the wall and the GPU's times; put the loop over them into a function, inside which "
        "no lines are told."
    )


def test_a_cold_start_is_told_with_its_costs() -> None:
    one = profile(
        op(RUN, 0, 1000),
        call("cuModuleLoadData", 10, 600, 0), *launched("aten::mm", 700, 1, took=20),
        op(RUN, 2000, 50), *launched("aten::mm", 2010, 2, took=20),
        op(RUN, 2100, 50), *launched("aten::mm", 2110, 3, took=20),
        recorded={"profiled": 3, "asked_warmup": 0},
    )  # fmt: skip
    found = only(one, "cold-start")
    assert "loading kernels 600 µs" in found.evidence
    assert found.gain_us is None
    # AND of a single run it is said that no other tells what one takes without it, if none does
    loading = (op(RUN, 0, 1000), call("cuModuleLoadData", 10, 600, 0),
               *launched("aten::mm", 700, 1, took=20))  # fmt: skip
    alone = only(profile(*loading, recorded={"profiled": 1, "asked_warmup": 0}), "cold-start")
    assert alone.gain_us == 600
    assert alone.evidence.endswith("No other run says what one takes without it.")
    timed = {"profiled": 1, "asked_warmup": 0, "unprofiled_s": [3e-4]}
    beside = only(profile(*loading, recorded=timed), "cold-start")
    assert beside.gain_us is None
    assert "No other run" not in beside.evidence
    warm = {"profiled": 3, "asked_warmup": 3}
    assert "cold-start" not in kinds(profile(op(RUN, 0, 1000), recorded=warm))


@pytest.mark.parametrize(
    ("called", "instead"),
    [
        ("aten::item", "once, after the loop"), ("aten::nonzero", "torch.where"),
        ("aten::is_nonzero", "every so many steps"), ("aten::to", "non_blocking=True"),
        (None, "torch.cuda.synchronize() (and other waits) out of the loop"),
    ],
)  # fmt: skip
def test_the_advice_on_a_wait_fits_what_waited(called: str | None, instead: str) -> None:
    events = []
    for i in range(10):
        at = 100.0 * i
        events += launched("aten::mm", at, 2 * i + 1, device_at=at + 10, took=30)
        if called:
            events.append(op(called, at + 9, 36))
        events.append(call("cudaStreamSynchronize", at + 10, 34, 2 * i + 2))
    one = profile(op(RUN, 0, 1000), *events, recorded={"profiled": 1, "asked_warmup": 1})
    found = only(one, "sync")
    assert found.title == "10 waits for the GPU"
    assert instead in found.advice
    assert found.where == (f"{called} → " if called else "") + "cudaStreamSynchronize"


@pytest.mark.parametrize(
    ("copy", "instead"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "Make the data on the GPU"),
        ("CopyHostToDevice", "Make the data on the GPU"),
        ("Memcpy DtoH (Device -> Pageable)", "Collect the results on the GPU"),
    ],
)
def test_the_advice_on_a_copy_that_waits_fits_its_direction(copy: str, instead: str) -> None:
    events = []
    for i in range(10):
        at, n = 100.0 * i, 2 * i + 2
        events += launched("aten::mm", at, n - 1, device_at=at + 10, took=30)
        events += [
            op("aten::to", at + 9, 40, n), call("cudaMemcpyAsync", at + 10, 36, n, n),
            work(copy, at + 41, 1, n, n, cat="gpu_memcpy", bytes=64),
        ]  # fmt: skip
    found = only(profile(op(RUN, 0, 1000), *events), "sync")
    assert found.where == "aten::to → cudaMemcpyAsync"
    assert found.advice.startswith(instead)


def test_waits_of_several_kinds_are_added_up() -> None:
    # GIVEN six `.item()`, whose copy waits 4 µs and whose synchronise 30, and four `.cpu()` of 20
    events = []
    for i in range(10):
        at, n = 100.0 * i, 3 * i
        events += launched("aten::mm", at, n + 1, device_at=at + 10, took=30)
        if i < 6:
            events += [
                op("aten::item", at + 9, 36), call("cudaMemcpy", at + 10, 4, n + 2),
                call("cudaStreamSynchronize", at + 15, 30, n + 3),
            ]  # fmt: skip
        else:
            events += [op("aten::cpu", at + 20, 22), call("cudaMemcpy", at + 21, 20, n + 2)]
    found = only(profile(op(RUN, 0, 1000), *events), "sync")
    assert found.title == "10 waits for the GPU"
    # THEN it is the time of all: 6 * 34 + 4 * 20
    assert "the CPU stops 10 times until the GPU is done, 284 µs in all" in found.evidence


def test_kernels_of_few_blocks_need_a_device_that_is_known() -> None:
    slow = launched("aten::softmax", 0, 1, took=900, grid=[4, 2, 1], block=[256, 1, 1])
    one = profile(op(RUN, 0, 1000), *slow, **H200)
    found = only(one, "low-occupancy")
    assert found.title == "a kernel on 8 of 132 multiprocessors"
    assert found.gain_us == pytest.approx(900 * (1 - 8 / 132))
    assert "low-occupancy" not in kinds(profile(op(RUN, 0, 1000), *slow))
    collective = launched("c10d::allreduce_", 0, 1, took=900, grid=[24, 1, 1],
                          kernel="ncclDevKernel_AllReduce_Sum_f32_RING_LL")  # fmt: skip
    two = profile(op(RUN, 0, 1000), *collective, **H200)
    assert two.findings == []
    assert two.summary.verdict == "transfer-bound"
    assert two.summary.reason == (
        "the GPU works 90 % of a run, and 100 % of that is exchange with other GPUs"
    )


def in_a_row(kernel: str) -> list[str]:
    """Return what is found of nine kernels of 100 µs, launched ahead."""
    events = []
    name = f"void at::native::vectorized_elementwise_kernel<4, {kernel}>"
    for i in range(9):
        how = {"device_at": 90 + 100.0 * i, "took": 100.0, "kernel": name}
        events += launched("aten::op", 9.0 * i, i + 1, **how)
    return kinds(profile(op(RUN, 0, 1000), *events))


def test_what_fills_tensors_is_no_chain() -> None:
    assert in_a_row("at::native::CUDAFunctor_add<float>") == ["fusion"]
    assert in_a_row("at::native::FillFunctor<float>") == []


def test_memory_in_the_order_of_a_stream_is_not_asked_of_the_driver() -> None:
    def with_calls(*names: str) -> list[str]:
        events = []
        for i in range(20):
            events += launched("aten::mm", 40.0 * i, i + 1, took=30)
            events += [call(name, 40.0 * i + 20 + 6 * j, 5, 100 + 2 * i + j)
                       for j, name in enumerate(names)]  # fmt: skip
        recorded = {"profiled": 1, "asked_warmup": 1}
        return kinds(profile(op(RUN, 0, 800), *events, recorded=recorded))

    assert with_calls("cudaMalloc", "cudaFree") == ["allocator"]
    assert with_calls("cudaMallocAsync", "cudaFreeAsync") == []


def test_calls_for_pinned_memory_are_told_as_such() -> None:
    events = []
    for i in range(20):
        events += launched("aten::mm", 40.0 * i, i + 1, took=30)
        events.append(call("cudaHostAlloc", 40.0 * i + 20, 8, 100 + i))
    recorded = {"profiled": 1, "asked_warmup": 1}
    found = only(profile(op(RUN, 0, 800), *events, recorded=recorded), "allocator")
    assert found.title == "20 calls for pinned memory in each run"
    assert found.advice.startswith("Pin memory once, ahead of the loop")


def beside(*others: dict[str, Any]) -> tprofile.Profile:
    """Return a profile of a kernel of 8 blocks that runs for 900 µs, with other work."""
    slow = launched("aten::softmax", 0, 1, device_at=10, took=900, grid=[8, 1, 1])
    recorded = {"profiled": 1, "asked_warmup": 1}
    return profile(op(RUN, 0, 1000), *slow, *others, recorded=recorded, **H200)


def test_kernels_of_few_blocks_beside_others() -> None:
    # GIVEN another stream, whose kernels fill the device for 500 µs of it
    def other(took: float, **how: Any) -> list[dict[str, Any]]:
        return launched("aten::mm", 10, 2, device_at=110, took=took, stream=8, **how)

    found = only(beside(*other(500, grid=[264, 1, 1])), "low-occupancy")
    assert found.gain_us == pytest.approx(400 * (1 - 8 / 132))
    assert "so most of the GPU has nothing to do in the 400 µs of each run" in found.evidence
    # THEN so do blocks that are not known, and few of both are added up
    assert only(beside(*other(500)), "low-occupancy").gain_us == found.gain_us
    both = only(beside(*other(500, grid=[20, 1, 1])), "low-occupancy")
    assert both.gain_us == pytest.approx(400 * (1 - 8 / 132) + 500 * (1 - 28 / 132))
    assert both.title == "a kernel on 8 of 132 multiprocessors"
    assert kinds(beside(*other(780))) == ["low-occupancy"]
    assert kinds(beside(*other(800))) == []
    # AND what runs on another device is none of its
    elsewhere = only(beside(*other(500, grid=[264, 1, 1], device=1)), "low-occupancy")
    assert elsewhere.gain_us == pytest.approx(900 * (1 - 8 / 132))


def test_names_of_a_trace_stay_names() -> None:
    evil = "<img src=x onerror=alert(1)>"
    events = [e for i in range(50) for e in launched(evil, 10.0 * i, i + 1)]
    found = only(profile(op(RUN, 0, 510), *events), "small-kernels")
    assert found.where == evil
    assert found.title == "50 small kernels in each run"


def test_a_finding_names_the_line_of_the_cell() -> None:
    # GIVEN a loop on line 2, in which line 3 computes and line 4 waits
    events = [op("tprofile::line 2", 0, 1000)]
    for i in range(10):
        at = 100.0 * i + 1
        events += [op("tprofile::line 3", at, 9), op("tprofile::line 4", at + 9, 38)]
        events += launched("aten::mm", at, 2 * i + 1, device_at=at + 10, took=30)
        events += [
            op("aten::item", at + 9, 36),
            call("cudaStreamSynchronize", at + 10, 34, 2 * i + 2),
        ]
    one = profile(op(RUN, 0, 1000), *events, recorded={"profiled": 1, "asked_warmup": 1})
    found = only(one, "sync")
    assert (found.line, found.label) == (4, "10 waits")
    assert found.where == "line 4 · aten::item → cudaStreamSynchronize"


def test_a_gap_is_that_of_the_line_in_which_the_host_was() -> None:
    # GIVEN 800 µs of Python on line 3 of a loop on line 2, before the kernel of line 4
    one = profile(
        op(RUN, 0, 1000), op("tprofile::line 2", 0, 1000),
        op("tprofile::line 3", 10, 800), op("tprofile::line 4", 820, 100),
        *launched("aten::mm", 830, 1, took=60), op(WAIT, 930, 70),
        recorded={"profiled": 1, "asked_warmup": 1},
    )  # fmt: skip
    found = only(one, "host-gap")
    assert (found.line, found.where) == (3, "line 3")


def test_a_gap_is_before_what_most_of_it_is_before() -> None:
    def of(*gaps: float) -> str:
        events, at = [], 0.0
        for i, (gap, name) in enumerate(zip(gaps, ("aten::mm", "aten::add", ""), strict=True)):
            at += gap
            if name:
                events += launched(name, at, i + 1, took=100)
                at += 108
        return only(profile(op(RUN, 0, at), *events), "host-gap").where

    assert of(300, 900, 0) == "before aten::add"
    assert of(900, 300, 0) == "before aten::mm"
    assert of(300, 300, 900) == "before the end of the run"


@pytest.mark.parametrize(("broken", "told"), [((1,), []), ((0, 1), ["graph-breaks"])])
def test_graph_breaks_in_few_of_the_runs_are_none_of_the_code(
    broken: tuple[int, ...], told: list[str]
) -> None:
    # GIVEN three runs, and a compiled function with a break in some of them
    events = []
    for run in range(3):
        at = 1000.0 * run
        events += [op(RUN, at, 900), *launched("aten::mm", at + 800, run + 1, took=20)]
        if run in broken:
            events += [op("Torch-Compiled Region: 0/0", at, 700),
                       op("Torch-Compiled Region: 1/0", at + 300, 300)]  # fmt: skip
    one = profile(*events, recorded={"profiled": 3, "asked_warmup": 1})
    assert [kind for kind in kinds(one) if kind == "graph-breaks"] == told


def runs_with(gaps: list[float]) -> tprofile.Profile:
    """Return a profile of runs with two kernels of 100 µs, and Python for so long between them."""
    events, at = [], 0.0
    for i, gap in enumerate(gaps):
        again = at + 110 + gap
        events += [
            op(RUN, at, gap + 320),
            *launched("aten::mm", at, 2 * i + 1, took=100),
            *launched("aten::mm", again, 2 * i + 2, took=100),
            op(WAIT, again + 20, 180),
        ]
        at += gap + 400
    return profile(*events, recorded={"profiled": len(gaps), "asked_warmup": 1})


def test_what_few_runs_have_is_not_the_codes() -> None:
    # GIVEN one run of three in which Python took 900 µs between two kernels
    assert kinds(runs_with([0, 900, 0])) == []
    assert kinds(runs_with([0, 0, 900, 900])) == []
    # AND two of three: then a run has one, of the length that the median run has
    found = only(runs_with([900, 0, 700]), "host-gap")
    assert found.title == "the GPU waits 702 µs for Python"
    assert "In each run there is 1 stretch" in found.evidence
    assert "710 µs of a profiled run in all, 702 µs of that its own work" in found.evidence
    assert "the longest took 710 µs" in found.evidence


def test_a_wait_at_the_end_of_a_step_is_that_of_who_measures_it() -> None:
    def steps(wait: str) -> tprofile.Profile:
        events = []
        for i in range(3):
            at = 300.0 * i
            events += [
                note(f"ProfilerStep#{i}", at, 300), *launched("aten::mm", at, i + 1, took=200),
                call(wait, at + 12, 200, 10 + i), op("aten::zeros", at + 250, 45, 20 + i),
            ]  # fmt: skip
        return profile(*events)

    assert kinds(steps("cudaDeviceSynchronize")) == []
    assert kinds(steps("hipDeviceSynchronize")) == []
    assert kinds(steps("cudaStreamSynchronize")) == ["sync"]


def test_what_unseen_threads_did_is_not_guessed() -> None:
    # GIVEN a trace of torch's, whose second thread launched most, and has no operators in it
    one = tprofile.load(DATA / "two_threads.json.gz")
    assert one.summary.verdict == "unknown"
    assert one.summary.reason == (
        "the GPU is idle 66 % of a run, but 67 % of its work was launched by threads whose "
        "operators are not in the record"
    )
    # AND what only those operators can tell apart is not told.
    assert not {"host-gap", "small-kernels"} & set(kinds(one))


@pytest.mark.parametrize(
    ("name", "cat", "whole"),
    [
        ("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", "it copies between host and device"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "kernel", "is exchange with other GPUs"),
        ("Memcpy PtoP (Device -> Device)", "gpu_memcpy", "is exchange with other GPUs"),
    ],
)
def test_transfers_beside_longer_work_are_not_the_limit(name: str, cat: str, whole: str) -> None:
    def of(transfer: float, product: float) -> tuple[str | None, str | None]:
        events = [
            *launched("aten::mm", 10, 1, device_at=20, took=product, kernel="cutlass_gemm"),
            *launched("aten::copy_", 20, 2, device_at=20, took=transfer, stream=8, kernel=name,
                      cat=cat),
        ]  # fmt: skip
        summary = profile(op(RUN, 0, 1000), *events).summary
        return summary.verdict, summary.reason

    # GIVEN a transfer of two thirds of the busy time, all of it while a product is computed
    assert of(600, 900) == (
        "compute-bound",
        "the GPU works 90 % of a run, and 100 % of that is in GEMMs, convolutions or attention",
    )
    # THEN the longer of the two is what the run takes
    assert of(900, 600) == (
        "transfer-bound",
        f"the GPU works 90 % of a run, and 100 % of that {whole}",
    )


def test_without_operators_it_is_not_known_what_the_cpu_did() -> None:
    # GIVEN what torch records with activities=[ProfilerActivity.CUDA]: 300 µs between kernels
    events = [e for i in range(20) for e in launched("aten::mm", 400.0 * i, i + 1, took=100)]
    device = [e for e in events if e["cat"] != "cpu_op"]
    one = profile(*device)
    assert (one.summary.verdict, one.summary.reason) == (
        "unknown",
        "the GPU is idle 74 % of a run, but no operators are in the record, so what the CPU did "
        "meanwhile is not known",
    )
    assert kinds(one) == []
    # THEN in a recording of our own, in which there were none, it is the CPU's own work
    recorded = {"profiled": 1, "asked_warmup": 1}
    own = profile(op(RUN, 0, 7710), *device, recorded=recorded)
    step = profile(note("ProfilerStep#1", 0, 7710), *device)
    assert (step.summary.verdict, kinds(step)) == ("python-bound", ["host-gap"])
    assert (own.summary.verdict, kinds(own)) == ("python-bound", ["host-gap"])


def test_work_that_waits_though_it_is_launched_is_not_the_cpus() -> None:
    # GIVEN a device whose four works are launched in the first 80 µs, and wait for another one
    events = []
    for i in range(4):
        at, later = 20.0 * i, 20 + 230.0 * i
        events += launched("aten::mm", at, 2 * i + 1, device_at=later, took=115)
        events += launched("aten::mm", at + 10, 2 * i + 2, device_at=later + 115, took=114,
                           device=1)  # fmt: skip
    one = profile(op(RUN, 0, 1000), *events, op(WAIT, 90, 910))
    # THEN 3 gaps of 115 µs are 345 of 540 µs: 20 at the beginning, and 175 at the end are ours
    assert (one.summary.verdict, one.summary.reason) == (
        "overhead-bound",
        "the GPU is idle 54 % of a run; for 95 % of that the next work is launched already, and "
        "waits for the GPU itself, another stream or another GPU",
    )
