"""Two profiles side by side: frames, figures, labels and text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal
from test_text import columns
from traces import DATA, Event, call, note, op, profile, recorded, row, work

import tprofile
from tprofile import TprofileError
from tprofile.analysis import replacement

PAIRS = ["pointwise", "mlp", "geglu", "ln_gelu", "two_breaks", "reduce", "gpt2", "recompiles"]
RUN = "tprofile::run"
SLOW, FAST = [0.0009, 0.001, 0.001, 0.001, 0.0011], [0.00045, 0.0005, 0.0005, 0.0005, 0.00055]
WIDE = [0.005, 0.0062, 0.01, 0.0138, 0.015]


def one(us: float = 10, name: str = "k", runs: int = 1, **told: Any) -> tprofile.Profile:
    """Return a profile in each of whose runs an operator launches a kernel."""
    events: list[Event] = []
    for n in range(runs):
        at, i = 100 * n, n + 1
        events += [
            note(RUN, at, 90, 1000 + i), op("aten::mm", at + 1, 50, i),
            call("cudaLaunchKernel", at + 5, 5, i, i), work(name, at + 20, us, i, i),
        ]  # fmt: skip
    return profile(*events, recorded={"profiled": runs, "asked_warmup": 1, **told})


CPU = profile(op("aten::mm", 0, 40, 1))
EMPTY = profile()


def pair(name: str) -> tprofile.Comparison:
    folder = DATA / "pairs"
    return tprofile.compare(
        *(tprofile.load(folder / f"{name}_{which}.json.gz") for which in ("eager", "compiled"))
    )


def test_frames_are_joined_on_the_name() -> None:
    both = one(10, "old").compare(one(4, "new"))
    assert both.kernels.to_dict("records") == [
        {"name": "old", "calls_a": 1, "calls_b": 0, "device_us_a": 10, "device_us_b": 0,
         "delta_us": -10, "ratio": 0},
        {"name": "new", "calls_a": 0, "calls_b": 1, "device_us_a": 0, "device_us_b": 4,
         "delta_us": 4, "ratio": pytest.approx(float("nan"), nan_ok=True)},
    ]  # fmt: skip
    told = row(both.operators, name="aten::mm")
    assert (told["calls_a"], told["calls_b"], told["cpu_us_a"], told["self_cpu_us_a"]) == (
        1, 1, 50, 45,
    )  # fmt: skip
    assert (told["self_device_us_a"], told["delta_us"], told["ratio"]) == (10, -6, 0.4)


@pytest.mark.parametrize(("before", "after"), [(3, 7), (7, 3), (49, 1), (1, 49)])
def test_other_numbers_of_runs_are_brought_to_those_of_a(before: int, after: int) -> None:
    both = one(10, runs=before).compare(one(20, runs=after))
    told = row(both.kernels, name="k")
    assert (told["calls_a"], told["calls_b"]) == (before, before)
    assert told["device_us_b"] == pytest.approx(20 * before)
    assert told["ratio"] == pytest.approx(2)
    # THEN a run has one call in either
    assert "      1  1  10.00  20.00      +10.00  2.00×  k" in both.text()


def test_what_was_not_measured_is_nan_and_none() -> None:
    for both, without, measured in ((one().compare(CPU), "b", "a"), (CPU.compare(one()), "a", "b")):
        kernels, operators = both.kernels, both.operators
        assert kernels[[f"calls_{without}", f"device_us_{without}"]].isna().all(axis=None)
        assert kernels[f"device_us_{measured}"].tolist() == [10]
        assert (
            operators[[f"self_device_us_{without}", f"device_us_{without}"]].isna().all(axis=None)
        )
        assert operators["delta_us"].isna().all()
        assert getattr(both.summary, f"launches_{without}") is None
        assert getattr(both.summary, f"kernels_{without}") is None
        assert getattr(both.summary, f"device_busy_us_{without}") is None
        cells = ["1", "–", "10.00", "–"] if measured == "a" else ["–", "1", "–", "10.00"]
        assert both.text().split("\n")[-1].split() == [*cells, "–", "–", "k"]


def test_without_a_device_the_cpu_times_are_compared() -> None:
    both = CPU.compare(profile(op("aten::mm", 0, 10, 1)))
    assert row(both.operators, name="aten::mm")["delta_us"] == -30
    assert both.kernels.empty
    assert "by difference in self CPU time" in both.text()


def test_the_work_of_a_graph_is_in_the_row_that_launched_it() -> None:
    graph = profile(call("cudaGraphLaunch", 0, 10, 1), work("k", 20, 6, 1))
    both = one(10).compare(graph)
    told = row(both.operators, name="cudaGraphLaunch")
    assert (told["self_device_us_b"], told["self_launched_us_b"], told["delta_us"]) == (0, 6, 6)
    assert "cudaGraphLaunch" in both.text()


def test_nothing_beside_nothing_is_empty() -> None:
    both = EMPTY.compare(EMPTY)
    assert both.operators.empty
    assert both.kernels.empty
    assert both.findings == []
    assert both.summary.wall_us_a is both.summary.wall_ratio is both.summary.differs is None
    assert both.text().startswith("A and B")
    assert one().compare(EMPTY).text()
    assert EMPTY.compare(one()).text()


@pytest.mark.parametrize(
    ("before", "after", "differs"),
    [
        (SLOW, FAST, True), (SLOW, [s * 0.95 for s in SLOW], False), (SLOW[:4], FAST, None),
        # Ten times as long, and scattered by 0.37 of it: whichever is A
        (SLOW, WIDE, True),
        (WIDE, SLOW, True),
    ],
)  # fmt: skip
def test_a_difference_is_one_beyond_noise(
    before: list[float], after: list[float], differs: bool | None
) -> None:
    told = one(unprofiled_s=before).compare(one(unprofiled_s=after)).summary
    assert told.differs is differs
    assert (told.wall_error is None) is (differs is None)


def test_the_error_is_that_of_two_medians() -> None:
    told = one(unprofiled_s=SLOW).compare(one(unprofiled_s=FAST)).summary
    each = 1.2533 * 100 / 1.349 / 5**0.5 / 1000
    assert told.wall_ratio == pytest.approx(0.5)
    assert told.wall_error == pytest.approx(0.5 * (2 * each**2) ** 0.5)


def test_what_makes_a_comparison_doubtful_is_said() -> None:
    h200, a100 = ({"deviceProperties": [{"id": 0, "name": n}]} for n in ("H200", "A100"))
    a = profile(work("k", 0, 5), recorded={"torch": "2.11"}, **h200)
    b = profile(work("k", 0, 5), recorded={"torch": "2.13", "unprofiled_s": [1.0]}, **a100)
    told = a.compare(b).summary
    assert told.warnings == (
        "one wall is of unprofiled runs and the other of profiled ones, so their ratio is none of "
        "the code",
        "the devices differ: H200 and A100",
        "the versions of torch differ: 2.11 and 2.13",
    )
    assert told.wall_ratio is told.wall_error is told.differs is None
    alone = (
        "one of them has work of a device in its record and the other none: there is nothing to "
    )
    assert one().compare(CPU).summary.warnings == (alone + "compare that with",)
    assert CPU.compare(CPU).summary.warnings == EMPTY.compare(one()).summary.warnings == ()
    assert a.compare(a).summary.warnings == ()


def test_of_a_stopped_run_there_are_no_figures_and_a_warning() -> None:
    stopped = one(profiled=0, stopped={"by": "ValueError", "during": "profiled run 1 of 1"})
    both = one().compare(stopped)
    assert both.summary.kernels_b is None
    assert "was stopped by an error" in both.summary.warnings[-1]
    assert "is not told: a run was stopped by an error" in both.text()


@pytest.mark.parametrize(
    ("before", "after", "labels"),
    [
        (None, None, ("A", "B")), ("x", "y", ("x", "y")), ("x", "x", ("A", "B")),
        ("B", None, ("A", "B")), (None, "A", ("A", "B")), ("", "y", ("A", "y")),
    ],
)  # fmt: skip
def test_the_two_are_told_apart(
    before: str | None, after: str | None, labels: tuple[str, str]
) -> None:
    both = one(label=before).compare(one(label=after))
    assert both.labels == labels
    assert repr(both) == f"<tprofile.Comparison: {labels[0]!r} against {labels[1]!r}>"


@pytest.mark.parametrize("other", [None, 3, "path.json", [EMPTY]])
def test_what_is_no_profile_cannot_be_compared(other: Any) -> None:
    kind = type(other).__name__
    for first, second in ((EMPTY, other), (other, EMPTY)):
        with pytest.raises(TprofileError, match=f"cannot compare a {kind}. Give two Profiles"):
            tprofile.compare(first, second)


@pytest.mark.parametrize("limit", [0, -1, True, 2.0, "3"])
def test_a_limit_is_a_number_of_rows(limit: Any) -> None:
    with pytest.raises(TprofileError, match="limit is "):
        one().compare(one()).text(limit)


def test_frames_are_the_callers_own() -> None:
    both = one().compare(one())
    for name in ("operators", "kernels"):
        mine = getattr(both, name)
        mine["name"] = "x"
        assert "x" not in getattr(both, name)["name"].tolist()
    both.findings.clear()
    assert both.findings


def assert_fits(both: tprofile.Comparison) -> None:
    """Every line fits, but for those that a whole name of a kernel stands in."""
    names = [tprofile.views.words.visible(n) for n in both.kernels["name"]]
    for limit in (3, None):
        for line in both.text(limit).split("\n"):
            assert columns(line) <= 100 or any(line.endswith(name) for name in names), line


@pytest.mark.parametrize("name", PAIRS)
def test_the_text_of_a_real_pair_fits_and_names_kernels_in_full(name: str) -> None:
    both = pair(name)
    assert_fits(both)
    told = both.text(limit=None)
    assert all(kernel in told for kernel in both.kernels["name"])
    assert f"Per run\n{' ' * 10}" in told


@pytest.mark.parametrize(
    "hostile",
    ["line\nbreak", "\x1b[31mred\x1b[0m", "\u202egnp.exe", "", "名前" * 60, "x" * 5_000, "   "],
)
def test_names_do_not_break_the_text(hostile: str) -> None:
    def told(us: float) -> tprofile.Profile:
        return profile(
            op(hostile, 0, 50, 1), call("cudaLaunchKernel", 5, 5, 1, 1),
            work(hostile, 20, us, 1, 1), work(f"{hostile}{us}", 40, us, 0, 1),
            recorded={"label": f"{hostile}{us}"},
        )  # fmt: skip

    assert_fits(told(3).compare(told(4)))


def test_long_labels_are_told_once() -> None:
    both = one(label="before the change").compare(one(5, label="b"))
    told = both.text()
    assert "A is before the change\nB is b\n" in told
    # THEN once, beside what the finding says of it, here and at the top
    assert told.count("before the change") == 3


def test_findings_in_text_have_their_gain_and_advice() -> None:
    told = pair("pointwise").text()
    (at,) = [i for i, line in enumerate(told.split("\n")) if "6 kernels became 1" in line]
    title, *rest = told.split("\n")[at : at + 6]
    assert title == "4. 6 kernels became 1 · 658 µs less of the device in each run"
    assert "   → Fused kernels read and write memory once for what several did." in rest


def test_a_difference_too_small_to_print_has_its_sign() -> None:
    a = profile(work("long", 0, 5000), work("less", 6000, 1), work("more", 7000, 0.5))
    b = profile(work("long", 0, 5000), work("less", 6000, 0.5), work("more", 7000, 1))
    told = [line.split()[4:7] for line in a.compare(b).text().split("\n") if "0.01" in line]
    assert told == [[">−0.01", "0.50×", "less"], ["<+0.01", "2.00×", "more"]]


def test_warnings_of_each_are_told_and_those_of_both_once() -> None:
    both = one(notes=["of both", "of A"]).compare(one(notes=["of both"], label="after"))
    told = [line for line in both.text().split("\n") if line.startswith("! ")]
    assert told == ["! of both", "! A: of A"]


def test_rows_past_the_limit_are_counted() -> None:
    a = profile(*(work(f"k{i}", 10 * i, 1 + i) for i in range(5)))
    told = a.compare(EMPTY).text(2)
    assert told.count("… and 3 more") == 2


def test_too_many_kernels_to_match_are_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replacement, "_MOST", 0)
    both = one(10, "gemm").compare(one(5, "gemm"))
    assert both.replaced is None
    assert "What became of the kernels of A in B is not told: there are too many" in both.text()
    assert [finding.kind for finding in both.findings] == ["speed"]


@pytest.mark.parametrize(
    ("name", "launches", "kernels"),
    [
        ("pointwise", (6, 1), (6, 1)), ("mlp", (3, 3), (3, 3)), ("geglu", (5, 4), (5, 4)),
        ("ln_gelu", (2, 1), (2, 1)), ("two_breaks", (7, 5), (7, 5)), ("reduce", (60, 2), (60, 61)),
        ("gpt2", (83, 37), (83, 37)),
    ],
)  # fmt: skip
def test_real_pairs_have_so_many_launches_and_kernels(
    name: str, launches: tuple[int, int], kernels: tuple[int, int]
) -> None:
    told = pair(name).summary
    assert (told.launches_a, told.launches_b) == launches
    assert (told.kernels_a, told.kernels_b) == kernels


@pytest.mark.parametrize("name", PAIRS)
def test_swapped_a_real_pair_is_mirrored(name: str) -> None:
    both = pair(name)
    back = both.b.compare(both.a)
    for frame in ("operators", "kernels"):
        one_, other = (
            getattr(it, frame).sort_values("name", ignore_index=True) for it in (both, back)
        )
        assert one_["delta_us"].tolist() == (-other["delta_us"]).tolist()
        assert one_["calls_a"].tolist() == other["calls_b"].tolist()


@pytest.mark.parametrize("name", ["mlp_train", "pointwise_eager", "cuda_graph", "two_threads"])
def test_beside_itself_nothing_differs(name: str) -> None:
    it = recorded(name)
    both = it.compare(it)
    assert (both.operators["delta_us"] == 0).all()
    assert (both.kernels["delta_us"] == 0).all()
    assert both.kernels["device_us_a"].sum() == pytest.approx(it.kernels["device_us"].sum())
    assert_frame_equal(
        both.kernels[["device_us_a"]].set_axis(["x"], axis=1),
        both.kernels[["device_us_b"]].set_axis(["x"], axis=1),
    )


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 60), st.integers(1, 60))
def test_the_difference_is_that_of_as_many_runs(m: int, n: int, a: int, b: int) -> None:
    told = row(one(a, runs=m).compare(one(b, runs=n)).kernels, name="k")
    assert told["delta_us"] == pytest.approx(m * (b - a))
    assert told["calls_b"] == m
