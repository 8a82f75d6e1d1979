"""What is published: a page and a widget in a notebook, text in a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from traces import recorded

import tprofile
from tprofile.views import show as module
from tprofile.views.show import bundles, show

VIEW = "application/vnd.jupyter.widget-view+json"


class Shell:
    """A notebook's shell, as far as it is asked: in which cell and execution it is."""

    def __init__(self, cell: str | None, execution: str) -> None:
        self.metadata = {"cellId": cell} if cell else {}
        self.execution = execution

    def get_parent(self) -> dict[str, Any]:
        return {"metadata": self.metadata, "header": {"msg_id": self.execution}}


@pytest.fixture(autouse=True)
def _closed() -> Any:
    yield
    for _, widgets in module._open.values():
        for widget in widgets:
            widget.close()
    module._open.clear()
    module._kept.clear()


def test_the_page_comes_first_and_the_widget_says_nothing_twice() -> None:
    one = recorded("matmul_add_64")
    page, live = bundles(Shell("a", "1"), one, "calls", 3)
    assert page["text/plain"] == one.text("calls", 3)
    assert set(page) == {"text/plain", "text/html"}
    assert live["text/plain"] == ""
    (widget,) = module._open["a"][1]
    assert live[VIEW]["model_id"] == widget.model_id
    # AND page and widget are known to be the same, and to stand side by side
    same = json.loads(widget.payload)["id"]
    assert f'<div class="tp-static tp-paired" data-tp-id="{same}">' in page["text/html"]


def test_a_cell_that_runs_again_closes_what_it_showed() -> None:
    one = recorded("matmul_add_64")
    bundles(Shell("a", "1"), one)
    bundles(Shell("a", "1"), one)
    bundles(Shell("b", "2"), one)
    first, second = module._open["a"][1]
    # THEN two results of one execution, and those of other cells, stay
    assert first._profile is second._profile is one
    bundles(Shell("a", "3"), one)
    assert first._profile is second._profile is None
    assert len(module._open["a"][1]) == 1
    assert module._open["b"][1][0]._profile is one


def test_profiles_that_hold_too_much_are_kept_as_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = recorded("matmul_add_64")
    monkeypatch.setattr(module, "MOST_EVENTS", 2 * len(one.trace))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for i in range(4):
        bundles(Shell(str(i), str(i)), one)
    widgets = [module._open[str(i)][1][0] for i in range(4)]
    assert [w.events for w in widgets] == [0, 0, len(one.trace), len(one.trace)]
    # THEN the trace of each can be had all the same
    told = widgets[0]._answered({"kind": "path"})[0]
    assert tprofile.load(told["path"]).operators.equals(one.operators)
    # AND the newest stays, however large
    monkeypatch.setattr(module, "MOST_EVENTS", 1)
    bundles(Shell("5", "5"), one)
    assert module._open["5"][1][0].events == len(one.trace)
    assert len(module._kept) == 1


def test_a_full_disk_keeps_no_result_from_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "MOST_EVENTS", 1)
    monkeypatch.setattr("tempfile.mkdtemp", full)
    one = recorded("matmul_add_64")
    bundles(Shell("a", "1"), one)
    assert len(bundles(Shell("b", "2"), one)) == 2
    assert module._open["a"][1][0].events == len(one.trace)


def test_a_front_end_that_names_no_cell_keeps_all() -> None:
    bundles(Shell(None, "1"), recorded("matmul_add_64"))
    assert module._open == {}
    bundles(object(), recorded("matmul_add_64"))
    assert module._open == {}


def test_without_a_notebook_it_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    one = recorded("matmul_add_64")
    show(one)
    assert capsys.readouterr().out == str(one) + "\n"
