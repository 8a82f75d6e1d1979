"""The text: its width, its order, its words, and names that try to break it."""

from __future__ import annotations

import unicodedata

import pytest
from traces import DATA, RECORDED, call, note, op, profile, recorded, work

import tprofile
from tprofile import TprofileError
from tprofile.views.text import _wrapped

HOSTILE = [
    "line\nbreak", "tab\tbell\a", "\x1b[31mred\x1b[0m", "\u202egnp.exe", "zero\u200bwidth", "",
    "名前" * 60, "\U0001f680" * 70, "e\u0301" * 120, "x" * 5_000, "void <at::k>(" * 30, "   ",
]  # fmt: skip


SMALL = """\
3 runs, by the ProfilerStep marks of the trace
wall 98.2 µs per run, under the profiler
CUDA 0 (NVIDIA H200) busy 3.94 µs of each run, 4.0 % · 2 launches per run

! run 1 of 3 is an outlier: 199 µs under the profiler, where the median is 98.2 µs; the largest part
  of the difference is aten::mm (+35.6 µs self CPU); the sums contain it

Operators, per run, by self CUDA time
operator               calls  self CPU µs     %  CPU total µs  self CUDA µs     %  CUDA total µs
aten::mm                   1        37.77  29.6         48.65          3.04  77.4           3.04
aten::add                  1         8.90   7.0         15.23          0.89  22.6           0.89
ProfilerStep*              1        31.23  24.5        127.05             0     0           3.93
matmul_add                 1        24.83  19.5         91.91             0     0           3.93
cudaLaunchKernelExC        1        10.88   8.5         10.88             0     0              0
cudaLaunchKernel           1         6.33   5.0          6.33             0     0              0
cudaDeviceSynchronize   1.33         4.41   3.5          4.41             0     0              0
aten::matmul               1         3.18   2.5         51.84             0     0           3.04

Kernels, copies and sets, per run
kernel                                      operator   calls  CUDA µs     %   ±%  mean µs
sm80_xmma_gemm_f32f32…te_kernel__5x_cublas  aten::mm       1     3.04  77.4    0     3.04
void at::native::vect…::array<char*, 3ul>)  aten::add      1     0.89  22.6  1.8     0.89"""


COLD = """\
Start-up, first recorded run 181 ms, later ones 361 µs
cost                                                          ms     %
unnamed inside operators (library handles, first use)     107.33  59.6
  aten::mm                                                 81.05  45.0
  aten::add                                                26.28  14.6
loading kernels                                            59.87  33.2
  Runtime Triggered Module Loading                         59.62  33.1
slow first runtime calls                                    5.45   3.0
queries of device and kernels                               3.10   1.7
the profiler's own buffers                                  3.10   1.7
other: device memory from the driver, streams and events    0.73   0.4"""

COMPILED = """\
Start-up, first run 17.2 s, later ones 46.1 µs to 112 µs
cost                                 s      %
compilation                      17.22  100.0
  compile_file                   12.46   72.3
  Scheduler.codegen               1.80   10.4
  _recursive_joint_graph_passes   1.15    6.7"""


def columns(line: str) -> int:
    """Count terminal columns anew: nothing for what combines, two for what is wide."""
    total = 0
    for c in line:
        assert unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp"), repr(line)
        if not unicodedata.combining(c):
            total += 2 if unicodedata.east_asian_width(c) in "FW" else 1
    return total


def assert_fits(told: str) -> None:
    assert all(columns(line) <= 100 for line in told.split("\n"))


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_traces_fit_in_a_hundred_columns(name: str) -> None:
    one = recorded(name)
    for limit in (15, None):
        assert_fits(one.text(limit=limit))


def test_the_whole_of_a_small_one() -> None:
    # 381.151 µs in three steps, of which the median took 98.162, and 3.926 µs of work in each.
    assert recorded("matmul_add_64").text() == SMALL


@pytest.mark.parametrize("hostile", HOSTILE)
def test_names_do_not_break_the_layout(hostile: str) -> None:
    # GIVEN a name in every place that shows one
    one = profile(
        op(hostile, 0, 10, 1), op("plain", 20, 10, 2), work(hostile, 5, 3, 0, 1),
        work("plain", 25, 3, 0, 2, device=1),
        deviceProperties=[{"id": 0, "name": hostile}, {"id": 1, "name": "名" * 90}],
        recorded={"notes": [f"a note on {hostile}"]},
    )  # fmt: skip
    told = one.text()
    assert_fits(told)
    # THEN rows stay rows, and numbers stand below each other
    head, *rows = [line for block in told.split("\n\n")[2:] for line in block.split("\n")[1:]][:3]
    assert len({columns(line) for line in (head, *rows)}) == 1
    assert len(told.split("\n\n")) == 4


def test_control_characters_are_shown_as_escapes() -> None:
    told = profile(op("a\x1b[0m\n\u202eb", 0, 1), op("", 5, 1)).text()
    assert r"a\x1b[0m\n\u202eb" in told
    assert "''" in told


def test_long_names_keep_both_ends() -> None:
    name = "void " + "x" * 300 + "<float>"
    line = next(s for s in profile(op(name, 0, 1)).text().split("\n") if s.startswith("void x"))
    cut = line.split()[:2]
    assert "…" in cut[1]
    assert cut[1].endswith("<float>")


def test_a_name_of_a_megabyte_is_no_burden() -> None:
    # Quadratic work on it would take hours.
    assert_fits(profile(op("x" * 1_000_000, 0, 10), work("y" * 1_000_000, 20, 5)).text())


def test_a_line_is_broken_by_columns() -> None:
    # GIVEN a word that begins a line of its own, letters that are wide and such that are none
    assert _wrapped("to be " + "x" * 205, "  ") == "\n".join(
        ["to be", "  " + "x" * 98, "  " + "x" * 98, "  " + "x" * 9]
    )
    assert _wrapped("名" * 101) == "\n".join(["名" * 50, "名" * 50, "名"])
    assert _wrapped("e\u0301" * 101) == "\n".join(["e\u0301" * 100, "e\u0301"])
    # AND a megabyte without the hours that quadratic work would take
    assert _wrapped("x" * 1_000_000) == "\n".join(["x" * 100] * 10_000)


@pytest.mark.parametrize(
    ("length", "shown"),
    [
        (1_000, "x" * 1_000),
        (1_001, "x" * 490 + " … 21 characters left out … " + "x" * 490),
        (1_000_000, "x" * 490 + " … 999,020 characters left out … " + "x" * 490),
    ],
)
def test_a_long_warning_is_cut_in_its_middle(length: int, shown: str) -> None:
    one = profile(op("a", 0, 1), recorded={"notes": ["x" * length]})
    assert one.text().split("\n\n")[1] == _wrapped(f"! {shown}", "  ")


def test_a_kernel_without_an_operator_has_a_dash() -> None:
    told = profile(op("a", 0, 9, 1), work("mine", 10, 5, 0, 1), work("stray", 20, 3)).text()
    rows = [line.split()[:2] for line in told.split("\n")]
    assert ["mine", "a"] in rows
    assert ["stray", "–"] in rows


def names(told: str) -> list[str]:
    """Return the first cells of the operators' rows."""
    block = next(b for b in told.split("\n\n") if b.startswith("Operators"))
    return [line.split()[0] for line in block.split("\n")[2:]]


ABC = profile(op("a", 0, 10), op("b", 20, 30), op("b", 60, 1), op("c", 70, 20))


@pytest.mark.parametrize(
    ("sort", "order"),
    [(None, "bca"), ("self_cpu_us", "bca"), ("calls", "bca"), ("name", "abc"), ("cpu_us", "bca")],
)
def test_sorted_by_a_column(sort: str | None, order: str) -> None:
    assert names(ABC.text(sort)) == list(order)


def test_the_limit_is_told() -> None:
    told = ABC.text(limit=1)
    assert names(told) == ["b", "…"]
    assert told.endswith("… and 2 more")
    assert names(ABC.text(limit=None)) == ["b", "c", "a"]
    assert "more" not in ABC.text(limit=3)


@pytest.mark.parametrize("sort", ["colour", "category", ""])
def test_a_wrong_sort_names_itself_and_the_choices(sort: str) -> None:
    if not sort:
        assert names(ABC.text(sort)) == ["b", "c", "a"]
        return
    with pytest.raises(TprofileError, match=f"sorted by '{sort}'. Choose one of name, calls, self"):
        ABC.text(sort)


def test_an_empty_trace_says_so() -> None:
    assert str(profile()) == "no runs: the trace is empty\nnothing was profiled"


@pytest.mark.parametrize(
    ("sort", "by"), [("self_device_us", "self CPU time"), ("device_us", "CPU total")]
)
def test_without_a_device_its_times_are_those_of_the_cpu(sort: str, by: str) -> None:
    one = profile(op("a", 0, 10, 1), op("b", 1, 9, 2), op("c", 20, 7, 3))
    text = one.text(sort)
    assert f"Operators, per run, by {by}\n" in text
    first = {"self_device_us": "b", "device_us": "a"}[sort]
    assert text.split("CPU total µs\n")[1].startswith(f"{first} ")


def test_where_the_time_of_a_cold_run_went() -> None:
    assert block(recorded("cold_matmul_add_64").text()) == COLD.split("\n")
    compiled = tprofile.load(DATA / "startup" / "cold_compile.json.gz").text()
    assert_fits(compiled)
    assert block(compiled) == COMPILED.split("\n")


def block(told: str) -> list[str]:
    """Return the lines on start-up; none where there are none."""
    return next((b.split("\n") for b in told.split("\n\n") if b.startswith("Start-up")), [])


def start_up(*events: dict[str, object], runs: int = 2, asked: int | None = 0) -> list[str]:
    """Return the lines on start-up of runs of 100 µs, 1000 µs apart."""
    marks = [note("tprofile::run", 1000 * i, 100) for i in range(runs)]
    known = {} if asked is None else {"asked_warmup": asked, "profiled": runs}
    told = profile(*marks, *events, recorded=known).text()
    assert_fits(told)
    return block(told)


def test_start_up_of_a_single_run() -> None:
    # THEN its parts are of the run, and what they leave is not said to be start-up
    assert start_up(call("cuModuleLoad", 10, 40, 1), runs=1) == [
        "Start-up, only run 100 µs",
        "cost                µs     %",
        "loading kernels  40.00  40.0",
        "  cuModuleLoad   40.00  40.0",
        "What else of it is start-up takes later runs to tell: repeat 2 or more.",
    ]


def test_start_up_of_later_runs_is_told() -> None:
    def told(us: float) -> list[str]:
        first, second = call("cuModuleLoad", 10, 40, 1), call("cuModuleLoad", 1010, us, 2)
        return start_up(first, second, runs=3)[-1:]

    assert told(10) == ["Later runs paid too: 10.0 µs loading kernels in run 2."]
    assert told(9.9) == ["  cuModuleLoad   40.00  100.0"]


def test_no_block_where_there_was_no_start_up() -> None:
    load = call("cuModuleLoad", 10, 40, 1)
    assert start_up(load)
    assert start_up(load, asked=3) == start_up() == start_up(runs=1) == []
    assert start_up(op("a", 10, 40), runs=1) == []
    # AND less than 1 % of the first run is none
    assert start_up(call("cuModuleLoad", 10, 0.9, 1)) == []
    assert start_up(call("cuModuleLoad", 10, 1, 1))
    assert start_up(call("cuModuleLoad", 10, 0.9, 1), asked=None) == []


def test_what_start_up_was_is_told_where_there_is_no_table() -> None:
    def first(wall: float, *events: dict[str, object]) -> list[str]:
        marks = [note("tprofile::run", 5000 * i, w) for i, w in enumerate((wall, 470, 458))]
        ops = [op("a", 5000 * i + 1, 2) for i in range(3)]
        known = {"asked_warmup": 0, "profiled": 3, "platform": "CPU"}
        return profile(*marks, *ops, *events, recorded=known).text().split("\n\n")[0].split("\n")

    wall = "wall 464 µs per run after the first, under the profiler"
    ran, contained = "3 runs: 3 profiled", "the tables contain the first run"
    cpu = "CPU only: only the CPU was recorded"
    assert first(900) == [
        ran, wall, cpu, "first run 900 µs, later ones 464 µs: no start-up to speak of", contained,
    ]  # fmt: skip
    assert first(900, call("cuModuleLoad", 10, 400, 1)) == [ran, wall, cpu, contained]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_names_of_what_started_up_do_not_break_the_layout(hostile: str) -> None:
    told = start_up(op(hostile, 10, 80), op(hostile, 1010, 1))
    assert len(told) == 4
    assert len({columns(line) for line in told[1:]}) == 1
