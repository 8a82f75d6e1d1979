"""What holds of any trace: as a profiler should write it, and as it should not."""

from __future__ import annotations

import json
import math
import random
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from reference import EACH, HIDDEN, RUN, STEP, SYNCHRONIZE, WORK, Reference, Row, covered
from traces import assert_same, frames, note, op, profile, work

import tprofile

NAMES = ("a", "b", "aten::mm", "a", "b", "aten::is_leaf", "[memory]")
"""Names of host events: few, so that they recur and wrap each other; the last two are hidden."""

CALLS = ("cudaLaunchKernel", "cudaMemcpyAsync", "cudaGraphLaunch")

KINDS = (
    "cpu_op", "launching", "cuda_runtime", "launching", "user_annotation", "cpu_op", "cuda_driver",
    "overhead", "python_function", "cpu_instant_event",
)  # fmt: skip
"""Categories of host events; "launching" is an operator that makes a call at once."""

SCALES = (1, 500, 1_000, 1_000_003)
"""Nanoseconds of a unit of time."""

ORIGINS = (1, 10**9 + 7, 1_764_590_000 * 10**9 + 1, -(10**12))
"""When a clock may say that it starts; the third is Unix time."""

small = st.integers(0, 3)
# Advance; whether to close (below 2) or open; kind; name; id.
token = st.tuples(small, st.integers(0, 4), st.integers(0, 9), st.integers(0, 7), st.integers(0, 6))
# Device, stream, start, duration, category, name, cause, ids.
worked = st.tuples(
    st.integers(0, 1), st.integers(0, 1), st.integers(0, 30), st.integers(0, 9),
    st.integers(0, 4), st.integers(0, 1), st.integers(0, 9), st.integers(0, 5),
)  # fmt: skip
# A list has five on average, however many it may have.
tokens = st.tuples(*[st.lists(token, max_size=10)] * 2).map(lambda two: two[0] + two[1])
works = st.tuples(*[st.lists(worked, max_size=10)] * 2).map(lambda two: two[0] + two[1])


class Thread:
    """Writes the events of one thread, as `tokens` say."""

    def __init__(self, process: int, number: int, nested: bool, names: tuple[str, ...]) -> None:
        self.process, self.number, self.nested, self.names = process, number, nested, names
        self.at = 0
        self.rows: list[Row] = []
        self.open: list[int] = []
        self.id = 1000 * (process + number)

    def begin(self, category: str, name: str, external: int = 0, **more: Any) -> int:
        where = self.process, self.number, external
        self.rows.append(Row(category, name, self.at, 0, *where, **more))
        return len(self.rows) - 1

    def end(self, i: int) -> None:
        self.rows[i] = replace(self.rows[i], duration=self.at - self.rows[i].start)

    def write(self, given: list[tuple[int, ...]]) -> None:
        for advance, action, kind, name, number in given:
            self.at += advance
            if action >= 2:
                self._begin(KINDS[kind], self.names[name % len(self.names)], number)
            elif self.open:
                # What is awaited may end before what was begun after it.
                self.end(self.open.pop(-1 if self.nested else number % len(self.open)))
        if self.nested:
            self.close()

    def close(self) -> None:
        while self.open:
            self.end(self.open.pop())

    def _begin(self, category: str, name: str, number: int) -> None:
        self.id += 1
        own = self.id if self.nested else number
        if category in ("cuda_runtime", "cuda_driver"):
            above = [r for r in map(self.rows.__getitem__, self.open) if r.category == "cpu_op"]
            # A profiler writes the id of the operator around, or none; or nobody has the id.
            external = (0, above[-1].external if above else 0, 9999)[number % 3]
            external = external if self.nested else number
            name = CALLS[number % 3]
            self.open.append(self.begin(category, name, external, correlation=number and own))
        elif category == "cpu_instant_event":
            self.begin(category, "[memory]")
        else:
            kind = "cpu_op" if category == "launching" else category
            kind = "user_annotation" if name.startswith((RUN, STEP)) else kind
            dims = (None, (), (2, 3))[number % 3] if kind == "cpu_op" else None
            self.open.append(self.begin(kind, name, number and own, dims=dims))
            if category == "launching":
                self._begin("cuda_runtime", name, number)
                self.at += number % 3
                self.end(self.open.pop())


@st.composite
def traces(draw: st.DrawFn, nested: bool | None = None, runs: str | None = None) -> list[Row]:
    """Draw the rows of a trace, thread by thread as a profiler writes them.

    `nested` is whether all that stands in a thread nests; `runs` what delimits them: RUN, STEP, "".
    """
    nested = draw(st.booleans()) if nested is None else nested
    runs = draw(st.sampled_from([RUN, STEP, ""])) if runs is None else runs
    # Inside a run, and in other threads, what is called like one is none.
    names = (*NAMES, *([RUN] if runs == RUN else [STEP + "0"] if runs else []))
    main = Thread(100, 1, nested, names)
    for k in range(draw(st.integers(0, 3)) if runs else 1):
        main.id += 1
        if draw(st.booleans()):
            _inside(draw, main, EACH)
        if runs:
            number = "" if runs == RUN else str(k)
            run = main.begin("user_annotation", runs + number, main.id)
        main.write(draw(tokens))
        if runs == RUN:
            _inside(draw, main, SYNCHRONIZE)
        if runs:
            main.at += draw(small)
            main.end(run)
        main.at += draw(small)
    main.close()
    threads = [main]
    for process, number in ((100, 2), (200, 1))[: draw(st.integers(0, 2))]:
        threads.append(Thread(process, number, nested, names))
        threads[-1].at = draw(small)
        threads[-1].write(draw(tokens))
        threads[-1].close()
    rows = [row for thread in threads for row in thread.rows]
    rows += device_rows(draw(works), [r for r in rows if r.correlation])
    scale, origin = draw(st.sampled_from(SCALES)), draw(st.sampled_from(ORIGINS))
    return [replace(r, start=origin + scale * r.start, duration=scale * r.duration) for r in rows]


def _inside(draw: st.DrawFn, thread: Thread, mark: str) -> None:
    i = thread.begin("user_annotation", mark)
    thread.write(draw(tokens))
    thread.end(i)
    thread.at += draw(small)


def device_rows(given: list[tuple[int, ...]], causes: list[Row]) -> list[Row]:
    """Return work that bears both ids of what caused it, one, none, or such as nobody has."""
    categories = ("kernel", "kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")
    rows = []
    for device, stream, start, duration, category, name, cause, how in given:
        by = causes[cause % len(causes)] if causes else Row("", "", 0, 0, 0, 0)
        external, correlation = (
            (by.external, by.correlation), (0, by.correlation), (by.external, 0), (0, 0),
            (cause, cause), (9998, 9997),
        )[how]  # fmt: skip
        where = device, stream, external, correlation
        rows.append(Row(categories[category], f"k{name}", start, duration, *where))
    return rows


def written(rows: list[Row], *others: dict[str, Any]) -> bytes:
    """Return the file of the rows, in their order, and of other events after them."""

    def us(ns: int) -> str:
        return f"{'-' * (ns < 0)}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"

    lines = []
    for row in rows:
        args: dict[str, Any] = {"External id": row.external} if row.external else {}
        args |= {"correlation": row.correlation} if row.correlation else {}
        args |= {"device": row.process, "stream": row.lane} if row.on_device else {}
        args |= {} if row.dims is None else {"Input Dims": [row.dims]}
        event = {
            "ph": "i" if row.category == "cpu_instant_event" else "X", "cat": row.category,
            "name": row.name, "pid": row.process, "tid": row.lane, "args": args,
        }  # fmt: skip
        lines.append(
            f'{json.dumps(event)[:-1]}, "ts": {us(row.start)}, "dur": {us(row.duration)}}}'
        )
    return f"[{', '.join([*lines, *map(json.dumps, others)])}]".encode()


def loaded(rows: list[Row]) -> tprofile.Profile:
    return tprofile.load(written(rows))


Test = Callable[[list[Row]], None]

PROPERTIES: list[tuple[Test, st.SearchStrategy[list[Row]]]] = []
"""The tests of this module, and the traces that they are about."""


def of_any(strategy: st.SearchStrategy[list[Row]]) -> Callable[[Test], Test]:
    def decorate(test: Test) -> Test:
        PROPERTIES.append((test, strategy))
        return settings(max_examples=60)(given(strategy)(test))

    return decorate


TIMES = ("self_cpu_us", "cpu_us", "self_device_us", "device_us")


def table(frame: Any, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[c] for c in columns) for row in frame.to_dict("records")]


def assert_rows(found: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]]) -> None:
    """Assert that two tables have the same rows, whatever their order."""

    def told(value: Any) -> Any:
        number = isinstance(value, int | float)
        return value if not number else "NaN" if math.isnan(value) else float(value)

    one, other = (sorted((tuple(map(told, r)) for r in t), key=repr) for t in (found, wanted))
    assert one == other


def ns(us: Any) -> int:
    """Return microseconds as the whole nanoseconds that they are sums of."""
    return round(float(us) * 1000)


def apart(rows: list[Row]) -> list[Row]:
    """Return the same with a name of its own for each host event that has a row in the tables."""
    return [
        r if r.on_device or r.name.startswith((*HIDDEN, RUN, SYNCHRONIZE, STEP))
        else replace(r, name=f"{r.name} {i}")
        for i, r in enumerate(rows)
    ]  # fmt: skip


@of_any(traces(nested=True) | traces(nested=False))
def test_no_self_time_is_negative(rows: list[Row]) -> None:
    operators = loaded(apart(rows)).operators
    assert (operators["self_cpu_us"] >= 0).all()
    assert (operators["self_cpu_us"] <= operators["cpu_us"]).all()


@of_any(traces(nested=True, runs=STEP) | traces(nested=True, runs=""))
def test_self_times_add_up_to_what_a_thread_covers(rows: list[Row]) -> None:
    found = Reference(rows)
    lanes = {found.lane(i) for i in found.table}
    wanted: Counter[int] = Counter()
    for lane in lanes:
        inside = [found.rows[i] for i in found.table if found.lane(i) == lane]
        wanted[lane[1]] += covered((r.start, r.end) for r in inside)
    sums = loaded(rows).operators_by("thread").groupby("thread")["self_cpu_us"].sum()
    assert {lane: ns(us) for lane, us in sums.items()} == wanted


@of_any(traces())
def test_places(rows: list[Row]) -> None:
    events, wanted = loaded(rows).events, Reference(rows)
    assert events["name"].tolist() == [r.name for r in wanted.rows]
    assert events["parent"].tolist() == wanted.parents()
    assert events["run"].tolist() == [-1 if k is None else k + 1 for k in wanted.run]


@of_any(traces())
def test_operators(rows: list[Row]) -> None:
    one, wanted = loaded(rows), Reference(rows)
    at = wanted.rows
    columns = "calls", *TIMES, "category"
    assert_rows(table(one.operators.assign(key=None), "name", "key", *columns), wanted.operators())
    labels: dict[str, Callable[[int], Any]] = {
        "thread": lambda i: at[i].lane,
        "run": lambda i: -1 if wanted.run[i] is None else wanted.run[i] + 1,
        "shape": lambda i: "[]" if at[i].dims is None else str([list(at[i].dims)]),
    }
    for key, label in labels.items():
        found = table(one.operators_by(key), "name", key, *columns)
        assert_rows(found, wanted.operators(label))


@of_any(traces())
def test_kernels(rows: list[Row]) -> None:
    columns = (
        "name", "operator", "device", "stream", "calls", "device_us", "mean_us", "min_us",
        "median_us", "max_us",
    )  # fmt: skip
    assert_rows(table(loaded(rows).kernels, *columns), Reference(rows).kernels())


@of_any(traces())
def test_kernels_add_up_to_the_work_of_the_runs(rows: list[Row]) -> None:
    one = loaded(rows)
    events, kernels = one.events, one.kernels
    work = events["category"].isin(WORK) & (events["duration_us"] > 0)
    if one.run_source == "marks":
        work &= events["run"] != -1
    total = ns(events.loc[work, "duration_us"].sum())
    assert kernels["calls"].sum() == work.sum()
    assert ns(kernels["device_us"].sum()) == total
    assert ns(one.operators["self_device_us"].sum()) <= total


@of_any(traces())
def test_work_belongs_to_the_run_of_its_cause(rows: list[Row]) -> None:
    one, windows = loaded(rows), Reference(rows).windows
    events = one.events
    for event in events[events["category"].isin(WORK)].itertuples():
        if event.parent != -1:
            assert event.run == events["run"][event.parent]
        elif one.run_source != "trace":
            start = ns(event.start_us) + min(r.start for r in rows)
            inside = [k + 1 for k, (first, last) in enumerate(windows) if first <= start < last]
            assert event.run == (inside or [-1])[-1]


@of_any(traces())
def test_runs(rows: list[Row]) -> None:
    one, wanted = loaded(rows), Reference(rows)
    windows, devices = wanted.windows, wanted.devices()
    assert one.run_source == wanted.source
    runs = range(len(windows))
    walls = [(last - first) / 1000 for first, last in windows]

    def known(values: list[int]) -> list[float]:
        # Not even one where there were some is no measure.
        return [math.nan if not devices or (not v and wanted.lost(k)) else v
                for k, v in enumerate(values)]  # fmt: skip

    busy = known([max((wanted.busy(k, d, *WORK) for d in devices), default=0) for k in runs])
    launches = known([wanted.launches(k) for k in runs])
    assert_rows(
        table(one.runs, "run", "wall_us", "device_busy_us", "cpu_us", "launches"),
        [(k + 1, walls[k], busy[k] / 1000, wanted.cpu(k) / 1000, launches[k]) for k in runs],
    )
    told = one.summary
    assert told.wall_us == told.profiled_wall_us == (statistics.median(walls) if walls else None)

    def median(values: list[float]) -> float | None:
        measured = [v for v in values if not math.isnan(v)]
        return statistics.median(measured) if measured else None

    assert told.device_busy_us == median([b / 1000 for b in busy])
    assert told.launches == median(launches)


@of_any(traces())
def test_devices(rows: list[Row]) -> None:
    one, wanted = loaded(rows), Reference(rows)
    known = [
        k for k in range(len(wanted.windows))
        if not wanted.lost(k) or any(wanted.busy(k, d, *WORK) for d in wanted.devices())
    ]  # fmt: skip

    def median(device: int, *categories: str) -> float:
        told = [wanted.busy(k, device, *categories) for k in known]
        # Whole nanoseconds, so that the mean of two is rounded once.
        return statistics.median(told) / 1000 if told else math.nan

    assert_rows(
        table(one.devices, "device", "busy_us", "kernels_us", "copies_us"),
        [
            (d, median(d, *WORK), median(d, "kernel"), median(d, "gpu_memcpy", "gpu_memset"))
            for d in wanted.devices()
        ],
    )


@of_any(traces())
def test_busy_is_no_more_than_there_is(rows: list[Row]) -> None:
    one = loaded(rows)
    runs = one.runs.dropna(subset="device_busy_us")
    assert (runs["device_busy_us"] <= runs["wall_us"]).all()
    # Not their sum: steps that overlap share what is done in both.
    assert (runs["device_busy_us"].map(ns) <= ns(one.kernels["device_us"].sum())).all()
    assert (one.devices["busy_fraction"].dropna() <= 1).all()


@of_any(traces())
def test_saved_is_the_same(rows: list[Row]) -> None:
    one = loaded(rows)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("t.json", "t.json.gz"):
            assert_same(one, tprofile.load(one.export_trace(Path(folder) / name)))


@of_any(traces())
def test_order_in_the_file_is_nothing(rows: list[Row]) -> None:
    """But that of events of equal start and duration: the first of them holds the others."""
    shuffled = random.Random(len(rows)).sample(rows, len(rows))
    equals: dict[tuple[int, int], list[Row]] = {}
    for row in reversed(rows):
        equals.setdefault((row.start, row.duration), []).append(row)
    assert_same(loaded(rows), loaded([equals[r.start, r.duration].pop() for r in shuffled]))


@of_any(traces())
def test_when_it_was_is_nothing(rows: list[Row]) -> None:
    one, first = loaded(rows), min((r.start for r in rows), default=0)
    for origin in ORIGINS[-2:]:
        assert_same(one, loaded([replace(r, start=r.start - first + origin) for r in rows]))


@of_any(traces())
def test_what_threads_are_called_is_nothing(rows: list[Row]) -> None:
    one = loaded(rows)
    for names in ({1: 2, 2: 1}, {1: 2**40, 2: "autograd"}):
        other = loaded([r if r.on_device else replace(r, lane=names[r.lane]) for r in rows])
        number = {told: n for n, told in other.trace.lanes.items()}
        thread = {number.get(str(new), new): old for old, new in names.items()} | {-1: -1}
        renamed = frames(other)
        for name, frame in frames(one).items():
            found = renamed[name]
            if "thread" in frame:
                found["thread"] = found["thread"].map(thread)
            if name == "by thread":
                # Rows of equal times stand in the order of their threads' numbers.
                by = ["name", "category", "thread"]
                found, frame = (f.sort_values(by, ignore_index=True) for f in (found, frame))
            assert_frame_equal(found, frame, check_exact=True, obj=name)
        assert other.summary == one.summary


METADATA: list[dict[str, Any]] = [
    {"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "args": {"name": "python"}},
    {"ph": "M", "name": "thread_sort_index", "pid": 0, "tid": 7, "ts": 0, "args": {"sort": -1}},
    {"ph": "i", "name": RUN, "pid": 100, "tid": 1, "ts": 0, "s": "g", "cat": "mark"},
]


@of_any(traces())
def test_metadata_is_nothing(rows: list[Row]) -> None:
    assert_same(loaded(rows), tprofile.load(written(rows, *METADATA)))


@pytest.mark.long
@pytest.mark.parametrize(("test", "strategy"), PROPERTIES, ids=lambda p: getattr(p, "__name__", ""))
@settings(max_examples=1000)
@given(data=st.data())
def test_of_many_more(test: Test, strategy: Any, data: st.DataObject) -> None:
    test(data.draw(strategy))


# What the tests above have found, by hand.


def test_a_step_inside_another_is_part_of_it_whatever_overlaps_it() -> None:
    # GIVEN an operator that begins in a step and goes on after it, and a step inside both
    one = profile(
        note(STEP + "0", 0, 10), op("a", 5, 10), note(STEP + "1", 6, 2), op("b", 9, 1)
    )  # fmt: skip
    assert one.runs["wall_us"].tolist() == [10]
    assert one.events["run"].tolist() == [1, 1, 1, 1]


def test_what_was_begun_before_a_run_takes_nothing_from_what_it_holds() -> None:
    # GIVEN a thread that is in the midst of a call as the run begins, and calls itself in it
    one = profile(
        note(RUN, 10, 20), op("a", 5, 15, tid=2), op("a", 12, 5, tid=2),
        op("b", 5, 15, tid=3), op("c", 6, 13, tid=3), op("b", 12, 5, tid=3),
    )  # fmt: skip
    columns = "name", "calls", "self_cpu_us", "cpu_us"
    assert table(one.operators, *columns) == [("a", 1, 5, 5), ("b", 1, 5, 5)]


def test_an_id_without_a_launch_is_not_the_number_of_an_event() -> None:
    # GIVEN two kernels without a launch, and the id of one as large as the row of the other
    one = profile(work("k", 1, 1, 1), work("k", 3, 1, 0))
    assert one.runs["launches"].tolist() == [2]


def test_kernels_with_equal_times_stand_alike_in_any_file() -> None:
    events = [op("a", 1, 2, 1), op("b", 4, 2, 2), work("k", 5, 1, 0, 2), work("k", 7, 1, 0, 1)]
    assert profile(*events).kernels["operator"].tolist() == ["a", "b"]
    assert profile(*events[::-1]).kernels["operator"].tolist() == ["a", "b"]
