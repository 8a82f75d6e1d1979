"""What allocations and releases add up to: by hand, against torch's own table, and on files."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from torch.profiler import ProfilerActivity, record_function
from traces import (
    DATA,
    RECORDED,
    Event,
    assert_same,
    lists_emptied,
    note,
    op,
    profile,
    recorded,
    work,
)

import tprofile
from tprofile.analysis import memory
from tprofile.trace import live

pytestmark = pytest.mark.filterwarnings(
    r"ignore::UserWarning:torch\.profiler", "ignore:.*clears ev"
)

COLUMNS = {
    "time_us": "float64",
    "device": "int64",
    "allocated_bytes": "float64",
    "reserved_bytes": "float64",
    "bytes": "int64",
    "operator": "object",
    "run": "int64",
}
BYTES = ["self_device_bytes", "self_cpu_bytes"]
CUDA, CPU = 1, 0


def instant(ts: float, tid: int = 1, name: str = "[memory]", **args: Any) -> Event:
    return {
        "ph": "i", "s": "t", "cat": "cpu_instant_event", "name": name, "pid": 100, "tid": tid,
        "ts": ts, "args": {k.replace("_", " "): v for k, v in args.items()},
    }  # fmt: skip


def change(
    ts: float, size: int, total: int | None = None, *, device: int = 0, tid: int = 1
) -> Event:
    """Return an allocation on a device, or a release, and what is allocated after it."""
    totals = {} if total is None else {"Total_Allocated": total, "Total_Reserved": 10 * total}
    return instant(ts, tid, Bytes=size, Device_Type=CUDA, Device_Id=device, **totals)


def on_host(ts: float, size: int, *, tid: int = 1) -> Event:
    return instant(
        ts, tid, Bytes=size, Device_Type=CPU, Device_Id=-1, Total_Allocated=9, Total_Reserved=0
    )


def run(ts: float, dur: float) -> Event:
    return note("tprofile::run", ts, dur)


def told(one: tprofile.Profile) -> list[str]:
    return memory.warnings(one._found)


def sums(one: tprofile.Profile) -> dict[str, tuple[int, int]]:
    """Return device and host bytes of each operator that has any."""
    found = one.operators[["name", *BYTES]].to_numpy().tolist()
    return {name: (device, host) for name, device, host in found if device or host}


def test_a_row_per_change_on_a_device() -> None:
    one = profile(
        op("a", 10, 10), change(12, 512, 700), on_host(13, 64), change(15.5, -188, 512),
        change(25, -512, 0, device=1, tid=2),
    )  # fmt: skip
    frame = one.memory
    assert frame.dtypes.astype(str).to_dict() == COLUMNS
    assert frame.to_numpy().tolist() == [
        [2, 0, 700, 7000, 512, "a", 1],
        [5.5, 0, 512, 5120, -188, "a", 1],
        [15, 1, 0, 0, -512, None, 1],
    ]
    # AND the clock is that of the events, of which they are
    instants = one.events[one.events["name"] == "[memory]"]
    assert instants["start_us"].tolist() == [2, 3, 5.5, 15]


def test_totals_that_were_not_recorded_are_unknown() -> None:
    one = profile(op("a", 0, 10), change(1, 512), change(2, 512, 2048))
    assert one.memory["allocated_bytes"].isna().tolist() == [True, False]
    assert one.memory["reserved_bytes"].isna().tolist() == [True, False]
    assert one.operators["self_device_bytes"].tolist() == [1024]
    # One of the changes may have been the peak.
    assert one.runs["peak_device_bytes"].isna().all()
    assert one.summary.peak_device_bytes is None
    assert told(one) == [
        "what was allocated in total was not recorded for 1 of 2 allocations and releases on "
        "device 0: peaks may be unknown"
    ]


@pytest.mark.parametrize("name", [n for n in RECORDED if n != "mlp_train_stack_mem"])
def test_where_memory_was_not_recorded_nothing_is_said_of_it(name: str) -> None:
    one = recorded(name)
    assert one.memory.empty
    assert one.memory.dtypes.astype(str).to_dict() == COLUMNS
    assert not {*BYTES, "peak_device_bytes"} & {*one.operators, *one.runs}
    assert one.summary.peak_device_bytes is None
    assert told(one) == []


def test_no_change_is_not_the_same_as_none_recorded(tmp_path: Path) -> None:
    one = profile(op("a", 0, 10), recorded={"memory": True})
    assert one.operators[BYTES].to_numpy().tolist() == [[0, 0]]
    # What was allocated all along nobody told.
    assert one.runs["peak_device_bytes"].isna().tolist() == [True]
    assert one.summary.peak_device_bytes is None
    assert BYTES[0] not in profile(op("a", 0, 10), recorded={"memory": False}).operators
    # AND what was asked for is not what was recorded: torch records none for all threads
    config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    path = str(tmp_path / "t.json")
    profiled(step, experimental_config=config).export_chrome_trace(path)
    assert json.loads(Path(path).read_text())["profile_memory"] == 1
    assert BYTES[0] not in tprofile.load(path).operators


def test_a_change_belongs_to_the_innermost_operator_on_its_thread() -> None:
    one = profile(
        note("step", 0, 100), op("a", 10, 40), op("b", 20, 10), op("c", 25, 0),
        # Another thread works meanwhile.
        op("x", 0, 90, tid=2), op("y", 22, 3, tid=2),
        change(5, 1, 1), change(12, 2, 3), change(20, 4, 7), change(24, 8, 15),
        change(30, 16, 31), change(30.001, 32, 63), change(50, 64, 127), change(60, 128, 255),
        change(23, 256, 511, tid=2), change(95, 512, 1023, tid=2), change(101, 1024, 2047),
        change(99, 2048, 4095, tid=3),
    )  # fmt: skip
    assert sums(one) == {
        "step": (1 + 128, 0), "a": (2 + 32 + 64, 0), "b": (4 + 8 + 16, 0), "y": (256, 0),
    }  # fmt: skip
    outside = one.memory[one.memory["operator"].isna()]
    assert outside["bytes"].tolist() == [512, 2048, 1024]


def test_calls_of_the_driver_and_utilities_own_nothing() -> None:
    one = profile(
        op("a", 0, 20), op("aten::is_leaf", 1, 5),
        {**op("cudaMalloc", 8, 4), "cat": "cuda_runtime"},
        change(2, 1, 1), change(9, 2, 3),
    )  # fmt: skip
    assert sums(one) == {"a": (3, 0)}


def test_bytes_by_every_key_and_of_calls_that_are_one() -> None:
    shapes = {"Input Dims": [[2, 3]]}
    first = {**op("a", 10, 9), "args": {"External id": 1, **shapes}}
    one = profile(
        run(0, 50), run(100, 50),
        first, op("a", 11, 5), change(12, 1, 1), on_host(18, 10),
        note("a", 20, 5), change(21, 2, 3),
        op("a", 110, 9, tid=2), change(111, -4, 0, tid=2),
        recorded={"profiled": 2},
    )  # fmt: skip
    operators = one.operators.set_index("category")[["name", "calls", *BYTES]]
    assert operators.to_numpy().tolist() == [["a", 2, -3, 10], ["a", 1, 2, 0]]
    by_thread = one.operators_by("thread")[["thread", "category", *BYTES]].to_numpy().tolist()
    assert sorted(by_thread) == [
        [1, "cpu_op", 1, 10], [1, "user_annotation", 2, 0], [2, "cpu_op", -4, 0],
    ]  # fmt: skip
    by_run = one.operators_by("run")[["run", "category", *BYTES]].to_numpy().tolist()
    assert sorted(by_run) == [
        [1, "cpu_op", 1, 10], [1, "user_annotation", 2, 0], [2, "cpu_op", -4, 0],
    ]  # fmt: skip
    by_shape = one.operators_by("shape")[["shape", "category", *BYTES]].to_numpy().tolist()
    assert sorted(by_shape) == [
        ["[[2, 3]]", "cpu_op", 1, 10], ["[]", "cpu_op", -4, 0], ["[]", "user_annotation", 2, 0],
    ]  # fmt: skip


def test_what_happens_outside_the_runs_is_in_no_sum_but_in_the_rows() -> None:
    # GIVEN a reset ahead of each run, and our own marks around all
    one = profile(
        note("tprofile::each", 0, 10), op("a", 2, 3), change(3, 100, 100),
        run(20, 20), op("a", 21, 3), change(22, 7, 107), change(30, 1, 108),
        note("tprofile::synchronize", 35, 4), change(36, -1, 107),
        change(50, -7, 100),
        recorded={"profiled": 1},
    )  # fmt: skip
    assert sums(one) == {"a": (7, 0)}
    assert one.memory[["bytes", "operator", "run"]].to_numpy().tolist() == [
        [100, "a", -1], [7, "a", 1], [1, None, 1], [-1, None, 1], [-7, None, -1],
    ]  # fmt: skip


def test_steps_are_one_row() -> None:
    steps = [note(f"ProfilerStep#{i}", 10 * i, 9) for i in (1, 2)]
    one = profile(*steps, change(12, 5, 5), change(22, 6, 11))
    assert sums(one) == {"ProfilerStep*": (11, 0)}
    assert one.runs["peak_device_bytes"].tolist() == [5, 11]
    assert one.memory["operator"].tolist() == ["ProfilerStep#1", "ProfilerStep#2"]


def peaks(*events: Event, runs: int = 3) -> list[float]:
    """Return the peaks of runs that begin at 100, 200, ... and take 50 each."""
    marked = [run(100 * (i + 1), 50) for i in range(runs)]
    return profile(*marked, *events, recorded={"profiled": runs}).runs["peak_device_bytes"].tolist()


def test_the_peak_of_a_run_is_the_highest_level_within_it() -> None:
    assert peaks(
        change(110, 100, 1100), change(120, 50, 1150), change(130, -150, 1000),
        change(210, 20, 1020), change(220, -20, 1000),
        # Between runs it does not count.
        change(260, 5000, 6000), change(270, -5000, 1000),
        change(310, 10, 1010),
    ) == [1150, 1020, 1010]  # fmt: skip


def test_what_was_allocated_when_a_run_began_is_in_its_peak() -> None:
    # A release comes first: before it, the level was higher.
    assert peaks(change(110, -400, 600), change(310, -100, 500)) == [1000, 600, 600]
    # In front of the first change of all the level was what it changed.
    assert peaks(change(320, 24, 1024)) == [1000, 1000, 1024]
    assert peaks(change(10, 24, 1024)) == [1024, 1024, 1024]
    assert peaks(change(160, 24, 1024)) == [1000, 1024, 1024]


def test_a_change_at_the_edge_of_a_run_is_in_it_if_it_is_at_its_beginning() -> None:
    assert peaks(change(200, 24, 1024), change(200, -24, 1000)) == [1000, 1024, 1000]
    assert peaks(change(250, 24, 1024), change(260, -24, 1000)) == [1000, 1000, 1000]


def test_the_peak_is_of_one_device_and_not_of_their_sum() -> None:
    assert peaks(
        change(110, 100, 100), change(111, 70, 70, device=1), change(112, -100, 0),
        change(210, 200, 270, device=1),
    ) == [100, 270, 270]  # fmt: skip


def test_a_peak_beside_an_unknown_one_is_unknown() -> None:
    found = peaks(change(110, 100, 100), change(210, 70, device=1), change(310, 5, 75, device=1))
    assert np.isnan(found).tolist() == [True, True, False]
    # In the third run, the level before its first change is the other device's again.
    assert found[2] == 100


def test_memory_of_the_host_has_no_peak() -> None:
    assert np.isnan(peaks(on_host(110, 100))).all()


def three_runs(**told: Any) -> tprofile.Profile:
    events = [run(100, 50), run(200, 50), run(300, 50)]
    levels = [change(110, 10, 10), change(210, 30, 40), change(310, -15, 25)]
    return profile(*events, *levels, recorded={"profiled": 3, **told})


def test_the_summary_has_the_median_peak() -> None:
    assert three_runs().runs["peak_device_bytes"].tolist() == [10, 40, 40]
    peak = three_runs().summary.peak_device_bytes
    assert (peak, type(peak)) == (40, int)
    two = three_runs(profiled=2).summary
    assert two.peak_device_bytes == 25
    # Of a run that was stopped nothing is known.
    assert three_runs(profiled=0).summary.peak_device_bytes is None


def test_a_change_that_nobody_recorded_is_told() -> None:
    # GIVEN levels that the changes do not explain, in the first run and ahead of it
    one = profile(
        run(100, 50), change(90, 10, 10), change(95, 10, 120), change(110, 10, 130),
        change(120, -10, 720), change(130, 5, 725), change(131, 5, 5, device=1),
        recorded={"profiled": 1},
    )  # fmt: skip
    assert told(one) == [
        "the memory of device 0 changed 1 times without a record, by threads that the profiler "
        "does not see: peaks may have been higher, and operators lack those bytes"
    ]
    # THEN the level before such a change is known from the change itself
    assert one.runs["peak_device_bytes"].tolist() == [730]


def test_allocations_that_failed_are_told() -> None:
    one = profile(
        op("a", 0, 10),
        instant(1, name="[OutOfMemory]", Bytes=2**58, Device_Type=CUDA, Device_Id=3),
        instant(2, name="[OutOfMemory]", Bytes=1500, Device_Type=CUDA, Device_Id=3),
        instant(3, name="[OutOfMemory]", Device_Type=CPU, Device_Id=-1),
    )  # fmt: skip
    assert told(one) == [
        f"2 allocations failed for want of memory on device 3, the largest of {2**58:,} bytes: "
        "the figures are those of code that met it",
        "1 allocation failed for want of memory on the CPU: the figures are those of code that "
        "met it",
    ]  # fmt: skip
    # AND nothing was allocated by it
    assert one.memory.empty


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"Bytes": 5},
        {"Bytes": "5", "Device_Type": 1, "Device_Id": 0},
        {"Bytes": 2**70, "Device_Type": 1, "Device_Id": 0},
        {"Bytes": 5, "Device_Type": 1, "Device_Id": -1},
        {"Bytes": 5, "Device_Type": 1, "Device_Id": 1.5},
        {"Bytes": 5, "Device_Type": 1, "Device_Id": 0, "Total_Allocated": -(2**60)},
    ],
)
def test_changes_that_make_no_sense_are_left_out_and_told(args: dict[str, Any]) -> None:
    one = profile(op("a", 0, 10), instant(1, **args), change(2, 8, 8))
    assert one.memory["bytes"].tolist() == [8]
    assert sums(one) == {"a": (8, 0)}
    assert told(one) == [
        "1 allocations or releases were recorded with a size or a device that makes no sense, "
        "and are in no figure"
    ]


def test_what_only_bears_the_name_is_no_change() -> None:
    one = profile(op("[memory]", 0, 10), work("[memory]", 1, 2), note("[OutOfMemory]", 3, 1))
    assert one.memory.empty
    assert BYTES[0] not in one.operators
    assert told(one) == []


@st.composite
def threads(draw: st.DrawFn) -> list[Event]:
    """Draw operators that nest, and changes among them, on a few threads; times are even."""
    events: list[Event] = []

    def fill(tid: int, start: int, end: int, depth: int) -> None:
        at = start
        for _ in range(draw(st.integers(0, 3 if depth < 3 else 0))):
            begin = draw(st.integers(at, end))
            stop = draw(st.integers(begin, end))
            events.append(op(f"{tid} {begin} {stop} {len(events)}", 2 * begin, 2 * (stop - begin),
                             tid=tid))  # fmt: skip
            fill(tid, begin, stop, depth + 1)
            at = stop + 1
            if at > end:
                break

    for tid in range(1, draw(st.integers(1, 3)) + 1):
        fill(tid, 0, 40, 0)
    # Between the edges, where there is nothing to choose.
    places = draw(st.lists(st.tuples(st.integers(-1, 42), st.integers(1, 3)), max_size=20))
    events += [change(2 * at + 1, 1, tid=tid) for at, tid in places]
    return [{**e, "ts": e["ts"] + 10} for e in events]


@given(threads())
def test_owners_are_those_of_a_search_one_by_one(events: list[Event]) -> None:
    wanted = []
    for one in sorted((e for e in events if e["ph"] == "i"), key=lambda e: e["ts"]):
        around = [
            e for e in events
            if e["ph"] == "X" and e["tid"] == one["tid"]
            and e["ts"] <= one["ts"] <= e["ts"] + e["dur"]
        ]  # fmt: skip
        wanted.append(around[-1]["name"] if around else None)
    assert sorted(map(str, profile(*events).memory["operator"])) == sorted(map(str, wanted))


def changes_in(name: str) -> list[Event]:
    events = json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))["traceEvents"]
    return [e for e in events if e["name"] == "[memory]"]


def test_a_recorded_trace_is_read_to_the_byte() -> None:
    # GIVEN three training steps on a GPU, the backward pass of each in a thread of its own
    one, raw = recorded("mlp_train_stack_mem"), changes_in("mlp_train_stack_mem")
    frame = one.memory
    device = [e["args"] for e in sorted(raw, key=lambda e: e["ts"]) if e["args"]["Device Type"]]
    assert len(frame) == len(device) == 150
    for column, key in (
        ("bytes", "Bytes"), ("allocated_bytes", "Total Allocated"),
        ("reserved_bytes", "Total Reserved"), ("device", "Device Id"),
    ):  # fmt: skip
        assert frame[column].tolist() == [args[key] for args in device]
    assert one.runs["peak_device_bytes"].tolist() == [194652160] * 3
    assert one.summary.peak_device_bytes == 194652160
    # AND every change is in one row, on the thread that made it
    host = sum(e["args"]["Bytes"] for e in raw if not e["args"]["Device Type"])
    assert one.operators[BYTES].sum().tolist() == [frame["bytes"].sum(), host]
    by_thread = one.operators_by("thread").groupby("thread")["self_device_bytes"].sum()
    on_thread: Counter[int] = Counter()
    for e in raw:
        on_thread[e["tid"]] += e["args"]["Bytes"] * (e["args"]["Device Type"] == 1)
    assert by_thread.to_dict() == dict(on_thread)
    assert told(one) == []


def step() -> None:
    """Work forward and backward, with annotations and releases in and outside of them."""
    x = torch.ones(8, 16, requires_grad=True)
    with record_function("forward"):
        y = torch.cat([x, x * 2]).relu()
        kept = torch.zeros(1000)
        loss = y.sum()
    with record_function("backward"):
        loss.backward()
        del kept
    with record_function("a"), record_function("a"):
        torch.empty(64)
    del loss, y
    torch.optim.SGD([x], lr=0.1, momentum=0.9).step()


def training() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 8))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(torch.ones(4, 8)), torch.ones(4, 8)).backward()
        optimizer.step()


def profiled(work: Callable[[], object], **options: Any) -> Any:
    with torch.profiler.profile(
        activities=[ProfilerActivity.CPU], profile_memory=True, **options
    ) as p:
        work()
    return p


@pytest.mark.parametrize("work", [step, training])
@pytest.mark.parametrize("shapes", [False, True])
def test_bytes_of_operators_are_those_of_torch(work: Callable[[], None], shapes: bool) -> None:
    p = profiled(work, record_shapes=shapes)
    one = tprofile.load(p)
    frame = one.operators
    annotation = frame["category"] == "user_annotation"
    ours = dict(
        zip(zip(frame["name"], annotation, strict=True), frame["self_cpu_bytes"], strict=True)
    )
    torchs = {(r.key, r.is_user_annotation): r.self_cpu_memory_usage for r in p.key_averages()}
    # Releases outside of all operators have a row of their own in torch's table.
    outside = torchs.pop(("[memory]", False))
    assert ours == torchs
    assert sum(v < 0 for v in ours.values()) > 0
    events = [e.nbytes() for e in p.profiler.kineto_results.events() if e.name() == "[memory]"]
    assert sum(events) == sum(ours.values()) + outside
    assert outside < 0
    assert (frame["self_device_bytes"] == 0).all()
    assert one.memory.empty


def test_bytes_by_shape_are_those_of_torch() -> None:
    p = profiled(training, record_shapes=True)
    torchs: Counter[tuple[str, str]] = Counter()
    for r in p.key_averages(group_by_input_shape=True):
        torchs[r.key, str(r.input_shapes)] += r.self_cpu_memory_usage
    del torchs["[memory]", "[]"]
    frame = tprofile.load(p).operators_by("shape")
    frame["shape"] = frame["shape"].map(lists_emptied)
    ours = frame.groupby(["name", "shape"])["self_cpu_bytes"].sum()
    assert ours.to_dict() == dict(torchs)
    assert len({size for size in torchs.values() if size > 0}) > 3


def test_both_readers_tell_the_same_of_allocations(tmp_path: Path) -> None:
    # GIVEN results that can be read as activities (torch 2.13), and as events and their tree
    def work() -> None:
        training()
        with pytest.raises(RuntimeError, match="can't allocate"):
            torch.empty(2**58, dtype=torch.uint8)

    p = profiled(work)
    results = p.profiler.kineto_results
    if not hasattr(results, "trace_activities"):
        pytest.skip("this torch has events only")

    class Events:
        trace_start_ns, events = results.trace_start_ns, results.events

    class EventsAndTree(Events):
        experimental_event_tree = results.experimental_event_tree

    def args(trace: Any) -> list[dict[str, Any]]:
        rows = np.flatnonzero(trace.category_is("cpu_instant_event")).tolist()
        found = [{"at": int(trace.start_ns[r]), **json.loads(trace.args(r))} for r in rows]
        return sorted(found, key=lambda a: (a["at"], a.get("Bytes", 0)))

    new, old, poor = (live.read_results(r) for r in (results, EventsAndTree(), Events()))
    ids = ("Ev Idx", "finished", "External id")
    wanted = [{k: v for k, v in a.items() if k not in ids} for a in args(new)]
    # Of an allocation that failed, events tell the device alone.
    failed = wanted[-1]
    assert failed["Bytes"] == 2**58
    for key in ("Bytes", "Total Allocated", "Total Reserved"):
        del failed[key]
    assert [{k: v for k, v in a.items() if k not in ids} for a in args(old)] == wanted
    # AND without the tree the sizes alone
    sizes = ("at", "Bytes", "Device Type", "Device Id")
    assert [{k: a[k] for k in a if k in sizes} for a in args(poor)] == [
        {k: a[k] for k in a if k in sizes} for a in wanted
    ]
    one, other = tprofile.Profile(new), tprofile.Profile(old)
    assert_frame_equal(
        one.operators[["name", *BYTES]].sort_values(["name", *BYTES], ignore_index=True),
        other.operators[["name", *BYTES]].sort_values(["name", *BYTES], ignore_index=True),
        check_exact=True,
    )
    assert told(one) == [
        f"1 allocation failed for want of memory on the CPU, the largest of {2**58:,} bytes: the "
        "figures are those of code that met it"
    ]
    assert told(other) == [
        "1 allocation failed for want of memory on the CPU: the figures are those of code that "
        "met it"
    ]
    for trace in (old, poor):
        saved = tprofile.Profile(trace)
        again = tprofile.load(saved.export_trace(tmp_path / "t.json"))
        assert_same(saved, again)
        assert told(again) == told(saved)


def test_totals_that_torch_drops_follow_from_those_around_them() -> None:
    def change(size: int, total: int | None = None, held: int | None = None, index: int = 0) -> Any:
        told = {"Total Allocated": total, "Total Reserved": held}
        known = {key: value for key, value in told.items() if value is not None}
        return {"Device Type": 1, "Device Id": index, "Bytes": size, **known}

    # GIVEN releases without totals, at the head, between others, and at the end
    one = [
        change(-4), change(8, 108, 200), change(-8), change(5, 7, 9, index=1), change(-2),
        change(16, 114, 300), change(-16), change(3),
    ]  # fmt: skip
    live._bridge([*one, {"Device Type": 1, "Device Id": 0}])
    assert [c["Total Allocated"] for c in one] == [100, 108, 100, 7, 98, 114, 98, 101]
    # AND what is reserved is not known before the first, nor after one that may have reserved more
    assert [c.get("Total Reserved") for c in one] == [None, 200, 200, 9, 200, 300, 300, None]
    # GIVEN a change between that is in no record
    gap = [change(8, 108), change(-8), change(16, 130)]
    live._bridge(gap)
    assert [c.get("Total Allocated") for c in gap] == [108, None, 130]


def test_totals_of_devices_are_looked_up_by_time_size_and_device() -> None:
    # GIVEN events, and a tree with changes at one time that only size and device tell apart
    def event(at: int, size: int, index: int) -> Any:
        return SimpleNamespace(
            name=lambda: "[memory]", start_ns=lambda: at, nbytes=lambda: size,
            device_index=lambda: index, device_type=lambda: torch._C._autograd.DeviceType.CUDA,
        )  # fmt: skip

    def node(at: int, size: int, index: int, total: int, *children: Any) -> Any:
        fields = SimpleNamespace(
            alloc_size=size, device=torch.device("cuda", index), ptr=at + size,
            total_allocated=total, total_reserved=-1,
        )  # fmt: skip
        tag = torch._C._profiler._EventType.Allocation
        return SimpleNamespace(tag=tag, start_time_ns=at, extra_fields=fields, children=children)

    inner = node(5, 8, 1, 30, node(5, 16, 0, 40))
    tree = [node(5, 8, 0, 10, inner), node(5, 8, 0, 20), node(6, 8, 0, -1)]
    events = [event(5, 8, 0), event(5, 8, 1), event(5, 8, 0), event(5, 16, 0), event(6, 8, 0),
              event(7, 8, 0)]  # fmt: skip
    results = SimpleNamespace(experimental_event_tree=lambda: tree)
    found = live._memory(results, events, range(6))
    totals = [json.loads(f"{{{found[i]}}}").get("Total Allocated") for i in range(6)]
    # The last two, of which it tells none, follow from the one before.
    assert totals == [10, 30, 20, 40, 48, 56]
    assert json.loads(f"{{{found[0]}}}") == {
        "Device Id": 0, "Device Type": 1, "Bytes": 8, "Total Allocated": 10, "Addr": 13,
    }  # fmt: skip


@pytest.mark.parametrize(
    "make",
    [
        lambda: recorded("mlp_train_stack_mem"),
        lambda: tprofile.load(profiled(step, record_shapes=True)),
        lambda: tprofile.run(training, memory=True, warmup=1, repeat=2),
        lambda: three_runs(),
    ],
    ids=["file", "loaded", "run", "made"],
)
def test_an_export_loads_byte_for_byte(
    make: Callable[[], tprofile.Profile], tmp_path: Path
) -> None:
    one = make()
    again = tprofile.load(one.export_trace(tmp_path / "t.json.gz"))
    assert_same(one, again)
    assert_frame_equal(one.memory, again.memory, check_exact=True)
    assert set(BYTES) <= set(one.operators) & set(one.operators_by("shape"))
    assert "peak_device_bytes" in one.runs
    assert told(again) == told(one)
    assert str(again) == str(one)


def test_run_and_record_take_the_option() -> None:
    ran = tprofile.run(training, memory=True, repeat=4)
    with tprofile.record(memory=True) as r:
        training()
    ours, once = (
        p.operators.set_index(["name", "category"])["self_cpu_bytes"] for p in (ran, r.profile)
    )
    assert (ran.trace.recorded.memory, r.profile.trace.recorded.memory) == (True, True)
    empty = ("aten::empty", "cpu_op")
    assert ours[empty] == 4 * once[empty] > 0
    # AND without it nothing is said
    plain = tprofile.run(training, repeat=1)
    assert plain.trace.recorded.memory is False
    assert not {*BYTES, "peak_device_bytes"} & {*plain.operators, *plain.runs}
    assert plain.memory.empty


def test_code_that_allocates_nothing_is_told_from_code_not_looked_at() -> None:
    x = torch.ones(3)
    one = tprofile.run(lambda: x.neg_(), memory=True)
    assert one.operators.loc[one.operators["name"] == "aten::neg_", BYTES].to_numpy().tolist() == [
        [0, 0]
    ]


def test_a_frame_is_the_callers_own() -> None:
    one = three_runs()
    frame = one.memory
    frame["bytes"] = 0
    assert one.memory["bytes"].tolist() == [10, 30, -15]
