"""The live widget: what it sends at once, and what it answers."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from traces import op, profile, recorded

import tprofile
from tprofile.views import widget as module
from tprofile.views.payload import payload
from tprofile.views.widget import ProfileWidget, TraceWidget


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
    ],
)
def test_nonsense_is_answered_by_an_error(asked: Asked, message: Any, says: str) -> None:
    told, buffers = asked.ask(message)
    assert (told["kind"], told["id"], buffers) == ("error", 1, [])
    assert says in told["message"]


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
