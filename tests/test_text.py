"""The text: its width, its order, its words, and names that try to break it."""

from __future__ import annotations

import dataclasses
import unicodedata

import pytest
from cells import ROUGH, SOURCE, SYNC, cell, given
from cells import SMALL as KERNELS
from traces import DATA, RECORDED, call, note, op, profile, recorded, work

import tprofile
from tprofile import TprofileError
from tprofile.trace.marks import line
from tprofile.views.text import wrapped

HOSTILE = [
    "line\nbreak", "tab\tbell\a", "\x1b[31mred\x1b[0m", "\u202egnp.exe", "zero\u200bwidth", "",
    "名前" * 60, "\U0001f680" * 70, "e\u0301" * 120, "x" * 5_000, "void <at::k>(" * 30, "   ",
]  # fmt: skip


SMALL = """\
Overhead-bound: the GPU works 3.94 µs of a 98.2 µs run
{reason}
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


CELL = """\
Sync-bound: the GPU works 21.0 µs of a 50.0 µs run
the GPU is idle 58 % of a run
most to gain: 3 waits for the GPU (line 6 · aten::item → cudaStreamSynchronize), up to 24.0 µs of
each run
4 runs: 2 warm-up, 2 profiled
wall 50.0 µs per run, not profiled · 100 µs profiled · first run 1.00 ms
CUDA 0 busy 21.0 µs of each run, 42.0 % · 3 launches per run

! the wall is that of a single unprofiled run: its spread is unknown

Findings
1. 3 waits for the GPU · line 6 · aten::item → cudaStreamSynchronize · up to 24.0 µs of each run
   In each run the CPU waits for the GPU 3 times, 24.0 µs in all.
   → Keep the sum on the GPU (`total = total + y.sum()`), and read it once.
2. The GPU runs 3 small kernels · aten::mm · up to 9.00 µs of each run
   Half of them take less than 5.00 µs.
   → Let one call do the work of many.
3. The profiler slows this code
   A run takes 50.0 µs without it.
More: tprofile.explain("sync"), tprofile.explain("small-kernels"),
  tprofile.explain("profiler-overhead")

Lines, per run
line  cell                         calls  CPU µs  CUDA µs  launches
   2  total = 0.0                      1    2.00        0         0
   4  for step in range(3):            1   12.00        0         0
   5      y = x @ w                    3   30.00    15.00         3
   6      total += y.sum().item()      3   48.00     6.00         0  3 waits
   7  if total < 0:                    1    1.00        0         0
   8      print("never")               –       –        –         –

Operators, per run, by self CUDA time
"""


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
    one = recorded("matmul_add_64")
    assert one.text() == SMALL.format(reason=one.summary.reason)


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
    assert wrapped("to be " + "x" * 205, "  ") == "\n".join(
        ["to be", "  " + "x" * 98, "  " + "x" * 98, "  " + "x" * 9]
    )
    assert wrapped("名" * 101) == "\n".join(["名" * 50, "名" * 50, "名"])
    assert wrapped("e\u0301" * 101) == "\n".join(["e\u0301" * 100, "e\u0301"])
    # AND a megabyte without the hours that quadratic work would take
    assert wrapped("x" * 1_000_000) == "\n".join(["x" * 100] * 10_000)


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
    assert one.text().split("\n\n")[1] == wrapped(f"! {shown}", "  ")


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
    assert str(profile()) == "nothing was profiled\nno runs: the trace is empty"


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
        cpu, ran, wall, "first run 900 µs, later ones 464 µs: no start-up to speak of", contained,
    ]  # fmt: skip
    assert first(900, call("cuModuleLoad", 10, 400, 1)) == [cpu, ran, wall, contained]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_names_of_what_started_up_do_not_break_the_layout(hostile: str) -> None:
    told = start_up(op(hostile, 10, 80), op(hostile, 1010, 1))
    assert len(told) == 4
    assert len({columns(line) for line in told[1:]}) == 1


def test_a_cell_with_findings() -> None:
    one = cell()
    reason = "the GPU is idle 58 % of a run"
    told = given(one, SYNC, KERNELS, ROUGH, verdict="sync-bound", reason=reason).text()
    assert told.startswith(CELL)
    assert_fits(told)
    # AND where nothing was found, nothing is said of it
    quiet = given(one, verdict="compute-bound").text()
    assert "Findings" not in quiet
    assert "gain" not in quiet
    assert quiet.startswith("Compute-bound: ")


def line_rows(told: str) -> list[str]:
    """Return the rows of the table of lines, the head among them; none where there is none."""
    blocks = [b.split("\n")[1:] for b in told.split("\n\n") if b.startswith("Lines, ")]
    return blocks[0] if blocks else []


def test_a_limit_keeps_the_lines_that_cost_most_in_the_order_of_the_code() -> None:
    def shown(one: tprofile.Profile, limit: int | None) -> list[str]:
        return [row.split()[0] for row in line_rows(one.text(limit=limit))[1:]]

    one = given(cell(), SYNC)
    assert shown(one, 3) == ["4", "5", "6", "…"]
    assert shown(one, 1) == ["6", "…"]
    assert line_rows(one.text(limit=3))[-1] == "… and 3 more"
    assert shown(given(cell(), dataclasses.replace(SYNC, line=8)), 2) == ["5", "8", "…"]
    assert shown(one, None) == shown(one, 6) == ["2", "4", "5", "6", "7", "8"]


def test_a_limit_keeps_the_first_findings() -> None:
    one = given(cell(), *[SYNC] * 7)
    assert "\n5. 3 waits" in one.text()
    assert "\n6. 3 waits" not in one.text()
    assert '\n… and 2 more in Profile.findings\nMore: tprofile.explain("sync")\n' in one.text()
    assert "\n7. 3 waits" in one.text(limit=None)


def test_one_line_is_no_table() -> None:
    one = profile(op(line(2), 0, 10), op("a", 1, 5), recorded={"profiled": None, "source": "f()"})
    assert line_rows(one.text()) == []


def test_without_a_device_lines_have_no_columns_of_one() -> None:
    marks = [op(line(2), 0, 10), op(line(3), 20, 30), op("a", 21, 5)]
    told = {"profiled": None, "source": "a()\nb()", "first_line": 2}
    assert line_rows(profile(*marks, recorded=told).text()) == [
        "line  cell  calls  CPU µs",
        "   2  a()       1   10.00",
        "   3  b()       1   30.00",
    ]


def test_code_has_its_room() -> None:
    # GIVEN long code, a backward pass, and a long label
    long = "    logits = " + " + ".join(f"layer_{i}(x)" for i in range(20))
    one = cell(source=SOURCE.replace("    y = x @ w", long))
    frame = one.lines.assign(backward_device_us=1234.5)
    one._frames["lines"] = frame
    told = given(one, dataclasses.replace(SYNC, label="x" * 40)).text()
    assert_fits(told)
    head, *rows = line_rows(told)
    # THEN counts give way, and both ends of the code are there
    assert head.split() == ["line", "cell", "CPU", "µs", "CUDA", "µs", "backward", "µs"]
    code = next(row for row in rows if row.startswith("   5"))[6:46]
    assert code.startswith("    logits = layer_")
    assert code.rstrip().endswith("layer_19(x)")
    assert "…" in code
    assert any(row.endswith("x" * 23 + "…") for row in rows)


def test_lines_of_other_files_have_its_name() -> None:
    marks = {
        3: line(12, "forward", "/home/a/model.py"), 4: line(3, "forward", "/home/b/model.py"),
        5: line(1, "load", "data.py"), 6: line(5, "f"),
    }  # fmt: skip
    rows = line_rows(cell(lines=marks).text())
    assert [row[:13].strip() for row in rows] == [
        "line", "2", "4", "5", "5", "6", "7", "8", "a/model.py:12", "b/model.py:3", "data.py:1",
    ]  # fmt: skip
    assert rows[0].split()[1] == "code"
    # AND without a cell those that take longest come first
    own = profile(*(op(line(i, "f", "a.py"), 100 * i, 10 * i) for i in range(1, 4)))
    assert [row.split()[0] for row in line_rows(own.text())] == [
        "line", "a.py:3", "a.py:2", "a.py:1",
    ]  # fmt: skip


@pytest.mark.parametrize("hostile", HOSTILE)
def test_code_and_findings_do_not_break_the_layout(hostile: str) -> None:
    # GIVEN such a text in every place of a finding, and as a line of code
    finding = tprofile.Finding("sync", hostile, hostile, hostile, 1.0, hostile, 6, hostile)
    flat = hostile.replace("\n", " ")
    one = cell(source=SOURCE.replace("total = 0.0", flat), lines={3: line(1, "f", hostile)})
    told = given(one, finding, finding, reason=hostile).text()
    assert_fits(told)
    head, *rows = line_rows(told)
    assert len(rows) >= 5
    assert all(columns(row) >= columns(head) for row in rows)


def test_lines_whose_text_is_not_known_are_there() -> None:
    marks = [op(line(2), 0, 10), op(line(3), 20, 30), op("a", 21, 5)]
    one = profile(*marks, recorded={"profiled": None})
    assert one.source is None
    assert line_rows(one.text()) == [
        "line  cell  calls  CPU µs",
        "   2  –         1   10.00",
        "   3  –         1   30.00",
    ]


def test_where_functions_have_lines_it_says_how_to_tell_them() -> None:
    # GIVEN a function in line 7, whose body is line 8
    one = cell(source=SOURCE.replace("if total < 0:", "def f():"))
    told = "Lines, per run (--stack tells those inside functions)"
    assert told in one.text().split("\n")
    assert told in one._repr_html_()
    # THEN a condition that was false is no function, and one with lines is told as it is
    assert "--stack" not in cell().text()
    inside = {1098: line(8, "f")}
    assert "--stack" not in cell(source=one.source.lstrip("\n"), lines=inside).text()
