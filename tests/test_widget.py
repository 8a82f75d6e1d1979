"""The live widget: what it sends at once, and what it answers."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from traces import op, profile, recorded, work

import tprofile
from tprofile.views import widget as module
from tprofile.views.payload import payload
from tprofile.views.timeline import timeline
from tprofile.views.widget import ProfileWidget, TraceWidget
from tprofile.views.words import cut


class Kept(TraceWidget):
    """A widget whose messages are kept instead of sent."""

    def __init__(self, *given: Any) -> None:
        self.sent: list[tuple[dict[str, Any], list[bytes]]] = []
        super().__init__(*given)

    def send(self, content: Any, buffers: Any = None) -> None:
        self.sent.append((content, list(buffers or [])))

    def ask(self, message: Any) -> tuple[dict[str, Any], list[bytes]]:
        self._answer(self, message, [])
        return self.sent[-1]


class Asked(Kept, ProfileWidget):
    def __init__(self, one: tprofile.Profile) -> None:
        super().__init__(one, payload(one))


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    widget = Asked(recorded("mlp_train"))
    yield widget
    widget.close()


def test_the_browser_gets_the_payload_as_it_is() -> None:
    one = recorded("matmul_add_64")
    data = payload(one)
    widget = ProfileWidget(one, data)
    assert json.loads(widget.payload) == data
    # AND one bundle, the same for all
    state = widget.get_state()
    assert state["_esm"].startswith((module.STATIC / "widget.js").read_text()[:100])
    widget.close()


def test_a_trace_comes_in_pieces_that_load(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", 1000)
    told, nothing = asked.ask({"kind": "trace", "id": 1})
    assert set(told) == {"kind", "id", "size", "file"}
    assert (told["kind"], told["id"], nothing) == ("trace", 1, [])
    assert told["file"].endswith(".json.gz")
    data = b""
    for turn in range(2, 1000):
        message, (piece,) = asked.ask({"kind": "chunk", "id": turn, "offset": len(data)})
        assert message == {"kind": "chunk", "id": turn, "offset": len(data)}
        data += piece
        if len(data) == told["size"]:
            break
        assert len(piece) == 1000
    assert tprofile.load(data).operators.equals(recorded("mlp_train").operators)


def test_a_path_is_that_of_a_file_that_loads(asked: Asked, tmp_path: Path) -> None:
    told, _ = asked.ask({"kind": "path", "id": 7})
    assert tmp_path in Path(told["path"]).parents
    assert tprofile.load(told["path"]).operators.equals(recorded("mlp_train").operators)
    # AND asking again writes nothing more
    assert asked.ask({"kind": "path", "id": 8})[0]["path"] == told["path"]
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) == 1


def test_a_file_that_someone_removed_is_written_again(asked: Asked) -> None:
    first = Path(asked.ask({"kind": "path", "id": 1})[0]["path"])
    first.unlink()
    assert Path(asked.ask({"kind": "path", "id": 2})[0]["path"]).exists()


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({"kind": "rm", "id": 1}, "'rm'"),
        ({"id": 1}, "None"),
        ({"kind": "chunk", "id": 1}, "None"),
        ({"kind": "chunk", "id": 1, "offset": -1}, "-1"),
        ({"kind": "chunk", "id": 1, "offset": 10**12}, "1000000000000"),
        ({"kind": "chunk", "id": 1, "offset": "0"}, "'0'"),
        ({"kind": "chunk", "id": 1, "offset": True}, "True"),
        ({"kind": "run", "id": 1, "run": 1}, "None"),
        ({"kind": "run", "id": 1, "run": 1, "offset": -1}, "-1"),
        ({"kind": "run", "id": 1, "run": 1, "offset": 10**12}, "1000000000000"),
        ({"kind": "run", "id": 1, "run": 4, "offset": 0}, "no run 4: the profile has 3"),
        ({"kind": "run", "id": 1, "run": "1", "offset": 0}, "'1'"),
        ({"kind": "run", "id": 1, "run": True, "offset": 0}, "True"),
        ({"kind": "run", "id": 1, "offset": 0}, "None"),
        ({"kind": "table", "id": 1}, "no table of None by None"),
        ({"kind": "table", "id": 1, "table": "operators", "by": "name"}, "'operators' by 'name'"),
        ({"kind": "table", "id": 1, "table": ["operators"], "by": "shape"}, "no table of"),
        ({"kind": "table", "id": 1, "table": "operators", "by": "line"}, "no lines were recorded"),
    ],
)
def test_nonsense_is_answered_by_an_error(asked: Asked, message: Any, says: str) -> None:
    told, buffers = asked.ask(message)
    assert (told["kind"], told["id"], buffers) == ("error", 1, [])
    assert says in told["message"]


def test_a_run_comes_in_pieces_and_is_made_once(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def counted(one: tprofile.Profile, run: int) -> bytes:
        made.append(run)
        return timeline(one, run)

    monkeypatch.setattr(module, "timeline", counted)
    monkeypatch.setattr(module, "CHUNK_BYTES", 5000)
    data = b""
    while True:
        message, (piece,) = asked.ask({"kind": "run", "id": 1, "run": 2, "offset": len(data)})
        data += piece
        assert message == {
            "kind": "run", "id": 1, "offset": len(data) - len(piece), "size": message["size"],
        }  # fmt: skip
        if len(data) == message["size"]:
            break
    assert data == timeline(recorded("mlp_train"), 2)
    assert made == [2]
    # AND another run takes its place
    asked.ask({"kind": "run", "id": 2, "run": 1, "offset": 0})
    asked.ask({"kind": "run", "id": 3, "run": 1, "offset": 0})
    assert made == [2, 1]


@pytest.mark.parametrize("by", ["shape", "thread", "module", "stack"])
def test_operators_by_something_are_the_frame(by: str) -> None:
    one = recorded("mlp_train_stack_mem")
    widget = Asked(one)
    told, nothing = widget.ask({"kind": "table", "id": 1, "table": "operators", "by": by})
    widget.close()
    assert (set(told), nothing) == ({"kind", "id", "table", "names", "left_out"}, [])
    frame = one.operators_by(by)
    table, names = told["table"], told["names"]
    assert table["of"] == len(frame) == len(table["columns"]["name"])
    assert [h["key"] for h in table["heads"]][:3] == ["name", by, "calls"]
    # A text is as it is shown: cut where it is long, quotes where it is empty.
    wanted = [cut(str(value), 6000) for value in frame[by]]
    assert [names[i] for i in table["columns"][by]] == wanted
    assert table["columns"]["calls"] == frame["calls"].tolist()
    assert sum(table["columns"]["self_cpu_us"]) == pytest.approx(one.operators["self_cpu_us"].sum())


def test_kernels_by_name_have_one_row_for_each() -> None:
    one = profile(
        op("a", 0, 20, 1), op("b", 30, 20, 2),
        work("k", 5, 4, 1, 1), work("k", 35, 10, 2, 2, stream=9), work("m", 50, 3, 3, 2),
    )  # fmt: skip
    widget = Asked(one)
    told, _ = widget.ask({"kind": "table", "id": 1, "table": "kernels", "by": "name"})
    widget.close()
    columns = {k: v for k, v in told["table"]["columns"].items() if k != "spread"}
    assert [told["names"][i] for i in columns.pop("name")] == ["k", "m"]
    assert columns == {
        "calls": [2, 1], "device_us": [14, 3], "mean_us": [7, 3], "min_us": [4, 3],
        # What cannot be told of several rows together is not told.
        "median_us": [None, 3], "max_us": [10, 3],
    }  # fmt: skip


def test_the_call_tree_of_a_run_is_its_own(asked: Asked) -> None:
    told, _ = asked.ask({"kind": "table", "id": 1, "table": "tree", "by": "2"})
    frame, columns = recorded("mlp_train").tree_of(2), told["table"]["columns"]
    assert [told["names"][i] for i in columns["name"]] == frame["name"].tolist()
    assert columns["parent"] == frame["parent"].tolist()
    assert columns["calls"] == frame["calls"].tolist()
    told, _ = asked.ask({"kind": "table", "id": 2, "table": "tree", "by": "4"})
    assert (told["kind"], "'tree' by '4'" in told["message"]) == ("error", True)


def test_what_was_let_go_says_how_to_come_by_it(asked: Asked) -> None:
    asked.ask({"kind": "run", "id": 1, "run": 1, "offset": 0})
    asked.let_go()
    for message in (
        {"kind": "run", "run": 2, "offset": 0},
        {"kind": "table", "table": "operators", "by": "shape"},
    ):
        told, _ = asked.ask(message)
        assert told["kind"] == "error"
        assert "no longer in memory" in told["message"]
    # AND the trace is still there
    assert asked.ask({"kind": "path", "id": 1})[0]["kind"] == "path"


def test_a_message_that_is_no_object_is_answered_too(asked: Asked) -> None:
    assert asked.ask("path")[0]["kind"] == "error"


def test_an_error_on_the_disk_is_told(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.tempfile, "mkdtemp", full)
    told, _ = asked.ask({"kind": "trace", "id": 3})
    assert told["kind"] == "error"
    assert "No space left on device" in told["message"]


def test_a_closed_widget_lets_go_of_its_profile() -> None:
    one = profile(op("a", 0, 10))
    widget = Asked(one)
    alive = weakref.ref(one)
    del one
    # Whose result the newest of all is does not matter here
    profile(op("b", 0, 10))
    widget.close()
    gc.collect()
    assert alive() is None
    assert "profiled again" in widget.ask({"kind": "path", "id": 1})[0]["message"]
