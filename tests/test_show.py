"""What is published: a page and a widget in a notebook, text in a terminal."""

from __future__ import annotations

from typing import Any

import pytest
from traces import recorded

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


def test_the_page_comes_first_and_the_widget_says_nothing_twice() -> None:
    one = recorded("matmul_add_64")
    page, live = bundles(Shell("a", "1"), one, "calls", 3)
    assert page["text/plain"] == one.text("calls", 3)
    assert set(page) == {"text/plain", "text/html"}
    assert live["text/plain"] == ""
    (widget,) = module._open["a"][1]
    assert live[VIEW]["model_id"] == widget.model_id
    # AND page and widget are known to be the same
    assert f'data-tp-id="{__import__("json").loads(widget.payload)["id"]}"' in page["text/html"]


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


def test_a_front_end_that_names_no_cell_keeps_all() -> None:
    bundles(Shell(None, "1"), recorded("matmul_add_64"))
    assert module._open == {}
    bundles(object(), recorded("matmul_add_64"))
    assert module._open == {}


def test_without_a_notebook_it_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    one = recorded("matmul_add_64")
    show(one)
    assert capsys.readouterr().out == str(one) + "\n"
