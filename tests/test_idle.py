"""When a device idles, and what the host did meanwhile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from traces import DATA, Event, call, note, op, profile, recorded, slice_, work

import tprofile
from tprofile.analysis.idle import CAUSES, idle

RUN, WAIT = "tprofile::run", "tprofile::synchronize"
OURS = {"profiled": 1, "asked_warmup": 1}


def shares(one: tprofile.Profile) -> list[tuple[float, float, float, float]]:
    """Return start and time by cause of each stretch, in microseconds."""
    frame = one.idle
    columns = ["start_us", *(f"{cause}_us" for cause in CAUSES)]
    return [tuple(row) for row in frame[columns].to_numpy().tolist()]


def test_idle_time_is_split_by_what_the_host_did() -> None:
    # GIVEN a kernel, a wait for it, then another kernel and our own wait
    one = profile(
        op(RUN, 0, 100),
        op("aten::mm", 5, 10, 1), call("cudaLaunchKernel", 8, 2, 1, 1),
        work("gemm", 20, 10, 1, 1),
        call("cudaStreamSynchronize", 15, 17, 2),
        op("aten::mm", 40, 10, 3), call("cudaLaunchKernel", 42, 2, 3, 3),
        work("gemm", 50, 10, 3, 3),
        op(WAIT, 70, 30), call("cudaDeviceSynchronize", 71, 28, 4),
        recorded=OURS,
    )  # fmt: skip
    # THEN the first kernel is late by Python and torch, the second by the wait, and our own wait
    # after the last one is nobody's
    assert shares(one) == [(0, 0, 15, 5), (30, 20, 0, 0), (60, 0, 0, 10)]
    frame = one.idle
    assert frame["duration_us"].tolist() == [20, 20, 40]
    assert frame["run"].tolist() == [1, 1, 1]
    names = one.events["name"]
    assert [names[row] if row >= 0 else None for row in frame["wait"]] == [
        None, "cudaStreamSynchronize", None,
    ]  # fmt: skip
    assert [names[row] if row >= 0 else None for row in frame["next"]] == ["gemm", "gemm", None]
    assert not frame["queued"].any()


def test_python_that_outlasts_the_wait_before_it_is_python() -> None:
    # GIVEN a wait of 8 µs for a kernel, and 60 µs of Python behind it
    one = profile(
        op(RUN, 0, 200),
        op("aten::mm", 0, 10, 1), call("cudaLaunchKernel", 2, 2, 1, 1), work("k", 6, 10, 1, 1),
        call("cudaStreamSynchronize", 10, 8, 2),
        op("aten::mm", 78, 12, 3), call("cudaLaunchKernel", 80, 2, 3, 3), work("k", 84, 16, 3, 3),
        op(WAIT, 90, 110),
        recorded=OURS,
    )  # fmt: skip
    # THEN what the wait took of the gap is the wait's, the rest Python's
    assert shares(one)[1] == (16, 8, 0, 60)


def test_work_that_was_launched_before_waits_for_the_device_itself() -> None:
    one = profile(
        op(RUN, 0, 50),
        op("aten::mm", 0, 10, 1), call("cudaLaunchKernel", 1, 2, 1, 1), work("a", 5, 10, 1, 1),
        op("aten::mm", 10, 3, 2), call("cudaLaunchKernel", 11, 1, 2, 2), work("b", 18, 10, 2, 2),
        recorded=OURS,
    )  # fmt: skip
    frame = one.idle
    assert frame["queued"].tolist() == [False, True, False]
    assert shares(one)[1] == (15, 0, 3, 0)


def test_a_wait_that_outlasts_the_gap_is_not_its_cause() -> None:
    # GIVEN two kernels launched at once, and a wait until both are done
    one = profile(
        op(RUN, 0, 50),
        op("aten::mm", 0, 10, 1), call("cudaLaunchKernel", 1, 2, 1, 1), work("a", 5, 10, 1, 1),
        call("cudaLaunchKernel", 3, 2, 2, 1), work("b", 18, 10, 2, 1),
        call("cudaStreamSynchronize", 10, 30, 9),
        recorded=OURS,
    )  # fmt: skip
    assert shares(one)[1] == (15, 0, 3, 0)
    assert one.idle["wait"].tolist()[1] == -1


def test_a_copy_that_the_host_waits_for_is_a_wait() -> None:
    # GIVEN a call for a copy that returns when the copy is over, as from pageable memory
    one = profile(
        op(RUN, 0, 60),
        op("aten::copy_", 0, 30, 1), call("cudaMemcpyAsync", 5, 20, 1, 1),
        work("Memcpy HtoD (Pageable -> Device)", 10, 10, 1, 1, cat="gpu_memcpy"),
        op("aten::mm", 32, 10, 2), call("cudaLaunchKernel", 35, 2, 2, 2), work("k", 40, 5, 2, 2),
        recorded=OURS,
    )  # fmt: skip
    assert shares(one)[1] == (20, 20, 0, 0)


def test_threads_that_launch_nothing_do_not_count() -> None:
    # GIVEN a data loader's thread that is busy with operators all the time
    events = [
        op(RUN, 0, 60),
        op("aten::mm", 40, 10, 1), call("cudaLaunchKernel", 42, 2, 1, 1), work("k", 50, 5, 1, 1),
        op("aten::cat", 0, 60, 9, tid=2),
    ]  # fmt: skip
    assert shares(profile(*events, recorded=OURS))[0] == (0, 0, 10, 40)
    # THEN one that launches (a backward pass) counts
    launched = [
        op("AddBackward0", 10, 20, 5, tid=3), call("cudaLaunchKernel", 12, 2, 5, 5, tid=3),
        work("k", 52, 5, 5, 5, stream=9),
    ]  # fmt: skip
    assert shares(profile(*events, *launched, recorded=OURS))[0] == (0, 0, 30, 20)


def test_each_device_has_its_own_idle_time() -> None:
    one = profile(
        op(RUN, 0, 60),
        op("aten::mm", 0, 60, 1),
        call("cudaLaunchKernel", 1, 2, 1, 1), work("k", 10, 20, 1, 1),
        call("cudaLaunchKernel", 3, 2, 2, 1), work("k", 20, 40, 2, 1, device=1),
        recorded=OURS,
    )  # fmt: skip
    frame = one.idle
    assert frame[["device", "start_us", "duration_us"]].to_numpy().tolist() == [
        [0, 0, 10], [0, 30, 30], [1, 0, 20],
    ]  # fmt: skip
    busiest = idle(one._found)
    assert busiest is not None
    assert busiest.device == 1


def test_a_step_range_is_a_run_and_an_optimizers_python_is_torchs() -> None:
    one = profile(
        note("ProfilerStep#1", 0, 50), note("Optimizer.step#SGD.step", 0, 20),
        op("aten::add_", 15, 5, 1), call("cudaLaunchKernel", 16, 2, 1, 1), work("k", 30, 20, 1, 1),
    )  # fmt: skip
    assert shares(one) == [(0, 0, 20, 10)]


def test_long_operators_on_the_cpu_are_work_and_no_dispatch() -> None:
    # GIVEN an operator of 200 µs that calls nothing of the device, and one of 90 µs
    one = profile(
        op(RUN, 0, 400),
        op("aten::sort", 0, 200), op("aten::copy_", 10, 20),
        op("aten::cat", 210, 90),
        op("aten::mm", 310, 10, 1), call("cudaLaunchKernel", 312, 2, 1, 1),
        work("k", 320, 80, 1, 1),
        recorded=OURS,
    )  # fmt: skip
    assert shares(one) == [(0, 0, 100, 220)]


def test_what_a_loader_does_is_work_and_what_a_compiler_does_is_torchs() -> None:
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    one = profile(
        op(RUN, 0, 400),
        note(loader, 0, 50), op("aten::stack", 5, 40),
        op("_compile.compile_inner (dynamo_timed)", 50, 250), op("aten::detach", 60, 200),
        op("aten::mm", 310, 10, 1), call("cudaLaunchKernel", 312, 2, 1, 1),
        work("k", 320, 80, 1, 1),
        recorded=OURS,
    )  # fmt: skip
    assert shares(one) == [(0, 0, 260, 60)]


def test_what_another_thread_does_while_we_wait_counts_once() -> None:
    # GIVEN a thread that launches, and is in an operator of 30 µs during our wait of 50
    one = profile(
        op(RUN, 0, 200),
        op("aten::mm", 10, 20, 1, tid=2), call("cudaLaunchKernel", 12, 2, 1, 1, tid=2),
        work("k", 30, 70, 1, 1),
        op(WAIT, 150, 50), op("aten::empty", 160, 30, tid=2),
        recorded=OURS,
    )  # fmt: skip
    # THEN of the last 100 µs 50 are ours, and 50 Python's
    assert shares(one) == [(0, 0, 20, 10), (100, 0, 0, 50)]


def function(name: str, start: float, duration: float) -> Event:
    return slice_("python_function", name, start, duration, 100, 1)


def test_python_of_torchs_own_is_torchs_where_functions_were_recorded() -> None:
    # GIVEN functions of torch, with one of the user's inside, what loads data, and a long operator
    one = profile(
        op(RUN, 0, 400), function("train.py(1): step", 0, 400),
        function("torch/optim/optimizer.py(5): wrapper", 10, 100),
        function("<built-in function isinstance>", 20, 20),
        function("hooks.py(3): hook", 50, 30), function("torch/_tensor.py(3): f", 60, 10),
        function("torch/utils/data/dataloader.py(7): __next__", 120, 80),
        function("/lib/site-packages/torch/functional.py(3): sort", 204, 106),
        op("aten::sort", 206, 100),
        function("/home/me/torch/net.py(3): f", 311, 8),
        op("aten::mm", 320, 10, 1), call("cudaLaunchKernel", 322, 2, 1, 1),
        work("k", 330, 70, 1, 1),
        recorded=OURS,
    )  # fmt: skip
    # THEN of the 330 µs 40, 10 and 30 are torch's, 2 and 4 around the operator, and the launch
    assert shares(one) == [(0, 0, 96, 234)]


def test_without_device_work_there_is_no_idle_time() -> None:
    one = profile(op(RUN, 0, 10), op("aten::mm", 0, 5), recorded=OURS)
    assert len(one.idle) == 0
    assert one.idle.columns.tolist() == [
        "device", "run", "start_us", "duration_us", "sync_us", "overhead_us", "python_us",
        "queued", "wait", "next",
    ]  # fmt: skip
    assert idle(one._found) is None


@pytest.mark.parametrize(
    "path", sorted(DATA.glob("**/*.json.gz")), ids=lambda path: path.name.split(".")[0]
)
def test_of_real_traces_busy_and_idle_are_the_runs(path: Path) -> None:
    one = tprofile.load(path)
    found = one._found
    gaps = idle(found)
    if gaps is None:
        return
    # THEN the idle stretches and the busy time of a device fill each run
    length = np.bincount(gaps.run, gaps.end_ns - gaps.start_ns, len(found.runs))
    work = np.flatnonzero(found.work & (found.trace.device == gaps.device))
    for run in range(len(found.runs)):
        begin, end = int(found.runs.start_ns[run]), int(found.runs.end_ns[run])
        busy = _covered(
            [
                (max(int(found.trace.start_ns[i]), begin), min(int(found.trace.end_ns[i]), end))
                for i in work
            ]
        )
        assert length[run] + busy == end - begin
    # and no cause has less than nothing, or all of them more than there was
    assert (gaps.by_cause_ns >= 0).all()
    assert (gaps.by_cause_ns.sum(1) <= gaps.end_ns - gaps.start_ns).all()


def _covered(pairs: list[tuple[int, int]]) -> int:
    total, reach = 0, -1
    for start, end in sorted(pairs):
        total += max(end - max(start, reach), 0)
        reach = max(reach, end)
    return total


def test_delays_and_queue_of_kernels() -> None:
    # GIVEN three launches in a row on an idle device, and one later, with nothing before it
    one = profile(
        op(RUN, 0, 200),
        *(call("cudaLaunchKernel", 1 + i, 1, i + 1) for i in range(3)),
        *(work(f"k{i}", 10 + 20 * i, 20, i + 1) for i in range(3)),
        call("cudaLaunchKernel", 100, 1, 4), work("k3", 104, 10, 4),
        work("unknown", 120, 5),
        recorded=OURS,
    )  # fmt: skip
    kernels = one.kernels.set_index("name")
    assert kernels.loc[["k0", "k1", "k2", "k3"], "delay_us"].tolist() == [9, 28, 47, 4]
    assert kernels.loc[["k0", "k1", "k2", "k3"], "queued"].tolist() == [0, 1, 2, 0]
    # THEN of what bears no launch neither is known
    assert kernels.loc["unknown", ["delay_us", "queued"]].isna().all()


def test_the_oracles_waits_are_found() -> None:
    # GIVEN a loop of 30 .item() calls, three runs of it
    gaps = recorded("item_in_loop").idle
    assert (gaps["wait"] >= 0).sum() == 90


def test_the_busiest_device_is_the_one_that_works_while_the_runs_last() -> None:
    # GIVEN two steps, in which device 1 does what was launched before them, and device 0 what was
    # launched in the second, for the most part after it
    one = profile(
        op("aten::mm", 0, 10, 1), call("cudaLaunchKernel", 2, 2, 1, 1),
        work("gemm", 20, 180, 1, 1, device=1),
        note("ProfilerStep#0", 20, 80),
        note("ProfilerStep#1", 100, 100),
        op("aten::add", 150, 10, 2), call("cudaLaunchKernel", 152, 2, 2, 2),
        work("vectorized_elementwise_kernel", 180, 900, 2, 2),
    )  # fmt: skip
    # THEN verdict and idle time are of the one that the busy time is of
    assert one.devices[["device", "busy_us"]].to_numpy().tolist() == [[0, 10], [1, 90]]
    assert one.summary.device_busy_us == 90
    assert one.summary.verdict == "compute-bound"
    assert one.idle[["device", "start_us", "duration_us"]].to_numpy().tolist() == [
        [0, 20, 80], [0, 100, 80],
    ]  # fmt: skip


def test_work_of_which_nothing_was_launched_in_a_run_makes_it_busy_all_the_same() -> None:
    one = profile(
        op("aten::mm", 0, 10, 1), call("cudaLaunchKernel", 2, 2, 1, 1), work("gemm", 20, 100, 1, 1),
        note("ProfilerStep#0", 20, 80),
    )  # fmt: skip
    assert one.summary.device_busy_us == 80
    assert one.summary.verdict == "compute-bound"
    assert not len(one.idle)
