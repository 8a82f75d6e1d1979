"""Two profiles in a notebook and on a page: what is sent, kept, answered and written."""

from __future__ import annotations

import base64
import gc
import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from notebook import kernel, results, streams
from test_html import HOSTILE, Page
from test_page import Elements
from test_show import VIEW, Shell
from test_widget import Kept
from traces import note, op, profile, recorded, work

import tprofile
from tprofile.trace.marks import RUN
from tprofile.views import figures
from tprofile.views import show as showing
from tprofile.views.compare_figures import compared, details, title
from tprofile.views.compare_html import compare_html
from tprofile.views.compare_page import compare_document, compare_page, compare_text
from tprofile.views.compare_payload import MOST_BYTES, compare_payload
from tprofile.views.pack import size
from tprofile.views.page import STATIC
from tprofile.views.widget import ComparisonWidget

PAIRS = [("pointwise_eager", "pointwise_compiled"), ("mlp_train", "resnet18_train"),
         ("resnet18_train", "mlp_train"), ("two_threads", "mlp_train"),
         ("hostile_names", "item_in_loop")]  # fmt: skip


def pair(a: str = "pointwise_eager", b: str = "pointwise_compiled") -> tprofile.Comparison:
    return tprofile.compare(recorded(a), recorded(b))


def made(a: dict[str, Any] | None = None, b: dict[str, Any] | None = None) -> tprofile.Comparison:
    """Return a run of 100 µs with two kernels against one of 50 µs with another in their place."""

    def run(name: str, *kernels: str, how: dict[str, Any] | None) -> tprofile.Profile:
        events = [op("aten::add", 0, 40, 1), op(name, 50, 10, 2)]
        events += [work(kernel, 20 + 10 * i, 5, 0, 1) for i, kernel in enumerate(kernels)]
        return profile(*events, recorded={"profiled": None, **(how or {})})

    one = {"label": "before", "unprofiled_s": [0.0001] * 6, **(a or {})}
    other = {"label": "after", "unprofiled_s": [0.00005] * 6, **(b or {})}
    return tprofile.compare(
        run("aten::mul", "add_kernel", "mul_kernel", how=one), run("aten::sub", "both", how=other)
    )


def figure(comparison: tprofile.Comparison, key: str) -> dict[str, str]:
    (found,) = [one for one in compare_payload(comparison)["figures"] if one["key"] == key]
    return {name: text for name, text in found.items() if text and name not in ("key", "head")}


def test_the_answer_and_what_ran_stand_above() -> None:
    one = made()
    assert title(one) == "After is 2.00 times faster than before"
    shown = compare_payload(one)
    assert (shown["title"], shown["labels"]) == (title(one), ["before", "after"])
    assert shown["details"] == details(one) == ["each: 1 run: the whole trace · CUDA 0"]

    # AND where the two differ in that, each has its line, and what is the same is said once
    def once(earlier: int) -> tprofile.Profile:
        how = {"profiled": 1, "earlier": earlier}
        return profile(note(RUN, 0, 100), op("a", 0, 9), recorded=how)

    first, *others = details(tprofile.compare(once(2), once(3)))
    assert first == "each: 1 run, profiled, no warm-up"
    assert [line.partition(" before:")[0] for line in others] == [
        "A: this process was profiled 2 times", "B: this process was profiled 3 times",
    ]  # fmt: skip
    assert details(tprofile.compare(made().a, recorded("mlp_train"))) == [
        "before: 1 run: the whole trace · CUDA 0",
        f"B: {figures.details(recorded('mlp_train'))[0]}",
    ]


def test_figures_are_words_and_what_is_unknown_says_why() -> None:
    one = made({"loop_s": [0.0001]}, {"loop_s": [0.00005]})
    keys = [row.key for row in compared(one)]
    assert keys == ["wall", "loop", "busy", "launches", "kernels", "memory", "first"]
    assert figure(one, "wall") == {
        "a": "100 µs", "b": "50.0 µs", "a_more": "±0 %", "b_more": "±0 %", "ratio": "0.50×",
        "more": "−50.0 µs",
    }  # fmt: skip
    assert figure(one, "loop") == {
        "a": "100 µs",
        "b": "50.0 µs",
        "ratio": "0.50×",
        "more": "−50.0 µs",
    }
    assert figure(one, "kernels") == {"a": "2", "b": "1", "ratio": "0.50×", "more": "−1"}
    assert figure(one, "memory") == {"a": "–", "b": "–", "why": "not recorded"}
    assert figure(one, "first") == {"a": "–", "b": "–", "why": "no warm-up was recorded"}
    # AND of one side alone, it says which
    assert figure(made({"loop_s": [0.0001]}), "loop") == {
        "a": "100 µs", "b": "–", "why": "after: not timed in a loop"
    }  # fmt: skip
    other = tprofile.compare(profile(op("a", 0, 9)), profile(op("a", 0, 9)))
    assert figure(other, "busy")["why"] == "no device work was recorded"
    assert figure(other, "wall") == {"a": "9.00 µs", "b": "9.00 µs", "more": "the same"}


def test_a_difference_within_noise_is_called_so() -> None:
    walls = [0.0001, 0.000099, 0.000101, 0.0000995, 0.0001005, 0.0001]
    one = made({"unprofiled_s": walls}, {"unprofiled_s": [wall * 1.001 for wall in walls]})
    assert figure(one, "wall")["more"].endswith(", within noise")
    # AND where one wall was profiled and the other not, there is no ratio
    mixed = made(b={"unprofiled_s": []})
    assert figure(mixed, "wall")["why"] == "one under the profiler, the other not: no ratio"


def named(shown: dict[str, Any], indices: Any) -> Any:
    if isinstance(indices, list):
        return [named(shown, one) for one in indices]
    return None if indices is None else shown["names"][indices]


def test_tables_are_per_run_and_share_their_names() -> None:
    one = made()
    shown = compare_payload(one)
    kernels = shown["kernels"]
    columns = kernels["columns"]
    assert (kernels["of"], kernels["sort"]) == (3, "device_us")
    assert sorted(named(shown, columns["name"])) == ["add_kernel", "both", "mul_kernel"]
    at = named(shown, columns["name"]).index("both")
    assert [columns[key][at] for key in ("calls_a", "calls_b", "device_us_a", "device_us_b")] == [
        0, 1, 0, 5,
    ]  # fmt: skip
    assert shown["a"]["names"] == shown["b"]["names"] == []
    assert named(shown, shown["b"]["kernels"]["columns"]["name"]) == ["both"]
    # AND figures of a profile with more runs are brought to one
    three = pair()
    shown = compare_payload(three)
    columns = shown["operators"]["columns"]
    at = named(shown, columns["name"]).index("aten::mul")
    frame = three.operators.set_index("name")
    assert columns["calls_a"][at] == frame.loc["aten::mul", "calls_a"] / len(three.a.runs)


def test_without_device_work_cpu_time_leads_and_nothing_is_zero() -> None:
    one = tprofile.compare(profile(op("a", 0, 9)), profile(op("b", 0, 4)))
    shown = compare_payload(one)
    columns = shown["operators"]["columns"]
    assert shown["operators"]["sort"] == "self_cpu_us"
    assert (columns["self_device_us_a"], columns["self_device_us_b"]) == (None, None)
    assert columns["self_cpu_us_a"] == [9, 0]
    assert shown["became"] == {"of": 0, "columns": None, "none": "No device work was recorded."}
    # AND of one without device work, only that one has none
    mixed = tprofile.compare(profile(op("a", 0, 9)), recorded("matmul_add_64"))
    columns = compare_payload(mixed)["operators"]["columns"]
    assert columns["self_device_us_a"] is None
    assert columns["self_device_us_b"] is not None


def test_groups_say_what_became_of_what() -> None:
    one = pair()
    shown = compare_payload(one)
    columns, frame = shown["became"]["columns"], one.replaced
    assert frame is not None
    assert shown["became"]["of"] == len(frame)
    assert columns["change"] == frame["change"].tolist()
    assert named(shown, columns["kernels_a"]) == [list(names) for names in frame["kernels_a"]]
    assert named(shown, columns["operators_a"]) == [list(names) for names in frame["operators_a"]]
    assert named(shown, columns["kernel_b"]) == frame["kernel_b"].tolist()
    assert columns["count"] == [len(names) for names in frame["kernels_a"]]


def test_a_group_of_many_long_names_names_the_first() -> None:
    kernels = tuple(f"{i}" + "x" * 499 for i in range(60))
    one = made()
    frame = one._replaced
    assert frame is not None
    one.__dict__["_replaced"] = pd.concat([frame, frame]).assign(
        kernels_a=[kernels, kernels[:1] * 60], operators_a=[("op",) * 60] * 2
    )
    columns = compare_payload(one)["became"]["columns"]
    assert columns["count"] == [60, 60]
    # A name that comes again takes no room
    assert [len(names) for names in columns["kernels_a"]] == [8, 40]
    assert [len(names) for names in columns["operators_a"]] == [8, 40]


def test_labels_differ_whatever_they_are() -> None:
    assert made({"label": "B"}, {"label": None}).labels == ("A", "B")
    assert made({"label": "x"}, {"label": "x"}).labels == ("A", "B")
    assert made({"label": None}, {"label": "x"}).labels == ("A", "x")


def test_labels_that_are_cut_to_the_same_are_letters() -> None:
    x = "x" * 100
    assert compare_payload(made({"label": f"{x}1{x}"}, {"label": f"{x}2{x}"}))["labels"] == [
        "A", "B",
    ]  # fmt: skip


def test_too_many_kernels_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tprofile.analysis.replacement._MOST", 1)
    shown = compare_payload(pair())["became"]
    assert shown["columns"] is None
    assert shown["none"].startswith("The runs have too many kernels")


def test_findings_have_a_gain_and_more_only_where_there_is_some() -> None:
    speed = compare_payload(made())["findings"]["rows"][0]
    assert (speed["gain"], speed["more"]) == ("50.0 µs less in each run", None)
    (fused,) = [
        row for row in compare_payload(pair())["findings"]["rows"] if row["kind"] == "fused-kernels"
    ]
    assert fused["gain"].endswith(" less of the device in each run")
    assert fused["tone"] == "device"
    # AND where nothing can be said, that is said
    nothing = compare_payload(tprofile.compare(profile(), profile()))
    assert nothing["findings"]["rows"] == []
    assert nothing["findings"]["none"].startswith("Nothing can be said")
    assert nothing["title"] == "A and B"


def huge(word: str, kernels: int = 1500, length: int = 700) -> tprofile.Profile:
    """Return a profile of many operators and kernels, all with long names of their own."""
    events = []
    for i in range(kernels):
        name = f"{word}<{i}>" + f"at::native::<{i},lambda>&" * (length // 24)
        stream = i % 9
        events += [
            op(f"aten::{word}_{i}_" + "x" * 200, 20 * i, 15, i + 1),
            work(f"void {name}(int)", 20 * i + 5, 9 + i % 7, 0, i + 1, stream=stream),
        ]
    notes = [f"note {i} " + "goes on " * 60 for i in range(40)]
    return profile(*events, recorded={"notes": notes, "profiled": None, "label": word * 40})


@pytest.fixture(scope="module")
def large() -> tprofile.Comparison:
    return tprofile.compare(huge("before"), huge("after"))


def grown(one: tprofile.Comparison) -> int:
    """Return the bytes that a saved notebook grows by, its line of JSON with all escapes."""
    page, live = showing.compare_bundles(Shell("a", "1"), one)
    return len(json.dumps([page, live], ensure_ascii=False).encode())


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    for _, widgets in showing._open.values():
        for widget in widgets:
            widget.close()
    showing._open.clear()
    showing._kept.clear()


def test_a_notebook_grows_by_its_allowance(
    large: tprofile.Comparison,
) -> None:
    shown = compare_payload(large)
    assert size(shown) <= MOST_BYTES
    assert grown(large) <= 300_000
    # THEN all of it says what was left out, and both profiles have something to show
    for what in ("became", "operators", "kernels"):
        kept = next(len(c) for c in shown[what]["columns"].values() if c is not None)
        assert 5 <= kept < shown[what]["of"]
        assert any(line.startswith(f"{what}: the {kept} ") for line in shown["left_out"])
    for side in "ab":
        assert len(shown[side]["operators"]["columns"]["name"]) >= 10
        assert len(shown[side]["kernels"]["columns"]["name"]) >= 5
        assert shown[side]["strip"]["spans"]["start_us"]
        assert shown[side]["left_out"]


@pytest.mark.parametrize("names", PAIRS)
def test_recorded_pairs_are_small(names: tuple[str, str]) -> None:
    one = pair(*names)
    shown = compare_payload(one)
    assert size(shown) <= MOST_BYTES
    # THEN a notebook grows by its allowance, with the largest payload, too
    assert grown(one) + MOST_BYTES - size(shown) <= 300_000


def test_a_page_holds_its_data_and_the_plain_tables() -> None:
    one = pair()
    shown = compare_payload(one)
    text = compare_page(one, shown)
    found = Elements(text)
    assert found.held == {"payload": shown, "traces": None}
    assert found.scripts["module"] == (STATIC / "widget.js").read_text(encoding="utf-8")
    assert compare_html(one) in text
    assert ("data-tp-id", shown["id"]) in found.attributes
    assert ("class", "tp-static") in Elements(one._repr_html_()).attributes


def test_plain_tables_say_the_same() -> None:
    one = pair()
    found = Page(compare_html(one))
    assert found.cells[:4] == ["", "A", "B", "B / A"]
    for word in ("fused", "gone", "new", "aten::mul"):
        assert word in found.cells
    assert title(one) in compare_html(one)
    assert Page(compare_html(tprofile.compare(profile(), profile()))).cells == [
        "", "A", "B", "B / A",
    ]  # fmt: skip


def hostile(name: str) -> tprofile.Comparison:
    """Return a comparison in which each text that is not ours is this."""

    def side(kernel: str, label: str) -> tprofile.Profile:
        return profile(
            op(name, 0, 10, 1), work(kernel, 20, 5, 0, 1),
            deviceProperties=[{"id": 0, "name": name + label}],
            recorded={"notes": [name], "label": label, "profiled": None},
        )  # fmt: skip

    return tprofile.compare(side(name, name), side(name + "2", name + "2"))


@pytest.mark.parametrize("name", HOSTILE)
def test_no_element_or_attribute_comes_from_a_name(name: str) -> None:
    harmless, one = hostile("harmless"), hostile(name)
    assert Page(compare_html(one)).found == Page(compare_html(harmless)).found
    found = Elements(compare_document(one))
    expected = Elements(compare_document(harmless))
    assert found.tags == expected.tags
    assert [n for n, _ in found.attributes] == [n for n, _ in expected.attributes]
    data = found.held["payload"]
    assert isinstance(data, dict)
    assert name.replace("\0", "\\x00").replace("\n", "\\n") in data["names"]


def test_a_document_holds_both_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = pair()
    path = tmp_path / "both.html"
    assert one.to_html(path) == str(path)
    found = Elements(path.read_text(encoding="utf-8"))
    assert found.title == f"tprofile: {title(one)}"
    traces = found.held["traces"]
    assert isinstance(traces, dict)
    for key, of in (("a", one.a), ("b", one.b)):
        again = tprofile.load(base64.b64decode(traces[key]["base64"]))
        assert again.operators.equals(of.operators)
    assert traces["a"]["file"] != traces["b"]["file"]
    with pytest.raises(tprofile.TprofileError, match="overwrite"):
        one.to_html(path, overwrite=False)
    monkeypatch.setattr("tprofile.views.page.MOST_TRACE_BYTES", 1)
    assert Elements(compare_document(one)).held["traces"] == {"a": None, "b": None}


def test_the_page_comes_first_and_then_the_widget() -> None:
    one = pair()
    page, live = showing.compare_bundles(Shell("a", "1"), one, "calls", 3)
    assert page["text/plain"] == one.text(3)
    assert live["text/plain"] == ""
    (widget,) = showing._open["a"][1]
    assert live[VIEW]["model_id"] == widget.model_id
    data = json.loads(widget.payload)
    assert f'<div class="tp-static tp-paired" data-tp-id="{data["id"]}">' in page["text/html"]
    assert data["a"]["operators"]["sort"] == "calls"
    # AND an order that neither knows is none
    showing.compare_bundles(Shell("a", "1"), one, "self_device_bytes")
    assert len(showing._open["a"][1]) == 2


def test_without_a_notebook_it_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    one = pair()
    one._ipython_display_()
    assert capsys.readouterr().out == str(one) + "\n"


def test_text_with_very_long_names_has_fewer_rows(
    large: tprofile.Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tprofile.views.compare_page.MOST_TEXT_BYTES", 20_000)
    assert len(large.text().encode()) > 20_100
    assert len(compare_text(large).encode()) <= 20_100
    assert compare_text(pair()) == pair().text()


class Asked(Kept, ComparisonWidget):
    def __init__(self, one: tprofile.Comparison) -> None:
        super().__init__(one.a, one.b, compare_payload(one))


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    widget = Asked(pair())
    yield widget
    widget.close()


@pytest.mark.parametrize(("of", "name"), [("a", "pointwise_eager"), ("b", "pointwise_compiled")])
def test_a_trace_is_the_one_that_was_asked_for(asked: Asked, of: str, name: str) -> None:
    told, _ = asked.ask({"kind": "trace", "id": 1, "of": of})
    _, (data,) = asked.ask({"kind": "chunk", "id": 2, "of": of, "offset": 0})
    assert len(data) == told["size"]
    assert tprofile.load(data).operators.equals(recorded(name).operators)
    told, _ = asked.ask({"kind": "path", "id": 3, "of": of})
    assert tprofile.load(told["path"]).operators.equals(recorded(name).operators)


@pytest.mark.parametrize("of", [None, "c", "", 0, True, ["a"], {"a": 1}, "_traces"])
def test_a_trace_that_there_is_not_is_refused(asked: Asked, of: Any) -> None:
    told, buffers = asked.ask({"kind": "path", "id": 1, "of": of})
    assert (told["kind"], told["id"], buffers) == ("error", 1, [])
    assert repr(of) in told["message"]
    assert asked.ask({"kind": "path", "id": 2})[0]["kind"] == "error"
    # AND other nonsense as for one profile
    assert asked.ask({"kind": "rm", "id": 3, "of": "a"})[0]["kind"] == "error"
    assert asked.ask({"kind": "chunk", "id": 4, "of": "a", "offset": "0"})[0]["kind"] == "error"
    assert asked.ask("path")[0]["kind"] == "error"


def test_what_is_held_is_let_go(asked: Asked) -> None:
    one = pair()
    assert asked.events == len(one.a.trace) + len(one.b.trace)
    asked.let_go()
    assert asked.events == 0
    told, _ = asked.ask({"kind": "path", "id": 1, "of": "b"})
    assert tprofile.load(told["path"]).operators.equals(one.b.operators)


def test_a_closed_widget_lets_go_of_both() -> None:
    one = made()
    widget = Asked(one)
    alive = weakref.ref(one.a), weakref.ref(one.b)
    del one
    profile(op("b", 0, 10))
    widget.close()
    gc.collect()
    assert [each() for each in alive] == [None, None]
    assert "profiled again" in widget.ask({"kind": "path", "id": 1, "of": "a"})[0]["message"]


def test_a_cell_against_another_is_one_result_with_both() -> None:
    with kernel() as client:
        client.run("import torch\nx = torch.ones(4, 4)")
        assert client.run("%%tprofile -q --label before\ny = x @ x").outputs == []
        cell = client.run("%%tprofile --vs before --label after\ny = x + x")
        (bundle,) = results(cell)
        assert bundle["text/plain"] == streams(client.run("print(_tcomparison)")).rstrip("\n")
        held = Elements(bundle["text/html"]).held["payload"]
        assert isinstance(held, dict)
        assert held["labels"] == ["before", "after"]
        # AND one that is to be quiet shows nothing, until it is looked at
        assert client.run("%%tprofile -q --vs before\ny = x - x").outputs == []
        assert len(results(client.run("_tcomparison"))) == 1


def test_operators_have_what_they_launched_outside_all_operators() -> None:
    # GIVEN kernels of a graph, which a call launches inside no operator
    one, other = (
        Path(__file__).parent / "data/pairs" / f"reduce_{which}.json.gz"
        for which in ("eager", "compiled")
    )
    pair = tprofile.compare(tprofile.load(one), tprofile.load(other))
    columns = compare_payload(pair)["operators"]["columns"]
    runs = len(pair.a.runs)
    for side in "ab":
        told = sum(value for value in columns[f"self_device_us_{side}"] if value is not None)
        assert told == pytest.approx(  # each is rounded
            pair.kernels[f"device_us_{side}"].sum() / runs, abs=0.001 * len(columns["name"])
        )
